//! Training and validation pairs of a run: read from files or the cache, or generated; cleaned and
//! split.

use std::{
    iter::{empty, once},
    path::{Path, PathBuf},
};

use tx_data::{
    Annotations, DataError, Split, TargetSide,
    fetch::{FetchError, Fetcher, Mode},
    pipeline::{CleanCorpus, Control, CorpusOptions, Overlaps, ValidationPairs},
    source::{
        Pairs,
        columns::Columns,
        generated,
        layout::TableLayout,
        named::{self, CorpusCache, Endpoints, Part, Request},
        pattern, phrasebook,
        read::{self, ReadOptions},
    },
};
use tx_infer::TaskKind;
use tx_text::SentencePair;

use crate::{
    config::{CorpusConfig, DataConfig, DataSource, OverlapPolicy, ReplayConfig, TrainConfig},
    error::TrainError,
};

/// Numbers of generated pairs if the configuration does not specify them.
pub(crate) const GENERATED_TRAINING: usize = 50_000;
pub(crate) const GENERATED_VALIDATION: usize = 1_000;
/// Name of the replayed pairs in errors.
const REPLAYED: &str = "the replayed data";

/// Reads or generates the pairs of `config` and cleans them, in memory. The same configuration and
/// files give the same pairs. The network is not used: a named corpus is read from `cache`.
///
/// # Errors
///
/// If a file cannot be read, the two sides do not match, a corpus has not been fetched, or the work
/// is interrupted.
pub fn load(
    config: &TrainConfig,
    cache: Option<&CorpusCache>,
    control: &Control<'_>,
) -> Result<CleanCorpus<Vec<SentencePair>>, TrainError> {
    let most = config.data.valid_pairs.unwrap_or(usize::MAX);
    // Overlap with training is counted over all given pairs, including those that `valid_pairs`
    // excludes.
    let limits = ValidationLimits { given: usize::MAX, of_training: most };
    let (pairs, options) = open(config, cache, limits)?;
    let annotations = annotations(&config.data)?;
    Ok(CleanCorpus::read_annotated(pairs, annotations, options, Vec::new(), control)?)
}

/// Opens the files with weights and word alignments of the training pairs.
fn annotations(data: &DataConfig) -> Result<Annotations, DataError> {
    let (weights, alignments) = (data.pair_weights.as_deref(), data.alignments.as_deref());
    Annotations::open(weights, alignments, data.train_pairs.is_some())
}

/// Maximum numbers of validation pairs, by origin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ValidationLimits {
    /// Maximum number of pairs read from validation files.
    pub given: usize,
    /// Maximum number of training pairs used for validation with `valid_share = 0`.
    pub of_training: usize,
}

/// Opens the training pairs of `config` before cleaning, and reads the validation pairs if they are
/// given. Training files are read as the pairs are consumed.
///
/// # Errors
///
/// If a file cannot be opened, a validation file cannot be read, or a corpus has not been fetched.
pub(crate) fn open(
    config: &TrainConfig,
    cache: Option<&CorpusCache>,
    limits: ValidationLimits,
) -> Result<(Pairs, CorpusOptions), TrainError> {
    let data = &config.data;
    let clean = data.cleaning();
    if let Some(Split { train, validation }) = generated(config) {
        let validation = ValidationPairs::Given(validation);
        let options = CorpusOptions {
            clean,
            validation,
            overlaps: Overlaps::Ignore,
            target: target_side(config.task),
        };
        return Ok((Box::new(train.into_iter().map(Ok)), options));
    }
    let training = open_part(config, Part::Training, cache)?;
    let validation = match open_validation(config, cache)? {
        Some(pairs) => ValidationPairs::Given(pairs.take(limits.given).collect::<Result<_, _>>()?),
        None if data.valid_share == 0.0 => ValidationPairs::Training(limits.of_training),
        None => ValidationPairs::SetAside {
            fraction: data.valid_share,
            by: data.split_by,
            seed: config.train.seed,
        },
    };
    let overlaps = overlaps(config);
    Ok((training, CorpusOptions { clean, validation, overlaps, target: target_side(config.task) }))
}

