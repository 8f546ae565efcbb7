//! Facts about the data of a run, for records and provenance.

use std::sync::Arc;

use tx_data::CleaningReport;
use tx_infer::{Lexicon, bundle::Languages};
use tx_model::VocabSizes;
use tx_text::Tokenizers;

use super::fingerprints::Fingerprints;

/// Facts about the data of a run.
pub(crate) struct DataSummary {
    /// Name of several examples: `pairs`, `texts` or `documents`.
    pub unit: &'static str,
    /// Number of training examples.
    pub training: usize,
    /// Numbers of validation examples.
    pub validation: ValidationCounts,
    pub fingerprints: Fingerprints,
    /// Tokenizers of both sides; the same on both for tasks with one text.
    pub tokenizers: Tokenizers,
    /// Counts of each cleaning step; `None` for generated data, documents and lists of corpora.
    pub cleaning: Option<CleaningReport>,
    /// Labels of a classifier; empty for other tasks.
    pub labels: Vec<String>,
    /// Replayed pairs, if any.
    pub replay: Option<ReplaySummary>,
    /// Corpora of a list; empty if there is none.
    pub corpora: Vec<CorpusSummary>,
    /// Languages of a multilingual model.
    pub languages: Option<Languages>,
    /// Words of the training text.
    pub lexicon: Option<Arc<Lexicon>>,
}

/// Numbers of validation examples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ValidationCounts {
    /// Used or not.
    pub available: usize,
    /// In use.
    pub used: usize,
}

/// Numbers of replayed pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplaySummary {
    /// Pairs to choose from.
    pub pairs: usize,
    /// Pairs in each epoch.
    pub per_epoch: usize,
}

/// Facts about a training corpus of a list, for provenance.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct CorpusSummary {
    pub name: String,
    /// Pairs to choose from.
    pub pairs: usize,
    /// Pairs in each epoch in which the corpus is used.
    pub pairs_per_epoch: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    pub cleaning: CleaningReport,
}

impl DataSummary {
    /// Creates the summary of what every task has.
    pub fn new(
        unit: &'static str,
        training: usize,
        validation: ValidationCounts,
        fingerprints: Fingerprints,
        tokenizers: Tokenizers,
    ) -> Self {
        Self {
            unit,
            training,
            validation,
            fingerprints,
            tokenizers,
            cleaning: None,
            labels: Vec::new(),
            replay: None,
            corpora: Vec::new(),
            languages: None,
            lexicon: None,
        }
    }

    /// Returns the vocabulary sizes of the tokenizers.
    pub fn vocab(&self) -> VocabSizes {
        let Tokenizers { source, target } = &self.tokenizers;
        VocabSizes { source: source.vocab_size(), target: target.vocab_size() }
    }
}
