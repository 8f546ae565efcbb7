//! Labels of classified texts.

use std::{borrow::Cow, collections::BTreeSet};

use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::error::DataError;

/// Number of labels listed in an error.
const LISTED: usize = 10;

/// Names of the classes, sorted; the position of a name is its class.
///
/// White space around a label and its Unicode normal form do not distinguish labels.
///
/// ```
/// use tx_data::Labels;
///
/// let labels = Labels::new(["spam", "ham", "spam "], "the training data")?;
/// assert_eq!(labels.names(), ["ham", "spam"]);
/// assert_eq!(labels.class("spam"), Some(1));
/// # Ok::<(), tx_data::DataError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Labels {
    names: Vec<String>,
}

impl Labels {
    /// Collects the distinct labels of a corpus; `what` names the corpus in an error.
    ///
    /// # Errors
    ///
    /// When there are fewer than two labels.
    pub fn new<S: AsRef<str>>(
        labels: impl IntoIterator<Item = S>,
        what: &str,
    ) -> Result<Self, DataError> {
        let mut names = BTreeSet::new();
        for label in labels {
            let name = canonical(label.as_ref());
            if !name.is_empty() && !names.contains(&*name) {
                names.insert(name.into_owned());
            }
        }
        let names: Vec<String> = names.into_iter().collect();
        let problem = match &names[..] {
            [] => "there is no label".into(),
            [only] => format!("every text has the label `{only}`, expected at least two labels"),
            _ => return Ok(Self { names }),
        };
        Err(DataError::Labels { what: what.into(), problem })
    }

    /// Names in the order of their classes.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Number of classes, at least two.
    pub fn classes(&self) -> usize {
        self.names.len()
    }

    /// Name of a class.
    pub fn name(&self, class: usize) -> Option<&str> {
        self.names.get(class).map(String::as_str)
    }

    /// Class of a label.
    pub fn class(&self, label: &str) -> Option<usize> {
        let label = canonical(label);
        self.names.binary_search_by(|name| name.as_str().cmp(&label)).ok()
    }

    /// Class of the label in line `line` of the corpus `what`.
    ///
    /// # Errors
    ///
    /// [`DataError::UnknownLabel`] with the line and the accepted labels.
    pub fn class_in_line(&self, label: &str, line: usize, what: &str) -> Result<usize, DataError> {
        self.class(label).ok_or_else(|| DataError::UnknownLabel {
            what: what.into(),
            line,
            label: canonical(label).into_owned(),
            accepted: self.listed(),
        })
    }

    /// First names, for an error.
    fn listed(&self) -> String {
        let names: Vec<String> =
            self.names.iter().take(LISTED).map(|name| format!("`{name}`")).collect();
        match self.names.len() - names.len() {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }

    /// Number of texts of each class.
    pub fn counts(&self, classes: impl IntoIterator<Item = u32>) -> Vec<usize> {
        let mut counts = vec![0; self.names.len()];
        for class in classes {
            if let Some(count) = counts.get_mut(class as usize) {
                *count += 1;
            }
        }
        counts
    }
}

/// Weights of the classes for which every class counts the same in the loss, whatever its number of
/// texts: `texts / (classes × texts of the class)`, as `class_weight = "balanced"` of scikit-learn. The
/// mean weight of a text is 1. A class without text has weight 0.
///
/// ```
/// assert_eq!(tx_data::labels::balanced_weights(&[3, 1]), [4.0 / 6.0, 2.0]);
/// ```
pub fn balanced_weights(counts: &[usize]) -> Vec<f32> {
    let texts: usize = counts.iter().sum();
    let weight = |&count: &usize| match count {
        0 => 0.0,
        count => texts as f32 / (counts.len() * count) as f32,
    };
    counts.iter().map(weight).collect()
}

/// Label without surrounding white space, in the normal form NFC.
fn canonical(label: &str) -> Cow<'_, str> {
    let label = label.trim();
    if is_nfc(label) { label.into() } else { label.nfc().collect() }
}

impl TryFrom<Vec<String>> for Labels {
    type Error = String;

    /// Reads names that were saved.
    fn try_from(names: Vec<String>) -> Result<Self, String> {
        let is_canonical = |name: &String| !name.is_empty() && canonical(name) == **name;
        match names.len() >= 2 && names.is_sorted_by(|a, b| a < b) && names.iter().all(is_canonical)
        {
            true => Ok(Self { names }),
            false => Err("labels must be at least two, distinct, not empty and sorted".into()),
        }
    }
}

impl From<Labels> for Vec<String> {
    fn from(labels: Labels) -> Self {
        labels.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_of_a_sorted_name_is_its_class() {
        let labels = Labels::new(["no", "yes", "maybe", "no", ""], "x").unwrap();
        assert_eq!(labels.names(), ["maybe", "no", "yes"]);
        for (class, name) in labels.names().iter().enumerate() {
            assert_eq!((labels.class(name), labels.name(class)), (Some(class), Some(&**name)));
        }
        assert_eq!((labels.classes(), labels.name(3), labels.class("x")), (3, None, None));
        assert_eq!(labels.counts([2, 0, 2, 9]), [1, 0, 2]);
    }

    #[test]
    fn space_and_normal_form_do_not_distinguish_labels() {
        let labels = Labels::new(["caf\u{e9}", " cafe\u{301}\u{a0}", "tea"], "x").unwrap();
        assert_eq!(labels.names(), ["caf\u{e9}", "tea"]);
        assert_eq!(labels.class("cafe\u{301} "), Some(0));
    }

    #[test]
    fn fewer_than_two_labels_are_refused() {
        let error = Labels::new(["a", "a"], "the training data").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unusable labels in the training data: every text has the label `a`, expected at least \
             two labels"
        );
        let none: [&str; 0] = [];
        let error = Labels::new(none, "`x.tsv`").unwrap_err();
        assert_eq!(error.to_string(), "unusable labels in `x.tsv`: there is no label");
    }

    #[test]
    fn an_unknown_label_is_an_error_with_its_line() {
        let labels = Labels::new((0..12).map(|i| format!("{i:02}")), "x").unwrap();
        let error = labels.class_in_line("12", 7, "the validation data").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 7 of the validation data has the label `12`, which does not occur in training; \
             accepted are `00`, `01`, `02`, `03`, `04`, `05`, `06`, `07`, `08`, `09` and 2 more"
        );
        assert!(error.hint().is_some());
    }

    #[test]
    fn saved_labels_are_checked() {
        let labels = Labels::new(["b", "a"], "x").unwrap();
        let json = serde_json::to_string(&labels).unwrap();
        assert_eq!(json, r#"["a","b"]"#);
        assert_eq!(serde_json::from_str::<Labels>(&json).unwrap(), labels);
        for broken in [r#"["b","a"]"#, r#"["a"]"#, r#"["a","a"]"#, r#"["","a"]"#, r#"[" a","b"]"#] {
            assert!(serde_json::from_str::<Labels>(broken).is_err(), "{broken}");
        }
    }

    /// 6 texts in 3 classes with 3, 2 and 1: 6/9, 6/6 and 6/3. The mean over the texts is 1.
    #[test]
    fn balanced_weights_by_hand() {
        let counts = [3, 2, 1];
        let weights = balanced_weights(&counts);
        assert_eq!(weights, [2.0 / 3.0, 1.0, 2.0]);
        let sum: f32 = weights.iter().zip(counts).map(|(weight, n)| weight * n as f32).sum();
        assert!((sum - 6.0).abs() < 1e-5);
        assert_eq!(balanced_weights(&[0, 4]), [0.0, 0.5]);
    }
}
