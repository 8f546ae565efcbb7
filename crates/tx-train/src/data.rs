//! Data of a run: the corpus pipeline with memory or a prepared folder as sink.

use std::{borrow::Borrow, path::Path, sync::atomic::AtomicBool};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tx_data::{
    CleaningReport, DataError, PairStore,
    encode::{EncodedPair, encode_corpus},
    near_duplicate::Overlap,
    pipeline::{Control, MemoryCorpus, Progress},
    prepared::{Preparation, PreparedCorpus, prepare},
    source::named::CorpusCache,
};
use tx_model::VocabSizes;
use tx_text::{SentencePair, TokenizerKind, Tokenizers, hash::hexadecimal};

use crate::{
    config::TrainConfig,
    corpus::{self, ValidationLimits},
    error::TrainError,
    interrupt::check,
};

/// Encoded training and validation data of a run.
pub(crate) struct RunData {
    pub training_pairs: usize,
    /// The validation pairs in use: the first `validation.sentences`.
    pub validation: Vec<SentencePair>,
    /// Number of all validation pairs, used or not.
    pub validation_pairs: usize,
    pub fingerprints: Fingerprints,
    /// Counts of each cleaning step; `None` for generated pairs.
    pub cleaning: Option<CleaningReport>,
    pub tokenizers: Tokenizers,
    /// Vocabulary sizes of the tokenizers.
    pub vocab: VocabSizes,
    pub train: PairStore,
    pub valid: Vec<EncodedPair>,
}

/// Fingerprints of the data of a run: numbers of pairs, and hashes of their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    /// Fingerprint of the training pairs.
    pub training: String,
    /// Fingerprint of all validation pairs, used or not.
    pub validation: String,
    /// Fingerprint of the training pairs and the validation pairs in use, as in older checkpoints.
    pub together: String,
}

impl Fingerprints {
    /// Hashes pairs in memory; the first `used` validation pairs are in use.
    fn of<P: Borrow<SentencePair>>(
        training: impl Iterator<Item = Result<P, DataError>>,
        validation: &[SentencePair],
        used: usize,
    ) -> Result<Self, DataError> {
        let mut trained = Sha256::new();
        let mut training_pairs = 0;
        for pair in training {
            hash_pair(&mut trained, pair?.borrow());
            training_pairs += 1;
        }
        let hash_on = |mut hasher: Sha256, pairs: &[SentencePair]| {
            pairs.iter().for_each(|pair| hash_pair(&mut hasher, pair));
            hexadecimal(&hasher.finalize())
        };
        let used = &validation[..used.min(validation.len())];
        let together = hash_on(trained.clone(), used);
        let (all, hash) = (validation.len(), hash_on(Sha256::new(), validation));
        Ok(Self {
            training: format!(
                "{training_pairs} pairs, SHA-256 {}",
                hexadecimal(&trained.finalize())
            ),
            validation: format!("{all} pairs, SHA-256 {hash}"),
            together: format!("{training_pairs} + {} pairs, SHA-256 {together}", used.len()),
        })
    }
}

fn hash_pair(hasher: &mut Sha256, pair: &SentencePair) {
    for side in [&pair.source, &pair.target] {
        hasher.update(side);
        hasher.update([0]);
    }
}

impl RunData {
    /// Reads, cleans and encodes the data of `config`, and reports each stage to `say`. Tokenizers
    /// are learned unless they are `known`, as those of a resumed run are. Named corpora are read
    /// from `cache`. `stop` ends the work with [`TrainError::Interrupted`] once it is set.
    pub(crate) fn new(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        cache: Option<&CorpusCache>,
        stop: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        match &config.data.prepared {
            Some(folder) => Self::on_disk(config, known, folder, cache, stop, say),
            None => Self::in_memory(config, known, cache, stop, say),
        }
    }

