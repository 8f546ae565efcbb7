//! The data of a run on its way from text to ids: in memory, or from a prepared corpus on disk.

use std::{path::Path, sync::atomic::AtomicBool};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tx_data::{
    CleaningReport, DataError, PairStore, SentencePair, Split, TokenizerKind, Tokenizers,
    encode::{EncodedPair, Encoder, EncodingReport},
    hash::hexadecimal,
    near_duplicate::Overlap,
    prepared::{Preparation, PreparedCorpus, ValidationPairs, prepare},
};
use tx_model::VocabSizes;

use crate::{
    config::{OverlapPolicy, TrainConfig},
    corpus::{self, Corpus},
    error::TrainError,
    interrupt::check,
};

/// What a run learns from and is checked on.
pub(crate) struct RunData {
    pub training_pairs: usize,
    /// The validation pairs in use: the first `validation.sentences`.
    pub validation: Vec<SentencePair>,
    /// All validation pairs, used or not.
    pub validation_pairs: usize,
    pub fingerprints: Fingerprints,
    pub cleaning: Option<CleaningReport>,
    pub tokenizers: Tokenizers,
    /// Ids of the tokenizers.
    pub vocab: VocabSizes,
    pub train: PairStore,
    pub valid: Vec<EncodedPair>,
}

/// Fingerprints of the data of a run: numbers of pairs, and hashes of their text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    pub training: String,
    /// Of all validation pairs, used or not.
    pub validation: String,
    /// Of training and validation pairs in use together, as older checkpoints have it.
    pub together: String,
}

impl Fingerprints {
    /// Of pairs in memory, of which the first `used` are validated on.
    fn of(parts: &Split, used: usize) -> Self {
        let hash_on = |mut hasher: Sha256, pairs: &[SentencePair]| {
            for pair in pairs {
                for side in [&pair.source, &pair.target] {
                    hasher.update(side);
                    hasher.update([0]);
                }
            }
            hasher
        };
        let hash = |hasher: Sha256| hexadecimal(&hasher.finalize());
        let (train, valid) = (&parts.train, &parts.validation);
        let used = &valid[..used.min(valid.len())];
        let trained = hash_on(Sha256::new(), train);
        let together = hash(hash_on(trained.clone(), used));
        Self {
            training: format!("{} pairs, SHA-256 {}", train.len(), hash(trained)),
            validation: format!(
                "{} pairs, SHA-256 {}",
                valid.len(),
                hash(hash_on(Sha256::new(), valid))
            ),
            together: format!("{} + {} pairs, SHA-256 {together}", train.len(), used.len()),
        }
    }
}

impl RunData {
    /// Reads, cleans and encodes the data of `config`, and reports each stage to `say`. Tokenizers
    /// are trained unless they are `known`, as those of a resumed run are. `stop` ends the work with
    /// [`TrainError::Interrupted`] once it is set.
    pub(crate) fn new(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        stop: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        match &config.data.prepared {
            Some(folder) => Self::on_disk(config, known, folder, stop, say),
            None => Self::in_memory(config, known, stop, say),
        }
    }

    fn in_memory(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        stop: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        let Corpus { mut parts, cleaning, overlap, overlap_left_out } = corpus::load(config, stop)?;
        if let Some(cleaning) = &cleaning {
            say(&cleaning.to_string());
        }
        say_overlap(overlap, overlap_left_out, say);
        check(stop)?;
        let fingerprints = Fingerprints::of(&parts, config.validation.sentences);
        let validation_pairs = parts.validation.len();
        parts.validation.truncate(config.validation.sentences);
        let tokenizers = match known {
            Some(tokenizers) => tokenizers,
            None => Tokenizers::train_on_stream(&config.tokenizer, || {
                Ok(parts.train.iter().map(|pair| {
                    check(stop).map_err(|_| DataError::Interrupted)?;
                    Ok(pair.clone())
                }))
            })?,
        };
        check(stop)?;
        let vocab = vocabulary(config, &tokenizers, say);
        let (train, report) = encode(config, &tokenizers, &parts.train, "the training data", stop)?;
        say(&format!("training: {report}"));
        let valid =
            encode_validation(config, &tokenizers, &parts.validation, validation_pairs, stop, say)?;
        Ok(Self {
            training_pairs: parts.train.len(),
            fingerprints,
            validation_pairs,
            validation: parts.validation,
            cleaning,
            tokenizers,
            vocab,
            train: train.into(),
            valid,
        })
    }

