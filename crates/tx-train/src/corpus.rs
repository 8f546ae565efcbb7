//! The pairs of a run: read, fetched before or generated; cleaned, and split.

use std::{path::PathBuf, sync::atomic::AtomicBool};

use tx_data::{
    Cleaner, CleaningReport, DataError, SentencePair, Split,
    fetch::{FetchError, Fetcher},
    near_duplicate::{Overlap, OverlapFinder},
    source::{
        columns::Columns,
        generated,
        named::{self, Endpoints, Part, Request},
        phrasebook,
        read::{self, Pairs, ReadOptions},
    },
    split::split,
};

use crate::{
    config::{DataConfig, DataSource, OverlapPolicy, TrainConfig},
    error::TrainError,
    interrupt::check,
};

/// Pairs to generate when the configuration does not say.
const GENERATED_TRAINING: usize = 50_000;
const GENERATED_VALIDATION: usize = 1_000;

/// The pairs of a run, and what was done to them.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// Training and validation pairs.
    pub parts: Split,
    /// What cleaning did; none to generated pairs.
    pub cleaning: Option<CleaningReport>,
    /// Which of the given validation pairs are in training too.
    pub overlap: Option<Overlap>,
    /// Training pairs left out for that.
    pub overlap_left_out: usize,
}

/// Reads or generates the pairs that `config` asks for, in memory. The same configuration and files
/// give the same pairs. The network is not touched: a named corpus comes from the cache. `stop` ends
/// the work with [`TrainError::Interrupted`] once it is set.
///
/// # Errors
///
/// When a file cannot be read, the two sides do not fit, or a corpus has not been fetched.
pub fn load(config: &TrainConfig, stop: &AtomicBool) -> Result<Corpus, TrainError> {
    let data = &config.data;
    let seed = config.train.seed;
    let train_pairs = data.train_pairs.unwrap_or(GENERATED_TRAINING);
    let valid_pairs = data.valid_pairs.unwrap_or(GENERATED_VALIDATION);
    let parts = match data.source {
        DataSource::Toy => by_heart(generated::toy()),
        DataSource::Reverse => {
            // One draw for both parts; what is drawn twice stays in training only.
            let mut pairs = generated::reverse(train_pairs + valid_pairs, seed);
            let validation = pairs.split_off(train_pairs);
            let known: std::collections::HashSet<&SentencePair> = pairs.iter().collect();
            let validation = validation.into_iter().filter(|pair| !known.contains(pair)).collect();
            Split { train: pairs, validation }
        }
        DataSource::Phrasebook => Split {
            train: phrasebook::training(train_pairs, seed),
            validation: phrasebook::validation(valid_pairs, seed),
        },
        DataSource::Files | DataSource::Named(_) => return read_all(config, stop),
    };
    Ok(Corpus { parts, cleaning: None, overlap: None, overlap_left_out: 0 })
}

/// Reads and cleans the pairs; sets some aside where none are given to check on, neither by the user
/// nor by the corpus.
fn read_all(config: &TrainConfig, stop: &AtomicBool) -> Result<Corpus, TrainError> {
    let data = &config.data;
    let mut cleaner = Cleaner::new(data.cleaning());
    let mut train = Vec::new();
    for pair in open_training(config)? {
        check(stop)?;
        train.extend(cleaner.clean(pair?));
    }
    let cleaning = cleaner.report().clone();
    let (mut overlap, mut overlap_left_out) = (None, 0);
    let mut parts = match open_validation(config)? {
        Some(validation) => {
            let validation = validation.collect::<Result<Vec<_>, _>>()?;
            let mut finder = OverlapFinder::new(&validation);
            let before = train.len();
            let drop = data.overlap == OverlapPolicy::Drop;
            train.retain(|pair| !finder.meet(pair) || !drop);
            overlap = Some(finder.overlap());
            overlap_left_out = before - train.len();
            Split { train, validation }
        }
        None if data.valid_share == 0.0 => by_heart(train),
        None => split(train, data.valid_share, data.split_by, config.train.seed),
    };
    if parts.validation.is_empty() && !parts.train.is_empty() {
        let (what, pairs) = ("the validation data".into(), parts.train.len());
        let reason = format!("all {pairs} pairs are too much alike for some to be set aside");
        return Err(DataError::NoPairs { what, reason }.into());
    }
    parts.validation.truncate(data.valid_pairs.unwrap_or(usize::MAX));
    Ok(Corpus { parts, cleaning: Some(cleaning), overlap, overlap_left_out })
}

