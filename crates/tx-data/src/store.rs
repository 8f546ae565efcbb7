//! Where encoded pairs lie: in memory, or in files that are read as they are needed.

use std::{borrow::Cow, ops::Range, sync::Arc};

use crate::{encode::EncodedPair, prepared::MappedPairs};

/// Encoded pairs by number. Copies share what they hold.
#[derive(Debug, Clone)]
pub enum PairStore {
    /// In memory.
    Memory(Arc<[EncodedPair]>),
    /// In the files of a prepared corpus.
    Mapped {
        /// The files.
        pairs: Arc<MappedPairs>,
        /// Which of them.
        range: Range<usize>,
    },
}

impl PairStore {
    /// Number of pairs.
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(pairs) => pairs.len(),
            Self::Mapped { range, .. } => range.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of source and target.
    ///
    /// # Panics
    ///
    /// When there is no pair of that number.
    pub fn lengths(&self, index: usize) -> [usize; 2] {
        match self {
            Self::Memory(pairs) => [pairs[index].source.len(), pairs[index].target.len()],
            Self::Mapped { pairs, range } => pairs.lengths(range.start + index),
        }
    }

    /// A pair.
    ///
    /// # Panics
    ///
    /// When there is no pair of that number.
    pub fn pair(&self, index: usize) -> Cow<'_, EncodedPair> {
        match self {
            Self::Memory(pairs) => Cow::Borrowed(&pairs[index]),
            Self::Mapped { pairs, range } => Cow::Owned(pairs.pair(range.start + index)),
        }
    }

    /// Those from `start` up to `end`.
    ///
    /// # Panics
    ///
    /// When there are not as many.
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

impl From<Vec<EncodedPair>> for PairStore {
    fn from(pairs: Vec<EncodedPair>) -> Self {
        Self::Memory(pairs.into())
    }
}

impl From<MappedPairs> for PairStore {
    fn from(pairs: MappedPairs) -> Self {
        Self::Mapped { range: 0..pairs.len(), pairs: Arc::new(pairs) }
    }
}
