//! The pairs of a run: read or generated, and split.

use std::path::PathBuf;

use tx_data::{
    DataError, SentencePair, Split,
    fetch::{FetchError, Fetcher},
    source::{
        columns::Columns,
        format::Format,
        generated,
        named::{self, Corpus, Endpoints, Part, Request},
        phrasebook,
        read::{self, Pairs, ReadOptions},
    },
    split::split,
};

use crate::{
    config::{DataConfig, DataSource, TrainConfig},
    error::TrainError,
};

/// Pairs to generate when the configuration does not say.
const GENERATED_TRAINING: usize = 50_000;
const GENERATED_VALIDATION: usize = 1_000;

/// Reads or generates the pairs that `config` asks for. The same configuration and files give the
/// same pairs. The network is not touched: a named corpus comes from the cache.
///
/// # Errors
///
/// When a file cannot be read, the two sides do not fit, or a corpus has not been fetched.
pub fn load(config: &TrainConfig) -> Result<Split, TrainError> {
    let data = &config.data;
    let seed = config.train.seed;
    let train_pairs = data.train_pairs.unwrap_or(GENERATED_TRAINING);
    let valid_pairs = data.valid_pairs.unwrap_or(GENERATED_VALIDATION);
    match &data.source {
        DataSource::Toy => Ok(by_heart(generated::toy())),
        DataSource::Reverse => {
            // One draw for both parts; what is drawn twice stays in training only.
            let mut pairs = generated::reverse(train_pairs + valid_pairs, seed);
            let validation = pairs.split_off(train_pairs);
            let known: std::collections::HashSet<&SentencePair> = pairs.iter().collect();
            let validation = validation.into_iter().filter(|pair| !known.contains(pair)).collect();
            Ok(Split { train: pairs, validation })
        }
        DataSource::Phrasebook => Ok(Split {
            train: phrasebook::training(train_pairs, seed),
            validation: phrasebook::validation(valid_pairs, seed),
        }),
        DataSource::Files => from_files(config),
        DataSource::Named(_) => from_cache(config),
    }
}

fn from_files(config: &TrainConfig) -> Result<Split, TrainError> {
    let data = &config.data;
    let files = [&data.train_source, &data.train_target, &data.train_tsv, &data.train_file];
    let Some(pairs) = open(files, data)? else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    parts(config, pairs, None)
}

fn from_cache(config: &TrainConfig) -> Result<Split, TrainError> {
    let (Some(request), fetcher) = (request(&config.data), Fetcher::offline()) else {
        return Err(TrainError::Problems { problems: config.problems() });
    };
    let read = || {
        let fetcher = fetcher?;
        let corpus = named::find(&request, &fetcher, &Endpoints::from_env())?;
        let options = options(&config.data);
        let pairs = corpus.read(Part::Training, &fetcher, &options)?;
        let validation = corpus
            .has(Part::Validation)
            .then(|| corpus.read(Part::Validation, &fetcher, &options))
            .transpose()?;
        Ok::<_, DataError>((pairs, validation))
    };
    let (pairs, validation) = read().map_err(|error| match error {
        DataError::Fetch(source @ FetchError::NotCached { .. }) => {
            TrainError::NotFetched { request: Box::new(request), source }
        }
        other => other.into(),
    })?;
    parts(config, pairs, validation)
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
pub fn fetch(data: &DataConfig, fetcher: &Fetcher) -> Result<Option<Corpus>, TrainError> {
    let Some(request) = request(data) else { return Ok(None) };
    let corpus = named::find(&request, fetcher, &Endpoints::from_env()).map_err(DataError::from)?;
    for remote in corpus.remotes(&[Part::Training, Part::Validation]) {
        fetcher.get(remote).map_err(DataError::from)?;
    }
    Ok(Some(corpus))
}

/// Takes as many pairs as are asked for, and sets some aside where none are given to check on:
/// neither by the user nor by the corpus.
fn parts(
    config: &TrainConfig,
    pairs: Pairs,
    validation: Option<Pairs>,
) -> Result<Split, TrainError> {
    let data = &config.data;
    let take = |pairs: Pairs, most: Option<usize>| {
        pairs.take(most.unwrap_or(usize::MAX)).collect::<Result<Vec<_>, _>>()
    };
    let train = take(pairs, data.train_pairs)?;
    let files = [&data.valid_source, &data.valid_target, &data.valid_tsv, &data.valid_file];
    let mut parts = match open(files, data)?.or(validation) {
        Some(pairs) => return Ok(Split { train, validation: take(pairs, data.valid_pairs)? }),
        None if data.valid_share == 0.0 => by_heart(train),
        None => split(train, data.valid_share, config.train.seed),
    };
    parts.validation.truncate(data.valid_pairs.unwrap_or(usize::MAX));
    Ok(parts)
}

/// Opens the files of one part: of source and target, both as TSV, or both in any format.
fn open(
    [source, target, tsv, file]: [&Option<PathBuf>; 4],
    data: &DataConfig,
) -> Result<Option<Pairs>, DataError> {
    let options = options(data);
    match (source, target, tsv, file) {
        (Some(source), Some(target), _, _) => read::parallel(source, target, &options).map(Some),
        (_, _, Some(tsv), _) => {
            let options = ReadOptions { format: Some(Format::Tsv), ..options };
            read::pairs(tsv, &options).map(Some)
        }
        (_, _, _, Some(file)) => read::pairs(file, &options).map(Some),
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
