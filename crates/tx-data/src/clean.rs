//! Cleaning of sentence pairs in steps, with counts per step.
//!
//! Each step can be turned on and off. A step changes the text, drops the pair, or only counts it.
//! The [`CleaningReport`] contains the outcome and the number of pairs of every step.
//!
//! The steps that change text are a [`Normalization`], which the tokenizers of the corpus record, so that
//! inference changes text in the same way.

mod report;
mod script;

use std::{borrow::Cow, collections::HashSet};

use serde::{Deserialize, Serialize};
use tx_text::{
    Normalization, SentencePair,
    hash::hash64,
    is_blank,
    normalization::{ChangedBy, markup::has_markup},
};

use crate::encode::TargetSide;

pub use report::{CleaningReport, Outcome, StepCount};
pub use script::{script_named, scripts_of_language};
pub use tx_text::NormalForm;

/// Settings of the cleaning steps: the keys of `[data.clean]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CleanConfig {
    /// Unicode normal form applied to all text.
    pub unicode: NormalForm,
    /// Collapse white space of every kind to single spaces, and remove invisible characters
    /// (zero-width spaces, soft hyphens, marks of the writing direction, control characters).
    pub spaces: bool,
    /// Handling of tags such as `<b>` and entities such as `&amp;`.
    pub markup: Markup,
    /// Maximum number of characters per side; pairs with longer sides are dropped. 0 means no
    /// limit.
    pub max_chars: usize,
    /// Maximum ratio of the lengths of the two sides in characters, with ten added to the shorter
    /// one; other pairs are dropped. 0 means no limit.
    pub max_ratio: f64,
    /// Handling of pairs with identical sides.
    pub identical: KeepOrDrop,
    /// Handling of duplicate pairs (deduplication).
    pub duplicates: KeepOrDrop,
    /// Minimum fraction of letters in the scripts of the side's language. 0 turns the check off.
    pub min_script_share: f64,
    /// Scripts of the source, by Unicode name. If empty, those of `data.source_language`.
    pub source_scripts: Vec<String>,
    /// Scripts of the target, by Unicode name. If empty, those of `data.target_language`.
    pub target_scripts: Vec<String>,
}

/// Handling of markup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Markup {
    /// Keep the markup without counting it.
    Keep,
    /// Remove tags and replace entities with their characters.
    Strip,
    /// Drop the pair.
    Drop,
}

/// Handling of pairs that a step finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepOrDrop {
    /// Count and keep the pairs.
    Keep,
    /// Drop the pairs.
    Drop,
}

impl Default for CleanConfig {
    fn default() -> Self {
        Self {
            unicode: NormalForm::Nfc,
            spaces: true,
            markup: Markup::Keep,
            max_chars: 5_000,
            max_ratio: 9.0,
            identical: KeepOrDrop::Keep,
            duplicates: KeepOrDrop::Keep,
            min_script_share: 0.0,
            source_scripts: Vec::new(),
            target_scripts: Vec::new(),
        }
    }
}

impl CleanConfig {
    /// Turns off every step except dropping pairs with an empty side.
    pub fn off() -> Self {
        Self {
            unicode: NormalForm::None,
            spaces: false,
            max_chars: 0,
            max_ratio: 0.0,
            ..Self::default()
        }
    }

    /// Turns off the steps that compare the sides or judge their language, for targets that are labels.
    /// Unicode, white space, empty sides, the length of the text and duplicates remain.
    pub fn for_labels(self) -> Self {
        Self {
            markup: Markup::Keep,
            max_ratio: 0.0,
            identical: KeepOrDrop::Keep,
            min_script_share: 0.0,
            ..self
        }
    }

    /// Returns the steps that change text.
    pub fn normalization(&self) -> Normalization {
        let markup = self.markup == Markup::Strip;
        Normalization { form: self.unicode, spaces: self.spaces, markup }
    }

    /// Lists all broken rules; empty if the settings are valid.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !(self.max_ratio == 0.0 || (self.max_ratio >= 1.0 && self.max_ratio.is_finite())) {
            problems
                .push(format!("`clean.max_ratio` = {} must be 0 or at least 1", self.max_ratio));
        }
        if !(0.0..=1.0).contains(&self.min_script_share) {
            problems.push(format!(
                "`clean.min_script_share` = {} must be in 0..1",
                self.min_script_share
            ));
        }
        for (key, names) in
            [("source_scripts", &self.source_scripts), ("target_scripts", &self.target_scripts)]
        {
            for name in names {
                if script_named(name).is_none() {
                    problems.push(format!(
                        "`clean.{key}` has `{name}`, expected the name of a Unicode script such as \
                         `Latin`, `Cyrillic` or `Han`"
                    ));
                }
            }
        }
        problems
    }

    /// Sets the scripts of two languages (codes such as `en`) if none are given.
    ///
    /// A language with unknown scripts sets none.
    pub fn with_languages(mut self, source: Option<&str>, target: Option<&str>) -> Self {
        for (scripts, language) in
            [(&mut self.source_scripts, source), (&mut self.target_scripts, target)]
        {
            if scripts.is_empty() {
                let known = language.map_or(&[][..], scripts_of_language);
                scripts.extend(known.iter().map(|script| script.full_name().to_owned()));
            }
        }
        self
    }
}

