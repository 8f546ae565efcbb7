//! Sentence pairs of a run: the corpus pipeline with memory or a prepared folder as sink.

use std::{
    borrow::Cow,
    num::NonZero,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    thread,
};

use serde_json::Value;
use tx_data::{
    DataError, MixturePart, PairStore,
    encode::{EncodedPair, encode_corpus},
    pipeline::{CleanCorpus, Control, MemoryCorpus, Progress},
    prepared::{Preparation, PreparedCorpus, ShardInputs, Verification, prepare, prepare_shards},
    source::named::CorpusCache,
};
use tx_infer::TaskKind;
use tx_text::{
    Lowercase, SentencePair, Tokenizer, TokenizerConfig, Tokenizers, special::SpecialTokens,
};

use super::{
    DataAccess, DataSummary, Known, ReplaySummary,
    fingerprints::Fingerprints,
    language_tokens::{LanguageCodes, LanguageTokens},
    print_annotations, print_overlap,
};
use crate::{
    config::{BleuTokenizer, TrainConfig},
    corpus::{self, ValidationLimits},
    error::TrainError,
};

/// Number of pairs that the vocabulary of several shards is learned from by default.
const VOCABULARY_PAIRS: usize = 1_000_000;

/// Encoded training and validation pairs of a run.
pub(crate) struct PairData {
    pub summary: DataSummary,
    pub train: Vec<MixturePart>,
    /// Validation sets, at least one.
    pub sets: Vec<ValidationSet>,
}

/// Validation pairs in use: the first `validation.sentences`.
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

impl PairData {
    /// Reads, cleans and encodes the data of `config`. Tokenizers are learned unless they are
    /// `known`.
    pub(crate) fn new(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        if config.data.has_lists() {
            return Self::mixed(config, known, access);
        }
        let codes = language_codes(config, &known)?;
        let tokens = language_tokens(&known, codes.as_ref());
        match &config.data.prepared {
            Some(folder) => Self::on_disk(config, known, folder, access),
            None => Self::in_memory(config, known, (codes, tokens), access),
        }?
        .with_replay(config, tokens, access)
    }

    /// Adds the pairs that `config` replays, encoded with the same tokenizers.
    fn with_replay(
        mut self,
        config: &TrainConfig,
        tokens: LanguageTokens,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let Some(replay) = &config.data.replay else { return Ok(self) };
        let print = |progress: Progress<'_>| {
            if let Progress::Cleaned(report) = progress {
                (access.print)(&format!("replay: {report}"));
            }
        };
        let control = Control { stop: access.stop, progress: &print };
        let Some(corpus) = corpus::load_replayed(config, &control)? else { return Ok(self) };
        let mut encoded = MemoryCorpus::default();
        let (max_len, long) = (config.max_len().saturating_sub(tokens.room()), config.data.long);
        let tokenizers = &self.summary.tokenizers;
        let report = corpus.encode(tokenizers, max_len, long, &mut encoded, &control)?;
        encoded.training.iter_mut().for_each(|pair| tokens.add_to(pair));
        let found = Fingerprints::of_pairs(corpus.training()?, &[], 0)?;
        let fingerprint = &mut self.summary.fingerprints.training;
        *fingerprint = format!("{fingerprint}; replay: {}", found.training);

