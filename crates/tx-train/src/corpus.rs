//! The pairs of a run: read or generated, cleaned, and split.

use std::path::PathBuf;

use tx_data::{
    Cleaner, CleaningReport, DataError, SentencePair, Split,
    near_duplicate::{Overlap, OverlapFinder},
    source::{generated, local, phrasebook},
    split::split,
    stream::{self, PairStream},
};

use crate::{
    config::{DataConfig, DataSource, OverlapPolicy, TrainConfig},
    error::TrainError,
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
/// give the same pairs.
///
/// # Errors
///
/// When a file cannot be read, or the two sides do not fit.
pub fn load(config: &TrainConfig) -> Result<Corpus, TrainError> {
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
        DataSource::Files => return from_files(config),
    };
    Ok(Corpus { parts, cleaning: None, overlap: None, overlap_left_out: 0 })
}

fn from_files(config: &TrainConfig) -> Result<Corpus, TrainError> {
    let data = &config.data;
    let mut train = match train_files(data)? {
        Some(pairs) => pairs,
        None => return Err(TrainError::Problems { problems: config.problems() }),
    };
    train.truncate(data.train_pairs.unwrap_or(usize::MAX));
    let (mut train, cleaning) = Cleaner::clean_all(data.cleaning(), train);
    let (mut overlap, mut overlap_left_out) = (None, 0);
    let mut parts = match valid_files(data)? {
        Some(validation) => {
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
/// When a file cannot be opened.
pub(crate) fn training_stream(config: &TrainConfig) -> Result<PairStream, TrainError> {
    let data = &config.data;
    let most = data.train_pairs.unwrap_or(usize::MAX);
    Ok(match (&data.train_source, &data.train_target, &data.train_tsv) {
        _ if data.source != DataSource::Files => {
            Box::new(load(config)?.parts.train.into_iter().map(Ok))
        }
        (Some(source), Some(target), _) => {
            Box::new(stream::parallel_text(source, target)?.take(most))
        }
        (_, _, Some(tsv)) => Box::new(stream::tsv(tsv)?.take(most)),
        _ => return Err(TrainError::Problems { problems: config.problems() }),
    })
}

/// The validation pairs that are given or generated; none if they are to be set aside.
///
/// # Errors
///
/// When a file cannot be read.
pub(crate) fn given_validation(
    config: &TrainConfig,
) -> Result<Option<Vec<SentencePair>>, TrainError> {
    if config.data.source != DataSource::Files {
        return Ok(Some(load(config)?.parts.validation));
    }
    let mut pairs = valid_files(&config.data)?;
    if let Some(pairs) = &mut pairs {
        pairs.truncate(config.data.valid_pairs.unwrap_or(usize::MAX));
    }
    Ok(pairs)
}

/// The files that `data` names, in an order that says which is which.
pub(crate) fn input_files(data: &DataConfig) -> Vec<PathBuf> {
    [
        &data.train_source,
        &data.train_target,
        &data.train_tsv,
        &data.valid_source,
        &data.valid_target,
        &data.valid_tsv,
    ]
    .into_iter()
    .flatten()
    .cloned()
    .collect()
}

fn train_files(data: &DataConfig) -> Result<Option<Vec<SentencePair>>, TrainError> {
    Ok(match (&data.train_source, &data.train_target, &data.train_tsv) {
        (Some(source), Some(target), _) => Some(local::parallel_text(source, target)?),
        (_, _, Some(tsv)) => Some(local::tsv(tsv)?),
        _ => None,
    })
}

fn valid_files(data: &DataConfig) -> Result<Option<Vec<SentencePair>>, TrainError> {
    Ok(match (&data.valid_source, &data.valid_target, &data.valid_tsv) {
        (Some(source), Some(target), _) => Some(local::parallel_text(source, target)?),
        (_, _, Some(tsv)) => Some(local::tsv(tsv)?),
        _ => None,
    })
}

/// Checked on what was learned.
fn by_heart(pairs: Vec<SentencePair>) -> Split {
    Split { validation: pairs.clone(), train: pairs }
}