/// Cleaner of a stream of pairs, with counts.
///
/// ```
/// use tx_data::clean::{CleanConfig, Cleaner};
/// use tx_text::SentencePair;
///
/// let mut cleaner = Cleaner::new(CleanConfig::default());
/// let pair = cleaner.clean(SentencePair::new(" ein\u{a0}Hund ", "a dog")).unwrap();
/// assert_eq!(pair.source, "ein Hund");
/// assert_eq!(cleaner.clean(SentencePair::new("ein Hund", " ")), None);
/// assert_eq!(cleaner.report().kept(), 1);
/// ```
#[derive(Debug)]
pub struct Cleaner {
    config: CleanConfig,
    target: TargetSide,
    scripts: [Vec<unicode_script::Script>; 2],
    /// Hashes of all pairs so far: eight bytes per pair of any length.
    seen: HashSet<u64>,
    report: CleaningReport,
}

impl Cleaner {
    /// Creates a cleaner of translations that has seen no pairs.
    pub fn new(config: CleanConfig) -> Self {
        Self::with_targets(config, TargetSide::Sentence)
    }

    /// Creates a cleaner of pairs with targets of this kind that has seen no pairs.
    pub fn with_targets(config: CleanConfig, target: TargetSide) -> Self {
        let config = match target {
            TargetSide::Sentence => config,
            TargetSide::Label => config.for_labels(),
        };
        let scripts = [&config.source_scripts, &config.target_scripts]
            .map(|names| names.iter().filter_map(|name| script_named(name)).collect());
        let report = CleaningReport::new(&config, target);
        Self { config, target, scripts, seen: HashSet::new(), report }
    }

    /// Returns the cleaned pair, or `None` if it is dropped. Its context is not changed.
    pub fn clean(&mut self, pair: SentencePair) -> Option<SentencePair> {
        self.report.pairs += 1;
        let number = self.report.pairs;
        let Self { config, target: side, scripts, seen, report } = self;
        let SentencePair { mut source, mut target, context } = pair;

        let normalization = config.normalization();
        let mut changed = ChangedBy::default();
        for side in [&mut source, &mut target] {
            let (text, by) = normalization.apply_counted(side);
            if let Cow::Owned(text) = text {
                *side = text;
            }
            changed.form |= by.form;
            changed.markup |= by.markup;
            changed.spaces |= by.spaces;
        }
        report.count(Step::Unicode, changed.form, number);
        let is_dropped =
            config.markup == Markup::Drop && (has_markup(&source) || has_markup(&target));
        report.count(Step::Markup, changed.markup || is_dropped, number);
        if is_dropped {
            return None;
        }
        report.count(Step::Spaces, changed.spaces, number);

        let empty = is_blank(&source) || is_blank(&target);
        report.count(Step::Empty, empty, number);
        if empty {
            return None;
        }
        let lengths = [&source, &target].map(|text| text.chars().count());
        let [shorter, longer] = [lengths[0].min(lengths[1]), lengths[0].max(lengths[1])];
        if config.max_chars > 0 {
            let long = longer > config.max_chars;
            report.count(Step::MaxChars, long, number);
            if long {
                return None;
            }
        }
        if config.max_ratio > 0.0 {
            let uneven = longer as f64 > config.max_ratio * (shorter + 10) as f64;
            report.count(Step::MaxRatio, uneven, number);
            if uneven {
                return None;
            }
        }
        if config.min_script_share > 0.0 && !scripts.iter().all(Vec::is_empty) {
            let foreign = [&source, &target].into_iter().zip(scripts).any(|(text, scripts)| {
                script::share(text, scripts).is_some_and(|share| share < config.min_script_share)
            });
            report.count(Step::Script, foreign, number);
            if foreign {
                return None;
            }
        }
        let identical = *side == TargetSide::Sentence && source == target;
        report.count(Step::Identical, identical, number);
        if identical && config.identical == KeepOrDrop::Drop {
            return None;
        }
        let duplicate = !seen.insert(hash64(&[source.as_bytes(), target.as_bytes()]));
        report.count(Step::Duplicates, duplicate, number);
        if duplicate && config.duplicates == KeepOrDrop::Drop {
            return None;
        }
        report.kept += 1;
        Some(SentencePair { source, target, context })
    }

    /// Returns the report of all pairs so far.
    pub fn report(&self) -> &CleaningReport {
        &self.report
    }

    /// Returns the counts of each step and frees the memory of duplicate detection.
    pub fn into_report(self) -> CleaningReport {
        self.report
    }

    /// Cleans a corpus in memory.
    pub fn clean_all(
        config: CleanConfig,
        pairs: Vec<SentencePair>,
    ) -> (Vec<SentencePair>, CleaningReport) {
        let mut cleaner = Self::new(config);
        let pairs = pairs.into_iter().filter_map(|pair| cleaner.clean(pair)).collect();
        (pairs, cleaner.report)
    }
}

/// Steps in their order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Unicode,
    Markup,
    Spaces,
    Empty,
    MaxChars,
    MaxRatio,
    Script,
    Identical,
    Duplicates,
}

#[cfg(test)]
mod tests;
