//! Files from the network, each fetched once, whole and unchanged.
//!
//! A [`Fetcher`] brings a [`Remote`] into the [`Cache`]. It follows redirects and proxies
//! (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), goes on where an interrupted transfer
//! ended, waits and tries again when a server is busy, goes to a mirror when it is gone, and checks
//! size and digest: against what is known of the file, or else against what it was when it was
//! first seen. [`Mode::Offline`] touches no network at all.

mod address;
mod cache;
mod error;
mod published;
mod transfer;

use std::time::Duration;

pub use cache::{Cache, Record};
pub use error::FetchError;
pub use published::Published;

pub(crate) use address::{below, without_login};

use cache::{Entry, measure};
use sha2::Sha256;
use transfer::{Failure, Transfer};

use crate::{remedy::Remedy, source::limits::Limits};

/// A file to fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Its name in the cache.
    pub name: String,
    /// What tells it from all other files: its real address, whichever mirrors are used.
    pub key: String,
    /// Where to get it, tried in this order.
    pub addresses: Vec<String>,
    /// Its size in bytes, where known.
    pub size: Option<u64>,
    /// Its SHA-256 in hexadecimal, where known.
    pub sha256: Option<String>,
    /// Another digest, where that is all that is known.
    pub published: Option<Published>,
    /// What to send as `Authorization: Bearer`; never sent on to another host.
    pub token: Option<String>,
}

impl Remote {
    /// A file at an address of which nothing else is known. User name and password in the address
    /// are left out: they are neither sent nor stored.
    pub fn at(address: &str) -> Self {
        let address = without_login(address);
        let path = address.split(['?', '#']).next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        Self {
            name: if name.is_empty() { "file".into() } else { name.into() },
            key: address.clone(),
            addresses: vec![address],
            size: None,
            sha256: None,
            published: None,
            token: None,
        }
    }
}

/// A file in the cache, just checked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Cached {
    /// Where it is.
    pub path: std::path::PathBuf,
    /// What it is.
    pub record: Record,
    /// Whether it was fetched just now.
    pub fetched: bool,
}

/// Whether the network may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No: what is not in the cache is an error.
    Offline,
    /// For what is not in the cache.
    Online,
    /// For everything: what has changed is trusted anew.
    Refresh,
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the next byte; and the time in which [`slowest`](Self::slowest) is measured.
    pub stall: Duration,
    /// Bytes per second below which a transfer is as good as stalled.
    pub slowest: u64,
    /// Further attempts at an address that failed in passing.
    pub retries: u32,
    /// Before the first of these; doubled each time.
    pub backoff: Duration,
    /// Longest wait, also when the server asks for a longer one.
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

/// What happens while a file is fetched, to be shown.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// Another process fetches the same file.
    Waiting {
        /// The file.
        name: String,
    },
    /// The connection is not encrypted and nothing is known of the file: it may be replaced on its
    /// way.
    Unprotected {
        /// Address of the file.
        address: String,
    },
    /// A transfer begins, or goes on.
    Begin {
        /// The file.
        name: String,
        /// Address of the file.
        address: String,
        /// Bytes that are there already.
        have: u64,
        /// Bytes in all, where the server says.
        total: Option<u64>,
    },
    /// So many bytes are there.
    Bytes(u64),
    /// An attempt failed; the next begins after a wait.
    Retry {
        /// The address.
        address: String,
        /// What went wrong.
        problem: String,
        /// How long until the next attempt.
        wait: Duration,
    },
    /// An address failed for good; the next is tried.
    Mirror {
        /// The address.
        address: String,
        /// What went wrong.
        problem: String,
    },
    /// A file is in the cache, checked.
    Done {
        /// The file.
        name: String,
        /// Its record.
        record: Record,
    },
}

/// Brings files into a cache.
pub struct Fetcher {
    cache: Cache,
    mode: Mode,
    patience: Patience,
    limits: Limits,
    show: Box<dyn Fn(Event) + Send + Sync>,
}

/// An attempt that brought at least so many bytes does not count as failed.
const PROGRESS: u64 = 1 << 20;

impl Fetcher {
    /// A fetcher that says nothing.
    pub fn new(cache: Cache, mode: Mode) -> Self {
        let (patience, limits) = (Patience::default(), Limits::default());
        Self { cache, mode, patience, limits, show: Box::new(|_| {}) }
    }

    /// The same with other waiting times.
    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// The same with other limits for the size of a file.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same, telling `show` what happens.
    pub fn show(self, show: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self { show: Box::new(show), ..self }
    }

    /// Whether the network may be used.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Whether the file is in the cache, without reading it.
    pub fn has(&self, remote: &Remote) -> bool {
        let entry = self.cache.entry(remote);
        entry.record().is_some() && entry.data().is_file()
    }

