//! Progress events of downloads.

use std::time::Duration;

use super::cache::Record;

/// Progress event of a download, for display.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Another process downloads the same file.
    Waiting {
        /// Name of the file.
        name: String,
    },
    /// Unencrypted connection without a known checksum: the file could be replaced in transit.
    Unprotected {
        /// Address of the file.
        address: String,
    },
    /// Start or resumption of a transfer.
    Begin {
        /// Name of the file.
        name: String,
        /// Address of the file.
        address: String,
        /// Bytes already received.
        have: u64,
        /// Total bytes, if the server sends the number.
        total: Option<u64>,
    },
    /// Number of bytes received so far.
    Bytes(u64),
    /// Failed attempt, to be retried after a wait.
    Retry {
        /// Address of the attempt.
        address: String,
        /// Reason of the failure.
        problem: String,
        /// Wait before the next attempt.
        wait: Duration,
    },
    /// Permanent failure of an address; the next address is tried.
    Mirror {
        /// Address that failed.
        address: String,
        /// Reason of the failure.
        problem: String,
    },
    /// Checked file in the cache.
    Done {
        /// Name of the file.
        name: String,
        /// Record of the file.
        record: Record,
    },
}
