//! The likeliest tokens of each row, with their log-probabilities, as their scores come in.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

use super::matrix::{Columns, FEW, has_helpers};
use crate::vector::{self, vectorized};

/// Scores looked at together: most of the time, none of them is among the best.
const CHUNK: usize = 64;

/// Blocks of the projection are looked at in so many groups, if that makes [`LEAST`] blocks each.
const GROUPS: usize = 8;
const LEAST: usize = 2;

thread_local! {
    /// Scores of the tokens of a block: `[rows, tokens]`.
    static SCORES: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// The best of the scores seen so far, and the sum of all.
///
/// `log softmax(x)_i = x_i - max - ln Σ e^(x_j - max)`; maximum and sum are brought up to date with
/// every block of scores (Milakov and Gimelshein 2018).
#[derive(Debug)]
pub(super) struct TopTokens {
    count: usize,
    /// Best first; among equals the earlier token.
    best: Vec<(u32, f32)>,
    /// What a score must beat besides, as enough others do.
    floor: f32,
    /// Of the groups before.
    total: Sum,
    /// Of the group under way.
    group: Sum,
}

/// A sum of exponentials.
#[derive(Debug, Clone, Copy)]
struct Sum {
    max: f32,
    /// `Σ e^(x - max)`
    sum: f64,
}

impl Sum {
    const NONE: Self = Self { max: f32::NEG_INFINITY, sum: 0.0 };

    fn plus(self, other: Self) -> Self {
        let max = self.max.max(other.max);
        if max == f32::NEG_INFINITY {
            // Nothing, unless a score is NaN.
            return Self { max, sum: self.sum + other.sum };
        }
        let part = |part: Self| part.sum * f64::from(part.max - max).exp();
        Self { max, sum: part(self) + part(other) }
    }
}

/// A score that as many tokens of a row reach as are wanted, known to all groups.
struct Floor(AtomicU32);

impl Default for Floor {
    fn default() -> Self {
        Self(AtomicU32::new(f32::NEG_INFINITY.to_bits()))
    }
}

impl Floor {
    /// Takes note of the last listed score of a group; gives what a score must beat, so that it is
    /// no lower than the best floor so far. An equal one may be that of an earlier token.
    fn raise(&self, bar: f32) -> f32 {
        let higher = |bits| (bar > f32::from_bits(bits)).then_some(bar.to_bits());
        let old = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, higher);
        old.map_or_else(f32::from_bits, |_| bar).next_down()
    }
}

impl TopTokens {
    /// Keeps the best `count`.
    fn new(count: usize) -> Self {
        Self {
            count,
            best: Vec::new(),
            floor: f32::NEG_INFINITY,
            total: Sum::NONE,
            group: Sum::NONE,
        }
    }