    /// The file, from the cache or else from the network.
    ///
    /// # Errors
    ///
    /// When it is in neither, is not what it should be, or the cache cannot be written.
    pub fn get(&self, remote: &Remote) -> Result<Cached, FetchError> {
        let entry = self.cache.entry(remote);
        let anew = self.mode == Mode::Refresh;
        match cached(&entry, remote) {
            // A file that is known by its hash cannot have changed.
            Ok(Some(cached)) if !anew || remote.sha256.is_some() => return Ok(cached),
            Err(error) if self.mode == Mode::Offline => return Err(error),
            _ => {}
        }
        if self.mode == Mode::Offline {
            return Err(FetchError::NotCached {
                name: remote.name.clone(),
                cache: self.cache.root().into(),
                address: remote.addresses.first().cloned(),
            });
        }
        let before = entry.record();
        let lock = entry.lock(|| (self.show)(Event::Waiting { name: remote.name.clone() }))?;
        // The other process may have brought it.
        let waited = entry.record() != before;
        if let Ok(Some(cached)) = cached(&entry, remote)
            && (!anew || waited)
        {
            return Ok(cached);
        }
        let fetched = self.fetch(remote, &entry);
        drop(lock);
        fetched
    }

    fn fetch(&self, remote: &Remote, entry: &Entry) -> Result<Cached, FetchError> {
        let transfer = Transfer {
            remote,
            entry,
            patience: &self.patience,
            limits: self.limits,
            show: &*self.show,
            refresh: self.mode == Mode::Refresh,
        };
        let mut problems = Vec::new();
        let mut remedy = None;
        let is_known = remote.sha256.is_some() || remote.published.is_some();
        let addresses: Vec<String> = remote.addresses.iter().map(|a| without_login(a)).collect();
        for address in &addresses {
            if !is_known && !address::is_private(address) {
                (self.show)(Event::Unprotected { address: address.clone() });
            }
            match self.insist(&transfer, address) {
                Ok(record) => {
                    let name = remote.name.clone();
                    (self.show)(Event::Done { name, record: record.clone() });
                    return Ok(Cached { path: entry.data(), record, fetched: true });
                }
                Err(Failure::Here(error)) => return Err(error),
                Err(Failure::Passing { problem, .. }) => {
                    problems.push((address, problem));
                    remedy = remedy.or(Some(Remedy::TryLater));
                }
                Err(Failure::Final { problem, remedy: try_this }) => {
                    problems.push((address, problem));
                    remedy = try_this.or(remedy);
                }
            }
            if let Some((address, problem)) = problems.last()
                && problems.len() < addresses.len()
            {
                let (address, problem) = ((*address).clone(), problem.clone());
                (self.show)(Event::Mirror { address, problem });
            }
        }
        let problems = problems
            .into_iter()
            .map(|(address, problem)| format!("{address}: {problem}"))
            .collect();
        Err(FetchError::Failed { name: remote.name.clone(), problems, remedy })
    }

    /// Tries one address until it works, fails for good, or patience is at its end.
    fn insist(&self, transfer: &Transfer<'_>, address: &str) -> Result<Record, Failure> {
        let mut failed = 0;
        loop {
            let before = transfer.entry.begun().1;
            let (problem, asked) = match transfer.attempt(address) {
                Err(Failure::Passing { problem, wait }) => (problem, wait),
                other => return other,
            };
            let gained = transfer.entry.begun().1.saturating_sub(before);
            failed = if gained >= PROGRESS { 0 } else { failed + 1 };
            if failed > self.patience.retries {
                let problem = match failed {
                    1 => problem,
                    _ => format!("{problem}, after {failed} attempts"),
                };
                return Err(Failure::Passing { problem, wait: None });
            }
            let backoff =
                self.patience.backoff.saturating_mul(1 << failed.saturating_sub(1).min(16));
            let wait = asked.unwrap_or(backoff).min(self.patience.longest_wait);
            let address = address.to_owned();
            (self.show)(Event::Retry { address, problem, wait });
            std::thread::sleep(wait);
        }
    }
}

/// The file, if it is in the cache and still what was fetched.
fn cached(entry: &Entry, remote: &Remote) -> Result<Option<Cached>, FetchError> {
    let path = entry.data();
    let Some(record) = entry.record() else { return Ok(None) };
    let (size, sha256) = match measure::<Sha256>(&path) {
        Ok(measured) => measured,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(FetchError::Cache { path, source }),
    };
    let damaged = |found: String, expected: String| {
        Err(FetchError::Damaged { path: path.clone(), found, expected })
    };
    let expected_size = remote.size.unwrap_or(record.size);
    if size != expected_size {
        return damaged(format!("{size} bytes"), format!("{expected_size}"));
    }
    let expected = remote.sha256.as_ref().unwrap_or(&record.sha256);
    if !sha256.eq_ignore_ascii_case(expected) {
        return damaged(format!("SHA-256 {sha256}"), expected.clone());
    }
    Ok(Some(Cached { path, record, fetched: false }))
}

#[cfg(test)]
pub(crate) mod tests;
