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
//!
//! A corpus of several shards is a folder of such folders, `shard-00000` and so on, one for each input
//! file. They have the same tokenizers and validation pairs. `tokenizers` has the tokenizers, and
//! `preparation.json` with the settings that they were learned with. `corpus.json` has the sums of the
//! counts, and the hashes of the files of all shards.
//!
//! The ids are mapped into memory. A process that truncates or overwrites a file in place while a
//! corpus is open ends this process with `SIGBUS`, or changes its batches; prepare into another folder
//! and rename it.

mod mapped;
mod mapped_shards;
mod mapped_text;
mod prepare;
mod record;
#[cfg(feature = "sources")]
mod shards;
mod spool;

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    str::FromStr,
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tx_text::{SentencePair, Tokenizer, Tokenizers, hash::hexadecimal};

use self::{mapped::MappedPairs, record::difference};
use crate::{error::DataError, labels::Labels};

pub use mapped_shards::MappedShards;
pub use mapped_text::MappedText;
pub use prepare::{Preparation, prepare};
pub use record::{CorpusRecord, FileHash, InputFile, ShardRecord};
#[cfg(feature = "sources")]
pub use shards::{ShardInputs, prepare_part, prepare_shards};

/// Format number of a folder with one corpus, which this build writes and reads.
pub const FORMAT: u32 = 1;
/// Format number of a folder with shards, which this build writes and reads.
pub const SHARDS_FORMAT: u32 = 2;

const CORPUS: &str = "corpus.json";
const IDS: &str = "train.ids";
const INDEX: &str = "train.index";
const VALIDATION: &str = "validation.jsonl";
const SOURCE_TOKENIZER: &str = "source.tokenizer.json";
const TARGET_TOKENIZER: &str = "target.tokenizer.json";
/// Files of a corpus besides `corpus.json`.
const FILES: [&str; 5] = [IDS, INDEX, VALIDATION, SOURCE_TOKENIZER, TARGET_TOKENIZER];

/// Part of the shards of a corpus: of `count` parts, part number `index` has the shards whose index
/// modulo `count` is that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardPart {
    /// Number of the part, from 0.
    pub index: usize,
    /// Number of parts.
    pub count: usize,
}

impl ShardPart {
    /// All shards.
    pub const ALL: Self = Self { index: 0, count: 1 };

    fn includes(self, shard: usize) -> bool {
        shard % self.count.max(1) == self.index
    }
}

impl FromStr for ShardPart {
    type Err = String;

    /// Reads a part as `I/N`, with I from 1 to N.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, count)| {
            Some((number.parse::<usize>().ok()?, count.parse::<usize>().ok()?))
        });
        match numbers {
            Some((number, count)) if (1..=count).contains(&number) => {
                Ok(Self { index: number - 1, count })
            }
            _ => Err("expected I/N, such as 1/8, with I from 1 to N".into()),
        }
    }
}

impl fmt::Display for ShardPart {
    /// Writes the part as [`from_str`](Self::from_str) reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

/// Opened prepared corpus.
#[derive(Debug)]
pub struct PreparedCorpus {
    folder: PathBuf,
    /// Shards that are verified.
    part: ShardPart,
    /// Content of `corpus.json`.
    pub record: CorpusRecord,
    /// Tokenizers of both sides.
    pub tokenizers: Tokenizers,
}

impl PreparedCorpus {
    /// Returns `true` if `folder` contains a `corpus.json`, valid or not, and so do the shards that it
    /// names.
    pub fn exists(folder: &Path) -> bool {
        let has_shard = |shard| shard_folder(folder, shard).join(CORPUS).exists();
        folder.join(CORPUS).exists()
            && CorpusRecord::read(folder)
                .map_or(true, |record| (0..record.shards.len()).all(has_shard))
    }

    /// Opens a folder and verifies the hashes of all its files.
    ///
    /// # Errors
    ///
    /// If it is not a prepared corpus, has another format, or is damaged; the message names the
    /// file.
    pub fn open(folder: &Path) -> Result<Self, DataError> {
        Self::open_verifying(folder, ShardPart::ALL)
    }

