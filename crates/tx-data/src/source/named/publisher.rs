//! Publisher of corpora by name.

use std::path::PathBuf;

use tx_fetch::{FetchError, Fetcher, Mode, Remote, remedy::Remedy};

use super::{
    corpus::Corpus,
    endpoints::{Endpoint, Endpoints},
    request::Request,
};

/// Publisher of one or more corpora. Each has a file with a constant of this type.
#[derive(Debug, Clone, Copy)]
pub struct Publisher {
    /// Name of the corpus, or pattern of names.
    pub name: &'static str,
    /// Short description.
    pub about: &'static str,
    /// Returns true if a name has the form of this publisher's names.
    pub(super) is_name: fn(&str) -> bool,
    /// Addresses of the files.
    pub(super) endpoints: &'static [Endpoint],
    /// Finds a corpus whose name passes `is_name`.
    pub(super) find: fn(&Request, &Fetcher, &Endpoints) -> Result<Corpus, FetchError>,
}

/// Error for a corpus that cannot be found.
pub(super) fn unknown(problem: String, remedy: Option<Remedy>) -> FetchError {
    FetchError::Unknown { problem, remedy }
}

/// Fetches one page of a list and the address of the next.
pub(super) fn list(
    remote: &Remote,
    fetcher: &Fetcher,
) -> Result<(serde_json::Value, Option<String>), FetchError> {
    let cached = fetcher.get(remote)?;
    let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
    match read(&cached.path) {
        Some(value) => Ok((value, cached.record.next)),
        None => Err(unknown(
            format!("the response of {} is not a JSON list", cached.record.address),
            (fetcher.mode() != Mode::Refresh).then_some(Remedy::AskAgain),
        )),
    }
}
