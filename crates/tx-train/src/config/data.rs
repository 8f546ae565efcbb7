//! What a run learns from and is checked on.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tx_data::{
    CleanConfig, LongPolicy, SplitBy,
    source::{format::Format, named},
};

/// Where sentence pairs come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum DataSource {
    /// Files named by `train_source` and so on.
    Files,
    /// One pair of four words.
    Toy,
    /// Random words and their reverse.
    Reverse,
    /// A generated English–Italian phrase grammar.
    Phrasebook,
    /// A corpus that is fetched, by its name: see [`named`].
    Named(String),
}

impl From<String> for DataSource {
    fn from(name: String) -> Self {
        match name.as_str() {
            "files" => Self::Files,
            "toy" => Self::Toy,
            "reverse" => Self::Reverse,
            "phrasebook" => Self::Phrasebook,
            _ => Self::Named(name),
        }
    }
}

impl From<DataSource> for String {
    fn from(source: DataSource) -> Self {
        match source {
            DataSource::Files => "files".into(),
            DataSource::Toy => "toy".into(),
            DataSource::Reverse => "reverse".into(),
            DataSource::Phrasebook => "phrasebook".into(),
            DataSource::Named(name) => name,
        }
    }
}

/// What to learn from and what to check on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Where sentence pairs come from.
    pub source: DataSource,
    /// Language of the source, as a code: for the record, and to find it in what has several.
    pub source_language: Option<String>,
    /// Language of the target, as a code: for the record, and to find it in what has several.
    pub target_language: Option<String>,
    /// Files: source side of the training pairs, plain or gzip.
    pub train_source: Option<PathBuf>,
    /// Files: target side of the training pairs.
    pub train_target: Option<PathBuf>,
    /// Files: source side of the validation pairs.
    pub valid_source: Option<PathBuf>,
    /// Files: target side of the validation pairs.
    pub valid_target: Option<PathBuf>,
    /// Files: both sides of the training pairs, in any format that holds both.
    pub train_file: Option<PathBuf>,
    /// Files: both sides of the validation pairs, in any format that holds both.
    pub valid_file: Option<PathBuf>,
    /// Format of the files; told by their content if not given.
    pub format: Option<Format>,
    /// Name or number of the column, or name of the field, with the source.
    pub source_column: Option<String>,
    /// Name or number of the column, or name of the field, with the target.
    pub target_column: Option<String>,
    /// Whether the first row of a table holds names; told by itself if not given.
    pub header: Option<bool>,
    /// Named corpora: the subset, such as `en-it`; told by the languages if not given.
    pub subset: Option<String>,
    /// Named corpora: the split to train on, `train` if not given.
    pub split: Option<String>,
    /// Named corpora: branch, tag, commit or version; the newest if not given.
    pub revision: Option<String>,
    /// Training pairs: how many to generate, or the first so many of a file.
    pub train_pairs: Option<usize>,
    /// Validation pairs: how many to generate, or the first so many of a file.
    pub valid_pairs: Option<usize>,
    /// Files without validation files: the share of pairs set aside, in `0.0..1.0`. At 0 the
    /// training pairs themselves are checked on: for experiments in learning by heart.
    pub valid_share: f64,
    /// Longest side in tokens, special tokens included; `model.max_len` if not given.
    pub max_len: Option<usize>,
    /// What happens to longer pairs in training.
    pub long: LongPolicy,
    /// What decides which pairs are set aside: the `seed`, or the text of each pair (`hash`), which
    /// stays where it is when the corpus grows.
    pub split_by: SplitBy,
    /// Files: what happens to training pairs that are near duplicates of given validation pairs.
    pub overlap: OverlapPolicy,
    /// Folder of the data as ids, for a corpus larger than memory: trained from if it exists, made
    /// if it does not.
    pub prepared: Option<PathBuf>,
    /// Files: how training pairs are cleaned.
    pub clean: CleanConfig,
}

/// What happens to training pairs that are near duplicates of given validation pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapPolicy {
    /// They are counted, and stay.
    Report,
    /// They are left out.
    Drop,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            source: DataSource::Files,
            source_language: None,
            target_language: None,
            train_source: None,
            train_target: None,
            valid_source: None,
            valid_target: None,
            train_file: None,
            valid_file: None,
            format: None,
            source_column: None,
            target_column: None,
            header: None,
            subset: None,
            split: None,
            revision: None,
            train_pairs: None,
            valid_pairs: None,
            valid_share: 0.1,
            max_len: None,
            long: LongPolicy::Skip,
            split_by: SplitBy::Seed,
            overlap: OverlapPolicy::Report,
            prepared: None,
            clean: CleanConfig::default(),
        }
    }
}

