//! Files that were fetched, with a record of what they were.
//!
//! Each file has a folder of its own, named by its address:
//!
//! ```text
//! huggingface.co/1f0c2a…/train-00000-of-00001.parquet   whole, or absent
//! huggingface.co/1f0c2a…/record.json                    size, SHA-256 and address of it
//! huggingface.co/1f0c2a…/part, part.json                what an interrupted transfer left
//! huggingface.co/1f0c2a…/lock                           held by the process that fetches
//! ```
//!
//! A file comes under its name only by renaming a part that is complete, checked and on disk. The
//! record stays when a file is deleted: fetched again, it must be the same.

use std::{
    env,
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};
use tx_text::hash::hexadecimal;

use super::{FetchError, Remote};

/// Longest name of a cached file.
const LONGEST_NAME: usize = 100;

/// What a file was when it was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Record {
    /// The address that names the file, whichever mirror it came from.
    pub key: String,
    /// The address that it came from.
    pub address: String,
    /// Its size in bytes.
    pub size: u64,
    /// The SHA-256 of its content.
    pub sha256: String,
    /// Whether the hash was known before; if not, it was trusted when first seen.
    pub pinned: bool,
    /// The next page, where the file is a page of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What is known of a transfer under way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PartRecord {
    pub address: String,
    pub etag: Option<String>,
    pub last_modified: Option<String>,
    /// When the server answered, by its own clock.
    #[serde(default)]
    pub date: Option<String>,
    pub total: Option<u64>,
    pub next: Option<String>,
}

impl PartRecord {
    /// Value of `If-Range`, by which the server compares the rest with this part: a strong
    /// validator (RFC 9110, section 8.8). A modification time is one if the file had been unchanged
    /// for a second.
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

    /// Difference between this file and the one that a later part belongs to; none if they are the
    /// same.
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

/// The folder of all fetched files.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

impl Cache {
    /// A cache in a folder, which need not exist yet.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The user's cache: `TX_CACHE`, else `tx` in `XDG_CACHE_HOME`, else in `~/.cache`
    /// (`LOCALAPPDATA` on Windows).
    ///
    /// # Errors
    ///
    /// When none of these is set.
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

    /// The folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn entry(&self, remote: &Remote) -> Entry {
        let hash = hexadecimal(&Sha256::digest(&remote.key));
        let host = remote.key.split("://").nth(1).and_then(|rest| rest.split('/').next());
        let folder = self.root.join(plain(host.unwrap_or("files"))).join(&hash[..16]);
        Entry { folder, name: plain(&remote.name) }
    }
}

/// A name without anything that a file system might take amiss.
fn plain(name: &str) -> String {
    let kept = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(kept).take(LONGEST_NAME).collect();
    let name = name.trim_start_matches('.').to_owned();
    // Names that the cache uses itself.
    if name.is_empty() || ["part", "part.json", "record.json", "lock"].contains(&name.as_str()) {
        return format!("file-{name}");
    }
    name
}

/// The folder of one file.
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

    /// Waits until no other process fetches this file; calls `wait` before, if one does.
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

    /// What an interrupted transfer left, and how many bytes of it there are.
    pub fn begun(&self) -> (PartRecord, u64) {
        let record: Option<PartRecord> = read_json(&self.part_record_path());
        let size = fs::metadata(self.part()).map_or(0, |part| part.len());
        record.map_or((PartRecord::default(), 0), |record| (record, size))
    }

    /// Notes what the part under way belongs to.
    pub fn begin(&self, record: &PartRecord) -> Result<(), FetchError> {
        self.write_json("part.json", record)
    }

    /// Forgets a part.
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

    /// Gives a checked part its name.
    pub fn keep(&self, record: &Record) -> Result<(), FetchError> {
        let data = self.data();
        File::open(self.part())
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

/// Size and digest of a file.
pub(super) fn measure<D: Digest>(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hasher = D::new();
    let mut buffer = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((size, hexadecimal(&hasher.finalize()))),
            read => {
                hasher.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
}
