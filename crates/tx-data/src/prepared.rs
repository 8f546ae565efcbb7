//! Prepared corpus: cleaned, split and tokenized on disk, for training on more data than fits in
//! memory.
//!
//! A folder with the files below. `corpus.json` is written last, and the folder is created under
//! another name and renamed, so that it is either complete or absent.
//!
//! | file | content |
//! |---|---|
//! | `train.ids` | ids of the training pairs, source and target in turn; 16 bits each, or 32 if the vocabulary needs them, little-endian |
//! | `train.index` | for each pair its start in `train.ids`, counted in ids (64 bits), and the number of its source ids (32 bits); one entry for the end |
//! | `validation.jsonl` | validation pairs as text, a JSON object a line |
//! | `source.tokenizer.json`, `target.tokenizer.json` | the tokenizers |
//! | `corpus.json` | format, settings, hashes of the input files and of the files above, counts |

mod mapped;
mod mapped_text;
mod prepare;
mod spool;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tx_text::{SentencePair, Tokenizer, Tokenizers, hash::hexadecimal};

use crate::{
    clean::CleaningReport, encode::EncodingReport, error::DataError, labels::Labels,
    near_duplicate::Overlap,
};

pub use mapped::MappedPairs;
pub use mapped_text::MappedText;
pub use prepare::{Preparation, prepare};

/// Format number that this build writes and reads.
pub const FORMAT: u32 = 1;

const CORPUS: &str = "corpus.json";
const IDS: &str = "train.ids";
const INDEX: &str = "train.index";
const VALIDATION: &str = "validation.jsonl";
const SOURCE_TOKENIZER: &str = "source.tokenizer.json";
const TARGET_TOKENIZER: &str = "target.tokenizer.json";

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
    /// Given validation pairs that are in training too.
    pub overlap: Option<Overlap>,
    /// Training pairs dropped as near duplicates of given validation pairs.
    pub overlap_left_out: usize,
    /// Labels, if the targets are classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Labels>,
    /// Bytes and SHA-256 of the files of the folder.
    pub files: BTreeMap<String, FileHash>,
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

/// Opened prepared corpus.
#[derive(Debug)]
pub struct PreparedCorpus {
    folder: PathBuf,
    /// Content of `corpus.json`.
    pub record: CorpusRecord,
    /// Tokenizers of both sides.
    pub tokenizers: Tokenizers,
}

impl PreparedCorpus {
    /// Returns `true` if `folder` contains a `corpus.json`, valid or not.
    pub fn exists(folder: &Path) -> bool {
        folder.join(CORPUS).exists()
    }

    /// Opens a folder and verifies the hashes of all its files.
    ///
    /// # Errors
    ///
    /// If it is not a prepared corpus, has another format, or is damaged; the message names the
    /// file.
    pub fn open(folder: &Path) -> Result<Self, DataError> {
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let problem = |problem| DataError::Prepared { path: folder.into(), problem };
        let path = folder.join(CORPUS);
        let text = fs::read(&path).map_err(|source| DataError::Read { path, source })?;
        let not_json = |error: serde_json::Error| problem(format!("`{CORPUS}`: {error}"));
        // The format is checked first, because another one may have other keys.
        let Format { format } = serde_json::from_slice(&text).map_err(not_json)?;
        if format != FORMAT {
            let newer = format!("it has format {format}; this build reads format {FORMAT}");
            return Err(problem(newer));
        }
        let record: CorpusRecord = serde_json::from_slice(&text).map_err(not_json)?;
        for name in [IDS, INDEX, VALIDATION, SOURCE_TOKENIZER, TARGET_TOKENIZER] {
            let expected = record.files.get(name);
            let expected =
                expected.ok_or_else(|| problem(format!("`{CORPUS}` has no entry for `{name}`")))?;
            let path = folder.join(name);
            let read = |source| DataError::Read { path: path.clone(), source };
            let bytes = fs::metadata(&path).map_err(read)?.len();
            if bytes != expected.bytes {
                return Err(problem(format!(
                    "`{name}` is damaged: it has {bytes} bytes, expected {}",
                    expected.bytes
                )));
            }
            let found = FileHash::of(&path).map_err(read)?;
            if found != *expected {
                return Err(problem(format!(
                    "`{name}` is damaged: its SHA-256 is {}, expected {}",
                    found.sha256, expected.sha256
                )));
            }
        }
        let tokenizers = Tokenizers {
            source: Tokenizer::open(&folder.join(SOURCE_TOKENIZER))?,
            target: Tokenizer::open(&folder.join(TARGET_TOKENIZER))?,
        };
        Ok(Self { folder: folder.into(), record, tokenizers })
    }

