//! Training and validation data.

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use tx_data::{
    CleanConfig, DocumentEnd, LongPolicy, SplitBy,
    source::{format::Format, named},
};
use tx_infer::{TaskKind, bundle::LanguagePlacement};

use super::{
    corpus::{CorpusConfig, empty_epoch},
    data_source::DataSource,
    replay::ReplayConfig,
};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_empty_line(end: &DocumentEnd) -> bool {
    *end == DocumentEnd::EmptyLine
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_one(number: &f64) -> bool {
    *number == 1.0
}

/// Deserializes a column name, which can be a number.
fn name_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected the name of a column, or its number from 1")]
    enum Column {
        Number(u64),
        Name(String),
    }
    Ok(Option::<Column>::deserialize(deserializer)?.map(|column| match column {
        Column::Number(number) => number.to_string(),
        Column::Name(name) => name,
    }))
}

/// Section `[data]`: training and validation data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Source of the sentence pairs.
    pub source: DataSource,
    /// Language code of the source, for information and to select it in files with several
    /// languages.
    pub source_language: Option<String>,
    /// Language code of the target, for information and to select it in files with several
    /// languages.
    pub target_language: Option<String>,
    /// Files: source side of the training pairs, or the training text; plain or compressed.
    pub train_source: Option<PathBuf>,
    /// Files: target side of the training pairs, or the labels of the texts.
    pub train_target: Option<PathBuf>,
    /// Files: source side of the validation pairs, or the validation text.
    pub valid_source: Option<PathBuf>,
    /// Files: target side of the validation pairs, or the labels of the texts.
    pub valid_target: Option<PathBuf>,
    /// Files: both sides of the training pairs, in any format with both sides.
    pub train_file: Option<PathBuf>,
    /// Files: both sides of the validation pairs, in any format with both sides.
    pub valid_file: Option<PathBuf>,
    /// File with a weight of each training pair in the loss, one a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pair_weights: Option<PathBuf>,
    /// File with the word alignment of each training pair in Pharaoh format (`0-0 1-2`), one a line, for
    /// `train.guided_alignment`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignments: Option<PathBuf>,
    /// Format of the files; detected from their content by default.
    pub format: Option<Format>,
    /// Column name or number, or field name, of the source or the text.
    #[serde(alias = "text_column", deserialize_with = "name_or_number")]
    pub source_column: Option<String>,
    /// Column name or number, or field name, of the target or the label.
    #[serde(alias = "label_column", deserialize_with = "name_or_number")]
    pub target_column: Option<String>,
    /// Whether the first row of a table is a header; detected by default.
    pub header: Option<bool>,
    /// Named corpora: subset, such as `en-it`; by default that of the languages.
    pub subset: Option<String>,
    /// Named corpora: split to train on; `train` by default.
    pub split: Option<String>,
    /// Named corpora: branch, tag, commit or version; the newest by default.
    pub revision: Option<String>,
    /// Language models: end of a document, which is an `empty-line` or each `line`.
    #[serde(skip_serializing_if = "is_empty_line")]
    pub documents: DocumentEnd,
    /// Number of training pairs or documents to generate, or to read from the beginning of a file.
    pub train_pairs: Option<usize>,
    /// Number of validation pairs or documents to generate, or to read from the beginning of a file.
    pub valid_pairs: Option<usize>,
    /// Files without validation files: fraction of pairs held out for validation, in `0.0..1.0`. At
    /// 0, the training pairs themselves are used, for experiments that overfit on purpose.
    pub valid_share: f64,
    /// Maximum length of a side in tokens, including special tokens; `model.max_len` by default.
    pub max_len: Option<usize>,
    /// Handling of longer training pairs.
    pub long: LongPolicy,
    /// Selection of the held-out pairs: by `seed`, or by the text of each pair (`hash`), so that a
    /// pair stays in its part when the corpus grows.
    pub split_by: SplitBy,
    /// Files: handling of training pairs that are near duplicates of given validation pairs.
    pub overlap: OverlapPolicy,
    /// Folder of the tokenized data, for a corpus larger than memory; created if it does not exist.
    pub prepared: Option<PathBuf>,
    /// Prepared data of several files: maximum number of pairs that the vocabulary is learned from, the
    /// same number from the beginning of each file; 1,000,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary_pairs: Option<usize>,
    /// Files: cleaning of training pairs.
    pub clean: CleanConfig,
    /// Other pairs of which each epoch contains some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayConfig>,
    /// Several corpora: exponent of their proportions. A corpus with `n` pairs of weight `w` has the
    /// fraction `(w n)^(1 / temperature) / Σ (w n)^(1 / temperature)` of an epoch, which contains
    /// `Σ w n` pairs. Higher temperatures are closer to equal parts.
    #[serde(skip_serializing_if = "is_one")]
    pub temperature: f64,
    /// Several corpora: tokens that select the languages of a new multilingual model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language_tokens: Option<LanguagePlacement>,
    /// Several training corpora, in place of the other keys of the training pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub train: Vec<CorpusConfig>,
    /// Several validation sets, in place of the other keys of the validation pairs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub valid: Vec<CorpusConfig>,
}

