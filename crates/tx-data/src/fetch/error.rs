//! Why a file could not be fetched.

use std::{io, path::PathBuf};

use crate::remedy::Remedy;

/// Why a file could not be fetched, or found in the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// Nothing may be fetched, and the file is not in the cache.
    #[error(
        "`{name}` is not in the cache `{cache}`, and nothing may be fetched now{}",
        from(address)
    )]
    NotCached {
        /// The file.
        name: String,
        /// The folder.
        cache: PathBuf,
        /// Where it would come from.
        address: Option<String>,
    },

    /// Every address failed, each for its reason.
    #[error("cannot fetch `{name}`:\n  - {}", problems.join("\n  - "))]
    Failed {
        /// The file.
        name: String,
        /// Address and reason of each.
        problems: Vec<String>,
        /// What to try.
        remedy: Option<Remedy>,
    },

    /// A cached file is not what was fetched.
    #[error("`{path}` has changed since it was fetched: {found}, was {expected}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Its size or hash now.
        found: String,
        /// Its size or hash then.
        expected: String,
    },

    /// The cache cannot be used.
    #[error("cannot write `{path}`")]
    Cache {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// There is no place for a cache.
    #[error("there is no folder for the cache: neither `TX_CACHE` nor a home folder is set")]
    NoCache,

    /// A source is asked for what it does not have.
    #[error("{problem}")]
    Unknown {
        /// What is asked for, and what there is.
        problem: String,
        /// What to try.
        remedy: Option<Remedy>,
    },
}

fn from(address: &Option<String>) -> String {
    address.as_ref().map_or_else(String::new, |address| format!("; it comes from {address}"))
}

impl FetchError {
    /// The next thing to try, if one is known.
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
