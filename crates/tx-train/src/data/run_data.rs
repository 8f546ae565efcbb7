//! Sentence pairs of a run: corpora, tokenizers, ids, proportions and validation sets.

use std::sync::Arc;

use tx_data::Mixture;

use super::{
    DataAccess, Known,
    encode::{encode, mix},
    given::given,
    lexicon::lexicon,
    open::open,
    summary::{CorpusSummary, DataSummary, ReplaySummary},
    validation::{self, ValidationSet},
    vocabulary::vocabulary,
};
use crate::{config::TrainConfig, error::TrainError};

/// Encoded training and validation pairs of a run.
pub(crate) struct PairData {
    pub summary: DataSummary,
    pub train: Mixture,
    /// Validation sets, at least one.
    pub sets: Vec<ValidationSet>,
}

impl PairData {
    /// Reads, cleans and encodes the corpora of `config`, one or several. Tokenizers are learned
    /// unless they are `known`.
    ///
    /// # Errors
    ///
    /// If the data cannot be read or tokenized, or a part has no pair.
    pub(crate) fn new(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let given = given(config, access)?;
        let corpora = open(config, &given, access)?;
        let vocabulary = vocabulary(config, known, &corpora, access)?;
        let mut encoded = encode(config, &corpora, &vocabulary, access)?;
        let parts = mix(config, &corpora, &encoded, access);
        let sets = validation::select(config, given, &corpora, &mut encoded)?;
        let fingerprints = validation::fingerprints(config, &corpora, &sets)?;
        let counts = validation::counts(config, &corpora, &sets);
        access.print_used(counts, "pairs");
        let sets = validation::encode(config, sets, &vocabulary, access)?;

        let weighted = corpora.iter().filter(|corpus| corpus.entry.fraction.is_none());
        let training = weighted.map(|corpus| corpus.training_pairs()).sum();
        let tokenizers = vocabulary.tokenizers;
        let mut summary = DataSummary::new("pairs", training, counts, fingerprints, tokenizers);
        summary.lexicon = lexicon(config, &corpora, &summary.tokenizers, access)?.map(Arc::new);
        summary.languages = vocabulary.languages;
        let per_part = || corpora.iter().zip(&parts);
        if config.data.has_lists() {
            let facts = per_part().map(|(corpus, part)| CorpusSummary {
                name: corpus.entry.name(),
                pairs: part.pairs.len(),
                pairs_per_epoch: part.per_epoch,
                tag: corpus.entry.tag.clone(),
                cleaning: corpus.cleaning().clone(),
            });
            summary.corpora = facts.collect();
        } else if !config.data.is_generated() {
            summary.cleaning = corpora.first().map(|corpus| corpus.cleaning().clone());
        }
        let replayed = per_part().next_back().filter(|_| config.data.replay.is_some());
        summary.replay = replayed
            .map(|(_, part)| ReplaySummary { pairs: part.pairs.len(), per_epoch: part.per_epoch });
        Ok(Self { summary, train: Mixture::new(parts), sets })
    }
}