fn overlaps(config: &TrainConfig) -> Overlaps {
    match config.data.overlap {
        OverlapPolicy::Report => Overlaps::Count,
        OverlapPolicy::Drop => Overlaps::Drop,
    }
}

/// Content of the target side for a task.
fn target_side(task: TaskKind) -> TargetSide {
    match task {
        TaskKind::Translate | TaskKind::Generate | TaskKind::FillMask => TargetSide::Sentence,
        TaskKind::Classify => TargetSide::Label,
    }
}

/// Generates the pairs of `config`; `None` if they are read from files.
fn generated(config: &TrainConfig) -> Option<Split> {
    let seed = config.train.seed;
    let train_pairs = config.data.train_pairs.unwrap_or(GENERATED_TRAINING);
    let valid_pairs = config.data.valid_pairs.unwrap_or(GENERATED_VALIDATION);
    match config.data.source {
        DataSource::Toy => Some(Split { train: generated::toy(), validation: generated::toy() }),
        DataSource::Reverse => {
            // One generator for both parts; a pair that occurs in both stays in training only.
            let mut train = generated::reverse(train_pairs + valid_pairs, seed);
            let validation = train.split_off(train_pairs);
            let known: std::collections::HashSet<&SentencePair> = train.iter().collect();
            let validation = validation.into_iter().filter(|pair| !known.contains(pair)).collect();
            Some(Split { train, validation })
        }
        DataSource::Phrasebook if config.task == TaskKind::Classify => Some(Split {
            train: phrasebook::typed_training(train_pairs, seed),
            validation: phrasebook::typed_validation(valid_pairs, seed),
        }),
        DataSource::Phrasebook => Some(Split {
            train: phrasebook::training(train_pairs, seed),
            validation: phrasebook::validation(valid_pairs, seed),
        }),
        DataSource::Files | DataSource::Named(_) => None,
    }
}

/// Reads and cleans the pairs that `config` replays, in memory; `None` if it replays none.
///
/// # Errors
///
/// If a file cannot be read, no pair is left, or the work is interrupted.
pub(crate) fn load_replayed(
    config: &TrainConfig,
    control: &Control<'_>,
) -> Result<Option<CleanCorpus<Vec<SentencePair>>>, TrainError> {
    let Some(ReplayConfig { source, target, file, format, pairs, fraction: _ }) =
        &config.data.replay
    else {
        return Ok(None);
    };
    let options = ReadOptions { format: *format, ..options(config) };
    let Some(read) = open_files([source, target, file], &options)? else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    let options = CorpusOptions {
        clean: config.data.cleaning(),
        // All pairs are for training.
        validation: ValidationPairs::Training(1),
        overlaps: Overlaps::Ignore,
        target: target_side(config.task),
    };
    let pairs = read.take(pairs.unwrap_or(usize::MAX));
    let corpus = CleanCorpus::read(pairs, options, Vec::new(), control)?;
    if corpus.training_pairs() == 0 {
        let (what, reason) = (REPLAYED.to_owned(), "it is empty".to_owned());
        return Err(DataError::NoPairs { what, reason }.into());
    }
    Ok(Some(corpus))
}

/// Returns the configuration of a run whose only corpus is `entry`.
pub(crate) fn with_entry(config: &TrainConfig, entry: &CorpusConfig) -> TrainConfig {
    let CorpusConfig { source, target, file, corpus, subset, split, revision, .. } = entry.clone();
    let CorpusConfig { pair_weights, alignments, .. } = entry.clone();
    let mut config = config.clone();
    let data = &mut config.data;
    data.source = corpus.map_or(DataSource::Files, DataSource::Named);
    (data.train_source, data.train_target, data.train_file) = (source, target, file);
    (data.valid_source, data.valid_target, data.valid_file) = (None, None, None);
    (data.pair_weights, data.alignments) = (pair_weights, alignments);
    (data.subset, data.split, data.revision) = (subset, split, revision);
    (data.format, data.train_pairs) = (entry.format.or(data.format), entry.pairs);
    data.source_language = entry.source_language.clone().or(data.source_language.take());
    data.target_language = entry.target_language.clone().or(data.target_language.take());
    data.clean = entry.clean.clone().unwrap_or_else(|| data.clean.clone());
    (data.train, data.valid) = (Vec::new(), Vec::new());
    config
}

