//! Cleaning text pairs, step by step, with every step counted.
//!
//! Each step can be turned on and off. What a step does to a pair is one of three things: it
//! changes the text, it leaves the pair out, or it only counts. The [`CleaningReport`] says which
//! and how often; nothing happens unsaid.

mod markup;
mod report;
mod script;

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use tx_text::{SentencePair, hash::hash64};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick, is_nfkc_quick};

pub use report::{CleaningReport, Outcome, StepCount};
pub use script::{script_named, scripts_of_language};

/// Which steps are done, and how. The keys of `[data.clean]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CleanConfig {
    /// Unicode normal form that all text is brought to.
    pub unicode: NormalForm,
    /// Whether white space of every kind becomes single spaces, and what has no width (zero-width
    /// spaces, soft hyphens, control characters) goes.
    pub spaces: bool,
    /// What happens to tags such as `<b>` and entities such as `&amp;`.
    pub markup: Markup,
    /// Most characters of a side; longer pairs are left out. 0 allows any.
    pub max_chars: usize,
    /// A pair is left out when one side has more than so many times the characters of the other,
    /// ten added to the shorter. 0 allows any.
    pub max_ratio: f64,
    /// What happens to pairs whose sides are the same text.
    pub identical: KeepOrDrop,
    /// What happens to pairs that occurred before.
    pub duplicates: KeepOrDrop,
    /// Least share of a side's letters that must be of its language's scripts. 0 asks for none.
    pub min_script_share: f64,
    /// Scripts of the source, by their Unicode names; those of `data.source_language` if empty.
    pub source_scripts: Vec<String>,
    /// Scripts of the target, by their Unicode names; those of `data.target_language` if empty.
    pub target_scripts: Vec<String>,
}

/// A Unicode normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormalForm {
    /// Text is left as it is.
    None,
    /// Canonical composition: `e` and a combining accent become `é`.
    Nfc,
    /// Compatibility composition: besides, `ﬁ` becomes `fi` and `１` becomes `1`.
    Nfkc,
}

/// What happens to markup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Markup {
    /// It stays, uncounted.
    Keep,
    /// Tags go, entities become the characters that they stand for.
    Strip,
    /// The pair is left out.
    Drop,
}

/// What happens to pairs that a step finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepOrDrop {
    /// They are counted and stay.
    Keep,
    /// They are left out.
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
    /// Leaves out pairs with an empty side, and nothing else.
    pub fn off() -> Self {
        Self {
            unicode: NormalForm::None,
            spaces: false,
            max_chars: 0,
            max_ratio: 0.0,
            ..Self::default()
        }
    }

    /// The rules that are broken; empty when all is well.
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
                        "`clean.{key}` has `{name}`, which is no Unicode script such as `Latin`, \
                         `Cyrillic` or `Han`"
                    ));
                }
            }
        }
        problems
    }

    /// The same with the scripts of two languages (codes such as `en`) where none are given.
    ///
    /// A language whose scripts are not known asks for none.
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

/// Cleans one pair after the other, and counts.
///
/// ```
/// use tx_data::{SentencePair, clean::{CleanConfig, Cleaner}};
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
    scripts: [Vec<unicode_script::Script>; 2],
    /// Hashes of the pairs so far: eight bytes a pair, whatever its length.
    seen: HashSet<u64>,
    report: CleaningReport,
}

impl Cleaner {
    /// Starts with no pair seen.
    pub fn new(config: CleanConfig) -> Self {
        let scripts = [&config.source_scripts, &config.target_scripts]
            .map(|names| names.iter().filter_map(|name| script_named(name)).collect());
        let report = CleaningReport::new(&config);
        Self { config, scripts, seen: HashSet::new(), report }
    }

    /// The pair as it goes on, or none if it is left out.
    pub fn clean(&mut self, pair: SentencePair) -> Option<SentencePair> {
        self.report.pairs += 1;
        let number = self.report.pairs;
        let Self { config, scripts, seen, report } = self;
        let SentencePair { mut source, mut target } = pair;

        if config.unicode != NormalForm::None {
            let form = config.unicode;
            let changed = change(&mut source, &mut target, |text| composed(form, text));
            report.count(Step::Unicode, changed, number);
        }
        if config.markup != Markup::Keep {
            let found = markup::has_markup(&source) || markup::has_markup(&target);
            report.count(Step::Markup, found, number);
            match config.markup {
                Markup::Drop if found => return None,
                Markup::Strip if found => {
                    change(&mut source, &mut target, |text| Some(markup::strip(text)));
                }
                _ => {}
            }
        }
        if config.spaces {
            let changed = change(&mut source, &mut target, single_spaces);
            report.count(Step::Spaces, changed, number);
        }

        let empty = source.trim().is_empty() || target.trim().is_empty();
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
        let identical = source == target;
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
        Some(SentencePair { source, target })
    }

    /// Counts of each step so far.
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

/// A step, in the order they are done.
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

/// Changes both sides, where `by` has something else to say; tells whether one is other than before.
fn change(source: &mut String, target: &mut String, by: impl Fn(&str) -> Option<String>) -> bool {
    let mut changed = false;
    for side in [source, target] {
        if let Some(new) = by(side).filter(|new| new != side) {
            changed = true;
            *side = new;
        }
    }
    changed
}

/// The text in a normal form, if it may not be in it.
fn composed(form: NormalForm, text: &str) -> Option<String> {
    let yes = IsNormalized::Yes;
    match form {
        NormalForm::Nfc if is_nfc_quick(text.chars()) != yes => Some(text.nfc().collect()),
        NormalForm::Nfkc if is_nfkc_quick(text.chars()) != yes => Some(text.nfkc().collect()),
        _ => None,
    }
}

/// Characters that show nothing and separate nothing.
fn has_no_width(c: char) -> bool {
    matches!(
        c,
        // Soft hyphen, zero-width space, word joiner and byte order mark. The zero-width joiners
        // (U+200C, U+200D) stay: Persian, Hindi and emoji are spelled with them.
        '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}'
    ) || (c.is_control() && !c.is_whitespace())
}

/// White space of every kind becomes single spaces, none at the ends; what has no width goes. None
/// if the text is so already.
fn single_spaces(text: &str) -> Option<String> {
    let odd = |c: char| (c != ' ' && c.is_whitespace()) || has_no_width(c);
    if !text.contains(odd) && !text.contains("  ") && text.trim_matches(' ') == text {
        return None;
    }
    let mut clean = String::with_capacity(text.len());
    let mut space = false;
    for c in text.chars() {
        if c.is_whitespace() {
            space = true;
        } else if !has_no_width(c) {
            if space && !clean.is_empty() {
                clean.push(' ');
            }
            space = false;
            clean.push(c);
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests;
