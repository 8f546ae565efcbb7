//! Record of a prepared corpus: content of `corpus.json`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tx_text::hash::hexadecimal;

use super::{
    CORPUS, FORMAT, SHARDS_FORMAT, SOURCE_TOKENIZER, TARGET_TOKENIZER, shard_file, shard_name,
};
use crate::{
    clean::CleaningReport, encode::EncodingReport, error::DataError, labels::Labels,
    near_duplicate::Overlap,
};

/// Content of `corpus.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CorpusRecord {
    /// Format number of the folder.
    pub format: u32,
    /// Version of tx that wrote the folder.
    pub tx_version: String,
    /// All settings that affect the content, besides the input files.
    pub settings: Value,
    /// Input files.
    pub inputs: Vec<InputFile>,
    /// Training pairs in the folder.
    pub training_pairs: usize,
    /// Ids of the training pairs, special tokens included.
    pub training_ids: u64,
    /// Bytes of an id.
    pub id_bytes: usize,
    /// Validation pairs in the folder.
    pub validation_pairs: usize,
    /// Counts of each cleaning step.
    pub cleaning: CleaningReport,
    /// Counts of encoding the training pairs.
    pub encoding: EncodingReport,
    /// Given validation pairs that are in training too. Of several shards, the counts of the one with
    /// the most, which are lower bounds.
    pub overlap: Option<Overlap>,
    /// Training pairs dropped as near duplicates of given validation pairs.
    pub overlap_left_out: usize,
    /// Labels, if the targets are classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// Shards in their order; empty if the folder has the pairs itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<ShardRecord>,
    /// Bytes and SHA-256 of the files of the folder.
    pub files: BTreeMap<String, FileHash>,
}

/// Counts of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShardRecord {
    /// Training pairs in the shard.
    pub training_pairs: usize,
    /// Ids of the training pairs, special tokens included.
    pub training_ids: u64,
}

/// Input file of a preparation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InputFile {
    /// Path at the time of the preparation.
    pub path: PathBuf,
    /// Time of the last change in nanoseconds since 1970, if the file system records it.
    pub modified: Option<u64>,
    /// Bytes and SHA-256 of the content.
    #[serde(flatten)]
    pub hash: FileHash,
}

/// Length and hash of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileHash {
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 in hexadecimal.
    pub sha256: String,
}

/// Maximum size in bytes of a file that describes a prepared corpus. A million shards need less.
const LARGEST_RECORD: u64 = 1 << 30;