/// Reads and cleans the pairs of the only corpus of `config`, in memory; all are for training. Near
/// duplicates of the pairs `validation` are handled as configured. `name` is that of the corpus in errors.
///
/// # Errors
///
/// If a file cannot be read, no pair is left, or the work is interrupted.
pub(crate) fn load_corpus(
    config: &TrainConfig,
    name: &str,
    validation: Vec<SentencePair>,
    cache: Option<&CorpusCache>,
    control: &Control<'_>,
) -> Result<CleanCorpus<Vec<SentencePair>>, TrainError> {
    let options = CorpusOptions {
        clean: config.data.cleaning(),
        validation: ValidationPairs::Given(validation),
        overlaps: overlaps(config),
        target: target_side(config.task),
    };
    let pairs = open_part(config, Part::Training, cache)?;
    let annotations = annotations(&config.data)?;
    let corpus = CleanCorpus::read_annotated(pairs, annotations, options, Vec::new(), control)?;
    if corpus.training_pairs() == 0 {
        let (what, reason) = (format!("`{name}`"), "no pair is left".to_owned());
        return Err(DataError::NoPairs { what, reason }.into());
    }
    Ok(corpus)
}

/// Reads the pairs of a validation set, the only corpus of `config`; `name` is its name in errors.
///
/// # Errors
///
/// If a file cannot be read, or there is no pair.
pub(crate) fn load_validation(
    config: &TrainConfig,
    name: &str,
    cache: Option<&CorpusCache>,
) -> Result<Vec<SentencePair>, TrainError> {
    let pairs: Vec<SentencePair> =
        open_part(config, Part::Validation, cache)?.collect::<Result<_, _>>()?;
    if pairs.is_empty() {
        let (what, reason) = (format!("`{name}`"), "it has no pair".to_owned());
        return Err(DataError::NoPairs { what, reason }.into());
    }
    Ok(pairs)
}

/// Opens the first `train_pairs` pairs of the files or of a part of the named corpus of `config`.
/// Files may be patterns.
fn open_part(
    config: &TrainConfig,
    part: Part,
    cache: Option<&CorpusCache>,
) -> Result<Pairs, TrainError> {
    let data = &config.data;
    let pairs: Pairs = match (&data.source, &data.train_source, &data.train_target) {
        (DataSource::Named(name), ..) => from_cache(config, part, cache)?.ok_or_else(|| {
            let reason = "the corpus has no validation part".to_owned();
            DataError::NoPairs { what: name.clone(), reason }
        })?,
        (_, Some(source), Some(target)) => {
            let files = parallel_files(source, target)?.into_iter();
            let options = options(config);
            Box::new(files.flat_map(move |[source, target]| {
                opened(read::parallel(&source, &target, &options))
            }))
        }
        _ => {
            let Some(file) = &data.train_file else {
                return Err(TrainError::Problems { problems: config.problems() });
            };
            let options = options(config);
            let files = pattern::files(file)?.into_iter();
            Box::new(files.flat_map(move |file| opened(read::pairs(&file, &options))))
        }
    };
    Ok(Box::new(pairs.take(data.train_pairs.unwrap_or(usize::MAX))))
}

/// Returns the pairs of a file, or the error of opening it as the only item.
fn opened(pairs: Result<Pairs, DataError>) -> Pairs {
    pairs.unwrap_or_else(|error| Box::new(once(Err(error))))
}

