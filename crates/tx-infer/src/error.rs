//! Errors of opening and writing bundles, and of translating.

use std::{io, path::PathBuf};

use tx_kernels::instruction_set::InstructionLimitError;
use tx_model::ConfigError;
use tx_text::TextError;

use crate::task::TaskKind;

/// Error of opening or writing a bundle, or of translating.
///
/// Each message names the value found and the value expected. The cause, where there is one, is in
/// `source()` and not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// The folder contains no bundle.
    #[error("`{path}` is not a bundle: it has no `{missing}`")]
    NotABundle {
        /// The folder.
        path: PathBuf,
        /// The file that every bundle has.
        missing: &'static str,
    },

    /// The file is not the archive of a bundle.
    #[error("`{path}` is not a bundle in one file, which is a tar archive: {problem}")]
    Archive {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },

    /// A file of the bundle is missing or unreadable.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// A file of the bundle was not downloaded from its repository.
    #[error("`{path}` {}", tx_text::git_lfs::PROBLEM)]
    GitLfsPointer {
        /// The file.
        path: PathBuf,
    },

    /// A file of the bundle is larger than any bundle needs.
    #[error("`{path}` has {bytes} bytes; such a file has at most {max}")]
    LargeFile {
        /// The file.
        path: PathBuf,
        /// Size of the file.
        bytes: u64,
        /// The largest size that is read.
        max: u64,
    },

    /// A file of the bundle could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// `config.toml` or `provenance.toml` cannot be parsed.
    #[error("`{path}` is not a bundle's configuration: {problem}")]
    Config {
        /// The file.
        path: PathBuf,
        /// The problem, with line and column.
        problem: String,
    },

    /// The bundle has a format that this build does not support.
    #[error("`{path}` is bundle format {found}; this build reads formats 1 to {newest}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The format that this build writes.
        newest: u32,
    },

    /// The model of the bundle is for another task.
    #[error("`{path}` is a model for the task `{found}`, expected `{expected}`")]
    WrongTask {
        /// The folder.
        path: PathBuf,
        /// Task of the bundle.
        found: TaskKind,
        /// The task that was requested.
        expected: TaskKind,
    },

    /// No weight of the bundle can initialize another model.
    #[error(
        "no weight of `{path}`, a model for the task `{found}`, fits the model for the task `{model}`"
    )]
    NothingToTake {
        /// The folder.
        path: PathBuf,
        /// Task of the bundle.
        found: TaskKind,
        /// Task of the model to initialize.
        model: TaskKind,
    },

    /// The vocabulary of a masked language model has no mask.
    #[error("`{path}` has no special token `<mask>`, which the task `fill-mask` needs")]
    NoMaskToken {
        /// File of the tokenizer.
        path: PathBuf,
    },

    /// An entry of a glossary is not a term with a translation.
    #[error("entry {entry} of the glossary: {problem}")]
    Glossary {
        /// Number of the entry, from 1.
        entry: usize,
        /// The problem.
        problem: String,
    },

    /// The file is not a glossary.
    #[error("cannot read the glossary `{path}`")]
    GlossaryFile {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: Box<InferError>,
    },

    /// The model's sizes contradict each other.
    #[error(transparent)]
    Model(#[from] ConfigError),

    /// The weights file is damaged, or does not fit the configuration.
    #[error("`{path}` does not contain the weights of this model: {problem}")]
    Weights {
        /// The file.
        path: PathBuf,
        /// The problem, for example the first weight that is missing, superfluous or of another
        /// shape.
        problem: String,
    },

    /// A weight has a value that is infinite or not a number.
    #[error("`{path}`: weight `{weight}` is not finite at value {index}")]
    NotFiniteWeight {
        /// The file.
        path: PathBuf,
        /// Name of the weight.
        weight: String,
        /// Position of the value in row-major order, from 0.
        index: usize,
    },

    /// The device does not support the precision.
    #[error("device does not support {precision} (supported: {})", supported.join(", "))]
    Precision {
        /// The requested precision.
        precision: &'static str,
        /// The precisions that the device supports.
        supported: Vec<&'static str>,
    },

    /// The program was built without the feature that a precision needs.
    #[error("{precision} needs the feature `burn`, without which this program was built")]
    PrecisionFeature {
        /// The requested precision.
        precision: &'static str,
    },

    /// The environment variable that limits the instructions of kernels has an unknown value.
    #[error(transparent)]
    Instructions(#[from] InstructionLimitError),

    /// The weights of a bundle are quantized, which the operation does not support.
    #[error("the weights of `{path}` are quantized")]
    QuantizedWeights {
        /// Folder of the bundle.
        path: PathBuf,
    },

    /// A tokenizer differs from the one that the model was trained with.
    #[error(
        "`{path}` is not the tokenizer that the model was trained with: SHA-256 {found}, expected {expected}"
    )]
    OtherTokenizer {
        /// File of the tokenizer.
        path: PathBuf,
        /// SHA-256 of the file.
        found: String,
        /// SHA-256 in the configuration.
        expected: String,
    },

    /// A tokenizer and the weights have different numbers of ids.
    #[error("`{path}` has {found} ids, but the model was trained with {expected}")]
    VocabSize {
        /// File of the tokenizer.
        path: PathBuf,
        /// Number of ids of the tokenizer.
        found: usize,
        /// Number of ids of the model.
        expected: usize,
    },

    /// Two bundles of an ensemble have different vocabularies.
    #[error(
        "`{first}` and `{other}` have different {side} vocabularies: {first_ids} and {other_ids} \
         ids, {problem}"
    )]
    OtherVocabulary {
        /// The first bundle.
        first: PathBuf,
        /// The other bundle.
        other: PathBuf,
        /// `source`, `target` or `text`.
        side: &'static str,
        /// Number of ids of the first bundle's tokenizer.
        first_ids: usize,
        /// Number of ids of the other bundle's tokenizer.
        other_ids: usize,
        /// The first difference.
        problem: String,
    },

    /// A file is not a lexicon, or one of another vocabulary.
    #[error("`{path}` is not a lexicon of this model: {problem}")]
    Lexicon {
        /// The file.
        path: PathBuf,
        /// The value found and the value expected.
        problem: String,
    },
    /// The file is not a vocabulary shortlist, or is damaged.
    #[error("`{path}` is not a vocabulary shortlist: {problem}")]
    Shortlist {
        /// The file.
        path: PathBuf,
        /// The value found and the value expected.
        problem: String,
    },

    /// A vocabulary shortlist was made for other vocabularies than those of the model.
    #[error("the shortlist is for other vocabularies than those of the model: {problem}")]
    ShortlistVocabulary {
        /// The value found and the value expected.
        problem: String,
    },

    /// The prefix of a target is longer than the model can generate.
    #[error("the prefix of line {line} has {} tokens; this model generates at most {max}", many(*found))]
    LongPrefix {
        /// Line number, from 1.
        line: u64,
        /// Number of tokens of the prefix; `None` if it is too long to be tokenized.
        found: Option<usize>,
        /// Maximum number of tokens of a prefix.
        max: usize,
    },

    /// A text is longer than the model can read, and must not be truncated.
    #[error("line {line} has {} tokens; this model reads at most {max}", many(*found))]
    LongText {
        /// Line number, from 1.
        line: u64,
        /// Number of tokens of the text; `None` if it is too long to be tokenized.
        found: Option<usize>,
        /// Maximum number of tokens of a text.
        max: usize,
    },

    /// A text has no mask to replace.
    #[error("line {line} has no `<mask>`")]
    NoMask {
        /// Line number, from 1.
        line: u64,
    },

    /// A target to score is longer than the model can generate.
    #[error("the target of line {line} has {} tokens; this model generates at most {max}", many(*found))]
    LongTarget {
        /// Line number, from 1.
        line: u64,
        /// Number of tokens of the target, `<eos>` included; `None` if it is too long to be
        /// tokenized.
        found: Option<usize>,
        /// Maximum number of tokens of a target.
        max: usize,
    },

    /// A calibration needs words that are right and words that are not.
    #[error(
        "{right} of {words} words are right; a calibration needs both words that are right and words that are not"
    )]
    Calibration {
        /// Number of words.
        words: usize,
        /// Number of words that are right.
        right: usize,
    },

    /// The bundle has no calibration.
    #[error("the model is not calibrated, so it has no confidence")]
    NotCalibrated,

    /// A bundle in one file cannot be changed.
    #[error("`{path}` is one file, which is not changed")]
    ArchiveIsFixed {
        /// The file.
        path: PathBuf,
    },

    /// The model has no such language.
    #[error("the model has no {side} language `{code}`{}", near(nearest.as_deref()))]
    UnknownLanguage {
        /// `source` or `target`.
        side: &'static str,
        /// The code of the language.
        code: String,
        /// The code of the model that is most similar to it, if the model selects languages of this
        /// side.
        nearest: Option<String>,
    },

    /// The model is not multilingual.
    #[error("the model has no languages to select")]
    NoLanguages,

    /// The model was trained with less context than is asked for.
    #[error(
        "a context of {}, but the model was trained with {}",
        sentences(*found),
        if *trained == 0 { "none".to_owned() } else { format!("at most {trained}") }
    )]
    Context {
        /// Number of sentences asked for.
        found: usize,
        /// Maximum number of sentences that the model was trained with.
        trained: usize,
    },

    /// The model has several languages, and none is selected.
    #[error("no {side} language is selected; the model has {}", listed(codes))]
    LanguageNeeded {
        /// `source` or `target`.
        side: &'static str,
        /// Codes of the languages.
        codes: Vec<String>,
    },

    /// Search options are invalid.
    #[error("search options: {}", problems.join("; "))]
    Search {
        /// Key, value and rule of each problem.
        problems: Vec<String>,
    },

    /// A line of an n-best list has another format.
    #[error("line {line} of the n-best list: {problem}")]
    NBestLine {
        /// Line number, from 1.
        line: u64,
        /// The problem, with the value found.
        problem: String,
    },

    /// An n-best list does not fit the weights, the sources or the references.
    #[error("{problem}")]
    Rerank {
        /// The problem, with the values found and expected.
        problem: String,
    },

    /// The device failed, as when the driver of a GPU is restarted. It fails for the rest of the process.
    #[error("the device failed: {problem}")]
    DeviceFailed {
        /// Description of the problem.
        problem: String,
    },

    /// The model computed NaN or infinity, so no token can be chosen.
    #[error("the model's scores for line {line} are not finite")]
    NotFinite {
        /// Line number, from 1.
        line: u64,
    },

    /// The caller canceled the call.
    #[error("the call was canceled")]
    Cancelled,

    /// As many texts wait as [`Pool::with_max_waiting`](crate::Pool::with_max_waiting) permits.
    #[error("the queue is full")]
    QueueFull,

    /// The pool of the model accepts no further texts: see [`Pool::close`](crate::Pool::close).
    #[error("the pool is closed")]
    PoolClosed,

    /// Text could not be tokenized.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// Formats a number of sentences for a message.
