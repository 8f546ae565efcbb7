//! What can go wrong between a file and a batch.

use std::{io, path::PathBuf};

/// Why text could not be read, tokenized or batched.
///
/// Each message says what was found and what was expected, with file and line where there is one.
/// The cause, where there is one, is in `source()` and not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The caller asked for the work to end.
    #[error("interrupted")]
    Interrupted,

    /// A file is missing, unreadable, or not what its name says (a broken `.gz`, say).
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A line is not valid UTF-8.
    #[error("`{path}` line {line} is not valid UTF-8 (byte {byte} of the line)")]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The first bad byte of the line, from 1.
        byte: usize,
    },

    /// A file has no line.
    #[error("`{path}` is empty")]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// Two files that should be translations of each other differ in length.
    #[error(
        "`{source_path}` has {source_lines} lines, but `{target_path}` has {target_lines}: line N \
         of one must translate line N of the other"
    )]
    LineCount {
        /// The source side.
        source_path: PathBuf,
        /// Its number of lines.
        source_lines: usize,
        /// The target side.
        target_path: PathBuf,
        /// Its number of lines.
        target_lines: usize,
    },

    /// A line of a TSV file has too few columns.
    #[error("`{path}` line {line} has {found} tab-separated columns, expected at least {expected}")]
    Columns {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Columns found.
        found: usize,
        /// Columns needed.
        expected: usize,
    },

    /// Nothing is left to learn from.
    #[error("no usable sentence pair in {what}: {reason}")]
    NoPairs {
        /// The corpus.
        what: String,
        /// Why nothing is left, with counts.
        reason: String,
    },

    /// The tokenizer cannot be made as asked.
    #[error("tokenizer: {problem}")]
    TokenizerConfig {
        /// Key, value and rule.
        problem: String,
    },

    /// A tokenizer file is not one, or lacks what tx needs.
    #[error("`{path}` is not a usable tokenizer: {problem}")]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A file that pairs are read from is not as it should be.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Source(#[from] crate::source::error::SourceError),

    /// A file could not be fetched, or is not in the cache.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Fetch(#[from] crate::fetch::FetchError),

    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A folder is no prepared corpus, or a damaged one.
    #[error("`{path}` is not usable as prepared data: {problem}")]
    Prepared {
        /// The folder, or the file in it.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },

    /// A corpus was prepared from other files or with other settings.
    #[error("the prepared data in `{path}` is stale: {what}")]
    StalePrepared {
        /// The folder.
        path: PathBuf,
        /// What has changed, with both values.
        what: String,
    },

    /// The `tokenizers` library refused a text or a vocabulary.
    #[error("the tokenizer failed")]
    Tokenizer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Against text that is not UTF-8.
pub(crate) const CONVERT: &str =
    "convert the file first, for example with `iconv -f latin1 -t utf-8`";

impl DataError {
    /// The next thing to try that a program can say in terms of its own options, if one is known.
    #[cfg(feature = "sources")]
    pub fn remedy(&self) -> Option<crate::remedy::Remedy> {
        match self {
            Self::Source(error) => error.remedy(),
            Self::Fetch(error) => error.remedy(),
            _ => None,
        }
    }

    /// The next thing to try, if one is known; an app prints it on its own line as `hint: …`.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Utf8 { .. } => Some(CONVERT),
            Self::LineCount { .. } => {
                Some("compare with `wc -l`; an empty line on one side needs one on the other")
            }
            Self::Columns { .. } => Some("source and target go in the first two columns"),
            Self::Prepared { .. } => Some("delete the folder to have it prepared anew"),
            Self::StalePrepared { .. } => {
                Some("delete the folder, or name another one, to have the data prepared anew")
            }
            Self::NoPairs { .. } => {
                Some("look at the files, allow longer sentences, or give validation files")
            }
            _ => None,
        }
    }
}
