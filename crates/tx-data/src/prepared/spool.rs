//! Cleaned text on its way: written once, read several times, deleted at the end.

use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use tx_text::SentencePair;

use crate::{
    error::DataError,
    near_duplicate::{KEYS, keys},
    split::Groups,
};

/// Bytes of memory for the keys of one round.
const ROUND: usize = 64 << 20;
/// Bytes of a key and its pair in memory.
const PLACE: usize = 16;

/// Pairs, and the keys of their templates.
pub(super) struct SpoolWriter {
    text: BufWriter<File>,
    keys: BufWriter<File>,
    spool: Spool,
}

/// What was written.
pub(super) struct Spool {
    text: PathBuf,
    keys: PathBuf,
    pub pairs: usize,
}

impl SpoolWriter {
    pub(super) fn create(folder: &Path) -> Result<Self, DataError> {
        let spool =
            Spool { text: folder.join("text.spool"), keys: folder.join("keys.spool"), pairs: 0 };
        let create = |path: &Path| {
            let file = File::create(path);
            file.map(|file| BufWriter::with_capacity(1 << 18, file))
                .map_err(|source| DataError::Write { path: path.into(), source })
        };
        Ok(Self { text: create(&spool.text)?, keys: create(&spool.keys)?, spool })
    }

    pub(super) fn push(&mut self, pair: &SentencePair) -> Result<(), DataError> {
        let text = |file: &mut BufWriter<File>| {
            for side in [&pair.source, &pair.target] {
                let length = u32::try_from(side.len()).map_err(io::Error::other)?;
                file.write_all(&length.to_le_bytes())?;
                file.write_all(side.as_bytes())?;
            }
            Ok(())
        };
        let path = &self.spool.text;
        text(&mut self.text).map_err(|source| DataError::Write { path: path.clone(), source })?;
        for key in keys(pair) {
            let path = &self.spool.keys;
            self.keys
                .write_all(&key.to_le_bytes())
                .map_err(|source| DataError::Write { path: path.clone(), source })?;
        }
        self.spool.pairs += 1;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Spool, DataError> {
        for (file, path) in [(&mut self.text, &self.spool.text), (&mut self.keys, &self.spool.keys)]
        {
            file.flush().map_err(|source| DataError::Write { path: path.clone(), source })?;
        }
        Ok(self.spool)
    }
}

impl Spool {
    /// The pairs in order.
    pub(super) fn read(
        &self,
    ) -> Result<impl Iterator<Item = Result<SentencePair, DataError>> + Send + use<>, DataError>
    {
        let path = self.text.clone();
        let mut file = open(&path)?;
        let mut left = self.pairs;
        Ok(std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let mut side = || {
                let mut length = [0; 4];
                file.read_exact(&mut length)?;
                let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
                file.read_exact(&mut bytes)?;
                String::from_utf8(bytes).map_err(io::Error::other)
            };
            let pair = side().and_then(|source| Ok(SentencePair { source, target: side()? }));
            Some(pair.map_err(|source| DataError::Read { path: path.clone(), source }))
        }))
    }

    /// Pairs that are near duplicates, joined: in as many rounds as memory asks for.
    pub(super) fn groups(&self) -> Result<Groups, DataError> {
        let mut groups = Groups::new(self.pairs);
        let rounds = (KEYS * self.pairs * PLACE).div_ceil(ROUND).max(1) as u64;
        for round in 0..rounds {
            let mut failed = None;
            groups.join_by_key(self.keys(&mut failed)?, |key| key % rounds == round);
            failed.map_or(Ok(()), Err)?;
        }
        Ok(groups)
    }

    /// For the first pair of each group its least key.
    pub(super) fn least_keys(&self, groups: &mut Groups) -> Result<Vec<u64>, DataError> {
        let mut failed = None;
        let least = groups.least_keys(self.keys(&mut failed)?);
        failed.map_or(Ok(least), Err)
    }

    /// All keys in order; an error ends them and is put into `failed`.
    fn keys<'a>(
        &self,
        failed: &'a mut Option<DataError>,
    ) -> Result<impl Iterator<Item = u64> + 'a, DataError> {
        let path = self.keys.clone();
        let mut file = open(&path)?;
        let mut left = KEYS * self.pairs;
        Ok(std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let mut bytes = [0; 8];
            match file.read_exact(&mut bytes) {
                Ok(()) => Some(u64::from_le_bytes(bytes)),
                Err(source) => {
                    *failed = Some(DataError::Read { path: path.clone(), source });
                    None
                }
            }
        }))
    }

    pub(super) fn delete(self) -> Result<(), DataError> {
        for path in [self.text, self.keys] {
            std::fs::remove_file(&path).map_err(|source| DataError::Write { path, source })?;
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<BufReader<File>, DataError> {
    let file = File::open(path).map_err(|source| DataError::Read { path: path.into(), source })?;
    Ok(BufReader::with_capacity(1 << 18, file))
}
