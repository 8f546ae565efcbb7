//! Composition and order of the batches.
//!
//! Examples of similar length share a batch, so that batches contain little padding. The batches are a
//! function of the lengths, the batch size, the seed and the epoch.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::examples::Examples;

/// Size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchSize {
    /// At most this many tokens on either side, padding included, which bounds memory. A longer
    /// sentence is its own batch.
    Tokens(usize),
    /// This number of sentences, except in the last batch.
    Sentences(usize),
}

/// Composition of training batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// Sentences of similar length: little padding, which is faster if lengths differ.
    Length,
    /// Random sentences: more padding, but the gradient of a batch does not depend on one length.
    Random,
}

/// Number of pairs that are sorted by length together. A larger corpus is sampled window by window,
/// which bounds memory.
pub const WINDOW: usize = 1 << 20;
/// Number of adjacent pairs that stay together when a larger corpus is shuffled, so that reads are
/// local.
const BLOCK: usize = 64;

/// Batches of one epoch, as indices; every example is in exactly one batch.
///
/// Ties in length are broken randomly, and the batches are in random order, which differs between
/// epochs. A corpus of more than [`WINDOW`] pairs is shuffled in two steps: first blocks of
/// adjacent pairs, then the pairs of each window of blocks.
#[derive(Debug, Clone)]
pub struct BatchSampler<E> {
    examples: E,
    size: BatchSize,
    grouping: Grouping,
    seed: u64,
    epoch: usize,
    /// Number of pairs in a window.
    window: usize,
    /// Order of the blocks; `None` if one window contains all pairs.
    blocks: Option<Vec<u32>>,
    next_window: usize,
    /// Remaining batches of the current window.
    batches: std::vec::IntoIter<Vec<usize>>,
}

impl<E: Examples> BatchSampler<E> {
    /// Creates the sampler of an epoch.
    pub fn new(examples: E, size: BatchSize, grouping: Grouping, seed: u64, epoch: usize) -> Self {
        Self::with_window(examples, size, grouping, seed, epoch, WINDOW)
    }

    fn with_window(
        examples: E,
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
            examples,
        };
        if plan.examples.count() > window {
            let blocks = plan.examples.count().div_ceil(BLOCK) as u32;
            let mut blocks: Vec<u32> = (0..blocks).collect();
            blocks.shuffle(&mut plan.random(1 << 63));
            plan.blocks = Some(blocks);
        }
        plan
    }

    /// Random numbers of a window. Each epoch and each window has its own stream, so none depends
    /// on the ones before it.
    fn random(&self, window: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(self.epoch as u64 | window);
        random
    }

    /// Examples of the next window, in the order of the corpus.
    fn window(&mut self) -> Option<Vec<usize>> {
        let window = self.next_window;
        self.next_window += 1;
        match &self.blocks {
            None => (window == 0).then(|| (0..self.examples.count()).collect()),
            Some(blocks) => {
                let blocks = blocks.chunks((self.window / BLOCK).max(1)).nth(window)?;
                let examples = |&block: &u32| {
                    let first = block as usize * BLOCK;
                    first..(first + BLOCK).min(self.examples.count())
                };
                Some(blocks.iter().flat_map(examples).collect())
            }
        }
    }
}

impl<E: Examples> Iterator for BatchSampler<E> {
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
                order.sort_by_key(|&index| length(&self.examples, index));
            }
            let mut batches = fill(&order, &self.examples, self.size);
            batches.shuffle(&mut random);
            self.batches = batches.into_iter();
        }
    }
}

/// Batches in order of length, for validation.
pub fn sorted<E: Examples>(examples: &E, size: BatchSize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..examples.count()).collect();
    order.sort_by_key(|&index| length(examples, index));
    fill(&order, examples, size)
}

/// Sort key: target before source, because the target length determines most of the cost.
fn length<E: Examples>(examples: &E, index: usize) -> (usize, usize) {
    let [source, target] = examples.lengths(index);
    (target, source)
}

fn fill<E: Examples>(order: &[usize], examples: &E, size: BatchSize) -> Vec<Vec<usize>> {
    let mut batches = Vec::new();
    let mut batch: Vec<usize> = Vec::new();
    let mut longest = 0;
    for &index in order {
        let (target, source) = length(examples, index);
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
    use crate::{encoded_pair::EncodedPair, store::PairStore};

    fn pairs() -> PairStore {
        // Lengths 1..=13, each many times, source one longer than target now and then.
        (0..500)
            .map(|i| EncodedPair::new(vec![9; 1 + i * 7 % 13 + i % 2], vec![9; 1 + i * 7 % 13]))
            .collect::<Vec<_>>()
            .into()
    }

    fn shuffled(size: BatchSize, grouping: Grouping, seed: u64, epoch: usize) -> Vec<Vec<usize>> {
        BatchSampler::new(pairs(), size, grouping, seed, epoch).collect()
    }

    #[test]
    fn every_pair_is_in_exactly_one_batch() {
        for size in [BatchSize::Tokens(40), BatchSize::Sentences(32), BatchSize::Tokens(1)] {
            for batches in [
                shuffled(size, Grouping::Length, 3, 1),
                shuffled(size, Grouping::Random, 3, 1),
                BatchSampler::with_window(pairs(), size, Grouping::Length, 3, 1, 128).collect(),
                sorted(&pairs(), size),
            ] {
                let mut all = batches.concat();
                all.sort_unstable();
                assert_eq!(all, (0..500).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn the_token_limit_includes_padding() {
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
    fn a_sentence_above_the_limit_is_its_own_batch() {
        let pairs = [3, 50, 3].map(|n| EncodedPair::new(vec![9; n], vec![9; 2]));
        let batches = sorted(&PairStore::from(pairs.to_vec()), BatchSize::Tokens(10));
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
            let plan = BatchSampler::with_window(pairs(), size, Grouping::Length, seed, epoch, 128);
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
