//! The data of a run on its way from text to ids: in memory, or from a prepared corpus on disk.

use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};
use tx_data::{
    CleaningReport, DataError, PairStore, SentencePair, Split, TokenizerKind, Tokenizers,
    encode::EncodedPair,
    encode_corpus,
    hash::hexadecimal,
    near_duplicate::Overlap,
    prepared::{Preparation, PreparedCorpus, ValidationPairs, prepare},
};
use tx_model::VocabSizes;

use crate::{
    config::{OverlapPolicy, TrainConfig},
    corpus::{self, Corpus},
    error::TrainError,
};

/// What a run learns from and is checked on.
pub(crate) struct RunData {
    pub training_pairs: usize,
    pub validation: Vec<SentencePair>,
    /// Tells this data from other data.
    pub fingerprint: String,
    pub cleaning: Option<CleaningReport>,
    pub tokenizers: Tokenizers,
    /// Ids of the tokenizers.
    pub vocab: VocabSizes,
    pub train: PairStore,
    pub valid: Vec<EncodedPair>,
}

impl RunData {
    /// Gets the data that `config` asks for, and says what came of it.
    /// Tokenizers that are known, of a run that goes on, are not learned anew.
    pub(crate) fn new(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        match &config.data.prepared {
            Some(folder) => Self::on_disk(config, known, folder, say),
            None => Self::in_memory(config, known, say),
        }
    }

    fn in_memory(
        config: &TrainConfig,
        known: Option<Tokenizers>,
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        let Corpus { mut parts, cleaning, overlap, overlap_left_out } = corpus::load(config)?;
        if let Some(cleaning) = &cleaning {
            say(&cleaning.to_string());
        }
        say_overlap(overlap, overlap_left_out, say);
        parts.validation.truncate(config.validation.sentences);
        let tokenizers = match known {
            Some(tokenizers) => tokenizers,
            None => Tokenizers::train(&config.tokenizer, &parts.train)?,
        };
        let vocab = vocabulary(config, &tokenizers, say);
        let (max_len, long) = (config.max_len(), config.data.long);
        let (train, report) =
            encode_corpus(&parts.train, &tokenizers, max_len, long, "the training data")?;
        say(&format!("training: {report}"));
        let valid = encode_validation(config, &tokenizers, &parts.validation, say)?;
        Ok(Self {
            training_pairs: parts.train.len(),
            fingerprint: fingerprint(&parts),
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
        say: &dyn Fn(&str),
    ) -> Result<Self, TrainError> {
        let corpus = prepared(config, folder, say)?;
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
        let most = config.validation.sentences.min(config.data.valid_pairs.unwrap_or(usize::MAX));
        let validation = corpus.validation(most)?;
        let valid = encode_validation(config, tokenizers, &validation, say)?;
        Ok(Self {
            training_pairs: record.training_pairs,
            validation,
            fingerprint: corpus.fingerprint(),
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
/// When the data cannot be read or written, or the corpus there is stale or damaged.
pub fn prepared(
    config: &TrainConfig,
    folder: &Path,
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
            "train_tsv",
            "train_file",
            "valid_source",
            "valid_target",
            "valid_tsv",
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

fn encode_validation(
    config: &TrainConfig,
    tokenizers: &Tokenizers,
    pairs: &[SentencePair],
    say: &dyn Fn(&str),
) -> Result<Vec<EncodedPair>, TrainError> {
    let (max_len, long) = (config.max_len(), config.data.long);
    let (valid, report) = encode_corpus(pairs, tokenizers, max_len, long, "the validation data")?;
    say(&format!("validation: {report}"));
    Ok(valid)
}

/// Tells one corpus from another: its size, and the SHA-256 of its text.
fn fingerprint(parts: &Split) -> String {
    let mut hasher = Sha256::new();
    for pair in parts.train.iter().chain(&parts.validation) {
        for side in [&pair.source, &pair.target] {
            hasher.update(side);
            hasher.update([0]);
        }
    }
    let hash = hexadecimal(&hasher.finalize());
    format!("{} + {} pairs, SHA-256 {hash}", parts.train.len(), parts.validation.len())
}
