//! Cleaned text on disk: written once, read several times, deleted at the end.

use std::{
    borrow::Cow,
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use tx_text::SentencePair;

use crate::{
    encode::TargetSide,
    error::DataError,
    near_duplicate::{KEYS, keys_with},
    pipeline::{StoredPairs, TextStore},
    split::{SplitBy, UnionFind},
};

/// Bytes of memory for the keys of one round of merging.
const ROUND: usize = 64 << 20;
/// Bytes of a key and its pair in memory.
const POSITION: usize = 16;
/// Buffer size of each file in bytes.
const BUFFER: usize = 1 << 18;

/// Pairs as text, and the keys of their templates, in two files.
pub(super) struct Spool {
    text: SpoolFile,
    keys: SpoolFile,
    target: TargetSide,
    pairs: usize,
}

impl Spool {
    /// Creates the files in `folder`.
    pub(super) fn create(folder: &Path, target: TargetSide) -> Result<Self, DataError> {
        let text = SpoolFile::create(folder.join("text.spool"))?;
        let keys = SpoolFile::create(folder.join("keys.spool"))?;
        Ok(Self { text, keys, target, pairs: 0 })
    }

    /// Sets of near duplicates, merged in as many rounds as the memory limit requires.
    fn groups(&self) -> Result<UnionFind, DataError> {
        let mut groups = UnionFind::new(self.pairs);
        let rounds = (KEYS * self.pairs * POSITION).div_ceil(ROUND).max(1) as u64;
        for round in 0..rounds {
            let mut failed = None;
            groups.union_by_key(self.keys(&mut failed)?, |key| key % rounds == round);
            failed.map_or(Ok(()), Err)?;
        }
        Ok(groups)
    }

    /// Returns the smallest key of each set, at the index of its first pair.
    fn least_keys(&self, groups: &mut UnionFind) -> Result<Vec<u64>, DataError> {
        let mut failed = None;
        let least = groups.least_keys(self.keys(&mut failed)?);
        failed.map_or(Ok(least), Err)
    }

    /// Reads all keys in order; an error ends them and is stored in `failed`.
    fn keys<'a>(
        &'a self,
        failed: &'a mut Option<DataError>,
    ) -> Result<impl Iterator<Item = u64> + 'a, DataError> {
        let mut file = self.keys.open()?;
        let mut left = KEYS * self.pairs;
        Ok(std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let mut bytes = [0; 8];
            match file.read_exact(&mut bytes) {
                Ok(()) => Some(u64::from_le_bytes(bytes)),
                Err(source) => {
                    *failed = Some(self.keys.unreadable(source));
                    None
                }
            }
        }))
    }

    /// Deletes the files.
    pub(super) fn delete(self) -> Result<(), DataError> {
        for SpoolFile { path, writer } in [self.text, self.keys] {
            drop(writer);
            std::fs::remove_file(&path).map_err(|source| DataError::Write { path, source })?;
        }
        Ok(())
    }
}

impl TextStore for Spool {
    fn append(&mut self, pair: SentencePair) -> Result<(), DataError> {
        let keys = keys_with(&pair, self.target);
        for side in [&pair.source, &pair.target] {
            self.text.write_text(side)?;
        }
        self.text.write_number(pair.context.len())?;
        for sentence in &pair.context {
            self.text.write_text(sentence)?;
        }
        for key in keys {
            self.keys.write(&key.to_le_bytes())?;
        }
        self.pairs += 1;
        Ok(())
    }

    fn seal(&mut self) -> Result<(), DataError> {
        self.text.flush()?;
        self.keys.flush()
    }

    fn pair_count(&self) -> usize {
        self.pairs
    }

    fn read(&self) -> Result<StoredPairs<'_>, DataError> {
        let mut file = self.text.open()?;
        let mut left = self.pairs;
        Ok(Box::new(std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let pair = read_pair(&mut file);
            Some(pair.map(Cow::Owned).map_err(|source| self.text.unreadable(source)))
        })))
    }

    /// Compares the targets that were given to [`create`](Self::create), because their keys are stored.
    fn held_out(
        &self,
        _: TargetSide,
        fraction: f64,
        by: SplitBy,
        seed: u64,
    ) -> Result<Vec<bool>, DataError> {
        let mut groups = self.groups()?;
        let least = match by {
            SplitBy::Hash => self.least_keys(&mut groups)?,
            SplitBy::Seed => Vec::new(),
        };
        Ok(groups.held_out(fraction, by, seed, &least))
    }
}

/// Reads source, target and context of a pair.
fn read_pair(file: &mut impl Read) -> io::Result<SentencePair> {
    let (source, target) = (read_text(file)?, read_text(file)?);
    let sentences = read_number(file)?;
    let context = (0..sentences).map(|_| read_text(file)).collect::<io::Result<_>>()?;
    Ok(SentencePair { source, target, context })
}

/// Reads a text that is preceded by its length.
fn read_text(file: &mut impl Read) -> io::Result<String> {
    let mut bytes = vec![0; read_number(file)?];
    file.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

fn read_number(file: &mut impl Read) -> io::Result<usize> {
    let mut number = [0; 4];
    file.read_exact(&mut number)?;
    Ok(u32::from_le_bytes(number) as usize)
}

/// File under construction, with its path for error messages.
struct SpoolFile {
    path: PathBuf,
    writer: BufWriter<File>,
}

impl SpoolFile {
    fn create(path: PathBuf) -> Result<Self, DataError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, writer: BufWriter::with_capacity(BUFFER, file) }),
            Err(source) => Err(DataError::Write { path, source }),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), DataError> {
        self.writer.write_all(bytes).map_err(|source| self.unwritable(source))
    }

    /// Writes a text after its length.
    fn write_text(&mut self, text: &str) -> Result<(), DataError> {
        self.write_number(text.len())?;
        self.write(text.as_bytes())
    }

    fn write_number(&mut self, number: usize) -> Result<(), DataError> {
        let number =
            u32::try_from(number).map_err(|error| self.unwritable(io::Error::other(error)))?;
        self.write(&number.to_le_bytes())
    }

    fn flush(&mut self) -> Result<(), DataError> {
        self.writer.flush().map_err(|source| self.unwritable(source))
    }

    fn open(&self) -> Result<BufReader<File>, DataError> {
        let file = File::open(&self.path).map_err(|source| self.unreadable(source))?;
        Ok(BufReader::with_capacity(BUFFER, file))
    }

    fn unwritable(&self, source: io::Error) -> DataError {
        DataError::Write { path: self.path.clone(), source }
    }

    fn unreadable(&self, source: io::Error) -> DataError {
        DataError::Read { path: self.path.clone(), source }
    }
}
