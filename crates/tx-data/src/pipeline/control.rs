//! Interruption and progress of the pipeline.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{clean::CleaningReport, error::DataError};

/// Interruption and progress of a pipeline.
#[derive(Clone, Copy)]
pub struct Control<'a> {
    /// Ends the pipeline with [`DataError::Interrupted`] once set.
    pub stop: &'a AtomicBool,
    /// Receiver of progress reports.
    pub progress: &'a dyn Fn(Progress<'_>),
}

impl Control<'_> {
    /// Returns an error once `stop` is set.
    ///
    /// # Errors
    ///
    /// [`DataError::Interrupted`].
    pub fn check(&self) -> Result<(), DataError> {
        check(self.stop)
    }
}

pub(super) fn check(stop: &AtomicBool) -> Result<(), DataError> {
    if stop.load(Ordering::Relaxed) { Err(DataError::Interrupted) } else { Ok(()) }
}

/// Progress of a pipeline; displayed as a message for a person.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Number of pairs read so far; reported each million.
    Read(usize),
    /// All pairs are read and cleaned.
    Cleaned(&'a CleaningReport),
    /// The tokenizers are being learned.
    LearningTokenizers,
    /// Some of the training pairs are encoded; reported each million.
    Encoded {
        /// Training pairs encoded so far.
        pairs: usize,
        /// Number of stored pairs.
        total: usize,
    },
}

impl fmt::Display for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(pairs) => write!(f, "read {pairs} pairs"),
            Self::Cleaned(report) => report.fmt(f),
            Self::LearningTokenizers => f.write_str("learning the vocabulary"),
            Self::Encoded { pairs, total } => write!(f, "tokenized {pairs} of {total} pairs"),
        }
    }
}
