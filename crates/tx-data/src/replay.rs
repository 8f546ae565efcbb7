//! Replay of other pairs: each epoch contains all training pairs and some of the others.

use std::{borrow::Cow, sync::Arc};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::{encode::EncodedPair, store::PairStore};

/// Mixed into the seed of the choice, so that its random numbers differ from those of the order.
const CHOICE: u64 = 0x2545_f491_4f6c_dd1d;

/// Training pairs followed by the replayed pairs of one epoch.
///
/// The replayed pairs of successive epochs are successive parts of an endless sequence: all pairs in a
/// random order, then all in another, and so on. Seed and epoch determine them.
#[derive(Debug, Clone)]
pub struct ReplayedPairs {
    training: PairStore,
    others: PairStore,
    /// Indices of the pairs of `others` in this epoch.
    chosen: Arc<[u32]>,
}

impl ReplayedPairs {
    /// Adds `count` of the pairs `others` to the `training` pairs in each epoch. The result has those of
    /// an epoch before the first; see [`of_epoch`](Self::of_epoch). Without others, there is nothing to
    /// add.
    pub fn new(training: PairStore, others: PairStore, count: usize) -> Self {
        let count = if others.is_empty() { 0 } else { count };
        Self { training, others, chosen: vec![0; count].into() }
    }

    /// Returns the pairs of an epoch, from 1.
    pub fn of_epoch(&self, seed: u64, epoch: usize) -> Self {
        let (count, available) = (self.chosen.len(), self.others.len());
        let first = epoch.saturating_sub(1).saturating_mul(count);
        let mut chosen = Vec::with_capacity(count);
        let mut pass = first.checked_div(available).unwrap_or_default();
        let mut skipped = first.checked_rem(available).unwrap_or_default();
        while chosen.len() < count {
            let mut random = ChaCha8Rng::seed_from_u64(seed ^ CHOICE);
            random.set_stream(pass as u64);
            let mut order: Vec<u32> = (0..available as u32).collect();
            order.shuffle(&mut random);
            chosen.extend(order.into_iter().skip(skipped).take(count - chosen.len()));
            (pass, skipped) = (pass + 1, 0);
        }
        Self { chosen: chosen.into(), ..self.clone() }
    }

    /// Returns the number of pairs of an epoch.
    pub fn len(&self) -> usize {
        self.training.len() + self.chosen.len()
    }

    /// Returns `true` if there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Store and index of a pair.
    fn find(&self, index: usize) -> (&PairStore, usize) {
        match index.checked_sub(self.training.len()) {
            None => (&self.training, index),
            Some(replayed) => (&self.others, self.chosen[replayed] as usize),
        }
    }

    /// Returns the numbers of source and target tokens of a pair.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn lengths(&self, index: usize) -> [usize; 2] {
        let (store, index) = self.find(index);
        store.lengths(index)
    }

    /// Returns the pair at `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of bounds.
    pub fn pair(&self, index: usize) -> Cow<'_, EncodedPair> {
        let (store, index) = self.find(index);
        store.pair(index)
    }

    /// Returns the pairs from `start` to `end`, exclusive.
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    pub fn slice(&self, start: usize, end: usize) -> Self {
        let training = self.training.len();
        let (first, last) = (start.min(training), end.min(training));
        let chosen = &self.chosen[start.max(training) - training..end.max(training) - training];
        Self {
            training: self.training.slice(first, last),
            others: self.others.clone(),
            chosen: chosen.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs with the ids from `first`.
    fn pairs(first: u32, count: u32) -> PairStore {
        (first..first + count)
            .map(|id| EncodedPair { source: vec![id, 2], target: vec![1, id, 2] })
            .collect()
    }

    fn ids(pairs: &ReplayedPairs) -> Vec<u32> {
        (0..pairs.len()).map(|index| pairs.pair(index).source[0]).collect()
    }

    #[test]
    fn an_epoch_has_all_training_pairs_and_some_others() {
        let replayed = ReplayedPairs::new(pairs(10, 8), pairs(100, 5), 2);
        assert_eq!(replayed.len(), 10);
        let mut others = Vec::new();
        for epoch in 1..=5 {
            let found = ids(&replayed.of_epoch(1, epoch));
            assert_eq!(found[..8], [10, 11, 12, 13, 14, 15, 16, 17]);
            assert_eq!(ids(&replayed.of_epoch(1, epoch)), found);
            others.extend_from_slice(&found[8..]);
        }
        // Five epochs are two passes over the five pairs.
        let (first, second) = others.split_at_mut(5);
        assert_ne!(first, second);
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, [100, 101, 102, 103, 104]);
        assert_eq!(first, second);
        // Another seed chooses others; that 20 of 50 are the same in the same order is out of the question.
        let many = ReplayedPairs::new(pairs(10, 8), pairs(100, 50), 20);
        assert_ne!(ids(&many.of_epoch(1, 1)), ids(&many.of_epoch(2, 1)));
    }

    #[test]
    fn few_pairs_are_repeated_within_an_epoch() {
        let replayed = ReplayedPairs::new(pairs(10, 2), pairs(100, 2), 5).of_epoch(1, 3);
        let found = ids(&replayed);
        assert_eq!(found.len(), 7);
        for id in [100, 101] {
            assert!(found.iter().filter(|&&found| found == id).count() >= 2, "{found:?}");
        }
        assert_eq!(ReplayedPairs::new(pairs(10, 2), pairs(100, 0), 5).of_epoch(1, 1).len(), 2);
    }

    #[test]
    fn a_slice_is_a_part_of_an_epoch() {
        let replayed = ReplayedPairs::new(pairs(10, 4), pairs(100, 9), 3).of_epoch(1, 2);
        let all = ids(&replayed);
        for start in 0..=7 {
            for end in start..=7 {
                assert_eq!(ids(&replayed.slice(start, end)), all[start..end], "{start}..{end}");
            }
        }
    }
}
