//! Labeled texts of a run.

use tx_data::{
    EncodedPair, Labels, PairStore, encode_labeled,
    labels::balanced_weights,
    pipeline::{Control, MemoryCorpus},
};
use tx_text::SentencePair;

use super::{
    DataAccess, DataSummary, Known, ValidationCounts, fingerprints::Fingerprints, open::load,
    validation::in_use,
};
use crate::{
    config::{ClassWeights, NamedWeights, TrainConfig},
    error::TrainError,
};

/// Encoded training and validation texts of a run, with their classes.
pub(crate) struct LabeledData {
    pub summary: DataSummary,
    pub train: PairStore,
    pub valid: Vec<EncodedPair>,
    /// The validation texts in use, with their labels.
    pub validation: Vec<SentencePair>,
    /// Weight of each class in the training loss; empty if all are 1.
    pub class_weights: Vec<f32>,
}

impl LabeledData {
    /// Reads, cleans and encodes the data of `config`. The tokenizer is learned unless it is
    /// `known`.
    ///
    /// # Errors
    ///
    /// If the data cannot be read, there are fewer than two labels, or a validation text has a label
    /// that does not occur in training.
    pub(crate) fn new(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let corpus = load(config, access)?;
        let control = Control { stop: access.stop, progress: &|_| {} };
        let labels = corpus.labels(&control)?;
        let tokenizers = match known.of_text() {
            Some(tokenizer) => tokenizer.into(),
            None => corpus.learn_tokenizers(&config.tokenizer, &control)?,
        };
        let tokenizers = tokenizers.with_steps_of(corpus.normalization);
        access.print_vocabulary(config, &tokenizers);
        let mut encoded = MemoryCorpus::default();
        let (max_len, long) = (config.max_len(), config.data.long);
        let tokenizer = &tokenizers.source;
        let report =
            corpus.encode_labeled(tokenizer, &labels, max_len, long, &mut encoded, &control)?;
        (access.print)(&format!("training: {report}"));

        let MemoryCorpus { training, mut validation } = encoded;
        validation.truncate(config.data.valid_pairs.unwrap_or(usize::MAX));
        let most = config.validation.sentences;
        let fingerprints = Fingerprints::of_pairs(corpus.training()?, &validation, most)?;
        let available = validation.len();
        let validation = in_use(config, validation);
        let counts_of_validation = ValidationCounts { available, used: validation.len() };
        let what = "the validation data";
        let (valid, report) = encode_labeled(&validation, tokenizer, &labels, max_len, long, what)?;
        access.print_used(counts_of_validation, "texts");
        (access.print)(&format!("validation: {report}"));

        let counts = labels.counts(training.iter().filter_map(|text| text.target.first().copied()));
        let class_weights = class_weights(config, &labels, &counts)?;
        (access.print)(&described(&labels, &counts));
        let (pairs, used) = (corpus.training_pairs(), counts_of_validation);
        let mut summary = DataSummary::new("texts", pairs, used, fingerprints, tokenizers);
        summary.cleaning = (!config.data.is_generated()).then_some(corpus.cleaning);
        summary.labels = labels.into();
        Ok(Self { summary, train: training.into(), valid, validation, class_weights })
    }
}

/// Labels with their numbers of training texts.
fn described(labels: &Labels, counts: &[usize]) -> String {
    let counted: Vec<String> =
        labels.names().iter().zip(counts).map(|(name, count)| format!("{name} {count}")).collect();
    format!("labels: {}", counted.join(", "))
}

/// Returns the weight of each class in the training loss; empty if all are 1.
///
/// # Errors
///
/// If a weight is given for a label that does not occur.
fn class_weights(
    config: &TrainConfig,
    labels: &Labels,
    counts: &[usize],
) -> Result<Vec<f32>, TrainError> {
    let given = match &config.classification.class_weights {
        ClassWeights::Named(NamedWeights::None) => return Ok(Vec::new()),
        ClassWeights::Named(NamedWeights::Balanced) => return Ok(balanced_weights(counts)),
        ClassWeights::ByLabel(weights) => weights,
    };
    let mut weights = vec![1.0; labels.classes()];
    for (label, &weight) in given {
        let Some(class) = labels.class(label) else {
            let names = labels.names().join("`, `");
            let problem = format!(
                "[classification] `class_weights.{label}`: no training text has this label; the \
                 labels are `{names}`"
            );
            return Err(TrainError::Problems { problems: vec![problem] });
        };
        weights[class] = weight;
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts 3 and 1: 4 / (2 · 3) and 4 / (2 · 1).
    #[test]
    fn weights_follow_the_classes() {
        let labels = Labels::new(["spam", "ham"], "x").unwrap();
        let mut config = TrainConfig::default();
        assert!(class_weights(&config, &labels, &[3, 1]).unwrap().is_empty());
        config.classification.class_weights = ClassWeights::Named(NamedWeights::Balanced);
        assert_eq!(class_weights(&config, &labels, &[3, 1]).unwrap(), [4.0 / 6.0, 2.0]);
        config.classification.class_weights =
            ClassWeights::ByLabel([("spam".to_owned(), 2.5)].into());
        assert_eq!(class_weights(&config, &labels, &[3, 1]).unwrap(), [1.0, 2.5]);
        config.classification.class_weights =
            ClassWeights::ByLabel([("eggs".to_owned(), 2.5)].into());
        let error = class_weights(&config, &labels, &[3, 1]).unwrap_err().to_string();
        assert!(error.contains("eggs") && error.contains("`ham`, `spam`"), "{error}");
    }
}
