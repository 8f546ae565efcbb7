//! What can go wrong in a training run.

use std::{io, path::PathBuf, sync::Arc};

use tx_data::{DataError, fetch::FetchError, remedy::Remedy, source::named::Request};
use tx_infer::InferError;
use tx_model::ConfigError;
use tx_text::TextError;

/// Why a run could not start, or ended before its time.
///
/// Each message says what was found and what was expected. The cause, where there is one, is in
/// `source()` and not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// There is no recipe of that name.
    #[error("there is no recipe `{name}`; there are {}", known.join(", "))]
    UnknownRecipe {
        /// The name given.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
        /// The one that the user may have meant.
        nearest: Option<String>,
    },

    /// A configuration file or a `--set` is not understood.
    #[error("{place}: {problem}")]
    Config {
        /// The file, or the setting.
        place: String,
        /// What is wrong.
        problem: String,
        /// The key that the user may have meant.
        nearest: Option<String>,
    },

    /// Numbers of the configuration break rules.
    #[error("the configuration cannot be used:\n  - {}", problems.join("\n  - "))]
    Problems {
        /// Section, key, value and rule of each.
        problems: Vec<String>,
    },

    /// A file of the run could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A file of the run could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// Somebody asked for the work to end.
    #[error("interrupted")]
    Interrupted,

    /// A new run must not overwrite an old one.
    #[error("`{path}` holds a run already")]
    RunExists {
        /// The folder.
        path: PathBuf,
        /// Whether it has a checkpoint to resume from.
        resumable: bool,
    },

    /// Another process writes to the run folder.
    #[error(
        "`{path}` is in use by {}",
        process.map_or_else(|| "another process".into(), |id| format!("process {id}"))
    )]
    RunLocked {
        /// The folder.
        path: PathBuf,
        /// The other process, where its id can be read.
        process: Option<u32>,
    },

    /// The dashboard was asked for where none can be shown.
    #[error("the dashboard needs a terminal for standard input and output")]
    NoTerminal,

    /// There is nothing to go on from.
    #[error("`{path}` holds no run to resume: {reason}")]
    NothingToResume {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        reason: String,
    },

    /// The configuration is not what it was at the checkpoint, and not by `--set`.
    #[error("`{path}` has changed since the checkpoint:\n  - {}", differences.join("\n  - "))]
    ConfigChanged {
        /// The configuration.
        path: PathBuf,
        /// Key, value and value before of each difference.
        differences: Vec<String>,
    },

    /// The data is not what it was at the checkpoint.
    #[error("the {part} data has changed since the checkpoint: {found}, was {expected}")]
    DataChanged {
        /// `training` or `validation`.
        part: &'static str,
        /// What it is now.
        found: String,
        /// What it was.
        expected: String,
    },

    /// A checkpoint is damaged or belongs to another model.
    #[error("checkpoint `{path}` cannot be used: {problem}")]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// The update of the last checkpoint before it that is whole.
        before: Option<usize>,
    },

    /// There are not as many checkpoints as are to be averaged.
    #[error("`{path}` has {found} checkpoints, asked for the mean of {asked}")]
    TooFewCheckpoints {
        /// The run.
        path: PathBuf,
        /// How many there are.
        found: usize,
        /// How many were asked for.
        asked: usize,
    },

    /// The loss or the gradient is not a finite number; the weights are as they were before.
    #[error(
        "the {what} of step {step} (epoch {epoch}, batch {batch}) is {value}: the update is not made"
    )]
    NotFinite {
        /// `loss` or `gradient norm`.
        what: &'static str,
        /// The update that was not made, from 1.
        step: usize,
        /// The epoch, from 1.
        epoch: usize,
        /// The batch of that epoch, from 1; with `accumulate`, the first of several.
        batch: usize,
        /// The value.
        value: f64,
    },

    /// `on_nonfinite = "skip"` has skipped too many batches in a row.
    #[error("{count} batches in a row were skipped; the last: {last}")]
    TooManySkipped {
        /// Number of batches.
        count: usize,
        /// Why the last one was.
        last: Box<TrainError>,
    },

    /// Burn's training loop ended with an error.
    #[error("training stopped")]
    Learner(#[source] Arc<burn::train::TrainingError>),

    /// Text could not be scored.
    #[error(transparent)]
    Score(#[from] tx_eval::ScoreError),

    /// The model's sizes contradict each other.
    #[error(transparent)]
    Model(#[from] ConfigError),

    /// A named corpus is not in the cache.
    #[error("the corpus `{}` {}-{} has not been fetched", request.name, request.source, request.target)]
    NotFetched {
        /// The corpus.
        request: Box<Request>,
        /// What is missing.
        source: FetchError,
    },

    /// The corpus could not be read or tokenized.
    #[error(transparent)]
    Data(DataError),

    /// The bundle could not be written or read.
    #[error(transparent)]
    Bundle(Box<InferError>),
}

impl From<DataError> for TrainError {
    fn from(error: DataError) -> Self {
        match error {
            DataError::Interrupted => Self::Interrupted,
            error => Self::Data(error),
        }
    }
}

impl From<TextError> for TrainError {
    fn from(error: TextError) -> Self {
        Self::Data(error.into())
    }
}

impl From<InferError> for TrainError {
    fn from(error: InferError) -> Self {
        match error {
            InferError::Cancelled => Self::Interrupted,
            error => Self::Bundle(Box::new(error)),
        }
    }
}

impl TrainError {
    /// The next thing to try, if one is known; an app prints it on its own line as `hint: …`.
    pub fn hint(&self) -> Option<String> {
        let fixed = |text: &str| Some(text.to_owned());
        match self {
            Self::UnknownRecipe { nearest, .. } | Self::Config { nearest, .. } => {
                nearest.as_ref().map(|name| format!("did you mean `{name}`?"))
            }
            Self::Problems { problems } if problems.iter().any(|p| p.contains("`train_file`")) => {
                fixed(
                    "name the files with `--source` and `--target`, or `--file`, or in a `--config` file",
                )
            }
            Self::NoTerminal => fixed("leave out `--tui`: there is a line for each validation"),
            Self::RunLocked { .. } => {
                fixed("wait until it ends, or choose another folder with `--run`")
            }
            Self::NothingToResume { .. } => {
                fixed("start a new run without `--resume`, in another folder given by `--run`")
            }
            Self::ConfigChanged { .. } => fixed(
                "`--take new` goes on with it as it is now, `--take old` with it as it was; \
                     `--set` changes single values",
            ),
            Self::DataChanged { .. } => fixed("`--take new` goes on with the data as it is now"),
            Self::Checkpoint { before: Some(step), .. } => {
                Some(format!("go on from the checkpoint before it with `--from {step}`"))
            }
            Self::TooFewCheckpoints { .. } => fixed(
                "`--set checkpoint.keep_last=N` keeps the last N while training, \
                     `checkpoint.keep_best` the best",
            ),
            Self::NotFinite { .. } => fixed(
                "lower `train.learning_rate`, set `train.clip_norm` = 1.0, or leave such \
                     batches out with `--set train.on_nonfinite=skip`",
            ),
            Self::TooManySkipped { .. } => {
                fixed("lower `train.learning_rate`, or set `train.clip_norm` = 1.0")
            }
            Self::Data(DataError::NoPairs { .. }) => {
                fixed("look at the files, raise `data.max_len`, or give validation files")
            }
            Self::Data(error) => {
                error.hint().or_else(|| error.remedy().and_then(in_options)).map(str::to_owned)
            }
            Self::Bundle(error) => error.hint().map(str::to_owned),
            _ => None,
        }
    }
}

/// A remedy in terms of the configuration and the options of `train`.
fn in_options(remedy: Remedy) -> Option<&'static str> {
    Some(match remedy {
        Remedy::Fetch => {
            "`train fetch` fetches it, with the same name and languages; so does `train --fetch`"
        }
        Remedy::FetchAgain => "`train fetch` fetches it again",
        Remedy::TrustAnew => {
            "the file has changed at its source; `train fetch --refresh` trusts it anew"
        }
        Remedy::AskAgain => "`train fetch --refresh` asks again",
        Remedy::TryLater => {
            "what has come is kept and continued next time; `HTTPS_PROXY` names a proxy, and a file \
             fetched by other means can be read with `--file`"
        }
        Remedy::GiveToken => "if this needs an account, put its token into `HF_TOKEN`",
        Remedy::OtherToken => "the token in `HF_TOKEN` does not open this",
        Remedy::EncryptOrDropToken => {
            "give `HF_ENDPOINT` an address with `https://`, or unset `HF_TOKEN`"
        }
        Remedy::OtherCache => "`TX_CACHE` names another folder for the cache",
        Remedy::NameLanguages => {
            "name them with `--source en --target it` for `train fetch`, or with \
             `data.source_language` and `data.target_language`"
        }
        Remedy::NameSubset => "`data.subset` or `--subset` names one of these",
        Remedy::NameSplit => "`data.split` names the split to train on",
        Remedy::NameMember => {
            "name one as `archive!member`; with `data.source_language` and `data.target_language`, \
             `archive!stem` means `stem.SOURCE` and `stem.TARGET`"
        }
        Remedy::NameFormat => {
            "both sides are read from tsv, csv, jsonl, parquet or tmx; `data.format` says which, if \
             it is told wrongly"
        }
        Remedy::NameColumns => {
            "source and target are the first two columns unless `data.source_column` and \
             `data.target_column` say otherwise"
        }
        Remedy::GiveFilePerSide => "give a file for each side, with `--source` and `--target`",
        Remedy::GiveFileOfBothSides => "a file that holds both sides is given with `--file`",
        Remedy::ConvertText => {
            "convert the file first, for example with `iconv -f latin1 -t utf-8`"
        }
        Remedy::UnpackOuter => "unpack the outer one first",
        Remedy::ChooseReadable => "parquet, jsonl, csv, tsv and tmx are read",
        Remedy::ChooseTatoeba => "`opus:Tatoeba` has pairs without English",
        Remedy::SeeOpus => "opus.nlpl.eu lists them; upper and lower case matter",
        _ => return None,
    })
}