        let training = self.train.iter().map(|part| part.per_epoch).sum();
        let available = encoded.training.len();
        let count = replay.pairs_per_epoch(training);
        (access.print)(&format!(
            "replay: {report}; each epoch has {count} of them and {training} others ({:.1} %)",
            100.0 * count as f64 / (count + training) as f64
        ));
        self.summary.replay = Some(ReplaySummary { pairs: available, per_epoch: count });
        self.train.push(MixturePart::new(encoded.training.into(), count));
        Ok(self)
    }

    fn in_memory(
        config: &TrainConfig,
        known: Known,
        (codes, tokens): (Option<LanguageCodes>, LanguageTokens),
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let print = access.print_cleaning(config);
        let control = Control { stop: access.stop, progress: &print };
        access.print_columns(config);
        let corpus = corpus::load(config, access.cache, &control)?;
        print_overlap(corpus.overlap, corpus.overlap_dropped, "pairs", access.print);
        print_annotations(&corpus, access.print);
        access.check()?;
        let languages = match &known {
            Known::Both(_, languages) => languages.clone(),
            Known::Source(_) | Known::None => None,
        };
        let tokenizers = match known {
            Known::Both(tokenizers, _) => tokenizers,
            Known::Source(source) if config.tokenizer.joint => source.into(),
            Known::Source(source) => {
                Tokenizers { source, target: target_tokenizer(&corpus, &config.tokenizer)? }
            }
            Known::None => corpus.learn_tokenizers(&config.tokenizer, &control)?,
        };
        let tokenizers = tokenizers.with_steps_of(corpus.normalization);
        access.print_vocabulary(config, &tokenizers);
        let mut encoded = MemoryCorpus::default();
        let (max_len, long) = (config.max_len().saturating_sub(tokens.room()), config.data.long);
        let report = corpus.encode(&tokenizers, max_len, long, &mut encoded, &control)?;
        (access.print)(&format!("training: {report}"));

        let MemoryCorpus { mut training, mut validation } = encoded;
        training.iter_mut().for_each(|pair| tokens.add_to(pair));
        validation.truncate(config.data.valid_pairs.unwrap_or(usize::MAX));
        let used = config.validation.sentences;
        let fingerprints = Fingerprints::of_pairs(corpus.training()?, &validation, used)?
            .with_annotations(corpus.annotations());
        let available = validation.len();
        validation.truncate(used);
        let valid = encode_validation(config, &tokenizers, tokens, &validation, available, access)?;
        let tokenize = access.bleu_tokenizer(config, codes.as_ref(), &validation);
        Ok(Self {
            summary: DataSummary {
                unit: "pairs",
                training: corpus.training_pairs(),
                validation: available,
                used: validation.len(),
                fingerprints,
                cleaning: (!config.data.is_generated()).then_some(corpus.cleaning),
                tokenizers,
                labels: Vec::new(),
                replay: None,
                corpora: Vec::new(),
                languages,
            },
            train: all(training),
            sets: vec![ValidationSet {
                name: String::new(),
                encoded: valid,
                pairs: validation,
                languages: codes,
                tokenize,
            }],
        })
    }

    fn on_disk(
        config: &TrainConfig,
        known: Known,
        folder: &Path,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError> {
        let shards = ShardOptions { verification: access.verification, ..ShardOptions::default() };
        access.print_columns(config);
        let corpus = prepared(config, folder, access.cache, shards, access.stop, access.print)?;
        let PreparedCorpus { record, tokenizers, .. } = &corpus;
        // The weights belong to the ids of the known tokenizers.
        let is_known = match &known {
            Known::None => true,
            Known::Source(source) => source.has_ids_of(&tokenizers.source)?,
            Known::Both(known, _) => {
                known.source.has_ids_of(&tokenizers.source)?
                    && known.target.has_ids_of(&tokenizers.target)?
            }
        };
        if !is_known {
            let what = "its tokenizers differ from those of the weights to start from".into();
            return Err(DataError::StalePrepared { path: folder.into(), what }.into());
        }
        if !config.data.is_generated() {
            print_overlap(record.overlap, record.overlap_left_out, "pairs", access.print);
        }
        access.print_vocabulary(config, tokenizers);
        (access.print)(&format!("training: {}", record.encoding));
        let most = config.data.valid_pairs.unwrap_or(usize::MAX);
        let available = record.validation_pairs.min(most);
        let validation = corpus.validation(most.min(config.validation.sentences))?;
        let tokens = LanguageTokens::default();
        let valid = encode_validation(config, tokenizers, tokens, &validation, available, access)?;
        let tokenize = access.bleu_tokenizer(config, None, &validation);
        Ok(Self {
            summary: DataSummary {
                unit: "pairs",
                training: record.training_pairs,
                validation: available,
                used: validation.len(),
                fingerprints: Fingerprints {
                    training: corpus.training_fingerprint(),
                    validation: corpus.validation_fingerprint(),
                    together: corpus.fingerprint(),
                },
                cleaning: (!config.data.is_generated()).then(|| record.cleaning.clone()),
                tokenizers: tokenizers.clone(),
                labels: Vec::new(),
                replay: None,
                corpora: Vec::new(),
                languages: None,
            },
            train: all(corpus.training()?),
            sets: vec![ValidationSet {
                name: String::new(),
                encoded: valid,
                pairs: validation,
                languages: None,
                tokenize,
            }],
        })
    }
}

