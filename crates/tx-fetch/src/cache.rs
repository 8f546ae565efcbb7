//! Cache of downloaded files, with a record of each.
//!
//! Each file has its own folder, named after its address:
//!
//! ```text
//! huggingface.co/1f0c2a…/train-00000-of-00001.parquet   complete file, or absent
//! huggingface.co/1f0c2a…/record.json                    its size, SHA-256 and address
//! huggingface.co/1f0c2a…/part, part.json                state of an interrupted transfer
//! huggingface.co/1f0c2a…/lock                           held by the downloading process
//! ```
//!
//! A file gets its name by an atomic rename of a part that is complete, checked and flushed to
//! disk. The record remains after a file is deleted: the next download must match it.

use std::{
    env,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use tx_text::hash::hexadecimal;

use super::{error::FetchError, remote::Remote};

/// Maximum length of a cached file's name.
const MAX_NAME_LEN: usize = 100;

/// Record of a downloaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// Original address, which identifies the file for all mirrors.
    pub key: String,
    /// Address of the download.
    pub address: String,
    /// Size in bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub sha256: String,
    /// Whether the checksum was known before the download; otherwise it was trusted on first use.
    pub pinned: bool,
    /// Address of the next page, if the file is a page of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// State of an incomplete transfer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartRecord {
    pub address: String,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    /// `Date` of the server's response.
    #[serde(default)]
    pub date: Option<String>,
    pub total: Option<u64>,
    pub next: Option<String>,
}

impl PartRecord {
    /// Returns the value of `If-Range`, by which the server compares the rest with this part: a
    /// strong validator (RFC 9110, section 8.8). A modification time is one if the file had been
    /// unchanged for a second.
    pub fn validator(&self) -> Option<&str> {
        let time = |text: &Option<String>| httpdate::parse_http_date(text.as_deref()?).ok();
        let is_older = || {
            let age = time(&self.date)?.duration_since(time(&self.last_modified)?);
            Some(age.ok()? >= Duration::from_secs(1))
        };
        let modified = || self.last_modified.as_deref().filter(|_| is_older() == Some(true));
        self.strong_etag().or_else(modified)
    }

    fn strong_etag(&self) -> Option<&str> {
        self.etag.as_deref().filter(|etag| !etag.starts_with("W/"))
    }

    /// Returns the difference between this file and the file of a later part; `None` if they are
    /// the same.
    ///
    /// A part must repeat an entity tag that the file had (RFC 9110, section 15.3.7), but not the
    /// modification time.
    pub fn change(&self, etag: Option<&str>, last_modified: Option<&str>) -> Option<String> {
        let shown = |value: Option<&str>| value.unwrap_or("missing").to_owned();
        let (known_etag, known_time) = (self.etag.as_deref(), self.last_modified.as_deref());
        if etag != known_etag && (etag.is_some() || self.strong_etag().is_some()) {
            return Some(format!("ETag {}, was {}", shown(etag), shown(known_etag)));
        }
        let time = last_modified.filter(|&now| known_time.is_some_and(|known| known != now));
        time.map(|time| format!("Last-Modified {time}, was {}", shown(known_time)))
    }
}

/// Cache folder of all downloaded files.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// Uses a folder as cache, which is created on first use.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the cache of the user: `TX_CACHE`, else `tx` in `XDG_CACHE_HOME`, else in `~/.cache`
    /// (`LOCALAPPDATA` on Windows).
    ///
    /// # Errors
    ///
    /// If none of these variables is set.
    pub fn of_user() -> Result<Self, FetchError> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(root) = set("TX_CACHE") {
            return Ok(Self::at(root));
        }
        let base = set("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let base = base
            .or_else(|| set("LOCALAPPDATA").map(PathBuf::from))
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
        base.map(|base| Self::at(base.join("tx"))).ok_or(FetchError::NoCache)
    }

    /// Returns the root folder of the cache.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn entry(&self, remote: &Remote) -> Entry {
        let hash = hexadecimal(&Sha256::digest(&remote.key));
        let host = remote.key.split("://").nth(1).and_then(|rest| rest.split('/').next());
        let folder = self.root.join(safe_name(host.unwrap_or("files"))).join(&hash[..16]);
        Entry { folder, name: safe_name(&remote.name) }
    }
}

/// File name restricted to characters that every file system accepts.
fn safe_name(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(kept).take(MAX_NAME_LEN).collect();
    let name = name.trim_start_matches('.').to_owned();
    // Names reserved by the cache.
    if name.is_empty() || ["part", "part.json", "record.json", "lock"].contains(&name.as_str()) {
        return format!("file-{name}");
    }
    name
}

/// Folder of one file.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub folder: PathBuf,
    name: String,
}

impl Entry {
    pub fn data(&self) -> PathBuf {
        self.folder.join(&self.name)
    }

    pub fn part(&self) -> PathBuf {
        self.folder.join("part")
    }

    fn part_record_path(&self) -> PathBuf {
        self.folder.join("part.json")
    }

    pub fn record(&self) -> Option<Record> {
        read_json(&self.folder.join("record.json"))
    }

    /// Waits until no other process downloads this file; calls `wait` before waiting.
    pub fn lock(&self, wait: impl FnOnce()) -> Result<File, FetchError> {
        let path = self.folder.join("lock");
        let lock = || {
            fs::create_dir_all(&self.folder)?;
            let file = File::options().create(true).append(true).open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    wait();
                    file.lock()?;
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
            Ok(file)
        };
        lock().map_err(|source| FetchError::Cache { path: path.clone(), source })
    }

    /// Returns the state of an interrupted transfer, and the number of bytes received.
    pub fn begun(&self) -> (PartRecord, u64) {
        let record: Option<PartRecord> = read_json(&self.part_record_path());
        let size = fs::metadata(self.part()).map_or(0, |part| part.len());
        record.map_or((PartRecord::default(), 0), |record| (record, size))
    }

    /// Records the file to which the incomplete part belongs.
    pub fn begin(&self, record: &PartRecord) -> Result<(), FetchError> {
        self.write_json("part.json", record)
    }

    /// Deletes an incomplete part.
    pub fn discard(&self) -> Result<(), FetchError> {
        for path in [self.part(), self.part_record_path()] {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(FetchError::Cache { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Moves a checked part to its final name.
    pub fn keep(&self, record: &Record) -> Result<(), FetchError> {
        let data = self.data();
        // Opened for writing, because Windows synchronizes no other files.
        File::options()
            .write(true)
            .open(self.part())
            .and_then(|part| part.sync_all())
            .and_then(|()| fs::rename(self.part(), &data))
            .map_err(|source| FetchError::Cache { path: data, source })?;
        self.write_json("record.json", record)?;
        self.discard()
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), FetchError> {
        let path = self.folder.join(name);
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
            serde_json::to_writer_pretty(&mut file, value)?;
            file.flush()?;
            file.as_file().sync_all()?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(())
        };
        write().map_err(|source| FetchError::Cache { path: path.clone(), source })
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}