    fn in_memory(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        cache: Option<&CorpusCache>,
        stop: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        let is_generated = config.data.is_generated();
        let control = Control {
            stop,
            progress: &|progress| {
                if let Progress::Cleaned(report) = progress
                    && !is_generated
                {
                    say(&report.to_string());
                }
            },
        };
        let corpus = corpus::load(config, cache, &control)?;
        say_overlap(corpus.overlap, corpus.overlap_dropped, say);
        check(stop)?;
        let tokenizers = match known {
            Some(tokenizers) => tokenizers,
            None => corpus.learn_tokenizers(&config.tokenizer, &control)?,
        };
        let vocab = vocabulary(config, &tokenizers, say);
        let mut encoded = MemoryCorpus::default();
        let (max_len, long) = (config.max_len(), config.data.long);
        let report = corpus.encode(&tokenizers, max_len, long, &mut encoded, &control)?;
        say(&format!("training: {report}"));

        let MemoryCorpus { training, mut validation } = encoded;
        validation.truncate(config.data.valid_pairs.unwrap_or(usize::MAX));
        let used = config.validation.sentences;
        let fingerprints = Fingerprints::of(corpus.training()?, &validation, used)?;
        let validation_pairs = validation.len();
        validation.truncate(used);
        let valid = encode_validation(config, &tokenizers, &validation, validation_pairs, say)?;
        Ok(Self {
            training_pairs: corpus.training_pairs(),
            fingerprints,
            validation_pairs,
            validation,
            cleaning: (!is_generated).then_some(corpus.cleaning),
            tokenizers,
            vocab,
            train: training.into(),
            valid,
        })
    }

    fn on_disk(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        folder: &Path,
        cache: Option<&CorpusCache>,
        stop: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        let corpus = prepared(config, folder, cache, stop, say)?;
        let PreparedCorpus { record, tokenizers, .. } = &corpus;
        if let Some(known) = known {
            // The weights of the run belong to the ids of its own tokenizers.
            let same = known.source.to_json()? == tokenizers.source.to_json()?
                && known.target.to_json()? == tokenizers.target.to_json()?;
            if !same {
                let what = "its tokenizers differ from those of the resumed run".into();
                return Err(DataError::StalePrepared { path: folder.into(), what }.into());
            }
        }
        if !config.data.is_generated() {
            say_overlap(record.overlap, record.overlap_left_out, say);
        }
        let vocab = vocabulary(config, tokenizers, say);
        say(&format!("training: {}", record.encoding));
        let most = config.data.valid_pairs.unwrap_or(usize::MAX);
        let validation_pairs = record.validation_pairs.min(most);
        let validation = corpus.validation(most.min(config.validation.sentences))?;
        let valid = encode_validation(config, tokenizers, &validation, validation_pairs, say)?;
        Ok(Self {
            training_pairs: record.training_pairs,
            validation,
            validation_pairs,
            fingerprints: Fingerprints {
                training: corpus.training_fingerprint(),
                validation: corpus.validation_fingerprint(),
                together: corpus.fingerprint(),
            },
            cleaning: (!config.data.is_generated()).then(|| record.cleaning.clone()),
            tokenizers: tokenizers.clone(),
            vocab,
            train: corpus.training()?.into(),
            valid,
        })
    }
}