/// Returns the only corpus of a run, all of whose pairs are in each epoch.
fn all(pairs: impl Into<PairStore>) -> Vec<MixturePart> {
    let pairs = pairs.into();
    let count = pairs.len();
    vec![MixturePart::new(pairs, count)]
}

/// Languages of the pairs, if the model is multilingual.
fn language_codes(
    config: &TrainConfig,
    known: &Known,
) -> Result<Option<LanguageCodes>, TrainError> {
    let Known::Both(_, Some(languages)) = known else { return Ok(None) };
    LanguageCodes::choose(languages, &config.data)
        .map(Some)
        .map_err(|problems| TrainError::Problems { problems })
}

/// Tokens that a multilingual model adds to each pair.
fn language_tokens(known: &Known, codes: Option<&LanguageCodes>) -> LanguageTokens {
    match (known, codes) {
        (Known::Both(tokenizers, Some(languages)), Some(codes)) => {
            LanguageTokens::new(languages, codes, tokenizers)
        }
        _ => LanguageTokens::default(),
    }
}

/// Learns the tokenizer of the target alone.
fn target_tokenizer(
    corpus: &CleanCorpus<Vec<SentencePair>>,
    config: &TokenizerConfig,
) -> Result<Tokenizer, TrainError> {
    // With one text, every value but `none` lowercases it.
    let lowercase = match config.lowercase {
        Lowercase::Both => Lowercase::Both,
        Lowercase::None | Lowercase::Source => Lowercase::None,
    };
    let config = TokenizerConfig { lowercase, ..config.clone() };
    let targets =
        corpus.training()?.map(|pair| pair.map(|pair| Cow::Owned(pair.into_owned().target)));
    let special = SpecialTokens::Standard;
    Ok(Tokenizer::train_on_stream::<_, DataError>(&config, special, targets)?)
}

/// Shards of a prepared corpus that this process verifies and prepares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardOptions {
    /// Shards that are verified when the corpus is opened.
    pub verification: Verification,
    /// Number of shards that are prepared at the same time.
    pub threads: usize,
}

impl Default for ShardOptions {
    /// Verifies all shards, and prepares one on each core.
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        Self { verification: Verification::ALL, threads }
    }
}

