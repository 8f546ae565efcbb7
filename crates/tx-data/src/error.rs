//! Errors of reading, cleaning, encoding and batching corpora.

use std::{io, path::PathBuf};

/// Error of reading, cleaning, encoding or batching a corpus.
///
/// Each message names the value found and the value expected, with file and line where there is
/// one. The cause, where there is one, is in `source()` and not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The caller interrupted the work.
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
        /// Error of the operating system.
        source: io::Error,
    },

    /// A line of a TSV file has too few columns.
    #[error("`{path}` line {line} has {found} tab-separated columns, expected at least {expected}")]
    Columns {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Number of columns found.
        found: usize,
        /// Number of columns required.
        expected: usize,
    },

    /// The labels of a corpus cannot be classes.
    #[error("unusable labels in {what}: {problem}")]
    Labels {
        /// Name of the corpus.
        what: String,
        /// The rule that the labels break.
        problem: String,
    },

    /// A text has a label that no training text has.
    #[error(
        "line {line} of {what} has the label `{label}`, which does not occur in training; accepted are \
         {accepted}"
    )]
    UnknownLabel {
        /// Name of the corpus.
        what: String,
        /// Number of the text in the corpus, from 1.
        line: usize,
        /// The label.
        label: String,
        /// Labels of the training data.
        accepted: String,
    },

    /// No document is left for training or validation.
    #[error("no usable document in {what}: {reason}")]
    NoDocuments {
        /// Name of the corpus.
        what: String,
        /// Reason, with counts.
        reason: String,
    },

    /// No pair is left for training or validation.
    #[error("no usable sentence pair in {what}: {reason}")]
    NoPairs {
        /// Name of the corpus.
        what: String,
        /// Reason, with counts.
        reason: String,
    },

    /// A fraction of the training data was to be set aside for validation, and none can be.
    #[error("no {unit} can be set aside for validation: {reason}")]
    NoneSetAside {
        /// Name of several examples: `pairs`, `texts` or `documents`.
        unit: &'static str,
        /// Numbers of examples, and the fraction.
        reason: String,
    },

    /// No labeled text is left for training or validation.
    #[error("no usable text with a label in {what}: {reason}")]
    NoTexts {
        /// Name of the corpus.
        what: String,
        /// Reason, with counts.
        reason: String,
    },

    /// A line of a file of weights or alignments is malformed or does not fit its pair.
    #[error("`{path}` line {line}: {problem}")]
    Annotation {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Content found and content expected.
        problem: String,
    },

    /// A file of weights or alignments has another number of lines than the corpus has pairs.
    #[error("`{path}` has {problem}")]
    AnnotationCount {
        /// The file.
        path: PathBuf,
        /// Both numbers.
        problem: String,
    },

    /// A file of pairs is malformed or unreadable.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Source(#[from] crate::source::error::SourceError),

    /// A file could not be fetched, or is not in the cache.
    #[cfg(feature = "sources")]
    #[error(transparent)]
    Fetch(#[from] tx_fetch::FetchError),

    /// A file could not be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },

    /// A folder is not a prepared corpus, or is damaged.
    #[error("`{path}` is not usable as prepared data: {problem}")]
    Prepared {
        /// The folder, or the file in it.
        path: PathBuf,
        /// Description of the damage.
        problem: String,
    },

    /// A file of a corpus of several files could not be prepared.
    #[error("cannot prepare `{path}`")]
    Shard {
        /// The file.
        path: PathBuf,
        /// The error.
        source: Box<DataError>,
    },

    /// A corpus was prepared from other files or with other settings.
    #[error("the prepared data in `{path}` is stale: {what}")]
    StalePrepared {
        /// The folder.
        path: PathBuf,
        /// Description of the change, with both values.
        what: String,
    },
}

impl DataError {
    /// Returns the remedy, if one is known; a program expresses it in its own options.
    #[cfg(feature = "sources")]
    pub fn remedy(&self) -> Option<tx_fetch::remedy::Remedy> {
        match self {
            Self::Source(error) => error.remedy(),
            Self::Shard { source, .. } => source.remedy(),
            Self::Fetch(error) => error.remedy(),
            _ => None,
        }
    }

    /// Returns the next step to try, if one is known; an app prints it on its own line as
    /// `hint: …`.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Text(error) => error.hint(),
            Self::Shard { source, .. } => source.hint(),
            Self::Columns { .. } => Some("source and target go in the first two columns"),
            Self::Labels { .. } => Some("the text is the source and its label the target"),
            Self::UnknownLabel { .. } => {
                Some("correct the label, or add texts with this label to the training data")
            }
            Self::NoDocuments { .. } => {
                Some("separate documents by empty lines, or give validation files")
            }
            Self::Prepared { .. } => Some("delete the folder, so that it is prepared again"),
            Self::StalePrepared { .. } => {
                Some("delete the folder or choose another one, so that the data is prepared again")
            }
            Self::NoneSetAside { .. } => {
                Some("validate on the training data, or give validation files")
            }
            Self::NoPairs { .. } => {
                Some("check the files, allow longer sentences, or give validation files")
            }
            Self::NoTexts { .. } => {
                Some("check the files, allow longer texts, or give validation files")
            }
            _ => None,
        }
    }
}