/// Reads a file that describes a prepared corpus.
pub(super) fn read_small(path: &Path) -> io::Result<Vec<u8>> {
    let (mut bytes, mut file) = (Vec::new(), File::open(path)?.take(LARGEST_RECORD + 1));
    file.read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_RECORD {
        let text = format!("the file is larger than {LARGEST_RECORD} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(bytes)
}

impl CorpusRecord {
    /// Reads `corpus.json` of a folder.
    pub(super) fn read(folder: &Path) -> Result<Self, DataError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let problem = |problem| DataError::Prepared { path: folder.into(), problem };
        let path = folder.join(CORPUS);
        let text = read_small(&path).map_err(|source| DataError::Read { path, source })?;
        let not_json = |error: serde_json::Error| problem(format!("`{CORPUS}`: {error}"));
        // The format is checked first, because another one may have other keys.
        let Format { format } = serde_json::from_slice(&text).map_err(not_json)?;
        if !matches!(format, FORMAT | SHARDS_FORMAT) {
            return Err(problem(format!(
                "it has format {format}; this build reads formats {FORMAT} and {SHARDS_FORMAT}"
            )));
        }
        let record: Self = serde_json::from_slice(&text).map_err(not_json)?;
        if (format == FORMAT) != record.shards.is_empty() {
            let shards = record.shards.len();
            return Err(problem(format!("it has format {format} and {shards} shards")));
        }
        Ok(record)
    }

    /// Rejects counts that are not the sums of the shards, and shards with different tokenizers.
    pub(super) fn check_shards(&self, folder: &Path) -> Result<(), DataError> {
        if self.shards.is_empty() {
            return Ok(());
        }
        let problem = |problem| Err(DataError::Prepared { path: folder.into(), problem });
        let mut pairs = self.shards.iter().map(|shard| shard.training_pairs);
        let pairs = pairs.try_fold(0_usize, |sum, pairs| sum.checked_add(pairs));
        let mut ids = self.shards.iter().map(|shard| shard.training_ids);
        let ids = ids.try_fold(0_u64, |sum, ids| sum.checked_add(ids));
        if (pairs, ids) != (Some(self.training_pairs), Some(self.training_ids)) {
            return problem(format!("the counts of `{CORPUS}` are not the sums of its shards"));
        }
        for name in [SOURCE_TOKENIZER, TARGET_TOKENIZER] {
            let hash = |shard| self.files.get(&shard_file(shard, name));
            if let Some(shard) = (1..self.shards.len()).find(|&shard| hash(shard) != hash(0)) {
                let (first, other) = (shard_name(0), shard_name(shard));
                return problem(format!("`{name}` differs between `{first}` and `{other}`"));
            }
        }
        Ok(())
    }

    /// Compares settings and input files with those of the preparation in `folder`.
    pub(super) fn check(
        &self,
        folder: &Path,
        settings: &Value,
        inputs: &[PathBuf],
    ) -> Result<(), DataError> {
        let stale = |what| DataError::StalePrepared { path: folder.into(), what };
        if let Some(what) = difference("", &self.settings, settings) {
            return Err(stale(what));
        }
        if self.inputs.len() != inputs.len() {
            let (was, is) = (self.inputs.len(), inputs.len());
            return Err(stale(format!("it was prepared from {was} files, now there are {is}")));
        }
        for (known, path) in self.inputs.iter().zip(inputs) {
            if !path.exists() {
                continue;
            }
            let read = |source| DataError::Read { path: path.clone(), source };
            let now = InputFile::at(path, FileHash::default()).map_err(read)?;
            let (bytes, modified) = (now.hash.bytes, now.modified);
            if bytes == known.hash.bytes && modified.is_some() && modified == known.modified {
                continue;
            }
            let same = bytes == known.hash.bytes
                && FileHash::of(path).map_err(read)?.sha256 == known.hash.sha256;
            if !same {
                let name = path.display();
                return Err(stale(format!(
                    "`{name}` has changed: {bytes} bytes, was {} bytes with SHA-256 {}",
                    known.hash.bytes, known.hash.sha256
                )));
            }
        }
        Ok(())
    }
}

impl InputFile {
    pub(super) fn at(path: &Path, hash: FileHash) -> io::Result<Self> {
        let about = fs::metadata(path)?;
        let since = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = since.and_then(|time| u64::try_from(time.as_nanos()).ok());
        Ok(Self { path: path.into(), modified, hash: FileHash { bytes: about.len(), ..hash } })
    }
}

impl FileHash {
    /// Compares a file of a folder with the recorded length, and with the hash if `is_hashed`.
    pub(super) fn verify(
        &self,
        folder: &Path,
        name: &str,
        is_hashed: bool,
    ) -> Result<(), DataError> {
        let problem = |problem| DataError::Prepared { path: folder.into(), problem };
        let path = folder.join(name);
        let read = |source| DataError::Read { path: path.clone(), source };
        let bytes = fs::metadata(&path).map_err(read)?.len();
        if bytes != self.bytes {
            let expected = self.bytes;
            return Err(problem(format!(
                "`{name}` is damaged: it has {bytes} bytes, expected {expected}"
            )));
        }
        if !is_hashed {
            return Ok(());
        }
        let found = Self::of(&path).map_err(read)?;
        match found == *self {
            true => Ok(()),
            false => Err(problem(format!(
                "`{name}` is damaged: its SHA-256 is {}, expected {}",
                found.sha256, self.sha256
            ))),
        }
    }

    /// Hashes a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        let mut bytes = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => {
                    hasher.update(&buffer[..count]);
                    bytes += count as u64;
                }
            }
        }
        Ok(Self { bytes, sha256: hexadecimal(&hasher.finalize()) })
    }
}

/// Returns the first setting that differs between `was` and `is`, with both values.
pub(super) fn difference(key: &str, was: &Value, is: &Value) -> Option<String> {
    let (Value::Object(old), Value::Object(new)) = (was, is) else {
        return (was != is).then(|| format!("`{key}` is {is} now, was {was}"));
    };
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    keys.into_iter().find_map(|name| {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        let get = |table: &serde_json::Map<String, Value>| table.get(name).cloned();
        difference(&key, &get(old).unwrap_or_default(), &get(new).unwrap_or_default())
    })
}
