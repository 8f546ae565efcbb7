//! Errors of reading sentence pairs from files.

use std::{fmt, io};

use tx_fetch::remedy::Remedy;

/// Location of an error in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File as the user named it, or `standard input`.
    pub file: String,
    /// Member of the archive.
    pub member: Option<String>,
    /// `line` or `row`, with its number from 1.
    pub at: Option<(&'static str, u64)>,
}

impl Place {
    /// Returns the location of a line in the same file.
    pub fn line(&self, line: u64) -> Self {
        Self { at: Some(("line", line)), ..self.clone() }
    }

    /// Returns the location of a row in the same file, for tables without lines.
    pub fn row(&self, row: u64) -> Self {
        Self { at: Some(("row", row)), ..self.clone() }
    }

    /// Creates an error at this location.
    pub fn malformed(self, problem: impl Into<String>) -> SourceError {
        SourceError::Malformed { place: self, problem: problem.into(), remedy: None }
    }

    /// Creates an error at this location, with a suggested remedy.
    pub fn malformed_try(self, problem: impl Into<String>, remedy: Remedy) -> SourceError {
        SourceError::Malformed { place: self, problem: problem.into(), remedy: Some(remedy) }
    }

    /// Creates an I/O or decoder error at this location.
    pub fn unreadable(self, source: io::Error) -> SourceError {
        SourceError::Read { place: self, source }
    }

    /// File and member as one path, for messages with a path only.
    pub(crate) fn name(&self) -> String {
        match &self.member {
            Some(member) => format!("{}!{member}", self.file),
            None => self.file.clone(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.file)?;
        if let Some(member) = &self.member {
            write!(f, " member `{member}`")?;
        }
        if let Some((unit, number)) = self.at {
            write!(f, " {unit} {number}")?;
        }
        Ok(())
    }
}

/// Error of reading sentence pairs from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Failed read: a missing file, a broken archive, a decompression bomb.
    #[error("cannot read {place}")]
    Read {
        /// Location of the error.
        place: Place,
        /// Error of the system or the decoder.
        source: io::Error,
    },

    /// Content that does not match the format.
    #[error("{place}: {problem}")]
    Malformed {
        /// Location of the error.
        place: Place,
        /// Content found and content expected.
        problem: String,
        /// Suggested remedy.
        remedy: Option<Remedy>,
    },
}

impl SourceError {
    /// Returns the suggested remedy, if one is known.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Malformed { remedy, .. } => *remedy,
            Self::Read { .. } => None,
        }
    }
}
