//! Interval between checkpoints.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Interval between checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Interval {
    /// Number of epochs.
    Epochs(usize),
    /// Number of updates.
    Steps(usize),
    /// Minutes of training and validation.
    Minutes(f64),
}

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let problem = || {
            format!(
                "`{text}` is not an interval such as \"1 epoch\", \"500 steps\" or \"10 minutes\""
            )
        };
        let (number, unit) = text.trim().split_once(' ').ok_or_else(problem)?;
        let whole = || number.parse().ok().filter(|&number| number > 0).ok_or_else(problem);
        match unit.trim() {
            "epoch" | "epochs" => Ok(Self::Epochs(whole()?)),
            "step" | "steps" => Ok(Self::Steps(whole()?)),
            "minute" | "minutes" | "min" => {
                let minutes = number
                    .parse()
                    .ok()
                    .filter(|minutes: &f64| *minutes > 0.0 && minutes.is_finite());
                Ok(Self::Minutes(minutes.ok_or_else(problem)?))
            }
            _ => Err(problem()),
        }
    }
}

impl TryFrom<String> for Interval {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Interval> for String {
    fn from(interval: Interval) -> Self {
        let several = |plural| if plural { "s" } else { "" };
        match interval {
            Interval::Epochs(count) => format!("{count} epoch{}", several(count != 1)),
            Interval::Steps(count) => format!("{count} step{}", several(count != 1)),
            Interval::Minutes(count) => format!("{count} minute{}", several(count != 1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_parsed_and_formatted() {
        for (text, interval) in [
            ("1 epoch", Interval::Epochs(1)),
            ("20 epochs", Interval::Epochs(20)),
            ("500 steps", Interval::Steps(500)),
            ("1 minute", Interval::Minutes(1.0)),
            ("2.5 minutes", Interval::Minutes(2.5)),
        ] {
            assert_eq!(text.parse(), Ok(interval));
            assert_eq!(String::from(interval), text);
        }
        assert_eq!(" 10  min ".parse(), Ok(Interval::Minutes(10.0)));
        for text in
            ["", "5", "steps", "0 steps", "-1 minutes", "1.5 epochs", "3 days", "inf epochs"]
        {
            let problem = text.parse::<Interval>().unwrap_err();
            assert!(problem.starts_with(&format!("`{text}` is not an interval")), "{problem}");
        }
    }
}
