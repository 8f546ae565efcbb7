//! Prepared corpora of a run: opened, or created from the files of its only corpus.

use std::{
    fs,
    iter::empty,
    num::NonZero,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
    thread,
};

use serde_json::Value;
use tx_data::{
    DataError,
    pipeline::ValidationPairs,
    prepared::{
        Preparation, PreparedCorpus, ShardInputs, ShardPart, prepare, prepare_part, prepare_shards,
    },
    source::{
        Pairs,
        named::CorpusCache,
        pattern,
        read::{self, ReadOptions},
    },
};
use tx_infer::TaskKind;
use tx_text::SentencePair;

use super::{DataAccess, given::with_context, print_overlap};
use crate::{
    config::{CorpusConfig, TrainConfig},
    corpus,
    error::TrainError,
    recording::run_lock::RunLock,
};

/// Number of pairs that the vocabulary of several shards is learned from by default.
const VOCABULARY_PAIRS: usize = 1_000_000;

/// Opens a prepared corpus of a run, which is created if it is the only one and does not exist.
/// `label` starts the messages.
///
/// # Errors
///
/// If it cannot be opened, is stale, or does not exist and is one of several.
pub(super) fn open(
    config: &TrainConfig,
    folder: &Path,
    label: &str,
    access: &DataAccess<'_>,
) -> Result<PreparedCorpus, TrainError> {
    if config.data.prepared.is_some() {
        let shards = ShardOptions { part: access.part, ..ShardOptions::default() };
        let corpus = prepared(config, folder, access.cache, shards, access.stop, access.print)?;
        if !config.data.is_generated() {
            let record = &corpus.record;
            print_overlap(record.overlap, record.overlap_left_out, "pairs", access.print);
        }
        return Ok(corpus);
    }
    if !PreparedCorpus::exists(folder) {
        let problem = format!(
            "[data] `train`: `prepared` = \"{}\" is no prepared corpus: write it with `train data \
             prepare`",
            folder.display()
        );
        return Err(TrainError::Problems { problems: vec![problem] });
    }
    let corpus = PreparedCorpus::open_verifying(folder, access.part)?;
    (access.print)(&format!("{label}{}", corpus.record.cleaning));
    Ok(corpus)
}

/// Shards of a prepared corpus that this process works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardOptions {
    /// Shards that [`prepared`] verifies, and that [`prepare_shard_part`] prepares.
    pub part: ShardPart,
    /// Number of shards that are prepared at the same time.
    pub threads: usize,
}

impl Default for ShardOptions {
    /// Works on all shards, and prepares one on each core.
    fn default() -> Self {
        let threads = thread::available_parallelism().map_or(1, NonZero::get);
        Self { part: ShardPart::ALL, threads }
    }
}

/// Opens the prepared corpus in `folder`, or prepares it if there is none. If the training files
/// are patterns, each file becomes a shard. Named corpora are read from `cache`.
///
/// # Errors
///
/// If the task is not translation, there are several corpora, the data cannot be read or written,
/// the existing corpus is stale or damaged, another process prepares its shards, or `stop` is set.
pub fn prepared(
    config: &TrainConfig,
    folder: &Path,
    cache: Option<&CorpusCache>,
    shards: ShardOptions,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<PreparedCorpus, TrainError> {
    let data = &config.data;
    let entry = only_entry(config)?;
    let settings = settings(config);
    if PreparedCorpus::exists(folder) {
        let corpus = PreparedCorpus::open_verifying(folder, shards.part)?;
        let own = match has_shards(&entry).then(|| shard_files(&entry)) {
            Some(Ok(files)) => Some(files.concat()),
            // The training files no longer exist.
            Some(Err(_)) => None,
            None => Some(entry.files().filter_map(|path| read::file_of(path)).collect()),
        };
        let inputs = match own {
            Some(own) => [own, shared_files(config)].concat(),
            None => corpus.record.inputs.iter().map(|input| input.path.clone()).collect(),
        };
        corpus.check(&settings, &inputs)?;
        say(&format!("prepared data: {} (reused)", folder.display()));
        say(&corpus.record.cleaning.to_string());
        return Ok(corpus);
    }
    let corpus = if has_shards(&entry) {
        fs::create_dir_all(folder).map_err(TrainError::writing(folder))?;
        let _lock = RunLock::acquire(folder)?;
        let corpus = with_shards(config, &entry, cache, shards, stop, |inputs, preparation| {
            prepare_shards(inputs, preparation, folder, say)
        })?;
        say(&corpus.record.cleaning.to_string());
        corpus
    } else {
        let validation = match given(config, cache)? {
            None if data.valid_share == 0.0 => {
                ValidationPairs::Training(config.validation.sentences)
            }
            given => corpus::validation_or(config, given.unwrap_or_default()),
        };
        let pairs = corpus::training(config, &entry, cache)?;
        let own = entry.files().filter_map(|path| read::file_of(path)).collect();
        let inputs = [own, shared_files(config)].concat();
        prepare(pairs, preparation(config, &entry, validation, inputs, stop), folder, say)?
    };
    say(&format!("prepared data: {} (created)", folder.display()));
    Ok(corpus)
}

/// Prepares a part of the shards of a corpus in `folder`: those of `shards.part`. When all parts are
/// complete, [`prepared`] completes the corpus.
///
/// # Errors
///
/// Same as [`prepared`]; if the training files are not patterns.
pub fn prepare_shard_part(
    config: &TrainConfig,
    folder: &Path,
    cache: Option<&CorpusCache>,
    shards: ShardOptions,
    stop: &AtomicBool,
    say: &dyn Fn(&str),
) -> Result<(), TrainError> {
    let entry = only_entry(config)?;
    if !has_shards(&entry) {
        return Err(problem("parts of the shards need a pattern of training files"));
    }
    with_shards(config, &entry, cache, shards, stop, |inputs, preparation| {
        prepare_part(inputs, shards.part, preparation, folder, say)
    })
}

/// Calls `work` with the shards of a corpus and their preparation.
fn with_shards<T>(
    config: &TrainConfig,
    entry: &CorpusConfig,
    cache: Option<&CorpusCache>,
    shards: ShardOptions,
    stop: &AtomicBool,
    work: impl FnOnce(ShardInputs<'_>, &Preparation<'_>) -> Result<T, DataError>,
) -> Result<T, TrainError> {
    let Some(given) = given(config, cache)? else {
        return Err(problem(
            "a pattern of prepared files needs `valid_file`, or `valid_source` and `valid_target`",
        ));
    };
    if entry.pairs.is_some() {
        return Err(problem("`train_pairs` is not available with a pattern of prepared files"));
    }
    let (files, options) = (shard_files(entry)?, corpus::options(config, entry));
    let inputs = ShardInputs {
        files: &files,
        open: &|shard| open_shard(&files[shard], &options),
        sample: config.data.vocabulary_pairs.unwrap_or(VOCABULARY_PAIRS),
        threads: shards.threads,
    };
    let validation = corpus::validation_or(config, given);
    Ok(work(inputs, &preparation(config, entry, validation, shared_files(config), stop))?)
}

fn preparation<'a>(
    config: &'a TrainConfig,
    entry: &CorpusConfig,
    validation: ValidationPairs,
    inputs: Vec<PathBuf>,
    stop: &'a AtomicBool,
) -> Preparation<'a> {
    Preparation {
        corpus: corpus::corpus_options(config, entry, validation),
        tokenizer: &config.tokenizer,
        max_len: config.max_len(),
        long: config.data.long,
        inputs,
        settings: settings(config),
        stop,
    }
}

