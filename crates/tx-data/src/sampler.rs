//! Which sentences go into which batch, and in which order.
//!
//! Sentences of like length share a batch, so that little of it is padding. The plan is a function
//! of the lengths, the batch size, the seed and the epoch, and of nothing else.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::store::PairStore;

/// How large a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchSize {
    /// At most so many tokens on either side, padding included: memory stays bounded. A sentence
    /// longer than that makes a batch of its own.
    Tokens(usize),
    /// So many sentences, as long as there are enough.
    Sentences(usize),
}

/// Which sentences share a batch in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// Those of like length: little padding, and the faster the more lengths differ.
    Length,
    /// Any: more padding, but no batch speaks for one length alone.
    Random,
}

/// Pairs whose lengths are sorted together. A corpus of no more has one plan for the whole epoch;
/// of a larger one, so many are planned at a time, and memory stays bounded.
pub const WINDOW: usize = 1 << 20;
/// Neighbours that a larger corpus keeps together when it is shuffled: they are read at once.
const BLOCK: usize = 64;

/// The batches of one epoch, as indices; every pair stands in exactly one.
///
/// Ties in length are broken by chance, and the batches come in random order; another epoch gives
/// another plan. A corpus of more than `window` pairs is shuffled in two steps: blocks of
/// neighbours among each other, then the pairs of each window of blocks.
#[derive(Debug, Clone)]
pub struct Shuffled {
    pairs: PairStore,
    size: BatchSize,
    grouping: Grouping,
    seed: u64,
    epoch: usize,
    /// Pairs in a window.
    window: usize,
    /// The order of the blocks; none if one window holds all.
    blocks: Option<Vec<u32>>,
    next_window: usize,
    /// What is left of the window before.
    batches: std::vec::IntoIter<Vec<usize>>,
}

impl Shuffled {
    /// Plans an epoch.
    pub fn new(
        pairs: PairStore,
        size: BatchSize,
        grouping: Grouping,
        seed: u64,
        epoch: usize,
    ) -> Self {
        Self::with_window(pairs, size, grouping, seed, epoch, WINDOW)
    }

    fn with_window(
        pairs: PairStore,
        size: BatchSize,
        grouping: Grouping,
        seed: u64,
        epoch: usize,
        window: usize,
    ) -> Self {
        let mut plan = Self {
            size,
            grouping,
            seed,
            epoch,
            window,
            blocks: None,
            next_window: 0,
            batches: Vec::new().into_iter(),
            pairs,
        };
        if plan.pairs.len() > window {
            let mut blocks: Vec<u32> = (0..plan.pairs.len().div_ceil(BLOCK) as u32).collect();
            blocks.shuffle(&mut plan.random(1 << 63));
            plan.blocks = Some(blocks);
        }
        plan
    }

    /// Each epoch has a stream of its own, and each window of it: none needs the ones before it.
    fn random(&self, window: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(self.epoch as u64 | window);
        random
    }

    /// The pairs of the next window, in the corpus's order.
    fn window(&mut self) -> Option<Vec<usize>> {
        let window = self.next_window;
        self.next_window += 1;
        match &self.blocks {
            None => (window == 0).then(|| (0..self.pairs.len()).collect()),
            Some(blocks) => {
                let blocks = blocks.chunks((self.window / BLOCK).max(1)).nth(window)?;
                let pairs = |&block: &u32| {
                    let first = block as usize * BLOCK;
                    first..(first + BLOCK).min(self.pairs.len())
                };
                Some(blocks.iter().flat_map(pairs).collect())
            }
        }
    }
}

impl Iterator for Shuffled {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        loop {
            if let Some(batch) = self.batches.next() {
                return Some(batch);
            }
            let mut random = self.random((self.next_window as u64) << 40);
            let mut order = self.window()?;
            order.shuffle(&mut random);
            if self.grouping == Grouping::Length {
                order.sort_by_key(|&index| length(&self.pairs, index));
            }
            let mut batches = fill(&order, &self.pairs, self.size);
            batches.shuffle(&mut random);
            self.batches = batches.into_iter();
        }
    }
}

/// The batches in order of length, for validation.
pub fn sorted(pairs: &PairStore, size: BatchSize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_key(|&index| length(pairs, index));
    fill(&order, pairs, size)
}