    /// Opens a folder and verifies the hashes of the files of some shards, and the lengths of the
    /// others. If all processes of a run open a corpus, each with its own number, together they verify
    /// all files.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open), for damage that this process finds.
    pub fn open_verifying(folder: &Path, part: ShardPart) -> Result<Self, DataError> {
        let record = CorpusRecord::read(folder)?;
        record.check_shards(folder)?;
        let problem = |problem| DataError::Prepared { path: folder.into(), problem };
        let count = record.shards.len();
        // Every process uses the first folder of tokenizers and validation pairs.
        let first = &[VALIDATION, SOURCE_TOKENIZER, TARGET_TOKENIZER];
        for shard in 0..count.max(1) {
            let names = FILES.iter().chain((count > 0).then_some(&CORPUS));
            for name in names {
                let key = if count == 0 { (*name).into() } else { shard_file(shard, name) };
                let expected = record.files.get(&key);
                let expected = expected
                    .ok_or_else(|| problem(format!("`{CORPUS}` has no entry for `{key}`")))?;
                let is_verified = part.includes(shard) || shard == 0 && first.contains(name);
                expected.verify(folder, &key, is_verified)?;
            }
        }
        let first = match count {
            0 => folder.to_owned(),
            _ => shard_folder(folder, 0),
        };
        let tokenizers = Tokenizers {
            source: Tokenizer::open(&first.join(SOURCE_TOKENIZER))?,
            target: Tokenizer::open(&first.join(TARGET_TOKENIZER))?,
        };
        Ok(Self { folder: folder.into(), part, record, tokenizers })
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
        self.record.check(&self.folder, settings, inputs)
    }

    /// Compares one section of the settings with that of the preparation.
    ///
    /// # Errors
    ///
    /// If it differs; the message names the change, with both values.
    pub fn check_section(&self, section: &str, settings: &Value) -> Result<(), DataError> {
        let known = self.record.settings.get(section).cloned().unwrap_or_default();
        match difference(section, &known, settings) {
            None => Ok(()),
            Some(what) => Err(DataError::StalePrepared { path: self.folder.clone(), what }),
        }
    }

    /// Returns the training pairs, memory-mapped.
    ///
    /// # Errors
    ///
    /// If a file cannot be opened, or index and ids are inconsistent.
    pub fn training(&self) -> Result<MappedShards, DataError> {
        let CorpusRecord { training_pairs, training_ids, id_bytes, shards, .. } = &self.record;
        let Tokenizers { source, target } = &self.tokenizers;
        let classes = self.record.labels.as_ref().map(Labels::classes);
        let vocabularies = [source.vocab_size(), classes.unwrap_or(target.vocab_size())];
        let open = |folder: &Path, pairs: usize, total: u64, is_verified: bool| {
            let (ids, index) = (folder.join(IDS), folder.join(INDEX));
            MappedPairs::open(&ids, &index, *id_bytes, pairs, total, vocabularies, is_verified)
        };
        if shards.is_empty() {
            let is_verified = self.part.includes(0);
            let pairs = open(&self.folder, *training_pairs, *training_ids, is_verified)?;
            return Ok(MappedShards::new(vec![pairs]));
        }
        let open = |(shard, record): (usize, &ShardRecord)| {
            let folder = shard_folder(&self.folder, shard);
            let is_verified = self.part.includes(shard);
            open(&folder, record.training_pairs, record.training_ids, is_verified)
        };
        Ok(MappedShards::new(shards.iter().enumerate().map(open).collect::<Result<_, _>>()?))
    }

    /// Path of the validation pairs; those of the first shard are those of all.
    fn validation_file(&self) -> PathBuf {
        match self.record.shards.is_empty() {
            true => self.folder.join(VALIDATION),
            false => shard_folder(&self.folder, 0).join(VALIDATION),
        }
    }

    /// Reads the first `most` validation pairs.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn validation(&self, most: usize) -> Result<Vec<SentencePair>, DataError> {
        let path = self.validation_file();
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
        MappedText::open(&self.validation_file())
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

    /// SHA-256 of the names and hashes of the files for whose name in their folder `is_hashed` holds.
    /// Records are excluded, because they contain the times of the input files.
    fn hash(&self, is_hashed: impl Fn(&str) -> bool) -> String {
        let mut hasher = Sha256::new();
        let is_hashed = |path: &str| {
            let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
            name != CORPUS && is_hashed(name)
        };
        for (name, hash) in self.record.files.iter().filter(|(name, _)| is_hashed(name)) {
            hasher.update(format!("{name} {}\n", hash.sha256));
        }
        hexadecimal(&hasher.finalize())
    }
}

/// Returns the name of the folder of a shard.
fn shard_name(shard: usize) -> String {
    format!("shard-{shard:05}")
}

/// Returns the key of a file of a shard in `corpus.json`.
fn shard_file(shard: usize, name: &str) -> String {
    format!("{}/{name}", shard_name(shard))
}

fn shard_folder(folder: &Path, shard: usize) -> PathBuf {
    folder.join(shard_name(shard))
}

#[cfg(test)]
mod tests;