/// Opens the prepared corpus in `folder`, or prepares it if there is none. If the training files are
/// patterns, each file becomes a shard. Named corpora are read from `cache`.
///
/// # Errors
///
/// If the task is not translation, the data cannot be read or written, the existing corpus is stale
/// or damaged, or `stop` is set.
pub fn prepared(
    config: &TrainConfig,
    folder: &Path,
    cache: Option<&CorpusCache>,
    shards: ShardOptions,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, TrainError> {
    if config.task != TaskKind::Translate {
        let problem = format!(
            "prepared data has sentence pairs, and `task` = \"{}\" has none: train on the files \
             themselves",
            config.task
        );
        return Err(TrainError::Problems { problems: vec![problem] });
    }
    if config.from.is_some() {
        let problem = "[data] `prepared` is not available with `from`, whose tokenizers it lacks";
        return Err(TrainError::Problems { problems: vec![problem.into()] });
    }
    let tokenizers = config.tokenizer.files().map(Path::to_path_buf);
    let settings = settings(config);
    if PreparedCorpus::exists(folder) {
        let corpus = PreparedCorpus::open_verifying(folder, shards.verification)?;
        let inputs = match corpus::has_shards(&config.data) {
            true => shard_files(config, &corpus, tokenizers),
            false => corpus::input_files(&config.data).into_iter().chain(tokenizers).collect(),
        };
        corpus.check(&settings, &inputs)?;
        say(&format!("prepared data: {} (reused)", folder.display()));
        say(&corpus.record.cleaning.to_string());
        return Ok(corpus);
    }
    let limits = ValidationLimits {
        given: config.data.valid_pairs.unwrap_or(usize::MAX),
        of_training: config.validation.sentences,
    };
    let preparation = |corpus, inputs| Preparation {
        corpus,
        tokenizer: &config.tokenizer,
        max_len: config.max_len(),
        long: config.data.long,
        inputs,
        settings: settings.clone(),
        stop,
    };
    let corpus = if corpus::has_shards(&config.data) {
        let options = corpus::shard_options(config, limits)?;
        let shared = corpus::validation_files(&config.data).into_iter().chain(tokenizers).collect();
        let files = corpus::shards(&config.data)?;
        let inputs = ShardInputs {
            files: &files,
            open: &|shard| corpus::open_shard(config, &files[shard]),
            sample: config.data.vocabulary_pairs.unwrap_or(VOCABULARY_PAIRS),
            threads: shards.threads,
        };
        let corpus = prepare_shards(inputs, &preparation(options, shared), folder, say)?;
        say(&corpus.record.cleaning.to_string());
        corpus
    } else {
        let (pairs, options) = corpus::open(config, cache, limits)?;
        let inputs = corpus::input_files(&config.data).into_iter().chain(tokenizers).collect();
        prepare(pairs, preparation(options, inputs), folder, say)?
    };
    say(&format!("prepared data: {} (created)", folder.display()));
    Ok(corpus)
}

/// Returns the input files of a corpus of several shards in the order of its record; those of the
/// record if the training files no longer exist.
fn shard_files(
    config: &TrainConfig,
    corpus: &PreparedCorpus,
    tokenizers: impl Iterator<Item = PathBuf>,
) -> Vec<PathBuf> {
    match corpus::shards(&config.data) {
        Ok(files) => {
            let shared = corpus::validation_files(&config.data).into_iter().chain(tokenizers);
            files.into_iter().flatten().chain(shared).collect()
        }
        Err(_) => corpus.record.inputs.iter().map(|input| input.path.clone()).collect(),
    }
}

/// All settings that affect the content of a prepared corpus, besides the input files.
fn settings(config: &TrainConfig) -> Value {
    let mut data = serde_json::to_value(&config.data).unwrap_or_default();
    if let Some(table) = data.as_object_mut() {
        // Paths do not matter, because the content of the files is compared.
        for key in [
            "prepared",
            // Replayed pairs are not part of a prepared corpus.
            "replay",
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
    let tokenizer = tokenizer_settings(config);
    serde_json::json!({ "data": data, "tokenizer": tokenizer, "train": { "seed": config.train.seed } })
}

/// Settings of the tokenizers of a prepared corpus, besides their files.
pub(super) fn tokenizer_settings(config: &TrainConfig) -> Value {
    let mut tokenizer = serde_json::to_value(&config.tokenizer).unwrap_or_default();
    if let Some(table) = tokenizer.as_object_mut() {
        for key in ["file", "source_file", "target_file"] {
            table.remove(key);
        }
    }
    tokenizer
}

/// Encodes the validation pairs in use, the first of `available`.
fn encode_validation(
    config: &TrainConfig,
    tokenizers: &Tokenizers,
    tokens: LanguageTokens,
    pairs: &[SentencePair],
    available: usize,
    access: &DataAccess<'_>,
) -> Result<Vec<EncodedPair>, TrainError> {
    let (max_len, long) = (config.max_len().saturating_sub(tokens.room()), config.data.long);
    let (mut valid, report) =
        encode_corpus(pairs, tokenizers, max_len, long, "the validation data")?;
    valid.iter_mut().for_each(|pair| tokens.add_to(pair));
    access.print_used(pairs.len(), available, "pairs");
    (access.print)(&format!("validation: {report}"));
    Ok(valid)
}