    /// The best `count` of each row of `x` among the tokens of some blocks of the projection.
    ///
    /// Few rows are a single sentence's: then the groups are shared out among the threads of the
    /// pool, if this is one of them. The result is the same, to the bit.
    pub(super) fn of(
        x: &[f32],
        blocks: &[Columns<'_>],
        suppressed: &[u32],
        count: usize,
    ) -> Vec<Self> {
        let rows = blocks.first().map_or(0, |columns| columns.rows(x));
        let new = || (0..rows).map(|_| Self::new(count)).collect::<Vec<_>>();
        let groups = blocks.chunks(blocks.len().div_ceil(GROUPS).max(LEAST));
        let mut top = new();
        if rows > FEW || groups.len() == 1 || !has_helpers() {
            for group in groups {
                Self::add_group(&mut top, x, group, suppressed, |_| {});
            }
            return top;
        }
        // A group need not list what enough tokens of other groups are better than.
        let floors: Vec<Floor> = (0..rows).map(|_| Floor::default()).collect();
        let raise = |top: &mut [Self]| {
            for (top, floor) in top.iter_mut().zip(&floors) {
                top.floor = floor.raise(top.bar());
            }
        };
        let mut found: Vec<Vec<Self>> = groups.clone().map(|_| new()).collect();
        rayon::scope(|scope| {
            for (group, found) in groups.zip(&mut found) {
                scope.spawn(move |_| Self::add_group(found, x, group, suppressed, raise));
            }
        });
        for found in found {
            for (top, found) in top.iter_mut().zip(found) {
                top.total = top.total.plus(found.total);
                for (token, score) in found.best {
                    top.offer(token, score);
                }
            }
        }
        top
    }

    /// Takes in the tokens of a group of blocks; `between` is called before each block.
    fn add_group(
        top: &mut [Self],
        x: &[f32],
        group: &[Columns<'_>],
        suppressed: &[u32],
        between: impl Fn(&mut [Self]),
    ) {
        let mut scores = SCORES.take();
        for columns in group {
            between(top);
            scores.resize(top.len() * columns.count, 0.0);
            columns.product(x, &mut scores);
            vectorized(
                #[inline(always)]
                || {
                    for (top, scores) in top.iter_mut().zip(scores.chunks_exact_mut(columns.count))
                    {
                        top.extend(columns.first, scores, suppressed);
                    }
                },
            );
        }
        between(top);
        SCORES.set(scores);
        top.iter_mut().for_each(Self::end_group);
    }

    fn end_group(&mut self) {
        self.total = self.total.plus(std::mem::replace(&mut self.group, Sum::NONE));
    }

    /// Takes in the scores of the tokens `first..`. Those of `suppressed` count in the sum, but are not
    /// listed; they are overwritten.
    #[inline(always)]
    fn extend(&mut self, first: usize, scores: &mut [f32], suppressed: &[u32]) {
        let block_max = vector::max(scores);
        let Sum { max, sum } = &mut self.group;
        if block_max > *max {
            *sum *= f64::from(vector::exp(*max - block_max));
            *max = block_max;
        }
        let max = *max;
        *sum += f64::from(vector::sum_of(scores, |x| vector::exp(x - max)));

        for &token in suppressed {
            if let Some(score) =
                (token as usize).checked_sub(first).and_then(|at| scores.get_mut(at))
            {
                *score = f32::NEG_INFINITY;
            }
        }
        if block_max > self.bar() {
            for (chunk, scores) in scores.chunks(CHUNK).enumerate() {
                let bar = self.bar();
                if scores.iter().fold(false, |any, &score| any | (score > bar)) {
                    self.insert(first + chunk * CHUNK, scores);
                }
            }
        }
    }

    /// What a score must beat to be listed.
    #[inline(always)]
    fn bar(&self) -> f32 {
        if self.best.len() < self.count {
            return self.floor;
        }
        self.best.last().map_or(f32::INFINITY, |(_, score)| score.max(self.floor))
    }

    #[inline(never)]
    fn insert(&mut self, first: usize, scores: &[f32]) {
        for (place, &score) in scores.iter().enumerate() {
            self.offer((first + place) as u32, score);
        }
    }

    #[inline(always)]
    fn offer(&mut self, token: u32, score: f32) {
        if score > self.bar() {
            let rank = self.best.partition_point(|(_, other)| *other >= score);
            self.best.truncate(self.count - 1);
            self.best.insert(rank, (token, score));
        }
    }

    /// The listed tokens with their log-probabilities, best first. If a score is not finite, one
    /// token whose log-probability is NaN.
    pub(super) fn finish(mut self) -> Vec<(u32, f32)> {
        let Sum { max, sum } = self.total;
        let log_sum = sum.ln();
        if !log_sum.is_finite() {
            return vec![(0, f32::NAN)];
        }
        for (_, score) in &mut self.best {
            *score = (f64::from(*score - max) - log_sum) as f32;
        }
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::{super::PackedMatrix, *};

    fn top(scores: &[f32], count: usize, suppressed: &[u32], block: usize) -> Vec<(u32, f32)> {
        let mut top = TopTokens::new(count);
        for (index, scores) in scores.chunks(block).enumerate() {
            top.extend(index * block, &mut scores.to_vec(), suppressed);
            if index % 3 == 0 {
                top.end_group();
            }
        }
        top.end_group();
        top.finish()
    }

    /// Scores ln 1, ln 4, ln 2, ln 1, ln 2: probabilities 1/10, 4/10, 2/10, 1/10, 2/10.
    #[test]
    fn the_best_come_first_and_ties_go_to_the_earlier() {
        let scores = [1.0_f32, 4.0, 2.0, 1.0, 2.0].map(f32::ln);
        for block in [1, 2, 5] {
            for (count, suppressed, expected) in [
                (9, &[][..], &[(1, 0.4), (2, 0.2), (4, 0.2), (0, 0.1), (3, 0.1)][..]),
                (2, &[], &[(1, 0.4), (2, 0.2)]),
                (1, &[], &[(1, 0.4)]),
                (2, &[1, 0], &[(2, 0.2), (4, 0.2)]),
                (3, &[0, 1, 2, 3, 4], &[]),
            ] {
                let found = top(&scores, count, suppressed, block);
                let tokens = |list: &[(u32, f32)]| list.iter().map(|(t, _)| *t).collect::<Vec<_>>();
                assert_eq!(tokens(&found), tokens(expected), "{count} of blocks of {block}");
                for ((_, found), (_, expected)) in found.iter().zip(expected) {
                    assert!((found.exp() - expected).abs() < 1e-6, "{found} {expected}");
                }
            }
        }
    }

    /// One such score among any number of others, in any block.
    #[test]
    fn a_score_that_is_not_finite_is_reported() {
        for odd in [f32::NAN, f32::INFINITY] {
            for place in 0..5 {
                let mut scores = [0.0, 1.0, 2.0, 3.0, 4.0];
                scores[place] = odd;
                for block in [1, 2, 5] {
                    let found = top(&scores, 2, &[0], block);
                    assert!(found.len() == 1 && found[0].1.is_nan(), "{odd} {place}: {found:?}");
                }
            }
        }
        assert!(top(&[f32::NAN; 5], 2, &[], 2)[0].1.is_nan());
        // A score that is impossible is not wrong.
        let found = top(&[f32::NEG_INFINITY, 0.0], 2, &[], 2);
        assert_eq!(found, [(1, 0.0)]);
    }

    /// One thread takes the groups one after the other, several share them out.
    #[test]
    fn shared_groups_are_the_same_to_the_bit() {
        let noise = |seed: u32, count: u32| -> Vec<f32> {
            (0..count).map(|i| ((seed + i).wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7).collect()
        };
        let (inputs, outputs) = (6, 5_000);
        let weight = noise(1, inputs * outputs);
        let matrix = PackedMatrix::new(inputs as usize, &[&weight], Vec::new(), 1.0, false);
        let blocks: Vec<_> = matrix.blocks(100).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for rows in [1, 3, FEW as u32, FEW as u32 + 1] {
            let x = noise(9, rows * inputs);
            let top = || -> Vec<_> {
                TopTokens::of(&x, &blocks, &[7], 4).into_iter().map(TopTokens::finish).collect()
            };
            assert_eq!(top(), pool.install(top), "{rows} rows");
            assert_eq!(top().len(), rows as usize);
        }
    }

    /// Against sorting all of them.
    #[test]
    fn many_scores_in_blocks_are_ranked_as_by_sorting() {
        let scores: Vec<f32> =
            (0..1000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 20) as f32 / 512.0).collect();
        let mut sorted: Vec<u32> = (0..1000).collect();
        sorted.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
        for block in [33, 64, 250, 1000] {
            let found: Vec<u32> = top(&scores, 20, &[], block).iter().map(|(t, _)| *t).collect();
            assert_eq!(found, sorted[..20]);
        }
    }
}