fn sentences(count: usize) -> String {
    format!("{count} sentence{}", if count == 1 { "" } else { "s" })
}

/// Formats a number of tokens for a message.
fn many(tokens: Option<usize>) -> String {
    tokens.map_or("too many".into(), |tokens| tokens.to_string())
}

/// Formats the nearest code for a message.
fn near(code: Option<&str>) -> String {
    code.map_or_else(String::new, |code| format!("; the nearest is `{code}`"))
}

/// Formats the first codes for a message.
fn listed(codes: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = &codes[..codes.len().min(SHOWN)];
    match codes.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl InferError {
    /// Returns the next step to try, if one is known; a program prints it on its own line as
    /// `hint: …`.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotABundle { .. } => {
                Some("a run folder becomes a bundle with its first validation")
            }
            Self::Archive { .. } => Some("`bundle::archive` writes a bundle as one file"),
            Self::Format { found, newest, .. } if found > newest => {
                Some("the bundle is newer than this build: update the program")
            }
            Self::WrongTask { found, .. } => Some(match found {
                TaskKind::Translate => {
                    "`translate --model` translates with this bundle; in the library, `Translator`"
                }
                TaskKind::Classify => {
                    "`translate --model` classifies with this bundle; in the library, `Classifier`"
                }
                TaskKind::Generate => {
                    "`translate --model` continues texts with it; in the library, `Generator`"
                }
                TaskKind::FillMask => {
                    "`translate --model` fills masks with it; in the library, `FillMask`"
                }
            }),
            Self::NothingToTake { .. } => Some(
                "the models need the same sizes (`d_model`, `d_ff`, `n_heads`) and both an encoder",
            ),
            Self::Weights { .. } | Self::OtherTokenizer { .. } | Self::VocabSize { .. } => {
                Some("copy bundle folders whole: their files only fit each other")
            }
            Self::GitLfsPointer { .. } => Some(tx_text::git_lfs::HINT),
            Self::NotFiniteWeight { .. } => Some(
                "copy the bundle again; if the value is in the original too, its training diverged",
            ),
            Self::OtherVocabulary { .. } => Some(
                "models of an ensemble need the same tokenizers: train them on the same data with the same seed",
            ),
            Self::Lexicon { .. } => {
                Some("`LexiconBuilder` makes a lexicon; `Bundle::write_lexicon` writes it")
            }
            Self::Shortlist { .. } | Self::ShortlistVocabulary { .. } => Some(
                "`ShortlistBuilder` makes a shortlist with a model; `Shortlist::save` writes it",
            ),
            Self::NoMask { .. } => Some(
                "write `<mask>` at the position of a word to predict, as in `The cat is <mask>.`",
            ),
            Self::LongTarget { .. } => {
                Some("leave the line out on both sides; a truncated target has another probability")
            }
            Self::UnknownLanguage { .. } | Self::LanguageNeeded { .. } => {
                Some("`BundleInfo` lists the languages; `Translator::with_languages` selects them")
            }
            Self::Context { trained: 0, .. } => {
                Some("`[data] context` trains a model with context; other models have none")
            }
            Self::NotFinite { .. } => Some(
                "in half precision, try single precision; otherwise the weights may be damaged",
            ),
            Self::QuantizedWeights { .. } => Some(
                "quantized weights are for the device `cpu`; use the bundle that they were made from",
            ),
            Self::PrecisionFeature { .. } => {
                Some("build the program with the feature `burn`, or use f32")
            }
            Self::NotCalibrated => Some(
                "`translate calibrate --model DIR --source FILE --reference FILE` calibrates a bundle",
            ),
            Self::ArchiveIsFixed { .. } => Some(
                "change the folder of the bundle, and write the file again with `translate pack`",
            ),
            Self::Text(error) => error.hint(),
            _ => None,
        }
    }
}