/// Returns `true` if a task learns from documents instead of pairs.
fn has_documents(task: TaskKind) -> bool {
    match task {
        TaskKind::Translate | TaskKind::Classify => false,
        TaskKind::Generate | TaskKind::FillMask => true,
    }
}

/// Handling of training pairs that are near duplicates of given validation pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OverlapPolicy {
    /// Count and keep them.
    Report,
    /// Remove them.
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
            pair_weights: None,
            alignments: None,
            format: None,
            source_column: None,
            target_column: None,
            header: None,
            subset: None,
            split: None,
            revision: None,
            documents: DocumentEnd::EmptyLine,
            train_pairs: None,
            valid_pairs: None,
            valid_share: 0.1,
            max_len: None,
            long: LongPolicy::Skip,
            split_by: SplitBy::Seed,
            overlap: OverlapPolicy::Report,
            prepared: None,
            vocabulary_pairs: None,
            clean: CleanConfig::default(),
            replay: None,
            temperature: 1.0,
            language_tokens: None,
            train: Vec::new(),
            valid: Vec::new(),
        }
    }
}

/// Files of the training or validation pairs.
struct Sides<'a> {
    source: &'a Option<PathBuf>,
    target: &'a Option<PathBuf>,
    file: &'a Option<PathBuf>,
}

/// Returns the problem with the files of a part, if any.
fn sides(part: &str, files: &Sides<'_>, needed: bool) -> Option<String> {
    match (files.source.is_some(), files.target.is_some(), files.file.is_some()) {
        (true, true, false) | (false, false, true) => None,
        (false, false, false) if !needed => None,
        (false, false, false) => Some(format!(
            "`source` = \"files\" needs `{part}_source` and `{part}_target`, or `{part}_file`"
        )),
        (_, _, false) => Some(format!("`{part}_source` and `{part}_target` go together")),
        (_, _, true) => Some(format!(
            "`{part}_file` has both sides and conflicts with `{part}_source` and `{part}_target`"
        )),
    }
}