/// Opens the prepared corpus in `folder`, or prepares it if there is none. Named corpora are read
/// from `cache`.
///
/// # Errors
///
/// If the data cannot be read or written, the existing corpus is stale or damaged, or `stop` is
/// set.
pub fn prepared(
    config: &TrainConfig,
    folder: &Path,
    cache: Option<&CorpusCache>,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, TrainError> {
    let mut inputs = corpus::input_files(&config.data);
    inputs.extend(config.tokenizer.files().map(Path::to_path_buf));
    let settings = settings(config);
    if PreparedCorpus::exists(folder) {
        let corpus = PreparedCorpus::open(folder)?;
        corpus.check(&settings, &inputs)?;
        say(&format!("prepared data: {} (reused)", folder.display()));
        say(&corpus.record.cleaning.to_string());
        return Ok(corpus);
    }
    let limits = ValidationLimits {
        given: config.data.valid_pairs.unwrap_or(usize::MAX),
        of_training: config.validation.sentences,
    };
    let (pairs, corpus) = corpus::open(config, cache, limits)?;
    let preparation = Preparation {
        corpus,
        tokenizer: &config.tokenizer,
        max_len: config.max_len(),
        long: config.data.long,
        inputs,
        settings,
        stop,
    };
    let corpus = prepare(pairs, preparation, folder, say)?;
    say(&format!("prepared data: {} (created)", folder.display()));
    Ok(corpus)
}

/// All settings that affect the content of a prepared corpus, besides the input files.
fn settings(config: &TrainConfig) -> Value {
    let mut data = serde_json::to_value(&config.data).unwrap_or_default();
    if let Some(table) = data.as_object_mut() {
        // Paths do not matter, because the content of the files is compared.
        for key in [
            "prepared",
            "train_source",
            "train_target",
            "train_file",
            "valid_source",
            "valid_target",
            "valid_file",
        ] {
            table.remove(key);
        }
        table.insert("max_len".into(), config.max_len().into());
    }
    let mut tokenizer = serde_json::to_value(&config.tokenizer).unwrap_or_default();
    if let Some(table) = tokenizer.as_object_mut() {
        for key in ["file", "source_file", "target_file"] {
            table.remove(key);
        }
    }
    serde_json::json!({ "data": data, "tokenizer": tokenizer, "train": { "seed": config.train.seed } })
}

fn say_overlap(overlap: Option<Overlap>, left_out: usize, say: &dyn Fn(&str)) {
    let Some(Overlap { validation, near, first_near: Some(first), .. }) = overlap else { return };
    let consequence = match left_out {
        0 => "; `data.overlap = \"drop\"` leaves these out of training".into(),
        pairs => format!("; {pairs} training pairs dropped for that reason"),
    };
    say(&format!(
        "validation: {near} of {validation} pairs have a near duplicate in training (first: \
         {first}){consequence}"
    ));
}

fn vocabulary(config: &TrainConfig, tokenizers: &Tokenizers, say: &dyn Fn(&str)) -> VocabSizes {
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    say(&format!("vocabulary: {} source and {} target tokens", vocab.source, vocab.target));
    let asked = config.tokenizer.vocab_size;
    let learned = config.tokenizer.kind == TokenizerKind::Bpe && !config.tokenizer.is_imported();
    if learned && vocab.source.max(vocab.target) < asked {
        say(&format!(
            "note: `tokenizer.vocab_size` = {asked} is more than the training text yields"
        ));
    }
    vocab
}

/// Encodes the validation pairs in use, the first of `available`.
fn encode_validation(
    config: &TrainConfig,
    tokenizers: &Tokenizers,
    pairs: &[SentencePair],
    available: usize,
    say: &dyn Fn(&str),
) -> Result<Vec<EncodedPair>, TrainError> {
    let (max_len, long) = (config.max_len(), config.data.long);
    let (valid, report) = encode_corpus(pairs, tokenizers, max_len, long, "the validation data")?;
    if pairs.len() < available {
        let used = pairs.len();
        say(&format!(
            "validation: only the first {used} of {available} pairs are used \
             (`validation.sentences` = {used})"
        ));
    }
    say(&format!("validation: {report}"));
    Ok(valid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashes computed with `printf 'a\0b\0' | sha256sum`.
    #[test]
    fn fingerprints_distinguish_training_and_validation_pairs() {
        let pair = |source: &str| SentencePair::new(source, "b");
        let of = |train: &str, valid: &[&str], used| {
            let valid: Vec<_> = valid.iter().map(|source| pair(source)).collect();
            Fingerprints::of([Ok(pair(train))].into_iter(), &valid, used).unwrap()
        };
        let one = of("a", &["c", "d"], 9);
        assert_eq!(
            one.training,
            "1 pairs, SHA-256 8fb20ef63ced4145fc2e983ffe597d1dcff39154c3bf21f0fa9dde6a0c50fdc9"
        );
        // The number of pairs in use changes the fingerprint of older checkpoints, and no other.
        let fewer = of("a", &["c", "d"], 1);
        assert_eq!((&one.training, &one.validation), (&fewer.training, &fewer.validation));
        assert_eq!(
            fewer.together,
            "1 + 1 pairs, SHA-256 f12a522924d59320033764a92e5f43905696b2d821fec24278515c2d77a81195"
        );
        let other = of("a", &["c", "e"], 1);
        assert_eq!(one.training, other.training);
        assert_ne!(one.validation, other.validation);
        assert_ne!(of("x", &["c"], 1).training, one.training);
    }
}