    /// Compares settings and input files with those of the preparation.
    ///
    /// A file that no longer exists counts as unchanged, because the folder contains everything
    /// that is needed. So does a file with the recorded length and time; other files are compared
    /// by hash.
    ///
    /// # Errors
    ///
    /// If the corpus is stale; the message names the change, with both values.
    pub fn check(&self, settings: &Value, inputs: &[PathBuf]) -> Result<(), DataError> {
        let stale = |what| DataError::StalePrepared { path: self.folder.clone(), what };
        if let Some(what) = difference("", &self.record.settings, settings) {
            return Err(stale(what));
        }
        if self.record.inputs.len() != inputs.len() {
            let (was, is) = (self.record.inputs.len(), inputs.len());
            return Err(stale(format!("it was prepared from {was} files, now there are {is}")));
        }
        for (known, path) in self.record.inputs.iter().zip(inputs) {
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

    /// Returns the training pairs, memory-mapped.
    ///
    /// # Errors
    ///
    /// If a file cannot be opened, or index and ids are inconsistent.
    pub fn training(&self) -> Result<MappedPairs, DataError> {
        let CorpusRecord { training_pairs, training_ids, id_bytes, .. } = self.record;
        let (ids, index) = (self.folder.join(IDS), self.folder.join(INDEX));
        let Tokenizers { source, target } = &self.tokenizers;
        let classes = self.record.labels.as_ref().map(Labels::classes);
        let vocabularies = [source.vocab_size(), classes.unwrap_or(target.vocab_size())];
        MappedPairs::open(&ids, &index, id_bytes, training_pairs, training_ids, vocabularies)
    }

    /// Reads the first `most` validation pairs.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn validation(&self, most: usize) -> Result<Vec<SentencePair>, DataError> {
        let path = self.folder.join(VALIDATION);
        let read = |source| DataError::Read { path: path.clone(), source };
        let file = File::open(&path).map_err(read)?;
        BufReader::new(file)
            .lines()
            .take(most)
            .map(|line| Ok(serde_json::from_str(&line?)?))
            .collect::<Result<_, io::Error>>()
            .map_err(read)
    }

    /// Returns the validation pairs, memory-mapped.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened.
    pub fn mapped_validation(&self) -> Result<MappedText, DataError> {
        MappedText::open(&self.folder.join(VALIDATION))
    }

    /// Returns the fingerprint of the corpus: counts, and a hash of all files.
    pub fn fingerprint(&self) -> String {
        let CorpusRecord { training_pairs, validation_pairs, .. } = self.record;
        let hash = self.hash(|_| true);
        format!("{training_pairs} + {validation_pairs} pairs, prepared, SHA-256 {hash}")
    }

    /// Returns the fingerprint of the training ids and the tokenizers.
    pub fn training_fingerprint(&self) -> String {
        let hash = self.hash(|name| name != VALIDATION);
        format!("{} pairs, prepared, SHA-256 {hash}", self.record.training_pairs)
    }

    /// Returns the fingerprint of the validation pairs.
    pub fn validation_fingerprint(&self) -> String {
        let hash = self.hash(|name| name == VALIDATION);
        format!("{} pairs, prepared, SHA-256 {hash}", self.record.validation_pairs)
    }

    /// SHA-256 of the names and hashes of the files for which `is_hashed` holds.
    fn hash(&self, is_hashed: impl Fn(&str) -> bool) -> String {
        let mut hasher = Sha256::new();
        for (name, hash) in self.record.files.iter().filter(|(name, _)| is_hashed(name)) {
            hasher.update(format!("{name} {}\n", hash.sha256));
        }
        hexadecimal(&hasher.finalize())
    }
}

impl InputFile {
    fn at(path: &Path, hash: FileHash) -> io::Result<Self> {
        let about = fs::metadata(path)?;
        let since = about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let modified = since.and_then(|time| u64::try_from(time.as_nanos()).ok());
        Ok(Self { path: path.into(), modified, hash: FileHash { bytes: about.len(), ..hash } })
    }
}

impl FileHash {
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
fn difference(key: &str, was: &Value, is: &Value) -> Option<String> {
    let (Value::Object(old), Value::Object(new)) = (was, is) else {
        return (was != is).then(|| format!("`{key}` is {is} now, was {was}"));
    };
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    keys.into_iter().find_map(|name| {
        let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
        let get = |table: &serde_json::Map<String, Value>| table.get(name).cloned();
        difference(&key, &get(old).unwrap_or_default(), &get(new).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests;
