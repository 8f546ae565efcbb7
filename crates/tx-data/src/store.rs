//! Storage of encoded pairs: in memory, or in memory-mapped files.

use std::{borrow::Cow, ops::Range, sync::Arc};

use crate::{encoded_pair::EncodedPair, prepared::MappedShards};

/// Encoded pairs by index. Clones share the pairs.
#[derive(Debug, Clone)]
pub enum PairStore {
    /// Pairs in memory.
    Memory(Arc<[EncodedPair]>),
    /// Pairs in the files of a prepared corpus.
    Mapped {
        /// Memory-mapped files.
        pairs: Arc<MappedShards>,
        /// Range of the pairs.
        range: Range<usize>,
    },
}

impl PairStore {
    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(pairs) => pairs.len(),
            Self::Mapped { range, .. } => range.len(),
        }
    }

    /// Returns `true` if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of source and target tokens of a pair.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn lengths(&self, index: usize) -> [usize; 2] {
        match self {
            Self::Memory(pairs) => [pairs[index].source.len(), pairs[index].target.len()],
            Self::Mapped { pairs, range } => pairs.lengths(range.start + index),
        }
    }

    /// Returns the pair at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn pair(&self, index: usize) -> Cow<'_, EncodedPair> {
        match self {
            Self::Memory(pairs) => Cow::Borrowed(&pairs[index]),
            Self::Mapped { pairs, range } => Cow::Owned(pairs.pair(range.start + index)),
        }
    }

    /// Returns the pairs from `start` to `end`, exclusive.
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        match self {
            Self::Memory(pairs) => Self::Memory(pairs[start..end].into()),
            Self::Mapped { pairs, range } => {
                assert!(start <= end && end <= range.len(), "{start}..{end} of {}", range.len());
                let range = range.start + start..range.start + end;
                Self::Mapped { pairs: pairs.clone(), range }
            }
        }
    }
}

impl FromIterator<EncodedPair> for PairStore {
    fn from_iter<I: IntoIterator<Item = EncodedPair>>(pairs: I) -> Self {
        Self::Memory(pairs.into_iter().collect())
    }
}

impl From<Vec<EncodedPair>> for PairStore {
    fn from(pairs: Vec<EncodedPair>) -> Self {
        Self::Memory(pairs.into())
    }
}

impl From<MappedShards> for PairStore {
    fn from(pairs: MappedShards) -> Self {
        Self::Mapped { range: 0..pairs.len(), pairs: Arc::new(pairs) }
    }
}
