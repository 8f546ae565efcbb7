//! Which sentences go into which batch, and in which order.
//!
//! Sentences of like length share a batch, so that little of it is padding. The plan is a function
//! of the lengths, the batch size, the seed and the epoch, and of nothing else.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::encode::EncodedPair;

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

/// The batches of one epoch, as indices into `pairs`; every pair stands in exactly one.
///
/// Ties in length are broken by chance, and the batches come in random order; another epoch gives
/// another plan.
pub fn shuffled(
    pairs: &[EncodedPair],
    size: BatchSize,
    grouping: Grouping,
    seed: u64,
    epoch: usize,
) -> Vec<Vec<usize>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Each epoch has a stream of its own: no epoch needs the ones before it.
    rng.set_stream(epoch as u64);
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.shuffle(&mut rng);
    if grouping == Grouping::Length {
        order.sort_by_key(|&index| length(&pairs[index]));
    }
    let mut batches = fill(&order, pairs, size);
    batches.shuffle(&mut rng);
    batches
}

/// The batches in order of length, for validation.
pub fn sorted(pairs: &[EncodedPair], size: BatchSize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..pairs.len()).collect();
    order.sort_by_key(|&index| length(&pairs[index]));
    fill(&order, pairs, size)
}

/// Target first: its length decides what the larger half of the work costs.
fn length(pair: &EncodedPair) -> (usize, usize) {
    (pair.target.len(), pair.source.len())
}

fn fill(order: &[usize], pairs: &[EncodedPair], size: BatchSize) -> Vec<Vec<usize>> {
    let mut batches = Vec::new();
    let mut batch: Vec<usize> = Vec::new();
    let mut longest = 0;
    for &index in order {
        let (target, source) = length(&pairs[index]);
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

    fn pairs() -> Vec<EncodedPair> {
        // Lengths 1..=13, each many times, source one longer than target now and then.
        (0..500)
            .map(|i| EncodedPair {
                source: vec![9; 1 + i * 7 % 13 + i % 2],
                target: vec![9; 1 + i * 7 % 13],
            })
            .collect()
    }

    #[test]
    fn every_pair_stands_in_exactly_one_batch() {
        for size in [BatchSize::Tokens(40), BatchSize::Sentences(32), BatchSize::Tokens(1)] {
            for batches in [
                shuffled(&pairs(), size, Grouping::Length, 3, 1),
                shuffled(&pairs(), size, Grouping::Random, 3, 1),
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
        let batches = shuffled(&pairs, BatchSize::Tokens(40), Grouping::Length, 3, 1);
        for batch in &batches {
            let longest = batch
                .iter()
                .map(|&i| pairs[i].source.len().max(pairs[i].target.len()))
                .max()
                .unwrap();
            assert!(longest * batch.len() <= 40);
        }
        // 3,500 target tokens and some padding: not many more batches than 3,500 / 40.
        assert!(batches.len() < 120, "{}", batches.len());
    }

    #[test]
    fn a_sentence_over_the_budget_is_alone() {
        let pairs = [3, 50, 3].map(|n| EncodedPair { source: vec![9; n], target: vec![9; 2] });
        let batches = sorted(&pairs, BatchSize::Tokens(10));
        assert_eq!(batches, [vec![0, 2], vec![1]]);
    }

    #[test]
    fn seed_and_epoch_fix_the_order() {
        let plan = |seed, epoch| {
            shuffled(&pairs(), BatchSize::Sentences(16), Grouping::Length, seed, epoch)
        };
        assert_eq!(plan(1, 4), plan(1, 4));
        assert_ne!(plan(1, 4), plan(1, 5));
        assert_ne!(plan(1, 4), plan(2, 4));
    }
}
