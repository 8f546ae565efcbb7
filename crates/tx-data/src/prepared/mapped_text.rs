//! Memory-mapped validation pairs.

use std::{
    io,
    path::{Path, PathBuf},
};

use memmap2::Mmap;
use tx_text::SentencePair;

use super::mapped::map;
use crate::error::DataError;

/// Pairs as text in a file with one JSON object a line, such as `validation.jsonl`.
///
/// The file must not change while it is open.
#[derive(Debug)]
pub struct MappedText {
    path: PathBuf,
    bytes: Mmap,
    /// Start of each line, and the end of the last one.
    starts: Vec<usize>,
}

impl MappedText {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let bytes = map(path)?;
        let ends = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(end, _)| end + 1)).collect();
        Ok(Self { path: path.into(), bytes, starts })
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns `true` if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the pair at `index`.
    ///
    /// # Errors
    ///
    /// If the line is not a pair in JSON.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn pair(&self, index: usize) -> Result<SentencePair, DataError> {
        assert!(index < self.len(), "pair {index} of {}", self.len());
        let line = self.bytes.get(self.starts[index]..self.starts[index + 1]);
        serde_json::from_slice(line.unwrap_or_default()).map_err(|error| DataError::Read {
            path: self.path.clone(),
            source: io::Error::from(error),
        })
    }
}
