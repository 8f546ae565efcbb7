//! What can go wrong between a bundle on disk and a translation.

use std::{io, path::PathBuf};

use tx_model::ConfigError;
use tx_text::TextError;

/// Why a bundle could not be opened or written, or a text not translated.
///
/// Each message says what was found and what was expected. The cause, where there is one, is in
/// `source()` and not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InferError {
    /// The folder holds no bundle.
    #[error("`{path}` is not a bundle: it has no `{missing}`")]
    NotABundle {
        /// The folder.
        path: PathBuf,
        /// The file that every bundle has.
        missing: &'static str,
    },

    /// A file of the bundle is missing or unreadable.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// A file of the bundle is larger than any bundle needs.
    #[error("`{path}` has {bytes} bytes; such a file has at most {most}")]
    LargeFile {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The largest size that is read.
        most: u64,
    },

    /// A file of the bundle could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },

    /// `config.toml` does not say what it should.
    #[error("`{path}` is not a bundle's configuration: {problem}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        problem: String,
    },

    /// The bundle was written in a format this build does not know.
    #[error("`{path}` is bundle format {found}; this build reads format {newest}")]
    Format {
        /// The file.
        path: PathBuf,
        /// The format it says.
        found: u32,
        /// The format this build writes.
        newest: u32,
    },

    /// The model's sizes contradict each other.
    #[error(transparent)]
    Model(#[from] ConfigError),

    /// The weights file is damaged, or holds another model than the configuration says.
    #[error("`{path}` does not hold the weights of this model: {problem}")]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong: the first weight that is missing, left over or of another shape.
        problem: String,
    },

    /// The device has no such numbers.
    #[error("this device does not compute in {precision}, but in {}", known.join(", "))]
    Precision {
        /// The numbers asked for.
        precision: &'static str,
        /// Those it has.
        known: Vec<&'static str>,
    },

    /// A tokenizer is not the one that the model was trained with.
    #[error(
        "`{path}` is another tokenizer than the model was trained with: SHA-256 {found}, expected {expected}"
    )]
    OtherTokenizer {
        /// The tokenizer's file.
        path: PathBuf,
        /// Of the file as it is.
        found: String,
        /// Of the file as it was written with the weights.
        expected: String,
    },

    /// A tokenizer and the weights have different numbers of ids.
    #[error("`{path}` has {found} ids, but the model was trained with {expected}")]
    VocabSize {
        /// The tokenizer's file.
        path: PathBuf,
        /// Ids of the tokenizer.
        found: usize,
        /// Ids of the model.
        expected: usize,
    },

    /// Two bundles that should translate as one have different vocabularies.
    #[error(
        "`{first}` and `{other}` have different {side} vocabularies: {first_ids} and {other_ids} \
         ids, {problem}"
    )]
    OtherVocabulary {
        /// The first bundle.
        first: PathBuf,
        /// The other one.
        other: PathBuf,
        /// `source` or `target`.
        side: &'static str,
        /// Ids of the first bundle's tokenizer.
        first_ids: usize,
        /// Ids of the other one's.
        other_ids: usize,
        /// The first difference.
        problem: String,
    },

    /// What a target should begin with is longer than the model can write.
    #[error("the prefix of line {line} has {} tokens; this model writes at most {most}", many(*found))]
    LongPrefix {
        /// Line number, from 1.
        line: u64,
        /// Tokens of the prefix; none if it is too long to be tokenized.
        found: Option<usize>,
        /// Most tokens of a prefix.
        most: usize,
    },

    /// A target whose probability is asked for is longer than the model can write.
    #[error("the target of line {line} has {} tokens; this model writes at most {most}", many(*found))]
    LongTarget {
        /// Line number, from 1.
        line: u64,
        /// Tokens of the target, `<eos>` included; none if it is too long to be tokenized.
        found: Option<usize>,
        /// Most tokens of a target.
        most: usize,
    },

    /// A search option breaks a rule.
    #[error("search options: {}", problems.join("; "))]
    Search {
        /// Key, value and rule of each.
        problems: Vec<String>,
    },

    /// The model computed NaN or infinity, so that no token is the likeliest.
    #[error("the model's scores for line {line} are not finite numbers")]
    NotFinite {
        /// Line number, from 1.
        line: u64,
    },

    /// The system refused to start threads.
    #[error("cannot start {threads} threads")]
    Threads {
        /// Number of threads.
        threads: usize,
        /// Error of the system.
        source: io::Error,
    },

    /// The caller canceled the translation.
    #[error("the translation was canceled")]
    Cancelled,

    /// Text could not be tokenized.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// A number of tokens in a message.
fn many(tokens: Option<usize>) -> String {
    tokens.map_or("too many".into(), |tokens| tokens.to_string())
}

impl InferError {
    /// The next thing to try, if one is known; an app prints it on its own line as `hint: …`.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotABundle { .. } => {
                Some("a run folder becomes a bundle with its first validation")
            }
            Self::Format { found, newest, .. } if found > newest => {
                Some("the bundle is newer than this build: update the program")
            }
            Self::Weights { .. } | Self::OtherTokenizer { .. } | Self::VocabSize { .. } => {
                Some("copy bundle folders whole: their files only fit each other")
            }
            Self::OtherVocabulary { .. } => Some(
                "models of an ensemble need the same tokenizers: the same data and seed give them",
            ),
            Self::LongTarget { .. } => {
                Some("leave the line out on both sides; a part's probability is not the whole's")
            }
            Self::NotFinite { .. } => Some(
                "in half precision, try single; otherwise the weights themselves may be damaged",
            ),
            Self::Text(error) => error.hint(),
            _ => None,
        }
    }
}