/// Returns the files of two patterns, side by side.
fn parallel_files(source: &Path, target: &Path) -> Result<Vec<[PathBuf; 2]>, DataError> {
    let (sources, targets) = (pattern::files(source)?, pattern::files(target)?);
    if sources.len() != targets.len() {
        let (what, found) = (format!("`{}`", source.display()), sources.len());
        let (other, expected) = (target.display(), targets.len());
        let reason = format!("it names {found} files, and `{other}` names {expected}");
        return Err(DataError::NoPairs { what, reason });
    }
    Ok(sources.into_iter().zip(targets).map(|(source, target)| [source, target]).collect())
}

/// Returns `true` if the training files are patterns, each file of which is a shard of a prepared
/// corpus.
pub(crate) fn has_shards(data: &DataConfig) -> bool {
    [&data.train_source, &data.train_target, &data.train_file]
        .into_iter()
        .flatten()
        .any(|path| read::file_of(path).as_ref() == Some(path) && pattern::is_pattern(path))
}

/// Returns the files of each shard.
///
/// # Errors
///
/// If a pattern names no file, or two patterns name different numbers of files.
pub(crate) fn shards(data: &DataConfig) -> Result<Vec<Vec<PathBuf>>, DataError> {
    match (&data.train_source, &data.train_target, &data.train_file) {
        (Some(source), Some(target), _) => {
            Ok(parallel_files(source, target)?.into_iter().map(Vec::from).collect())
        }
        (_, _, Some(file)) => {
            Ok(pattern::files(file)?.into_iter().map(|file| vec![file]).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// Opens the files of a shard.
pub(crate) fn open_shard(config: &TrainConfig, files: &[PathBuf]) -> Result<Pairs, DataError> {
    let options = options(config);
    match files {
        [source, target] => read::parallel(source, target, &options),
        [file, ..] => read::pairs(file, &options),
        [] => Ok(Box::new(empty())),
    }
}

/// Returns the options of the shards of `config`, whose validation pairs are given.
///
/// # Errors
///
/// If the validation pairs cannot be read, or are not given.
pub(crate) fn shard_options(
    config: &TrainConfig,
    limits: ValidationLimits,
) -> Result<CorpusOptions, TrainError> {
    let mut problems = Vec::new();
    let Some(pairs) = open_validation(config, None)? else {
        problems.push(
            "[data] a pattern of prepared files needs `valid_file`, or `valid_source` and \
             `valid_target`"
                .into(),
        );
        return Err(TrainError::Problems { problems });
    };
    if config.data.train_pairs.is_some() {
        problems
            .push("[data] `train_pairs` is not available with a pattern of prepared files".into());
        return Err(TrainError::Problems { problems });
    }
    let validation = pairs.take(limits.given).collect::<Result<_, _>>()?;
    Ok(CorpusOptions {
        clean: config.data.cleaning(),
        validation: ValidationPairs::Given(validation),
        overlaps: overlaps(config),
        target: target_side(config.task),
    })
}

/// Returns the validation files of `data`, without standard input.
pub(crate) fn validation_files(data: &DataConfig) -> Vec<PathBuf> {
    [&data.valid_source, &data.valid_target, &data.valid_file]
        .into_iter()
        .flatten()
        .filter_map(|path| read::file_of(path))
        .collect()
}

/// Returns the input files of `data` in a fixed order, without standard input.
pub(crate) fn input_files(data: &DataConfig) -> Vec<PathBuf> {
    let training = [&data.train_source, &data.train_target, &data.train_file];
    let mut files: Vec<PathBuf> =
        training.into_iter().flatten().filter_map(|path| read::file_of(path)).collect();
    files.extend(validation_files(data));
    files
}

/// Returns the request for the named corpus of a configuration; `None` if it names none.
pub fn request(data: &DataConfig) -> Option<Request> {
    let DataSource::Named(name) = &data.source else { return None };
    Some(Request {
        name: name.clone(),
        source: data.source_language.clone()?,
        target: data.target_language.clone()?,
        subset: data.subset.clone(),
        split: data.split.clone(),
        revision: data.revision.clone(),
    })
}

/// Returns the requests for all named corpora of a configuration, each once.
pub fn requests(config: &TrainConfig) -> Vec<Request> {
    let mut requests: Vec<Request> = request(&config.data).into_iter().collect();
    for entry in config.data.train.iter().chain(&config.data.valid) {
        let found = request(&with_entry(config, entry).data);
        requests.extend(found.filter(|request| !requests.contains(request)));
    }
    requests
}

/// Fetches the training and validation files of a named corpus into the cache.
///
/// # Errors
///
/// If the corpus is unknown, or a file is neither in the cache nor available from the network.
pub fn fetch(
    request: &Request,
    fetcher: &Fetcher,
    endpoints: &Endpoints,
) -> Result<named::Corpus, TrainError> {
    let corpus = named::find(request, fetcher, endpoints).map_err(DataError::from)?;
    for remote in corpus.remotes(&[Part::Training, Part::Validation]) {
        fetcher.get(remote).map_err(DataError::from)?;
    }
    Ok(corpus)
}

/// Opens the validation pairs of the validation files, or else of the named corpus.
fn open_validation(
    config: &TrainConfig,
    cache: Option<&CorpusCache>,
) -> Result<Option<Pairs>, TrainError> {
    let data = &config.data;
    let files = [&data.valid_source, &data.valid_target, &data.valid_file];
    match (open_files(files, &options(config))?, &data.source) {
        (None, DataSource::Named(_)) => from_cache(config, Part::Validation, cache),
        (pairs, _) => Ok(pairs),
    }
}

/// Opens one part of a named corpus; `None` if it has no such part.
fn from_cache(
    config: &TrainConfig,
    part: Part,
    cache: Option<&CorpusCache>,
) -> Result<Option<Pairs>, TrainError> {
    let Some(request) = request(&config.data) else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    let read = || -> Result<_, DataError> {
        let CorpusCache { cache, endpoints } = cache.ok_or(FetchError::NoCache)?;
        let fetcher = Fetcher::new(cache.clone(), Mode::Offline);
        let corpus = named::find(&request, &fetcher, endpoints)?;
        let wanted = part == Part::Training || corpus.has(part);
        wanted.then(|| corpus.read(part, &fetcher, &options(config))).transpose()
    };
    read().map_err(|error| match error {
        DataError::Fetch(source @ FetchError::NotCached { .. }) => {
            TrainError::NotFetched { request: Box::new(request.clone()), source }
        }
        other => other.into(),
    })
}

/// Opens the files of one part: one for each side, or one with both.
fn open_files(
    [source, target, file]: [&Option<PathBuf>; 3],
    options: &ReadOptions,
) -> Result<Option<Pairs>, DataError> {
    match (source, target, file) {
        (Some(source), Some(target), _) => read::parallel(source, target, options).map(Some),
        (_, _, Some(file)) => read::pairs(file, options).map(Some),
        _ => Ok(None),
    }
}

/// Returns the layouts of the tables among the training and validation files of `config`, with their
/// names and first pairs. Files that cannot be read are left out, because reading them reports it.
pub(crate) fn table_layouts(config: &TrainConfig) -> Vec<(String, TableLayout, SentencePair)> {
    let options = options(config);
    let files = [&config.data.train_file, &config.data.valid_file].into_iter().flatten();
    let first = files.filter_map(|file| pattern::files(file).ok()?.into_iter().next());
    let layout = |file: PathBuf| {
        let (layout, pair) = read::table_layout(&file, &options).ok()??;
        Some((file.display().to_string(), layout, pair))
    };
    first.filter_map(layout).collect()
}

fn options(config: &TrainConfig) -> ReadOptions {
    let data = &config.data;
    let columns = Columns {
        source: data.source_column.clone(),
        target: data.target_column.clone(),
        source_language: data.source_language.clone(),
        target_language: data.target_language.clone(),
        header: data.header,
        target_side: target_side(config.task),
    };
    ReadOptions { format: data.format, columns, ..ReadOptions::default() }
}
