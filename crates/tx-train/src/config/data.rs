//! Training and validation data.

mod problems;

use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};
use tx_data::{CleanConfig, DocumentEnd, LongPolicy, NoiseConfig, SplitBy, source::format::Format};
use tx_infer::{TaskKind, bundle::LanguagePlacement};

use super::{corpus::CorpusConfig, data_source::DataSource};

/// Name of the replayed pairs.
const REPLAY: &str = "replay";
/// Fraction of the replayed pairs in an epoch by default.
const REPLAYED: f64 = 0.2;
/// Share of the pairs with context that are trained without it by default.
const CONTEXT_DROPOUT: f64 = 0.2;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_empty_line(end: &DocumentEnd) -> bool {
    *end == DocumentEnd::EmptyLine
}

fn is_default(noise: &NoiseConfig) -> bool {
    *noise == NoiseConfig::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_one(number: &f64) -> bool {
    *number == 1.0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_false(value: &bool) -> bool {
    !value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_default_dropout(share: &f64) -> bool {
    *share == CONTEXT_DROPOUT
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

/// Deserializes the replayed pairs, which have a fraction of each epoch.
fn with_fraction<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<CorpusConfig>, D::Error> {
    let replay = Option::<CorpusConfig>::deserialize(deserializer)?;
    let fraction = |entry: &CorpusConfig| entry.fraction.or(Some(REPLAYED));
    Ok(replay.map(|entry| CorpusConfig { fraction: fraction(&entry), ..entry }))
}

/// Section `[data]`: training and validation data, as it is written: one corpus by keys of its own,
/// or lists. [`corpora`](Self::corpora) and [`validation_sets`](Self::validation_sets) are the same
/// for all.
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
    /// File with the word alignment of each training pair in Pharaoh format (`0-0 1-2`), one a
    /// line, for `train.guided_alignment`.
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
    /// Number of validation pairs or documents to generate, or to read from the beginning of a
    /// file.
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
    /// Prepared data of several files: maximum number of pairs that the vocabulary is learned from,
    /// the same number from the beginning of each file; 1,000,000 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary_pairs: Option<usize>,
    /// Files: cleaning of training pairs.
    pub clean: CleanConfig,
    /// Translation: shares of the training pairs with noisy copies.
    #[serde(skip_serializing_if = "is_default")]
    pub noise: NoiseConfig,
    /// Translation: whether the bundle has the words of the training text, for the search
    /// ([`tx_infer::lexicon`]). Bundles of prepared corpora, of replayed pairs and of models that continue others have none.
    #[serde(skip_serializing_if = "is_false")]
    pub lexicon: bool,
    /// Translation: maximum number of source sentences before a sentence in its document that the model
    /// reads with it. An entry that is empty on both sides ends a document.
    #[serde(skip_serializing_if = "is_zero")]
    pub context: usize,
    /// Share of the training pairs with context that are trained without it, so that the model also
    /// translates single sentences.
    #[serde(skip_serializing_if = "is_default_dropout")]
    pub context_dropout: f64,
    /// Other pairs of which each epoch contains some.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "with_fraction")]
    pub replay: Option<CorpusConfig>,
    /// Several corpora: exponent of their proportions. A corpus with `n` pairs of weight `w` has
    /// the fraction `(w n)^(1 / temperature) / Σ (w n)^(1 / temperature)` of an epoch, which
    /// contains `Σ w n` pairs. Higher temperatures are closer to equal parts.
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
            noise: NoiseConfig::default(),
            lexicon: false,
            context: 0,
            context_dropout: CONTEXT_DROPOUT,
            replay: None,
            temperature: 1.0,
            language_tokens: None,
            train: Vec::new(),
            valid: Vec::new(),
        }
    }
}

impl DataConfig {
    /// Returns the training corpora, at least one: the entries of `train` or the corpus that the
    /// other keys describe, and the replayed one. Languages, format and cleaning are complete.
    pub fn corpora(&self) -> Vec<CorpusConfig> {
        let mut entries = match &self.train[..] {
            [] => vec![self.only_corpus()],
            entries => entries.to_vec(),
        };
        if let Some(replay) = &self.replay {
            let name = replay.name.clone().or(Some(REPLAY.into()));
            let fraction = replay.fraction.or(Some(REPLAYED));
            entries.push(CorpusConfig { name, fraction, ..replay.clone() });
        }
        entries.into_iter().map(|entry| self.complete(entry)).collect()
    }

    /// Returns the validation sets that are given: the entries of `valid`, or the set that the
    /// other keys describe, without name; none if they name no set. A named corpus may lack a
    /// validation set.
    pub fn validation_sets(&self) -> Vec<CorpusConfig> {
        let entries = match &self.valid[..] {
            [] => {
                let (source, target) = (self.valid_source.clone(), self.valid_target.clone());
                let set = CorpusConfig {
                    source,
                    target,
                    file: self.valid_file.clone(),
                    ..self.only_corpus()
                };
                let corpus = set.corpus.clone().filter(|_| set.files().next().is_none());
                vec![CorpusConfig { corpus, prepared: None, pairs: None, ..set }]
            }
            entries => entries.to_vec(),
        };
        let is_given =
            |entry: &CorpusConfig| entry.corpus.is_some() || entry.files().next().is_some();
        entries.into_iter().filter(is_given).map(|entry| self.complete(entry)).collect()
    }

    /// Returns the corpus that keys outside of lists describe.
    fn only_corpus(&self) -> CorpusConfig {
        let corpus = match &self.source {
            DataSource::Files => None,
            source => Some(source.clone().into()),
        };
        CorpusConfig {
            source: self.train_source.clone(),
            target: self.train_target.clone(),
            file: self.train_file.clone(),
            corpus,
            prepared: self.prepared.clone(),
            subset: self.subset.clone(),
            split: self.split.clone(),
            revision: self.revision.clone(),
            pairs: self.train_pairs,
            pair_weights: self.pair_weights.clone(),
            alignments: self.alignments.clone(),
            ..CorpusConfig::default()
        }
    }

    /// Adds what an entry has in common with others. Generated pairs are only normalized.
    fn complete(&self, entry: CorpusConfig) -> CorpusConfig {
        let source_language = entry.source_language.clone().or(self.source_language.clone());
        let target_language = entry.target_language.clone().or(self.target_language.clone());
        let clean = entry.clean.clone().unwrap_or_else(|| self.clean.clone());
        let clean = match entry.is_generated() {
            true => {
                CleanConfig { unicode: clean.unicode, spaces: clean.spaces, ..CleanConfig::off() }
            }
            false => clean.with_languages(source_language.as_deref(), target_language.as_deref()),
        };
        let format = entry.format.or(self.format);
        CorpusConfig { source_language, target_language, clean: Some(clean), format, ..entry }
    }

    fn train_files(&self) -> [&Option<PathBuf>; 3] {
        [&self.train_source, &self.train_target, &self.train_file]
    }

    fn valid_files(&self) -> [&Option<PathBuf>; 3] {
        [&self.valid_source, &self.valid_target, &self.valid_file]
    }
}
