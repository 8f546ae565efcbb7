//! What can be wrong with the files that pairs are read from.

use std::{fmt, io};

use crate::remedy::Remedy;

/// Where in a file something was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as the user named it, or `standard input`.
    pub file: String,
    /// The file inside the archive.
    pub member: Option<String>,
    /// `line` or `row`, and its number from 1.
    pub at: Option<(&'static str, u64)>,
}

impl Place {
    /// The same file, at a line.
    pub fn line(&self, line: u64) -> Self {
        Self { at: Some(("line", line)), ..self.clone() }
    }

    /// The same file, at a row of a table without lines.
    pub fn row(&self, row: u64) -> Self {
        Self { at: Some(("row", row)), ..self.clone() }
    }

    /// An error here.
    pub fn malformed(self, problem: impl Into<String>) -> SourceError {
        SourceError::Malformed { place: self, problem: problem.into(), remedy: None }
    }

    /// An error here, and what to try.
    pub fn malformed_try(self, problem: impl Into<String>, remedy: Remedy) -> SourceError {
        SourceError::Malformed { place: self, problem: problem.into(), remedy: Some(remedy) }
    }

    /// What the system, or a decoder, said when this was read.
    pub fn unreadable(self, source: io::Error) -> SourceError {
        SourceError::Read { place: self, source }
    }

    /// The file and member as a path for messages that know only paths.
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

/// Why pairs could not be read from a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The system or a decoder could not go on: a missing file, a broken archive, a bomb.
    #[error("cannot read {place}")]
    Read {
        /// Where.
        place: Place,
        /// What the system or the decoder said.
        source: io::Error,
    },

    /// What stands there is not what such a file holds.
    #[error("{place}: {problem}")]
    Malformed {
        /// Where.
        place: Place,
        /// What was found and what was expected.
        problem: String,
        /// What to try.
        remedy: Option<Remedy>,
    },
}

impl SourceError {
    /// The next thing to try, if one is known.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Malformed { remedy, .. } => *remedy,
            Self::Read { .. } => None,
        }
    }
}
