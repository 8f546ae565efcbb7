//! The pairs of a run: read or generated, and split.

use tx_data::{
    SentencePair, Split,
    source::{generated, local, phrasebook},
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
/// same pairs.
///
/// # Errors
///
/// When a file cannot be read, or the two sides do not fit.
pub fn load(config: &TrainConfig) -> Result<Split, TrainError> {
    let data = &config.data;
    let seed = config.train.seed;
    let train_pairs = data.train_pairs.unwrap_or(GENERATED_TRAINING);
    let valid_pairs = data.valid_pairs.unwrap_or(GENERATED_VALIDATION);
    match data.source {
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
    }
}

fn from_files(config: &TrainConfig) -> Result<Split, TrainError> {
    let data = &config.data;
    let mut train = match train_files(data)? {
        Some(pairs) => pairs,
        None => return Err(TrainError::Problems { problems: config.problems() }),
    };
    train.truncate(data.train_pairs.unwrap_or(usize::MAX));
    let mut parts = match valid_files(data)? {
        Some(validation) => Split { train, validation },
        None if data.valid_share == 0.0 => by_heart(train),
        None => split(train, data.valid_share, config.train.seed),
    };
    parts.validation.truncate(data.valid_pairs.unwrap_or(usize::MAX));
    Ok(parts)
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
