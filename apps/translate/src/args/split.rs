//! Division of the input into sentences.

use clap::{Args, ValueEnum};

use crate::{args::TranslateArgs, usage::Usage};

/// Options of the division into sentences.
#[derive(Debug, Args)]
pub struct SplitArgs {
    /// Unit that is translated at once [default: sentences with --text and --interactive, otherwise
    /// lines]
    #[arg(long, value_enum, value_name = "UNIT")]
    pub split: Option<Split>,

    /// Language of the text, such as `de`, which selects the abbreviations of --split sentences
    /// [default: the source language of the model]
    #[arg(long, value_name = "CODE")]
    pub split_language: Option<String>,
}

/// Unit that is translated at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Split {
    /// Each sentence of a line by itself; the translations are joined with the white space of the line
    Sentences,
    /// The whole line
    Lines,
}

impl TranslateArgs {
    /// Returns the option that needs whole lines, if one was given.
    fn needs_lines(&self) -> Option<&'static str> {
        let search = &self.translator.search;
        let options = [
            ("n-best", search.n_best.is_some_and(|n_best| n_best > 1)),
            ("samples", search.samples.is_some_and(|samples| samples > 1)),
            ("alignment", self.alignment.is_some()),
            ("confidence", self.confidence),
            ("prefix", self.prefix.is_some()),
            ("prefix-file", self.prefix_file.is_some()),
        ];
        options.into_iter().find(|(_, given)| *given && !self.interactive).map(|(option, _)| option)
    }

    /// Returns `true` if lines are translated because the options do not say what else.
    pub fn has_default_lines(&self) -> bool {
        self.split.split.is_none() && self.needs_lines().is_none() && self.text.is_none()
    }

    /// Returns the unit that is translated at once. Without `--split`, options that need whole lines
    /// select lines.
    ///
    /// # Errors
    ///
    /// If an option needs whole lines, but `--split sentences` was given.
    pub fn unit(&self) -> Result<Split, Usage> {
        let unit = match (self.split.split, self.needs_lines()) {
            (Some(Split::Sentences), Some(option)) => {
                let problem = format!("`--split sentences` conflicts with `--{option}`");
                return Err(Usage::new(problem));
            }
            (Some(unit), _) => unit,
            (None, None) if self.text.is_some() || self.interactive => Split::Sentences,
            (None, _) => Split::Lines,
        };
        if unit == Split::Lines && self.split.split_language.is_some() {
            let problem = "`--split-language` has no effect without `--split sentences`";
            return Err(Usage::new(problem));
        }
        Ok(unit)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn unit(arguments: &str) -> Result<Split, String> {
        let arguments = ["translate", "--model", "m"].into_iter().chain(arguments.split(' '));
        let cli = Cli::try_parse_from(arguments).unwrap();
        cli.translate.unit().map_err(|problem| problem.to_string())
    }

    #[test]
    fn the_default_depends_on_the_input_and_on_options_that_need_lines() {
        assert_eq!(unit("--text a"), Ok(Split::Sentences));
        assert_eq!(unit("--interactive --n-best 2"), Ok(Split::Sentences));
        for lines in ["--beam 2", "--input a", "--text a --n-best 2", "--text a --prefix b"] {
            assert_eq!(unit(lines), Ok(Split::Lines), "{lines}");
        }
        assert_eq!(unit("--split sentences --split-language de"), Ok(Split::Sentences));
        assert_eq!(unit("--split lines --text a"), Ok(Split::Lines));
    }

    #[test]
    fn options_that_need_lines_are_named() {
        for option in ["--n-best 2", "--alignment pharaoh", "--prefix a", "--prefix-file a"] {
            let problem = unit(&format!("--split sentences {option}")).unwrap_err();
            let (name, _) = option.split_once(' ').unwrap();
            assert_eq!(problem, format!("`--split sentences` conflicts with `{name}`"));
        }
        assert!(unit("--split-language de").unwrap_err().contains("--split sentences"));
    }
}
