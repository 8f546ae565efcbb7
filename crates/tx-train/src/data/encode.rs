//! Training corpora of a run as ids, and their proportions in an epoch.

use tx_data::{
    AddedIds, EncodingReport, MixturePart, PairStore,
    pipeline::{Control, MemoryCorpus},
    prepared::PreparedCorpus,
};
use tx_text::{SentencePair, Tokenizer, Tokenizers};

use super::{
    DataAccess,
    language_tokens::language_tokens,
    open::{Opened, OpenedPairs},
    vocabulary::{Vocabulary, with_special_tokens},
};
use crate::{
    config::{CorpusConfig, TrainConfig},
    error::TrainError,
};

/// Encoded pairs of a training corpus.
pub(super) struct Encoded {
    pub pairs: PairStore,
    /// Tokens of languages and tag, which are added when a pair is read.
    added: AddedIds,
    pub report: EncodingReport,
    /// Text of the validation pairs, given or set aside; empty for a prepared corpus.
    pub validation: Vec<SentencePair>,
}

/// Encodes the training corpora with the tokenizers of a run.
///
/// # Errors
///
/// If a text cannot be tokenized, a corpus has no pair that is short enough, or a prepared corpus
/// does not fit the tokenizers.
pub(super) fn encode(
    config: &TrainConfig,
    corpora: &[Opened],
    vocabulary: &Vocabulary,
    access: &DataAccess<'_>,
) -> Result<Vec<Encoded>, TrainError> {
    let encode = |Opened { entry, label, pairs }: &Opened| {
        let added = added_ids(entry, vocabulary)?;
        let encoded = match pairs {
            OpenedPairs::Text(corpus) => {
                let mut encoded = MemoryCorpus::default();
                let control = Control { stop: access.stop, progress: &|_| {} };
                let max_len = config.max_len().saturating_sub(added.most());
                let (tokenizers, long) = (&vocabulary.tokenizers, config.data.long);
                let report = corpus.encode(tokenizers, max_len, long, &mut encoded, &control)?;
                let MemoryCorpus { training, validation } = encoded;
                Encoded { pairs: training.into(), added, report, validation }
            }
            OpenedPairs::Prepared(corpus) => {
                check_prepared(config, &entry.name(), corpus, vocabulary, added.most())?;
                let (pairs, report) = (corpus.training()?.into(), corpus.record.encoding);
                Encoded { pairs, added, report, validation: Vec::new() }
            }
        };
        if entry.fraction.is_none() {
            (access.print)(&format!("training: {label}{}", encoded.report));
        }
        Ok(encoded)
    };
    corpora.iter().map(encode).collect()
}

/// Returns the tokens that start the sides of each pair of `entry`: languages, then its tag.
fn added_ids(entry: &CorpusConfig, vocabulary: &Vocabulary) -> Result<AddedIds, TrainError> {
    let Vocabulary { tokenizers, languages } = vocabulary;
    let mut added = language_tokens(entry, languages.as_ref(), tokenizers)?;
    if let Some(tag) = &entry.tag {
        let id = tokenizers.source.special_id(tag).ok_or_else(|| {
            let problem =
                format!("[data] `tag` = \"{tag}\" is no special token of the bundle in `from`");
            TrainError::Problems { problems: vec![problem] }
        })?;
        added.source.push(id);
    }
    Ok(added)
}

/// Rejects a prepared corpus whose ids are not those of the tokenizers, or whose pairs are too long
/// for the model with `room` more tokens.
fn check_prepared(
    config: &TrainConfig,
    name: &str,
    corpus: &PreparedCorpus,
    Vocabulary { tokenizers, languages }: &Vocabulary,
    room: usize,
) -> Result<(), TrainError> {
    // Tokenizers that were imported from those of another corpus can divide unusual text differently,
    // but their ids are the same.
    let is_same = |one: &Tokenizer, other: &Tokenizer| {
        let size = one.vocab_size();
        size == other.vocab_size() && (0..size as u32).all(|id| one.token(id) == other.token(id))
    };
    let Tokenizers { source, target } =
        with_special_tokens(config, corpus.tokenizers.clone(), languages.as_ref())?;
    let mut problems = Vec::new();
    if !is_same(&source, &tokenizers.source) || !is_same(&target, &tokenizers.target) {
        problems.push(format!(
            "[data] `train`: the vocabulary of the prepared corpus \"{name}\" differs from that of the \
             other prepared corpora or of the weights to start from"
        ));
    }
    // Longer sides were dropped or truncated.
    let prepared_max = corpus.record.settings["data"]["max_len"].as_u64();
    let prepared_max = prepared_max.map_or(usize::MAX, |max_len| max_len as usize);
    let EncodingReport { longest_source, longest_target, .. } = corpus.record.encoding;
    let longest = longest_source.max(longest_target).min(prepared_max).saturating_add(room);
    let limit = config.model.max_len;
    if longest > limit {
        problems.push(format!(
            "[data] `train`: the prepared corpus \"{name}\" has sides of up to {longest} tokens with \
             its tag and languages, which exceeds `model.max_len` = {limit}"
        ));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(TrainError::Problems { problems }),
    }
}

