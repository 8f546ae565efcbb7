//! Errors between a file and a batch.

use std::{io, path::PathBuf};

/// Error of reading, cleaning, encoding or batching a corpus.
///
/// Each message names the value found and the value expected, with file and line where there is one.
/// The cause, where there is one, is in `source()` and not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The caller asked for the work to end.
    #[error("interrupted")]
    Interrupted,

    /// A text could not be read or tokenized.
    #[error(transparent)]
    Text(#[from] tx_text::TextError),

    /// A file of a prepared corpus is missing or unreadable.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
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
}

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
            Self::Text(error) => error.hint(),
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