impl DataConfig {
    /// Returns the problem of files given for generated pairs, which include their own validation
    /// pairs.
    fn files_of_generated(&self) -> Option<String> {
        let given = |files: &Sides<'_>| {
            [files.source, files.target, files.file].into_iter().any(Option::is_some)
        };
        let part = [("train", self.train_files()), ("valid", self.valid_files())];
        let (part, _) = part.into_iter().find(|(_, files)| given(files))?;
        let source = String::from(self.source.clone());
        Some(format!("`{part}_…` names files, but `source` = \"{source}\" generates its own pairs"))
    }

    fn train_files(&self) -> Sides<'_> {
        Sides { source: &self.train_source, target: &self.train_target, file: &self.train_file }
    }

    fn valid_files(&self) -> Sides<'_> {
        Sides { source: &self.valid_source, target: &self.valid_target, file: &self.valid_file }
    }

    /// Returns the problems of the files of a task with documents, which have one side.
    fn document_problems(&self, is_needed: bool) -> Vec<String> {
        let mut problems = Vec::new();
        if is_needed && self.train_source.is_none() {
            problems.push("`source` = \"files\" needs `train_source`, a text file".into());
        }
        for (key, file) in [
            ("train_target", &self.train_target),
            ("train_file", &self.train_file),
            ("valid_target", &self.valid_target),
            ("valid_file", &self.valid_file),
        ] {
            if file.is_some() {
                let part = key.split('_').next().unwrap_or_default();
                problems.push(format!(
                    "`{key}`: a text has one side; name its file as `{part}_source`"
                ));
            }
        }
        problems
    }

    /// Returns the cleaning of training pairs. Generated pairs are only normalized.
    pub fn cleaning(&self) -> CleanConfig {
        if self.is_generated() {
            let (unicode, spaces) = (self.clean.unicode, self.clean.spaces);
            return CleanConfig { unicode, spaces, ..CleanConfig::off() };
        }
        let (source, target) = (&self.source_language, &self.target_language);
        self.clean.clone().with_languages(source.as_deref(), target.as_deref())
    }

    /// Returns `true` if the pairs are generated, and therefore clean.
    pub fn is_generated(&self) -> bool {
        matches!(self.source, DataSource::Toy | DataSource::Reverse | DataSource::Phrasebook)
    }

    /// Returns `true` if training corpora or validation sets are lists.
    pub fn has_lists(&self) -> bool {
        !self.train.is_empty() || !self.valid.is_empty()
    }

    /// Returns `true` if training pairs have weights.
    pub(super) fn has_pair_weights(&self) -> bool {
        let in_list = || self.train.iter().any(|entry| entry.pair_weights.is_some());
        self.pair_weights.is_some() || in_list()
    }

    /// Returns `true` if training pairs have word alignments.
    pub(super) fn has_alignments(&self) -> bool {
        let in_list = || self.train.iter().any(|entry| entry.alignments.is_some());
        self.alignments.is_some() || in_list()
    }

    /// Returns the target languages of the training corpora, each once.
    pub fn target_languages(&self) -> Vec<&str> {
        let mut found: Vec<&str> = Vec::new();
        for entry in &self.train {
            let code = entry.target_language.as_deref().or(self.target_language.as_deref());
            found.extend(code.filter(|code| !found.contains(code)));
        }
        found
    }

    /// Returns the problems of the lists of corpora.
    fn list_problems(&self, task: TaskKind) -> Vec<String> {
        let mut problems = Vec::new();
        if task != TaskKind::Translate {
            problems.push(format!(
                "`train` and `valid` lists are not available for the task \"{task}\""
            ));
        }
        for (number, entry) in self.train.iter().enumerate() {
            problems.extend(entry.training_problems(number + 1));
        }
        for (number, entry) in self.valid.iter().enumerate() {
            problems.extend(entry.validation_problems(number + 1));
        }
        let names: Vec<String> = self.valid.iter().map(CorpusConfig::name).collect();
        for (number, name) in names.iter().enumerate() {
            if names[..number].contains(name) {
                problems
                    .push(format!("`valid` {}: another set has the name \"{name}\"", number + 1));
            }
        }
        let train = [
            ("train_source", self.train_source.is_some()),
            ("train_target", self.train_target.is_some()),
            ("train_file", self.train_file.is_some()),
            ("train_pairs", self.train_pairs.is_some()),
            ("pair_weights", self.pair_weights.is_some()),
            ("alignments", self.alignments.is_some()),
            ("source", self.source != DataSource::Files),
            ("replay", self.replay.is_some()),
        ];
        let valid = [
            ("valid_source", self.valid_source.is_some()),
            ("valid_target", self.valid_target.is_some()),
            ("valid_file", self.valid_file.is_some()),
        ];
        for (list, keys) in [("train", &train[..]), ("valid", &valid)] {
            let is_list =
                if list == "train" { !self.train.is_empty() } else { !self.valid.is_empty() };
            for (key, _) in keys.iter().filter(|(_, is_given)| is_list && *is_given) {
                problems.push(format!("`{key}` is not available with a list of `{list}` entries"));
            }
        }
        if self.prepared.is_some() {
            problems.push("`prepared` is not available with lists of corpora".into());
        }
        if self.is_generated() {
            problems.push("generated pairs have their own validation pairs, not a list".into());
        }
        let is_validated = !self.valid.is_empty() || valid.iter().any(|(_, is_given)| *is_given);
        if !self.train.is_empty() && !is_validated {
            problems
                .push("a list of `train` entries needs validation pairs: `[[data.valid]]`".into());
        }
        if let Some(epoch) = empty_epoch(&self.train).filter(|_| !self.train.is_empty()) {
            problems.push(format!("no entry of `train` has pairs for epoch {epoch}"));
        }
        problems
    }

    /// Returns the problems of keys that belong to lists of corpora.
    fn mixture_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let temperature = self.temperature;
        if !(1.0..=1_000.0).contains(&temperature) {
            problems
                .push(format!("`temperature` = {temperature} must be at least 1 and at most 1000"));
        }
        if self.train.is_empty() {
            if temperature != 1.0 {
                problems.push("`temperature` needs a list of `train` entries".into());
            }
            if self.language_tokens.is_some() {
                problems.push("`language_tokens` needs a list of `train` entries".into());
            }
        }
        problems
    }

    pub(super) fn problems(&self, task: TaskKind, model_max_len: usize) -> Vec<String> {
        let mut problems = self.clean.problems();
        problems.extend(self.source_problems(task));
        problems.extend(self.mixture_problems());
        if self.has_lists() {
            problems.extend(self.list_problems(task));
        }
        for (key, count) in [
            ("train_pairs", self.train_pairs),
            ("valid_pairs", self.valid_pairs),
            ("vocabulary_pairs", self.vocabulary_pairs),
        ] {
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
                .push(format!("`max_len` = {len} exceeds `model.max_len` = {model_max_len}")),
            Some(len) if len < 3 => {
                problems
                    .push(format!("`max_len` = {len} leaves no room between `<bos>` and `<eos>`"));
            }
            _ => {}
        }
        if self.prepared.is_some() && task.has_one_text() {
            problems.push(format!("`prepared` is not available for the task \"{task}\""));
        }
        if let Some(replay) = &self.replay {
            problems.extend(replay.problems());
            if task != TaskKind::Translate {
                problems.push(format!("`replay` is not available for the task \"{task}\""));
            }
        }
        problems
    }

    /// Returns the problems of `source` and the files.
    fn source_problems(&self, task: TaskKind) -> Vec<String> {
        let mut problems = Vec::new();
        match &self.source {
            DataSource::Files if has_documents(task) => {
                problems.extend(self.document_problems(true));
            }
            DataSource::Files => {
                let is_needed = self.train.is_empty();
                problems.extend(
                    sides("train", &self.train_files(), is_needed).into_iter().chain(sides(
                        "valid",
                        &self.valid_files(),
                        false,
                    )),
                )
            }
            DataSource::Named(name) if !named::Request::is_name(name) => {
                let known: Vec<&str> = named::KNOWN.iter().map(|known| known.name).collect();
                problems.push(format!(
                    "`source` = \"{name}\" is unknown; accepted are \"files\", \"phrasebook\", \
                     \"reverse\", \"toy\" and corpora such as {}",
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
        if has_documents(task) && matches!(self.source, DataSource::Named(_)) {
            problems.push(format!(
                "`source` = \"{}\" has sentence pairs, but the task \"{task}\" learns from text: \
                 write one side to a file and name it as `train_source`",
                String::from(self.source.clone())
            ));
        }
        if matches!(self.source, DataSource::Toy | DataSource::Reverse) {
            let source = String::from(self.source.clone());
            match task {
                TaskKind::Translate => {}
                TaskKind::Classify => problems.push(format!(
                    "`source` = \"{source}\" has no labels for the task \"classify\""
                )),
                TaskKind::Generate | TaskKind::FillMask => problems.push(format!(
                    "`source` = \"{source}\" has no documents for the task \"{task}\"; accepted are \
                     \"files\" and \"phrasebook\""
                )),
            }
        }
        problems
    }
}
