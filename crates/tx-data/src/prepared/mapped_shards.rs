//! Memory-mapped training pairs of several folders.

use super::MappedPairs;
use crate::encoded_pair::EncodedPair;

/// Pairs of all shards of a prepared corpus, in the order of the shards; one shard if it is not
/// divided.
///
/// The index of a pair is that in the concatenation of the shards, so that a corpus has the same batches
/// in one folder and in several.
#[derive(Debug)]
pub struct MappedShards {
    shards: Vec<MappedPairs>,
    /// Number of the pairs of each shard and of all before it.
    ends: Vec<usize>,
}

impl MappedShards {
    pub(super) fn new(shards: Vec<MappedPairs>) -> Self {
        let ends = shards.iter().scan(0, |end, shard| {
            *end += shard.len();
            Some(*end)
        });
        Self { ends: ends.collect(), shards }
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns `true` if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shard of a pair, and its index there.
    fn find(&self, index: usize) -> (&MappedPairs, usize) {
        assert!(index < self.len(), "pair {index} of {}", self.len());
        let shard = self.ends.partition_point(|&end| end <= index);
        let first = if shard == 0 { 0 } else { self.ends[shard - 1] };
        (&self.shards[shard], index - first)
    }

    /// Returns the numbers of source and target tokens of a pair.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn lengths(&self, index: usize) -> [usize; 2] {
        let (shard, index) = self.find(index);
        shard.lengths(index)
    }

    /// Returns the pair at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn pair(&self, index: usize) -> EncodedPair {
        let (shard, index) = self.find(index);
        shard.pair(index)
    }
}