/// Target first: its length decides what the larger half of the work costs.
fn length(pairs: &PairStore, index: usize) -> (usize, usize) {
    let [source, target] = pairs.lengths(index);
    (target, source)
}

fn fill(order: &[usize], pairs: &PairStore, size: BatchSize) -> Vec<Vec<usize>> {
    let mut batches = Vec::new();
    let mut batch: Vec<usize> = Vec::new();
    let mut longest = 0;
    for &index in order {
        let (target, source) = length(pairs, index);
        let longest_with = longest.max(target).max(source);
        let full = match size {
            BatchSize::Tokens(budget) => longest_with * (batch.len() + 1) > budget,
            BatchSize::Sentences(count) => batch.len() >= count,
        };
        if full && !batch.is_empty() {
            batches.push(std::mem::take(&mut batch));
            longest = 0;
        }
        longest = longest.max(target).max(source);
        batch.push(index);
    }
    if !batch.is_empty() {
        batches.push(batch);
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::EncodedPair;

    fn pairs() -> PairStore {
        // Lengths 1..=13, each many times, source one longer than target now and then.
        (0..500)
            .map(|i| EncodedPair {
                source: vec![9; 1 + i * 7 % 13 + i % 2],
                target: vec![9; 1 + i * 7 % 13],
            })
            .collect::<Vec<_>>()
            .into()
    }

    fn shuffled(size: BatchSize, grouping: Grouping, seed: u64, epoch: usize) -> Vec<Vec<usize>> {
        Shuffled::new(pairs(), size, grouping, seed, epoch).collect()
    }

    #[test]
    fn every_pair_stands_in_exactly_one_batch() {
        for size in [BatchSize::Tokens(40), BatchSize::Sentences(32), BatchSize::Tokens(1)] {
            for batches in [
                shuffled(size, Grouping::Length, 3, 1),
                shuffled(size, Grouping::Random, 3, 1),
                Shuffled::with_window(pairs(), size, Grouping::Length, 3, 1, 128).collect(),
                sorted(&pairs(), size),
            ] {
                let mut all = batches.concat();
                all.sort_unstable();
                assert_eq!(all, (0..500).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_token_budget_holds_padding_included() {
        let pairs = pairs();
        let batches = shuffled(BatchSize::Tokens(40), Grouping::Length, 3, 1);
        for batch in &batches {
            let longest = batch.iter().flat_map(|&index| pairs.lengths(index)).max().unwrap();
            assert!(longest * batch.len() <= 40);
        }
        // 3,500 target tokens and some padding: not many more batches than 3,500 / 40.
        assert!(batches.len() < 120, "{}", batches.len());
    }

    #[test]
    fn a_sentence_over_the_budget_is_alone() {
        let pairs = [3, 50, 3].map(|n| EncodedPair { source: vec![9; n], target: vec![9; 2] });
        let batches = sorted(&pairs.to_vec().into(), BatchSize::Tokens(10));
        assert_eq!(batches, [vec![0, 2], vec![1]]);
    }

    #[test]
    fn seed_and_epoch_fix_the_order() {
        let plan = |seed, epoch| shuffled(BatchSize::Sentences(16), Grouping::Length, seed, epoch);
        assert_eq!(plan(1, 4), plan(1, 4));
        assert_ne!(plan(1, 4), plan(1, 5));
        assert_ne!(plan(1, 4), plan(2, 4));
    }

    /// 500 pairs in windows of 128: four windows, each two blocks of 64 from anywhere.
    #[test]
    fn a_large_corpus_is_planned_window_by_window() {
        let plan = |seed, epoch| {
            let size = BatchSize::Sentences(16);
            let plan = Shuffled::with_window(pairs(), size, Grouping::Length, seed, epoch, 128);
            plan.collect::<Vec<_>>()
        };
        assert_eq!(plan(1, 4), plan(1, 4));
        assert_ne!(plan(1, 4), plan(1, 5));
        assert_ne!(plan(1, 4), plan(2, 4));
        // The first window: eight batches that together hold two whole blocks.
        let mut first: Vec<usize> = plan(1, 4)[..8].concat();
        first.sort_unstable();
        let blocks: Vec<usize> = first.iter().map(|index| index / BLOCK).collect();
        assert_eq!(first.len(), 128);
        assert_eq!(blocks.iter().filter(|&&block| block == blocks[0]).count(), 64);
    }
}