/// Returns the parts of a mixture of the corpora, and prints their proportions if there are several
/// or the configuration has a list.
pub(super) fn mix(
    config: &TrainConfig,
    corpora: &[Opened],
    encoded: &[Encoded],
    access: &DataAccess<'_>,
) -> Vec<MixturePart> {
    let entries = corpora.iter().map(|corpus| &corpus.entry);
    let sized: Vec<(&CorpusConfig, usize)> =
        entries.zip(encoded).map(|(entry, encoded)| (entry, encoded.pairs.len())).collect();
    let counts = pairs_per_epoch(&sized, config.data.temperature);
    let all: usize = counts.iter().sum();
    let mut parts = Vec::new();
    for ((corpus, encoded), count) in corpora.iter().zip(encoded).zip(counts) {
        let Opened { entry, label, .. } = corpus;
        let percent = 100.0 * count as f64 / all.max(1) as f64;
        if entry.fraction.is_some() {
            (access.print)(&format!(
                "{label}{}; each epoch has {count} of them and {} others ({percent:.1} %)",
                encoded.report,
                all - count
            ));
        } else if config.data.has_lists() {
            let pairs = encoded.pairs.len();
            (access.print)(&format!(
                "mixture: {label}{count} of {pairs} pairs in each epoch ({percent:.1} %)"
            ));
        }
        parts.push(MixturePart {
            first_epoch: entry.first_epoch,
            last_epoch: entry.last_epoch,
            added: encoded.added.clone(),
            ..MixturePart::new(encoded.pairs.clone(), count)
        });
    }
    parts
}

/// Returns the number of pairs of each corpus in an epoch, and at least one. Of `Σ weight · pairs`
/// pairs, a corpus has the fraction `(weight · pairs)^(1 / temperature)`; one with a `fraction` has
/// it beside these, `fraction / (1 - Σ fraction)` of them.
fn pairs_per_epoch(corpora: &[(&CorpusConfig, usize)], temperature: f64) -> Vec<usize> {
    let weight = |&(entry, pairs): &(&CorpusConfig, usize)| match entry.fraction {
        Some(_) => 0.0,
        None => pairs as f64 * entry.weight,
    };
    let weights: Vec<f64> = corpora.iter().map(weight).collect();
    let counts = proportions(&weights, temperature);
    let weighted = corpora.iter().zip(&counts).filter(|((entry, _), _)| entry.fraction.is_none());
    let others: usize = weighted.map(|(_, count)| count).sum();
    let fractions: f64 = corpora.iter().filter_map(|(entry, _)| entry.fraction).sum();
    let count = |((entry, _), count): (&(&CorpusConfig, usize), usize)| match entry.fraction {
        Some(fraction) => ((others as f64 * fraction / (1.0 - fractions)).round() as usize).max(1),
        None => count,
    };
    corpora.iter().zip(counts).map(count).collect()
}

/// Returns the number of pairs of each corpus in an epoch: of `Σ weights` pairs, the fraction
/// `weight^(1 / temperature)` of each, and at least one.
fn proportions(weights: &[f64], temperature: f64) -> Vec<usize> {
    let scaled: Vec<f64> = weights.iter().map(|weight| weight.powf(1.0 / temperature)).collect();
    let (pairs, all): (f64, f64) = (weights.iter().sum(), scaled.iter().sum());
    scaled.iter().map(|scaled| ((pairs * scaled / all).round() as usize).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With temperature 1, the counts are the weights. With temperature 2, corpora of 900 and 100
    /// pairs have the fractions √900 : √100 = 3 : 1 of 1,000 pairs.
    #[test]
    fn proportions_follow_weights_and_temperature() {
        assert_eq!(proportions(&[900.0, 100.0], 1.0), [900, 100]);
        assert_eq!(proportions(&[900.0, 100.0], 2.0), [750, 250]);
        assert_eq!(proportions(&[29_000.0 * 0.5, 0.2], 1.0), [14_500, 1]);
        // Near equal parts at a high temperature.
        let [first, second] = proportions(&[900.0, 100.0], 1_000.0)[..] else { panic!() };
        assert!(first - second <= 2, "{first} {second}");
    }

    /// 0.2 of 125 pairs are 25, beside 100. Two fractions of 0.25 are half of 200 pairs.
    #[test]
    fn the_fraction_is_that_of_all_pairs_of_an_epoch() {
        let entry = |fraction| CorpusConfig { fraction, ..CorpusConfig::default() };
        let all = entry(None);
        let of = |fraction| {
            let replayed = entry(Some(fraction));
            pairs_per_epoch(&[(&all, 100), (&replayed, 7)], 1.0)
        };
        assert_eq!(of(0.2), [100, 25]);
        assert_eq!(of(0.5), [100, 100]);
        assert_eq!(of(0.9), [100, 900]);
        assert_eq!(of(0.001), [100, 1]);
        let quarter = entry(Some(0.25));
        let corpora = [(&all, 60), (&quarter, 7), (&all, 40), (&quarter, 7)];
        assert_eq!(pairs_per_epoch(&corpora, 1.0), [60, 50, 40, 50]);
    }

    /// The only corpus of a run has each of its pairs once, at any size and temperature.
    #[test]
    fn one_corpus_has_each_pair_once() {
        for pairs in [1, 3, 10, 999_999, 123_456_789, 4_000_000_000] {
            for temperature in [1.0, 3.7] {
                let entry = CorpusConfig::default();
                assert_eq!(pairs_per_epoch(&[(&entry, pairs)], temperature), [pairs]);
            }
        }
    }
}
