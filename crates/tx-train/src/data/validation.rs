//! Validation sets of a run: given, held out, or those of a prepared corpus.

use tx_data::{DataError, EncodedPair, encode_corpus, subset};
use tx_infer::bundle::Languages;
use tx_text::SentencePair;

use super::{
    DataAccess,
    encode::Encoded,
    fingerprints::Fingerprints,
    given::{ALL, ValidationText},
    language_tokens::{codes, language_tokens},
    open::{Opened, OpenedPairs},
    summary::ValidationCounts,
    vocabulary::Vocabulary,
};
use crate::{
    config::{BleuTokenizer, CorpusConfig, LanguageCodes, TrainConfig},
    error::TrainError,
};

/// Validation pairs in use: `validation.sentences` of all lengths.
pub(crate) struct ValidationSet {
    /// Name; empty if it is the only set and has none.
    pub name: String,
    pub encoded: Vec<EncodedPair>,
    pub pairs: Vec<SentencePair>,
    /// Languages of a multilingual model.
    pub languages: Option<LanguageCodes>,
    /// Tokenizer of BLEU.
    pub tokenize: BleuTokenizer,
}

/// Returns the validation sets: those `given`, or that of the only corpus.
///
/// # Errors
///
/// If the validation pairs of a prepared corpus cannot be read.
pub(super) fn select(
    config: &TrainConfig,
    given: Vec<ValidationText>,
    corpora: &[Opened],
    encoded: &mut [Encoded],
) -> Result<Vec<ValidationText>, TrainError> {
    let most = config.data.valid_pairs.unwrap_or(usize::MAX);
    let mut sets = given;
    if let (true, [corpus, ..], [encoded, ..]) = (sets.is_empty(), corpora, encoded) {
        let entry = CorpusConfig { name: None, ..corpus.entry.clone() };
        let pairs = match &corpus.pairs {
            OpenedPairs::Text(_) => std::mem::take(&mut encoded.validation),
            OpenedPairs::Prepared(corpus) => corpus.validation(most)?,
        };
        sets.push(ValidationText { name: String::new(), entry, pairs });
    }
    if config.data.valid.is_empty() {
        sets.iter_mut().for_each(|set| set.pairs.truncate(most));
    }
    Ok(sets)
}

/// Returns the numbers of validation pairs, of which each set uses `validation.sentences`.
pub(super) fn counts(
    config: &TrainConfig,
    corpora: &[Opened],
    sets: &[ValidationText],
) -> ValidationCounts {
    let most = config.validation.sentences;
    let used = sets.iter().map(|set| set.pairs.len().min(most)).sum();
    let available = match (&config.data.prepared, corpora) {
        (Some(_), [Opened { pairs: OpenedPairs::Prepared(corpus), .. }, ..]) => {
            corpus.record.validation_pairs.min(config.data.valid_pairs.unwrap_or(usize::MAX))
        }
        _ => sets.iter().map(|set| set.pairs.len()).sum(),
    };
    ValidationCounts { available, used }
}

/// Returns the fingerprints of the corpora and of the validation sets, of which pairs that are not
/// in use are part, too.
///
/// # Errors
///
/// If a text cannot be read.
pub(super) fn fingerprints(
    config: &TrainConfig,
    corpora: &[Opened],
    sets: &[ValidationText],
) -> Result<Fingerprints, TrainError> {
    let mut training = Vec::new();
    let (mut together, mut validation) = (String::new(), Vec::new());
    for (number, corpus) in corpora.iter().enumerate() {
        // Older checkpoints have the fingerprint of one corpus and one set together.
        let of_set = sets.first().filter(|_| number == 0).map_or(&[][..], |set| &set.pairs);
        let found = corpus.fingerprints(of_set, config.validation.sentences)?;
        let replayed = if corpus.entry.fraction.is_some() { &*corpus.label } else { "" };
        training.push(format!("{replayed}{}", found.training));
        if number == 0 {
            together = found.together;
            if config.data.prepared.is_some() {
                validation.push(found.validation);
            }
        }
    }
    if config.data.prepared.is_none() {
        for ValidationText { name, pairs, .. } in sets {
            let none = std::iter::empty::<Result<SentencePair, DataError>>();
            let found = Fingerprints::of_pairs(none, pairs, 0)?.validation;
            validation.push(if name.is_empty() { found } else { format!("{name}: {found}") });
        }
    }
    let (training, validation) = (training.join("; "), validation.join("; "));
    Ok(Fingerprints { training, validation, together })
}

/// Returns the pairs of a validation set in use: a subset that represents all.
pub(super) fn in_use(config: &TrainConfig, pairs: Vec<SentencePair>) -> Vec<SentencePair> {
    let (count, seed) = (config.validation.sentences, config.train.seed);
    subset::stratified(pairs, count, seed, |pair| pair.source.len() + pair.target.len())
}

/// Encodes the pairs in use of each set.
///
/// # Errors
///
/// If a text cannot be tokenized, or a set has no pair that is short enough.
pub(super) fn encode(
    config: &TrainConfig,
    sets: Vec<ValidationText>,
    vocabulary: &Vocabulary,
    access: &DataAccess<'_>,
) -> Result<Vec<ValidationSet>, TrainError> {
    let Vocabulary { tokenizers, languages } = vocabulary;
    let encode = |ValidationText { name, entry, pairs }: ValidationText| {
        let pairs = in_use(config, pairs);
        let added = language_tokens(&entry, languages.as_ref(), tokenizers)?;
        let what = if name.is_empty() { ALL } else { &name };
        let max_len = config.max_len().saturating_sub(added.most());
        let (mut encoded, report) =
            encode_corpus(&pairs, tokenizers, max_len, config.data.long, what)?;
        encoded.iter_mut().for_each(|pair| added.add_to(pair));
        let label = if name.is_empty() { String::new() } else { format!(" {name}:") };
        (access.print)(&format!("validation:{label} {report}"));
        let of_set = |all: &Languages| codes(&entry, all);
        let languages = languages.as_ref().map(of_set).transpose()?;
        let target =
            languages.as_ref().map(|codes| &codes.target).or(entry.target_language.as_ref());
        let tokenize = access.bleu_tokenizer(config, target.map(String::as_str), &pairs);
        Ok(ValidationSet { name, encoded, pairs, languages, tokenize })
    };
    sets.into_iter().map(encode).collect()
}