/// Returns the corpus of a configuration for prepared data.
///
/// # Errors
///
/// If there are several, the task is not translation, or the tokenizers are those of another model.
fn only_entry(config: &TrainConfig) -> Result<CorpusConfig, TrainError> {
    let entry = match &config.data.corpora()[..] {
        [entry, ..] if !config.data.has_lists() => entry.clone(),
        _ => return Err(problem("`prepared` is not available with lists of corpora")),
    };
    if config.task != TaskKind::Translate {
        let problem = format!(
            "prepared data has sentence pairs, and `task` = \"{}\" has none: train on the files \
             themselves",
            config.task
        );
        return Err(TrainError::Problems { problems: vec![problem] });
    }
    if config.from.is_some() {
        return Err(problem("`prepared` is not available with `from`, whose tokenizers it lacks"));
    }
    Ok(entry)
}

fn problem(text: &str) -> TrainError {
    TrainError::Problems { problems: vec![format!("[data] {text}")] }
}

/// Reads the validation pairs that are given, if any, as many as the configuration limits.
fn given(
    config: &TrainConfig,
    cache: Option<&CorpusCache>,
) -> Result<Option<Vec<SentencePair>>, TrainError> {
    let Some(set) = config.data.validation_sets().into_iter().next() else { return Ok(None) };
    let Some(pairs) = corpus::validation(config, &set, cache)? else { return Ok(None) };
    let most = config.data.valid_pairs.unwrap_or(usize::MAX);
    let pairs = pairs.take(most).collect::<Result<_, _>>()?;
    Ok(Some(with_context(config, &set, pairs)))
}

/// Returns `true` if the training files are patterns, each file of which is a shard of a prepared
/// corpus.
fn has_shards(entry: &CorpusConfig) -> bool {
    entry
        .files()
        .any(|path| read::file_of(path).as_ref() == Some(path) && pattern::is_pattern(path))
}

/// Returns the files of each shard.
///
/// # Errors
///
/// If a pattern names no file, or two patterns name different numbers of files.
fn shard_files(entry: &CorpusConfig) -> Result<Vec<Vec<PathBuf>>, DataError> {
    match (&entry.source, &entry.target, &entry.file) {
        (Some(source), Some(target), _) => {
            Ok(corpus::parallel_files(source, target)?.into_iter().map(Vec::from).collect())
        }
        (_, _, Some(file)) => {
            Ok(pattern::files(file)?.into_iter().map(|file| vec![file]).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// Opens the files of a shard.
fn open_shard(files: &[PathBuf], options: &ReadOptions) -> Result<Pairs, DataError> {
    match files {
        [source, target] => read::parallel(source, target, options),
        [file, ..] => read::pairs(file, options),
        [] => Ok(Box::new(empty())),
    }
}

/// Returns the validation files, without standard input, and the files of imported tokenizers.
fn shared_files(config: &TrainConfig) -> Vec<PathBuf> {
    let sets = config.data.validation_sets();
    let validation =
        sets.iter().flat_map(CorpusConfig::files).filter_map(|path| read::file_of(path));
    validation.chain(config.tokenizer.files().map(Path::to_path_buf)).collect()
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
