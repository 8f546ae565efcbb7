//! Downloads with a cache, checksums, resume, retries and mirrors.
//!
//! A [`Fetcher`] downloads a [`Remote`] into the [`Cache`]. It follows redirects and proxies
//! (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), resumes interrupted transfers, retries
//! with backoff when a server is busy, and falls back to a mirror when a server fails. Size and
//! checksum are checked against the expected values or, if none are known, against those of the
//! first download. [`Mode::Offline`] makes no network request.

mod address;
mod cache;
mod checksum;
mod error;
mod event;
mod patience;
mod published;
pub mod remedy;
mod remote;
mod transfer;

pub use cache::{Cache, Record};
pub use checksum::measure;
pub use error::FetchError;
pub use event::Event;
pub use patience::Patience;
pub use published::Published;
pub use remote::Remote;

pub use address::{below, without_login};

use cache::Entry;
use sha2::Sha256;
use transfer::{Failure, Transfer};

use remedy::Remedy;

/// Checked file in the cache.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Cached {
    /// Path in the cache.
    pub path: std::path::PathBuf,
    /// Record of the file.
    pub record: Record,
    /// Whether this call downloaded the file.
    pub fetched: bool,
}

/// Limits on the size of a download. Real files stay far below them; hostile servers exceed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a download, in bytes.
    pub download_bytes: u64,
    /// Maximum size in bytes of a download without a `Content-Length`.
    pub unannounced_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { download_bytes: 256 << 30, unannounced_bytes: 8 << 30 }
    }
}

/// Network access of a fetcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// No network access: a file that is not cached is an error.
    Offline,
    /// Download files that are not cached.
    Online,
    /// Download every file again; a changed file replaces the recorded one.
    Refresh,
}

/// Downloader of files into a cache.
pub struct Fetcher {
    cache: Cache,
    mode: Mode,
    patience: Patience,
    limits: Limits,
    show: Box<dyn Fn(Event) + Send + Sync>,
}

/// An interrupted attempt that received at least this many bytes does not count as failed.
const MIN_PROGRESS: u64 = 1 << 20;

impl Fetcher {
    /// Creates a fetcher without progress events.
    pub fn new(cache: Cache, mode: Mode) -> Self {
        let (patience, limits) = (Patience::default(), Limits::default());
        Self { cache, mode, patience, limits, show: Box::new(|_| {}) }
    }

    /// Sets timeouts and retries.
    pub fn patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// Sets limits on the size of a file.
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the receiver of progress events.
    pub fn show(self, show: impl Fn(Event) + Send + Sync + 'static) -> Self {
        Self { show: Box::new(show), ..self }
    }

    /// Returns the mode of network access.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the cache of downloaded files.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Returns `true` if the cache has the file, without reading it.
    pub fn has(&self, remote: &Remote) -> bool {
        let entry = self.cache.entry(remote);
        entry.record().is_some() && entry.data().is_file()
    }

    /// Returns the file from the cache, or downloads it.
    ///
    /// # Errors
    ///
    /// If the file is neither cached nor downloadable, fails its check, or the cache cannot be
    /// written.
    pub fn get(&self, remote: &Remote) -> Result<Cached, FetchError> {
        let entry = self.cache.entry(remote);
        let anew = self.mode == Mode::Refresh;
        match cached(&entry, remote) {
            // A file with a known SHA-256 cannot have changed.
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
        // Another process may have downloaded it in the meantime.
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
            match self.download_from(&transfer, address) {
                Ok(record) => {
                    let name = remote.name.clone();
                    (self.show)(Event::Done { name, record: record.clone() });
                    return Ok(Cached { path: entry.data(), record, fetched: true });
                }
                Err(Failure::Local(error)) => return Err(error),
                Err(Failure::Transient { problem, .. }) => {
                    problems.push((address, problem));
                    remedy = remedy.or(Some(Remedy::TryLater));
                }
                Err(Failure::Permanent { problem, remedy: try_this }) => {
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

    /// Tries one address until it succeeds, fails permanently, or all retries are used.
    fn download_from(&self, transfer: &Transfer<'_>, address: &str) -> Result<Record, Failure> {
        let mut failed = 0;
        loop {
            let before = transfer.entry.begun().1;
            let (problem, asked) = match transfer.attempt(address) {
                Err(Failure::Transient { problem, wait }) => (problem, wait),
                other => return other,
            };
            let gained = transfer.entry.begun().1.saturating_sub(before);
            failed = if gained >= MIN_PROGRESS { 0 } else { failed + 1 };
            if failed > self.patience.retries {
                let problem = match failed {
                    1 => problem,
                    _ => format!("{problem}, after {failed} attempts"),
                };
                return Err(Failure::Transient { problem, wait: None });
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

/// Returns the file if it is cached and matches its record.
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
mod tests;
