//! Report of the cleaning, for display and for the bundle.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{CleanConfig, KeepOrDrop, Markup, NormalForm, Step};
use crate::encode::TargetSide;

/// Outcome of a step for the pairs that it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// The text is changed.
    Changed,
    /// The pair is dropped.
    LeftOut,
    /// The pair is kept unchanged.
    Kept,
    /// The step is off and finds no pairs.
    Off,
}

/// Step with the number of pairs that it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepCount {
    /// Key of the step in `[data.clean]`.
    pub step: String,
    /// Description of the pairs that it finds.
    pub what: String,
    /// Outcome for these pairs.
    pub outcome: Outcome,
    /// Number of these pairs.
    pub pairs: usize,
    /// Number of the first of these pairs, from 1; equals the line number if each line is a pair.
    pub first: Option<usize>,
}

/// Report of the cleaning of a corpus, step by step.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CleaningReport {
    /// Pairs before cleaning.
    pub pairs: usize,
    /// Pairs after cleaning.
    pub(super) kept: usize,
    /// Content of the targets.
    #[serde(default, skip_serializing_if = "TargetSide::is_sentence")]
    pub target_side: TargetSide,
    /// Steps in their order of execution.
    pub steps: Vec<StepCount>,
}

impl CleaningReport {
    /// Adds the counts of the next part of a corpus, which is cleaned by itself with the same options.
    pub(crate) fn add(&mut self, next: &Self) {
        for (step, next) in self.steps.iter_mut().zip(&next.steps) {
            step.pairs += next.pairs;
            step.first = step.first.or(next.first.map(|first| self.pairs + first));
        }
        self.pairs += next.pairs;
        self.kept += next.kept;
    }

    pub(super) fn new(config: &CleanConfig, target: TargetSide) -> Self {
        let form = match config.unicode {
            NormalForm::None => "unicode normal form".into(),
            NormalForm::Nfc => "not in unicode NFC".into(),
            NormalForm::Nfkc => "not in unicode NFKC".into(),
        };
        let found = |what| match what {
            KeepOrDrop::Keep => Outcome::Kept,
            KeepOrDrop::Drop => Outcome::LeftOut,
        };
        let on = |on: bool, outcome| if on { outcome } else { Outcome::Off };
        let scripts = [&config.source_scripts, &config.target_scripts];
        let [empty, long, duplicate] = match target {
            TargetSide::Sentence => ["empty side", "side longer", "duplicate of an earlier pair"],
            TargetSide::Label => {
                ["empty text or label", "text longer", "duplicate of an earlier text"]
            }
        };
        let script_on =
            config.min_script_share > 0.0 && scripts.iter().any(|scripts| !scripts.is_empty());
        let steps: [(&str, String, Outcome); 9] = [
            ("unicode", form, on(config.unicode != NormalForm::None, Outcome::Changed)),
            (
                "markup",
                "tags or entities".into(),
                match config.markup {
                    Markup::Keep => Outcome::Off,
                    Markup::Strip => Outcome::Changed,
                    Markup::Drop => Outcome::LeftOut,
                },
            ),
            ("spaces", "irregular white space".into(), on(config.spaces, Outcome::Changed)),
            ("empty", empty.into(), Outcome::LeftOut),
            (
                "max_chars",
                format!("{long} than {} characters", config.max_chars),
                on(config.max_chars > 0, Outcome::LeftOut),
            ),
            (
                "max_ratio",
                format!("length ratio above {}", config.max_ratio),
                on(config.max_ratio > 0.0, Outcome::LeftOut),
            ),
            (
                "min_script_share",
                format!(
                    "less than {} % of letters in the expected script",
                    (config.min_script_share * 1e4).round() / 1e2
                ),
                on(script_on, Outcome::LeftOut),
            ),
            (
                "identical",
                "identical sides".into(),
                on(target == TargetSide::Sentence, found(config.identical)),
            ),
            ("duplicates", duplicate.into(), found(config.duplicates)),
        ];
        let steps = steps
            .into_iter()
            .map(|(step, what, outcome)| StepCount {
                step: step.into(),
                what,
                outcome,
                pairs: 0,
                first: None,
            })
            .collect();
        Self { pairs: 0, kept: 0, target_side: target, steps }
    }

    pub(super) fn count(&mut self, step: Step, found: bool, number: usize) {
        if let Some(count) = self.steps.get_mut(step as usize).filter(|_| found) {
            count.pairs += 1;
            count.first.get_or_insert(number);
        }
    }

    /// Returns the number of pairs after cleaning.
    pub fn kept(&self) -> usize {
        self.kept
    }

    /// Returns the number of pairs found by `step`.
    pub fn count_of(&self, step: &str) -> usize {
        self.steps.iter().find(|count| count.step == step).map_or(0, |count| count.pairs)
    }
}

impl fmt::Display for CleaningReport {
    /// Writes a table with one line per active step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.target_side {
            TargetSide::Sentence => "pair",
            TargetSide::Label => "text",
        };
        write!(f, "cleaning: {} {unit}s in, {} out", self.pairs, self.kept)?;
        let steps = || self.steps.iter().filter(|step| step.outcome != Outcome::Off);
        let width = steps().map(|step| step.what.len()).max().unwrap_or(0);
        for step in steps() {
            let outcome = match step.outcome {
                Outcome::Changed => "changed",
                Outcome::LeftOut => "dropped",
                Outcome::Kept | Outcome::Off => "kept",
            };
            write!(f, "\n  {:width$}  {:>9} {outcome}", step.what, step.pairs)?;
            if let Some(first) = step.first {
                write!(f, " (first: {unit} {first})")?;
            }
        }
        let off: Vec<&str> = self
            .steps
            .iter()
            .filter(|step| step.outcome == Outcome::Off)
            .map(|step| step.step.as_str())
            .collect();
        if off.is_empty() { Ok(()) } else { write!(f, "\n  off: {}", off.join(", ")) }
    }
}
