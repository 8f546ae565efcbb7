//! Errors of downloads.

use std::{io, path::PathBuf};

use crate::remedy::Remedy;

/// Error of a download or of a cache lookup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// File that is not cached while downloads are disabled.
    #[error("`{name}` is not in the cache `{cache}`, and downloads are disabled{}", from(address))]
    NotCached {
        /// Name of the file.
        name: String,
        /// Cache folder.
        cache: PathBuf,
        /// Address of the file, if known.
        address: Option<String>,
    },

    /// Failure of every address.
    #[error("cannot fetch `{name}`:\n  - {}", problems.join("\n  - "))]
    Failed {
        /// Name of the file.
        name: String,
        /// Address and reason of each failure.
        problems: Vec<String>,
        /// Suggested remedy.
        remedy: Option<Remedy>,
    },

    /// Cached file that differs from its record.
    #[error("`{path}` has changed since it was fetched: {found}, expected {expected}")]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Size or checksum found.
        found: String,
        /// Size or checksum of the record.
        expected: String,
    },

    /// Cache that cannot be written.
    #[error("cannot write `{path}`")]
    Cache {
        /// File or folder.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },

    /// Missing folder for the cache.
    #[error("no cache folder: neither `TX_CACHE` nor a home folder is set")]
    NoCache,

    /// Request for something that a source does not have.
    #[error("{problem}")]
    Unknown {
        /// Requested item and available items.
        problem: String,
        /// Suggested remedy.
        remedy: Option<Remedy>,
    },
}

fn from(address: &Option<String>) -> String {
    address.as_ref().map_or_else(String::new, |address| format!("; address: {address}"))
}

impl FetchError {
    /// Returns the suggested remedy, if one is known.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::NotCached { .. } => Some(Remedy::Fetch),
            Self::Failed { remedy, .. } | Self::Unknown { remedy, .. } => *remedy,
            Self::Damaged { .. } => Some(Remedy::FetchAgain),
            Self::Cache { .. } => Some(Remedy::OtherCache),
            Self::NoCache => None,
        }
    }
}