/// Where the pairs of one part stand.
struct Sides<'a> {
    source: &'a Option<PathBuf>,
    target: &'a Option<PathBuf>,
    file: &'a Option<PathBuf>,
}

/// What is wrong with them.
fn sides(part: &str, files: &Sides<'_>, needed: bool) -> Option<String> {
    match (files.source.is_some(), files.target.is_some(), files.file.is_some()) {
        (true, true, false) | (false, false, true) => None,
        (false, false, false) if !needed => None,
        (false, false, false) => Some(format!(
            "`source` = \"files\" needs `{part}_source` and `{part}_target`, or `{part}_file`"
        )),
        (_, _, false) => Some(format!("`{part}_source` and `{part}_target` go together")),
        (_, _, true) => Some(format!(
            "`{part}_file` holds both sides: leave out `{part}_source` and `{part}_target`"
        )),
    }
}

impl DataConfig {
    /// Pairs that are made here come with their own to check on.
    fn files_of_generated(&self) -> Option<String> {
        let given = |files: &Sides<'_>| {
            [files.source, files.target, files.file].into_iter().any(Option::is_some)
        };
        let part = [("train", self.train_files()), ("valid", self.valid_files())];
        let (part, _) = part.into_iter().find(|(_, files)| given(files))?;
        let source = String::from(self.source.clone());
        Some(format!("`{part}_…` names files, but `source` = \"{source}\" makes its own pairs"))
    }

    fn train_files(&self) -> Sides<'_> {
        Sides { source: &self.train_source, target: &self.train_target, file: &self.train_file }
    }

    fn valid_files(&self) -> Sides<'_> {
        Sides { source: &self.valid_source, target: &self.valid_target, file: &self.valid_file }
    }

    /// How training pairs are cleaned; generated ones are clean.
    pub fn cleaning(&self) -> CleanConfig {
        if self.is_generated() {
            return CleanConfig::off();
        }
        let (source, target) = (&self.source_language, &self.target_language);
        self.clean.clone().with_languages(source.as_deref(), target.as_deref())
    }

    /// Whether the pairs are made here, and so clean.
    pub fn is_generated(&self) -> bool {
        matches!(self.source, DataSource::Toy | DataSource::Reverse | DataSource::Phrasebook)
    }

    pub(super) fn problems(&self, model_max_len: usize) -> Vec<String> {
        let mut problems = self.clean.problems();
        match &self.source {
            DataSource::Files => {
                problems.extend(sides("train", &self.train_files(), true).into_iter().chain(sides(
                    "valid",
                    &self.valid_files(),
                    false,
                )))
            }
            DataSource::Named(name) if !named::Request::is_name(name) => {
                let known: Vec<&str> = named::KNOWN.iter().map(|known| known.name).collect();
                problems.push(format!(
                    "`source` = \"{name}\" is neither \"files\", \"phrasebook\", \"reverse\" nor \
                     \"toy\", and no corpus such as {}",
                    known.join(", ")
                ));
            }
            DataSource::Named(name) => {
                if self.source_language.is_none() || self.target_language.is_none() {
                    problems.push(format!(
                        "`source` = \"{name}\" needs `source_language` and `target_language`"
                    ));
                }
                problems.extend(sides("valid", &self.valid_files(), false));
            }
            DataSource::Toy | DataSource::Reverse | DataSource::Phrasebook => {
                problems.extend(self.files_of_generated());
            }
        }
        for (key, count) in [("train_pairs", self.train_pairs), ("valid_pairs", self.valid_pairs)] {
            if count == Some(0) {
                problems.push(format!("`{key}` must be at least 1"));
            }
        }
        if !(0.0..1.0).contains(&self.valid_share) {
            problems.push(format!(
                "`valid_share` = {} must be at least 0 and below 1",
                self.valid_share
            ));
        }
        match self.max_len {
            Some(len) if len > model_max_len => problems
                .push(format!("`max_len` = {len} is more than `model.max_len` = {model_max_len}")),
            Some(len) if len < 3 => {
                problems
                    .push(format!("`max_len` = {len} leaves no room between `<bos>` and `<eos>`"));
            }
            _ => {}
        }
        problems
    }
}
