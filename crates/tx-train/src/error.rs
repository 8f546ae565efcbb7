//! Errors of a training run.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use tx_data::{
    DataError,
    source::named::Request,
    tx_fetch::{FetchError, remedy::Remedy},
};
use tx_infer::{InferError, TaskKind};
use tx_model::ConfigError;
use tx_text::TextError;

/// Error of a training run.
///
/// Each message states what was found and what is accepted. `source()` returns the cause, if there
/// is one; the message does not repeat it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// There is no recipe of that name.
    #[error("there is no recipe `{name}`; available: {}", known.join(", "))]
    UnknownRecipe {
        /// Unknown name.
        name: String,
        /// Names of all recipes.
        known: Vec<&'static str>,
        /// Most similar name, if any is similar.
        nearest: Option<String>,
    },

    /// A configuration file or a setting is not valid TOML, or a key is unknown.
    #[error("{location}: {problem}")]
    Config {
        /// File or setting.
        location: String,
        /// Description of the problem.
        problem: String,
        /// Most similar key, if any is similar.
        nearest: Option<String>,
    },

    /// Values of the configuration are out of range or contradict each other.
    #[error("invalid configuration:\n  - {}", problems.join("\n  - "))]
    Problems {
        /// Section, key, value and rule of each problem.
        problems: Vec<String>,
    },

    /// A file or folder of the run could not be read.
    #[error("cannot read `{path}`")]
    Read {
        /// File or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// A file or folder of the run could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// File or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// The caller requested an interruption.
    #[error("interrupted")]
    Interrupted,

    /// A new run would overwrite an existing one.
    #[error("`{path}` already contains a run")]
    RunExists {
        /// Run folder.
        path: PathBuf,
        /// Whether the run has a checkpoint to resume from.
        resumable: bool,
    },

    /// Another process writes to the run folder.
    #[error(
        "`{path}` is in use by {}",
        process.map_or_else(|| "another process".into(), |id| format!("process {id}"))
    )]
    RunLocked {
        /// Run folder.
        path: PathBuf,
        /// Id of the other process, if it can be read.
        process: Option<u32>,
    },

    /// The dashboard was requested without a terminal.
    #[error("the dashboard needs a terminal for standard input and output")]
    NoTerminal,

    /// There is no run to resume.
    #[error("`{path}` contains no run to resume: {reason}")]
    NothingToResume {
        /// Run folder.
        path: PathBuf,
        /// Missing part.
        reason: String,
    },

    /// The configuration file was edited since the checkpoint.
    #[error("`{path}` has changed since the checkpoint:\n  - {}", differences.join("\n  - "))]
    ConfigChanged {
        /// Configuration file.
        path: PathBuf,
        /// Key, new value and old value of each difference.
        differences: Vec<String>,
    },

    /// The data has changed since the checkpoint.
    #[error("the {part} data has changed since the checkpoint: {found}, was {expected}")]
    DataChanged {
        /// `training` or `validation`.
        part: &'static str,
        /// Current fingerprint.
        found: String,
        /// Fingerprint at the checkpoint.
        expected: String,
    },

    /// The configuration has another task than the checkpoint.
    #[error("`task` = \"{found}\", but the run was started with \"{expected}\"")]
    OtherTask {
        /// Task of the configuration.
        found: TaskKind,
        /// Task of the checkpoint.
        expected: TaskKind,
    },

    /// The labels of a classifier have changed since the checkpoint.
    #[error(
        "the labels of the training data have changed since the checkpoint: {found}, was {expected}"
    )]
    LabelsChanged {
        /// Current labels.
        found: String,
        /// Labels at the checkpoint.
        expected: String,
    },

    /// A checkpoint is damaged or belongs to another model.
    #[error("checkpoint `{path}` cannot be used: {problem}")]
    Checkpoint {
        /// File of the checkpoint.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
        /// Update of the last intact checkpoint before.
        before: Option<usize>,
    },

    /// There are fewer checkpoints than requested.
    #[error("cannot average {requested} checkpoints: `{path}` has {found}")]
    TooFewCheckpoints {
        /// Run folder.
        path: PathBuf,
        /// Number of checkpoints.
        found: usize,
        /// Number of checkpoints requested.
        requested: usize,
    },

    /// The loss or the gradient norm is not finite. The weights are unchanged.
    #[error(
        "the {what} of step {step} (epoch {epoch}, batch {batch}) is {value}: the update was not \
         applied"
    )]
    NotFinite {
        /// `loss` or `gradient norm`.
        what: &'static str,
        /// Update that was not made, from 1.
        step: usize,
        /// Epoch, from 1.
        epoch: usize,
        /// Batch of the epoch, from 1; with `accumulate`, the first of several.
        batch: usize,
        /// Value.
        value: f64,
    },

    /// A device failed, as when the driver of a GPU is restarted.
    #[error(
        "the device failed: {problem}; {}",
        saved.map_or_else(
            || "the run has no checkpoint yet".into(),
            |step| format!("the last checkpoint is that of step {step}")
        )
    )]
    DeviceFailed {
        /// Description of the problem.
        problem: String,
        /// Run folder.
        run: PathBuf,
        /// Updates of the last checkpoint.
        saved: Option<usize>,
    },

    /// `on_nonfinite = "skip"` has skipped too many batches in a row.
    #[error("{count} batches in a row were skipped; the last: {last}")]
    TooManySkipped {
        /// Number of batches.
        count: usize,
        /// Reason for the last one.
        last: Box<TrainError>,
    },

    /// Two ranks of a run have different values that must be the same.
    #[error(
        "rank {rank} has other {part} than rank 0 at update {step}: {found}, rank 0 has {expected}"
    )]
    RanksDiffer {
        /// Number of the rank, from 1.
        rank: usize,
        /// `training data` or `weights`.
        part: &'static str,
        /// Last update.
        step: usize,
        /// Fingerprint of the rank.
        found: String,
        /// Fingerprint of the first rank.
        expected: String,
    },

    /// Burn's Learner or a data loader failed.
    #[error("training failed")]
    Learner(#[source] Arc<burn::train::TrainingError>),

    /// Text could not be scored.
    #[error(transparent)]
    Score(#[from] tx_eval::ScoreError),

    /// The model configuration is invalid.
    #[error(transparent)]
    Model(#[from] ConfigError),

    /// A named corpus is not in the cache.
    #[error("the corpus `{}` {}-{} has not been fetched", request.name, request.source, request.target)]
    NotFetched {
        /// Corpus.
        request: Box<Request>,
        /// Missing file.
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
    /// Converts an error of reading `path`.
    pub(crate) fn reading(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Read { path, source }
    }

    /// Converts an error of writing `path`.
    pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Write { path, source }
    }

    /// Returns the suggested next step, if there is one; programs print it as `hint: …`.
    pub fn hint(&self) -> Option<String> {
        let fixed = |text: &str| Some(text.to_owned());
        match self {
            Self::UnknownRecipe { nearest, .. } | Self::Config { nearest, .. } => {
                nearest.as_ref().map(|name| format!("did you mean `{name}`?"))
            }
            Self::Problems { problems } if problems.iter().any(|p| p.contains("`train_file`")) => {
                fixed(
                    "specify the files with `--source` and `--target`, `--file`, or a `--config` file",
                )
            }
            Self::NoTerminal => fixed("omit `--tui`: each validation prints a line"),
            Self::RunLocked { .. } => {
                fixed("wait until it ends, or choose another folder with `--run`")
            }
            Self::NothingToResume { .. } => {
                fixed("start a new run without `--resume`, in another folder given by `--run`")
            }
            Self::ConfigChanged { .. } => fixed(
                "`--take new` uses the current file, `--take old` the configuration of the \
                     checkpoint; `--set` changes single values",
            ),
            Self::OtherTask { .. } | Self::LabelsChanged { .. } => {
                fixed("start a new run; `model.encoder_from` can take the encoder of this one")
            }
            Self::DataChanged { .. } => fixed("`--take new` continues with the current data"),
            Self::Checkpoint { before: Some(step), .. } => {
                Some(format!("resume from the checkpoint before it with `--step {step}`"))
            }
            Self::TooFewCheckpoints { .. } => fixed(
                "train with `--set checkpoint.keep_last=N` to keep the last N, or \
                     `checkpoint.keep_best=N` to keep the best N",
            ),
            Self::NotFinite { .. } => fixed(
                "lower `train.learning_rate`, set `train.clip_norm` = 1.0, or skip such batches \
                     with `--set train.on_nonfinite=skip`",
            ),
            Self::TooManySkipped { .. } => {
                fixed("lower `train.learning_rate`, or set `train.clip_norm` = 1.0")
            }
            Self::RanksDiffer { .. } => fixed(
                "all ranks need the same program, configuration and files, and CPUs of one type",
            ),
            Self::Data(DataError::NoPairs { .. } | DataError::NoTexts { .. }) => {
                fixed("check the files, raise `data.max_len`, or specify validation files")
            }
            Self::Data(DataError::NoneSetAside { .. }) => fixed(
                "set `data.valid_share` = 0 to validate on training data, or specify validation files",
            ),
            Self::Data(error) => {
                error.hint().or_else(|| error.remedy().and_then(in_options)).map(str::to_owned)
            }
            Self::Bundle(error) => error.hint().map(str::to_owned),
            _ => None,
        }
    }
}

/// Hint for a remedy, with the configuration keys and options of `train`.
fn in_options(remedy: Remedy) -> Option<&'static str> {
    Some(match remedy {
        Remedy::Fetch => {
            "download it with `train fetch`, with the same name and languages, or add `--fetch`"
        }
        Remedy::FetchAgain => "download it again with `train fetch`",
        Remedy::TrustAnew => {
            "the file has changed at its source; `train fetch --refresh` accepts the new one"
        }
        Remedy::AskAgain => "query the server again with `train fetch --refresh`",
        Remedy::TryLater => {
            "the next attempt continues the partial download; `HTTPS_PROXY` sets a proxy, and \
             `--file` reads a file that was downloaded by other means"
        }
        Remedy::GiveToken => "if this needs an account, set `HF_TOKEN` to its token",
        Remedy::OtherToken => "the token in `HF_TOKEN` does not grant access",
        Remedy::EncryptOrDropToken => {
            "set `HF_ENDPOINT` to an address with `https://`, or unset `HF_TOKEN`"
        }
        Remedy::OtherCache => "set `TX_CACHE` to another folder for the cache",
        Remedy::NameLanguages => {
            "specify them with `--source en --target it` for `train fetch`, or with \
             `data.source_language` and `data.target_language`"
        }
        Remedy::NameSubset => "select one of these with `data.subset` or `--subset`",
        Remedy::NameSplit => "select the split to train on with `data.split`",
        Remedy::NameMember => {
            "specify one as `archive!member`; with `data.source_language` and \
             `data.target_language`, `archive!stem` means `stem.SOURCE` and `stem.TARGET`"
        }
        Remedy::NameFormat => {
            "files with both sides are tsv, csv, jsonl, parquet or tmx; set `data.format` if the \
             format is detected wrongly"
        }
        Remedy::NameColumns => {
            "source and target are the first two columns by default; set `data.source_column` and \
             `data.target_column`"
        }
        Remedy::GiveFilePerSide => "specify a file for each side with `--source` and `--target`",
        Remedy::GiveFileOfBothSides => "specify a file with both sides with `--file`",
        Remedy::ConvertText => {
            "convert the file from its encoding to UTF-8, for example with `iconv -f windows-1252 \
             -t utf-8` if the text is Western European"
        }
        Remedy::ConvertLineEnds => "convert the file, for example with `tr '\\r' '\\n'`",
        Remedy::UnpackOuter => "unpack the outer archive first",
        Remedy::ChooseReadable => "supported formats: parquet, jsonl, csv, tsv and tmx",
        Remedy::ChooseTatoeba => "`opus:Tatoeba` has language pairs without English",
        Remedy::SeeOpus => "see opus.nlpl.eu for the list; names are case-sensitive",
        _ => return None,
    })
}
