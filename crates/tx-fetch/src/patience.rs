//! Timeouts and retries of downloads.

use std::time::Duration;

/// Timeouts and retries.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Patience {
    /// Timeout of a connection.
    pub connect: Duration,
    /// Timeout of the next byte; also the window in which [`slowest`](Self::slowest) is measured.
    pub stall: Duration,
    /// Minimum speed in bytes per second; a slower transfer counts as stalled.
    pub slowest: u64,
    /// Number of retries per address after transient failures.
    pub retries: u32,
    /// Wait before the first retry; doubled for each further one.
    pub backoff: Duration,
    /// Maximum wait, even if the server requests a longer one.
    pub longest_wait: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            stall: Duration::from_secs(30),
            slowest: 100,
            retries: 5,
            backoff: Duration::from_secs(1),
            longest_wait: Duration::from_secs(120),
        }
    }
}