    fn on_disk(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        folder: &Path,
        stop: &AtomicBool,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        let corpus = prepared(config, folder, stop, say)?;
        let PreparedCorpus { record, tokenizers, .. } = &corpus;
        if let Some(known) = known {
            // Other ids than those that the weights know.
            let same = known.source.to_json()? == tokenizers.source.to_json()?
                && known.target.to_json()? == tokenizers.target.to_json()?;
            if !same {
                let what = "its tokenizers are not those of the run that is to go on".into();
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
        let valid =
            encode_validation(config, tokenizers, &validation, validation_pairs, stop, say)?;
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

/// Opens the prepared corpus in `folder`, or makes it if there is none.
///
/// # Errors
///
/// When the data cannot be read or written, the corpus there is stale or damaged, or `stop` is set.
pub fn prepared(
    config: &TrainConfig,
    folder: &Path,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, TrainError> {
    let data = &config.data;
    let mut inputs = corpus::input_files(data);
    inputs.extend(config.tokenizer.files().map(Path::to_path_buf));
    let settings = settings(config);
    if PreparedCorpus::exists(folder) {
        let corpus = PreparedCorpus::open(folder)?;
        corpus.check(&settings, &inputs)?;
        say(&format!("prepared data: {} (as it was found)", folder.display()));
        say(&corpus.record.cleaning.to_string());
        return Ok(corpus);
    }
    let validation = match corpus::given_validation(config)? {
        Some(pairs) => ValidationPairs::Given(pairs),
        None if data.valid_share == 0.0 => ValidationPairs::Training(config.validation.sentences),
        None => ValidationPairs::SetAside {
            share: data.valid_share,
            by: data.split_by,
            seed: config.train.seed,
        },
    };
    let how = Preparation {
        clean: data.cleaning(),
        validation,
        drop_overlap: data.overlap == OverlapPolicy::Drop,
        tokenizer: &config.tokenizer,
        max_len: config.max_len(),
        long: data.long,
        inputs,
        settings,
        stop,
    };
    let corpus = prepare(corpus::training_stream(config)?, &how, folder, say)?;
    say(&format!("prepared data: {} (made now)", folder.display()));
    Ok(corpus)
}

/// All settings that decide what is in a prepared corpus, besides the content of files.
fn settings(config: &TrainConfig) -> Value {
    let mut data = serde_json::to_value(&config.data).unwrap_or_default();
    if let Some(table) = data.as_object_mut() {
        // Where files are does not matter: what is in them is compared.
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
        pairs => format!("; {pairs} training pairs left out for that"),
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
        say(&format!("note: `tokenizer.vocab_size` = {asked} is more than the text gives"));
    }
    vocab
}

fn encode(
    config: &TrainConfig,
    tokenizers: &Tokenizers,
    pairs: &[SentencePair],
    what: &str,
    stop: &AtomicBool,
) -> Result<(Vec<EncodedPair>, EncodingReport), TrainError> {
    let mut encoded = Vec::with_capacity(pairs.len());
    let mut encoder = Encoder::new(tokenizers, config.max_len(), config.data.long);
    encoder.encode(pairs, |pair| {
        check(stop)?;
        encoded.push(pair);
        Ok::<_, TrainError>(())
    })?;
    Ok((encoded, encoder.finish(what)?))
}

/// Encodes the validation pairs in use, the first of `available`.
fn encode_validation(
    config: &TrainConfig,
    tokenizers: &Tokenizers,
    pairs: &[SentencePair],
    available: usize,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<Vec<EncodedPair>, TrainError> {
    let (valid, report) = encode(config, tokenizers, pairs, "the validation data", stop)?;
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

    /// `printf 'a\0b\0' | sha256sum` and the like.
    #[test]
    fn fingerprints_tell_training_from_validation_pairs() {
        let pair = |source: &str| SentencePair::new(source, "b");
        let parts = |train: &str, valid: &[&str]| Split {
            train: vec![pair(train)],
            validation: valid.iter().map(|source| pair(source)).collect(),
        };
        let one = Fingerprints::of(&parts("a", &["c", "d"]), 9);
        assert_eq!(
            one.training,
            "1 pairs, SHA-256 8fb20ef63ced4145fc2e983ffe597d1dcff39154c3bf21f0fa9dde6a0c50fdc9"
        );
        // Another number of pairs in use changes what older checkpoints have, and nothing else.
        let fewer = Fingerprints::of(&parts("a", &["c", "d"]), 1);
        assert_eq!((&one.training, &one.validation), (&fewer.training, &fewer.validation));
        assert_eq!(
            fewer.together,
            "1 + 1 pairs, SHA-256 f12a522924d59320033764a92e5f43905696b2d821fec24278515c2d77a81195"
        );
        let other = Fingerprints::of(&parts("a", &["c", "e"]), 1);
        assert_eq!(one.training, other.training);
        assert_ne!(one.validation, other.validation);
        assert_ne!(Fingerprints::of(&parts("x", &["c"]), 1).training, one.training);
    }
}
