//! Pairs of one corpus of a run: read from files or the cache, or generated.

use std::{
    iter::once,
    path::{Path, PathBuf},
};

use tx_data::{
    Annotations, Context, DataError, Noise, TargetSide,
    pipeline::{CorpusOptions, Overlaps, ValidationPairs},
    source::{
        Pairs,
        columns::Columns,
        generated,
        layout::TableLayout,
        named::{self, CorpusCache, Endpoints, Part, Request},
        pattern, phrasebook,
        read::{self, ReadOptions},
    },
    tx_fetch::{FetchError, Fetcher, Mode},
};
use tx_infer::TaskKind;
use tx_text::SentencePair;

use crate::{
    config::{CorpusConfig, DataConfig, DataSource, OverlapPolicy, TrainConfig},
    error::TrainError,
};

/// Numbers of generated pairs if the configuration does not specify them.
pub(crate) const GENERATED_TRAINING: usize = 50_000;
pub(crate) const GENERATED_VALIDATION: usize = 1_000;

/// Opens the training pairs of `entry`, the first if it limits their number. Files, which may be
/// patterns, are read as the pairs are consumed. The network is not used: a named corpus is read
/// from `cache`.
///
/// # Errors
///
/// If a file cannot be opened, or a corpus has not been fetched.
pub(crate) fn training(
    config: &TrainConfig,
    entry: &CorpusConfig,
    cache: Option<&CorpusCache>,
) -> Result<Pairs, TrainError> {
    let pairs = match generated(config, entry, Part::Training) {
        Some(pairs) => Ok(Some(pairs)),
        None => open(config, entry, Part::Training, cache),
    };
    let missing = || TrainError::Problems { problems: config.problems() };
    Ok(Box::new(pairs?.ok_or_else(missing)?.take(entry.pairs.unwrap_or(usize::MAX))))
}

/// Opens the validation pairs of `entry`; `None` if it is a named corpus without validation part.
///
/// # Errors
///
/// If a file cannot be opened, or a corpus has not been fetched.
pub(crate) fn validation(
    config: &TrainConfig,
    entry: &CorpusConfig,
    cache: Option<&CorpusCache>,
) -> Result<Option<Pairs>, TrainError> {
    let pairs = match generated(config, entry, Part::Validation) {
        Some(pairs) => Some(pairs),
        None => open(config, entry, Part::Validation, cache)?,
    };
    Ok(pairs.map(|pairs| -> Pairs { Box::new(pairs.take(entry.pairs.unwrap_or(usize::MAX))) }))
}

/// Opens the files with weights and word alignments of the training pairs.
///
/// # Errors
///
/// If a file cannot be opened.
pub(crate) fn annotations(entry: &CorpusConfig) -> Result<Annotations, DataError> {
    let (weights, alignments) = (entry.pair_weights.as_deref(), entry.alignments.as_deref());
    Annotations::open(weights, alignments, entry.pairs.is_some())
}

/// Returns the options of cleaning the training pairs of `entry`. Near duplicates of validation
/// pairs are handled as configured, unless the pairs are generated or replayed. Replayed pairs have no
/// noisy copies.
pub(crate) fn corpus_options(
    config: &TrainConfig,
    entry: &CorpusConfig,
    validation: ValidationPairs,
) -> CorpusOptions {
    let overlaps = match config.data.overlap {
        _ if entry.is_generated() || entry.fraction.is_some() => Overlaps::Ignore,
        OverlapPolicy::Report => Overlaps::Count,
        OverlapPolicy::Drop => Overlaps::Drop,
    };
    let clean = entry.clean.clone().unwrap_or_default();
    let noise = match entry.fraction {
        Some(_) => None,
        None => Noise::new(&config.data.noise, config.train.seed),
    };
    let (target, context) = (target_side(config.task), context(config, entry));
    CorpusOptions { clean, validation, overlaps, target, noise, context }
}

/// Returns the context of the pairs of `entry`; `None` if they have none.
pub(crate) fn context(config: &TrainConfig, entry: &CorpusConfig) -> Option<Context> {
    let sentences = entry.context.unwrap_or(config.data.context).min(config.data.context);
    let (dropout, seed) = (config.data.context_dropout, config.train.seed);
    (sentences > 0).then_some(Context { sentences, dropout, seed })
}

/// Returns the validation pairs that are `given`, or else the selection of some of the training
/// pairs.
pub(crate) fn validation_or(config: &TrainConfig, given: Vec<SentencePair>) -> ValidationPairs {
    let data = &config.data;
    match (given.is_empty(), data.valid_share == 0.0) {
        (false, _) => ValidationPairs::Given(given),
        (true, true) => ValidationPairs::Training(data.valid_pairs.unwrap_or(usize::MAX)),
        (true, false) => ValidationPairs::SetAside {
            fraction: data.valid_share,
            by: data.split_by,
            seed: config.train.seed,
        },
    }
}

/// Content of the target side for a task.
fn target_side(task: TaskKind) -> TargetSide {
    match task {
        TaskKind::Translate | TaskKind::Generate | TaskKind::FillMask => TargetSide::Sentence,
        TaskKind::Classify => TargetSide::Label,
    }
}