/// The training pairs of `config` one after the other, before cleaning; files are read as they are
/// needed.
///
/// # Errors
///
/// When a file cannot be opened, or a corpus has not been fetched.
pub(crate) fn training_stream(config: &TrainConfig) -> Result<Pairs, TrainError> {
    if config.data.is_generated() {
        return Ok(Box::new(
            load(config, &AtomicBool::new(false))?.parts.train.into_iter().map(Ok),
        ));
    }
    open_training(config)
}

/// The validation pairs that are given or generated; none if they are to be set aside.
///
/// # Errors
///
/// When a file cannot be read, or a corpus has not been fetched.
pub(crate) fn given_validation(
    config: &TrainConfig,
) -> Result<Option<Vec<SentencePair>>, TrainError> {
    if config.data.is_generated() {
        return Ok(Some(load(config, &AtomicBool::new(false))?.parts.validation));
    }
    let most = config.data.valid_pairs.unwrap_or(usize::MAX);
    let pairs = open_validation(config)?.map(|pairs| pairs.take(most).collect());
    Ok(pairs.transpose()?)
}

/// The files that `data` names, in an order that says which is which; standard input is none.
pub(crate) fn input_files(data: &DataConfig) -> Vec<PathBuf> {
    [
        &data.train_source,
        &data.train_target,
        &data.train_file,
        &data.valid_source,
        &data.valid_target,
        &data.valid_file,
    ]
    .into_iter()
    .flatten()
    .filter_map(|path| read::file_of(path))
    .collect()
}

/// What the named corpus of a configuration is asked for; none when it names none.
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

/// Brings the files that a configuration trains and validates on into the cache, as far as
/// `fetcher` may; none when the configuration names no corpus.
///
/// # Errors
///
/// When the corpus is not known, or a file can be had neither from the cache nor from the network.
pub fn fetch(data: &DataConfig, fetcher: &Fetcher) -> Result<Option<named::Corpus>, TrainError> {
    let Some(request) = request(data) else { return Ok(None) };
    let corpus = named::find(&request, fetcher, &Endpoints::from_env()).map_err(DataError::from)?;
    for remote in corpus.remotes(&[Part::Training, Part::Validation]) {
        fetcher.get(remote).map_err(DataError::from)?;
    }
    Ok(Some(corpus))
}

/// The training pairs, as many as are asked for.
fn open_training(config: &TrainConfig) -> Result<Pairs, TrainError> {
    let data = &config.data;
    let files = [&data.train_source, &data.train_target, &data.train_file];
    let pairs = match data.source {
        DataSource::Named(_) => from_cache(config, Part::Training)?,
        _ => open(files, data)?,
    };
    let Some(pairs) = pairs else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    Ok(Box::new(pairs.take(data.train_pairs.unwrap_or(usize::MAX))))
}

/// The validation pairs that the user gives, or else the corpus.
fn open_validation(config: &TrainConfig) -> Result<Option<Pairs>, TrainError> {
    let data = &config.data;
    let files = [&data.valid_source, &data.valid_target, &data.valid_file];
    match (open(files, data)?, &data.source) {
        (None, DataSource::Named(_)) => from_cache(config, Part::Validation),
        (pairs, _) => Ok(pairs),
    }
}

/// The pairs of one part of a named corpus; none where it has no such part.
fn from_cache(config: &TrainConfig, part: Part) -> Result<Option<Pairs>, TrainError> {
    let Some(request) = request(&config.data) else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    let read = || -> Result<_, DataError> {
        let fetcher = Fetcher::offline()?;
        let corpus = named::find(&request, &fetcher, &Endpoints::from_env())?;
        let wanted = part == Part::Training || corpus.has(part);
        wanted.then(|| corpus.read(part, &fetcher, &options(&config.data))).transpose()
    };
    read().map_err(|error| match error {
        DataError::Fetch(source @ FetchError::NotCached { .. }) => {
            TrainError::NotFetched { request: Box::new(request.clone()), source }
        }
        other => other.into(),
    })
}

/// Opens the files of one part: one of each side, or one of both.
fn open(
    [source, target, file]: [&Option<PathBuf>; 3],
    data: &DataConfig,
) -> Result<Option<Pairs>, DataError> {
    let options = options(data);
    match (source, target, file) {
        (Some(source), Some(target), _) => read::parallel(source, target, &options).map(Some),
        (_, _, Some(file)) => read::pairs(file, &options).map(Some),
        _ => Ok(None),
    }
}

fn options(data: &DataConfig) -> ReadOptions {
    let columns = Columns {
        source: data.source_column.clone(),
        target: data.target_column.clone(),
        source_language: data.source_language.clone(),
        target_language: data.target_language.clone(),
        header: data.header,
    };
    ReadOptions { format: data.format, columns, ..ReadOptions::default() }
}

/// Checked on what was learned.
fn by_heart(pairs: Vec<SentencePair>) -> Split {
    Split { validation: pairs.clone(), train: pairs }
}
