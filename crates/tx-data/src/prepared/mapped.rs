//! Memory-mapped training pairs.

use std::{fs::File, path::Path};

use memmap2::Mmap;

use crate::{encoded_pair::EncodedPair, error::DataError};

/// Bytes of an index entry.
pub(super) const ENTRY: usize = 12;

/// Encoded pairs in two files, `train.ids` and `train.index`.
///
/// The operating system caches recently read pages and evicts them when memory is short. The files
/// must not change while they are open: on Unix, reading a page of a truncated file ends the process
/// with `SIGBUS`.
#[derive(Debug)]
pub struct MappedPairs {
    ids: Mmap,
    index: Mmap,
    id_bytes: usize,
    pairs: usize,
    /// Number of ids of all pairs.
    total: u64,
}

impl MappedPairs {
    /// Maps the files. Their lengths are checked; their content only if `is_verified`, because that
    /// reads all of it.
    pub(super) fn open(
        ids: &Path,
        index: &Path,
        id_bytes: usize,
        pairs: usize,
        total: u64,
        vocabularies: [usize; 2],
        is_verified: bool,
    ) -> Result<Self, DataError> {
        let problem = |path: &Path, problem| DataError::Prepared { path: path.into(), problem };
        if !matches!(id_bytes, 2 | 4) {
            return Err(problem(ids, format!("ids of {id_bytes} bytes, expected 2 or 4")));
        }
        let mapped = Self { ids: map(ids)?, index: map(index)?, id_bytes, pairs, total };
        let expected = (pairs as u64).checked_add(1).and_then(|n| n.checked_mul(ENTRY as u64));
        if expected != Some(mapped.index.len() as u64) {
            let bytes = mapped.index.len();
            return Err(problem(index, format!("{bytes} bytes do not fit {pairs} pairs")));
        }
        if total.checked_mul(id_bytes as u64) != Some(mapped.ids.len() as u64) {
            let bytes = mapped.ids.len();
            return Err(problem(ids, format!("{bytes} bytes do not fit {total} ids")));
        }
        if is_verified {
            mapped.check_index().map_err(|text| problem(index, text))?;
            mapped.check_ids(vocabularies).map_err(|text| problem(ids, text))?;
        }
        Ok(mapped)
    }

    /// Rejects an index whose pairs overlap, skip ids or do not end with the ids.
    fn check_index(&self) -> Result<(), String> {
        let mut end_before = 0;
        for pair in 0..self.pairs {
            let (start, source) = self.entry(pair);
            let (end, _) = self.entry(pair + 1);
            if start != end_before || start.checked_add(source as u64).is_none_or(|s| s > end) {
                return Err(format!("pair {pair} has {source} source ids in {start}..{end}"));
            }
            end_before = end;
        }
        match end_before == self.total {
            true => Ok(()),
            false => Err(format!("the pairs have {end_before} ids, expected {}", self.total)),
        }
    }

    /// Rejects ids that are not in the vocabulary.
    fn check_ids(&self, vocabularies: [usize; 2]) -> Result<(), String> {
        let largest = match self.id_bytes {
            2 => self.ids.as_chunks().0.iter().map(|&id| u16::from_le_bytes(id).into()).max(),
            _ => self.ids.as_chunks().0.iter().map(|&id| u32::from_le_bytes(id)).max(),
        };
        let fits = |id: u32, size: usize| (id as usize) < size;
        if largest.is_none_or(|id| vocabularies.iter().all(|&size| fits(id, size))) {
            return Ok(());
        }
        // An id that is too large for one side may belong to the other.
        for index in 0..self.pairs {
            let EncodedPair { source, target, .. } = self.pair(index);
            for (ids, size) in [source, target].iter().zip(vocabularies) {
                if let Some(id) = ids.iter().find(|&&id| !fits(id, size)) {
                    return Err(format!("pair {index} has id {id} of a vocabulary of {size}"));
                }
            }
        }
        Ok(())
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Start of a pair, counted in ids, and number of its source ids.
    fn entry(&self, index: usize) -> (u64, usize) {
        let entry = &self.index[index * ENTRY..(index + 1) * ENTRY];
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        (number(&entry[..8]), number(&entry[8..]) as usize)
    }

    /// Returns the numbers of source and target tokens of a pair.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn lengths(&self, index: usize) -> [usize; 2] {
        assert!(index < self.pairs, "pair {index} of {}", self.pairs);
        let (start, source) = self.entry(index);
        let (end, _) = self.entry(index + 1);
        // Limited to the ids of the file, in case that the index was not verified.
        let both = end.min(self.total).saturating_sub(start) as usize;
        [source.min(both), both.saturating_sub(source)]
    }

    /// Returns the pair at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn pair(&self, index: usize) -> EncodedPair {
        let [source, target] = self.lengths(index);
        let start = self.entry(index).0 as usize;
        let read = |from: usize, count: usize| {
            // Empty instead of a panic if the files have changed since they were checked.
            let byte = |id: usize| id.saturating_mul(self.id_bytes);
            let bytes = byte(from)..byte(from.saturating_add(count));
            let bytes = self.ids.get(bytes).unwrap_or_default();
            let number = |id: &[u8]| id.iter().rev().fold(0, |n, &byte| n << 8 | u32::from(byte));
            bytes.chunks_exact(self.id_bytes).map(number).collect()
        };
        EncodedPair::new(read(start, source), read(start.saturating_add(source), target))
    }
}

/// Maps a file into memory.
#[allow(unsafe_code)]
pub(super) fn map(path: &Path) -> Result<Mmap, DataError> {
    let read = |source| DataError::Read { path: path.into(), source };
    let file = File::open(path).map_err(read)?;
    // SAFETY: the bytes are only read, any value of them is valid, and every access is within the
    // length of the file at this point. The documentation requires that the files are not changed
    // or truncated while they are open, as for a shared library that a program has loaded.
    unsafe { Mmap::map(&file) }.map_err(read)
}