/// Generates a part of `entry`; `None` if it is read.
fn generated(config: &TrainConfig, entry: &CorpusConfig, part: Part) -> Option<Pairs> {
    let seed = config.train.seed;
    let training = config.data.train_pairs.unwrap_or(GENERATED_TRAINING);
    let validation = config.data.valid_pairs.unwrap_or(GENERATED_VALIDATION);
    let is_training = part == Part::Training;
    let pairs = match DataSource::from(entry.corpus.clone()?) {
        DataSource::Toy => generated::toy(),
        DataSource::Reverse => {
            // One generator for both parts; a pair that occurs in both stays in training only.
            let mut train = generated::reverse(training + validation, seed);
            let validation = train.split_off(training);
            let known: std::collections::HashSet<&SentencePair> = train.iter().collect();
            let validation = validation.into_iter().filter(|pair| !known.contains(pair)).collect();
            if is_training { train } else { validation }
        }
        DataSource::Phrasebook => match (config.task == TaskKind::Classify, is_training) {
            (true, true) => phrasebook::typed_training(training, seed),
            (true, false) => phrasebook::typed_validation(validation, seed),
            (false, true) => phrasebook::training(training, seed),
            (false, false) => phrasebook::validation(validation, seed),
        },
        DataSource::Files | DataSource::Named(_) => return None,
    };
    Some(Box::new(pairs.into_iter().map(Ok)))
}

/// Opens the files of `entry`, or a part of its named corpus; `None` if it has no such part.
fn open(
    config: &TrainConfig,
    entry: &CorpusConfig,
    part: Part,
    cache: Option<&CorpusCache>,
) -> Result<Option<Pairs>, TrainError> {
    let options = options(config, entry);
    Ok(match (&entry.source, &entry.target, &entry.file) {
        (Some(source), Some(target), _) => {
            let files = parallel_files(source, target)?.into_iter();
            Some(Box::new(files.flat_map(move |[source, target]| {
                opened(read::parallel(&source, &target, &options))
            })))
        }
        (_, _, Some(file)) => {
            let files = pattern::files(file)?.into_iter();
            Some(Box::new(files.flat_map(move |file| opened(read::pairs(&file, &options)))))
        }
        _ => from_cache(config, entry, part, cache)?,
    })
}

/// Returns the pairs of a file, or the error of opening it as the only item.
fn opened(pairs: Result<Pairs, DataError>) -> Pairs {
    pairs.unwrap_or_else(|error| Box::new(once(Err(error))))
}

/// Returns the files of two patterns, side by side.
pub(crate) fn parallel_files(source: &Path, target: &Path) -> Result<Vec<[PathBuf; 2]>, DataError> {
    let (sources, targets) = (pattern::files(source)?, pattern::files(target)?);
    if sources.len() != targets.len() {
        let (what, found) = (format!("`{}`", source.display()), sources.len());
        let (other, expected) = (target.display(), targets.len());
        let reason = format!("it names {found} files, and `{other}` names {expected}");
        return Err(DataError::NoPairs { what, reason });
    }
    Ok(sources.into_iter().zip(targets).map(|(source, target)| [source, target]).collect())
}

/// Returns the request for the named corpus of an entry; `None` if it names none.
pub(crate) fn request(entry: &CorpusConfig) -> Option<Request> {
    Some(Request {
        name: entry.corpus.clone().filter(|_| !entry.is_generated())?,
        source: entry.source_language.clone()?,
        target: entry.target_language.clone()?,
        subset: entry.subset.clone(),
        split: entry.split.clone(),
        revision: entry.revision.clone(),
    })
}

/// Returns the requests for all named corpora of a configuration, each once.
pub fn requests(config: &TrainConfig) -> Vec<Request> {
    let mut requests = Vec::new();
    for entry in config.data.corpora().iter().chain(&config.data.validation_sets()) {
        requests.extend(request(entry).filter(|request| !requests.contains(request)));
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

/// Opens one part of a named corpus; `None` if it has no such part.
fn from_cache(
    config: &TrainConfig,
    entry: &CorpusConfig,
    part: Part,
    cache: Option<&CorpusCache>,
) -> Result<Option<Pairs>, TrainError> {
    let Some(request) = request(entry) else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    let read = || -> Result<_, DataError> {
        let CorpusCache { cache, endpoints } = cache.ok_or(FetchError::NoCache)?;
        let fetcher = Fetcher::new(cache.clone(), Mode::Offline);
        let corpus = named::find(&request, &fetcher, endpoints)?;
        let wanted = part == Part::Training || corpus.has(part);
        wanted.then(|| corpus.read(part, &fetcher, &options(config, entry))).transpose()
    };
    read().map_err(|error| match error {
        DataError::Fetch(source @ FetchError::NotCached { .. }) => {
            TrainError::NotFetched { request: Box::new(request.clone()), source }
        }
        other => other.into(),
    })
}

/// Returns the layout of the table of `entry`, with its name and first pair; `None` if there is no
/// table, or one that cannot be read, because reading it reports that.
pub(crate) fn table_layout(
    config: &TrainConfig,
    entry: &CorpusConfig,
) -> Option<(String, TableLayout, SentencePair)> {
    let file = pattern::files(entry.file.as_ref()?).ok()?.into_iter().next()?;
    let (layout, pair) = read::table_layout(&file, &options(config, entry)).ok()??;
    Some((file.display().to_string(), layout, pair))
}

/// Returns the options of reading the files of `entry`.
pub(crate) fn options(config: &TrainConfig, entry: &CorpusConfig) -> ReadOptions {
    let DataConfig { source_column, target_column, header, .. } = &config.data;
    let columns = Columns {
        source: source_column.clone(),
        target: target_column.clone(),
        source_language: entry.source_language.clone(),
        target_language: entry.target_language.clone(),
        header: *header,
        target_side: target_side(config.task),
    };
    ReadOptions { format: entry.format, columns, ..ReadOptions::default() }
}
