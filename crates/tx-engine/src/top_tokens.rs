//! Likeliest tokens of each row with their log-probabilities, computed block by block of the
//! projection.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
};

use tx_kernels::{
    layout::PANEL,
    packed_matrix::{FEW, has_helpers},
    top_k::TopK,
    vector::{self, vectorized},
};

use crate::linear::{Columns, Input, Linear};

/// Number of weights of the projection to the vocabulary in one block, whose scores are ranked
/// before the next block is computed. The block stays in a core's own cache together with the scores.
const BLOCK: usize = 1 << 17;

/// Number of scores that are compared with the threshold together, because usually none exceeds it.
const CHUNK: usize = 64;

/// Number of scores among these that are offered one by one if one of them exceeds the threshold.
const PART: usize = 16;

/// Number of groups into which the blocks of the projection are divided.
const GROUPS: usize = 8;

/// Minimum number of blocks in a group.
const MIN_BLOCKS: usize = 2;

thread_local! {
    /// Buffer for the scores of a block, `[rows, tokens]`.
    static SCORES: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Returns the `count` likeliest tokens of each row with their log-probabilities, best first.
///
/// # Shapes
///
/// - `projection`: `[d_model, vocabulary]`; `x`: `[rows, d_model]`
pub(crate) fn likeliest(
    projection: &Linear,
    x: &[f32],
    suppressed: &[u32],
    count: usize,
) -> Vec<Vec<(u32, f32)>> {
    // The same blocks for any number of rows, so that no score depends on the batch.
    let blocks = projection.blocks(BLOCK / projection.inputs());
    projection.with_input(x, |x| {
        let rows = x.rows(projection.inputs());
        let shares = rows <= FEW && projection.is_shared() && has_helpers();
        let top = TopTokens::of(x, (rows, shares), &blocks, suppressed, count);
        top.into_iter().map(TopTokens::finish).collect()
    })
}

/// Returns the `count` likeliest of some tokens with their log-probabilities among these, best first.
///
/// `scores` are those of all these tokens, by number; they are overwritten. `inputs` is the number of
/// features of the projection. Numbers and log-probabilities are bit-identical to those of
/// [`likeliest`] for a projection with these columns.
pub(crate) fn likeliest_of(
    scores: &mut [f32],
    inputs: usize,
    suppressed: &[u32],
    count: usize,
) -> Vec<(u32, f32)> {
    let block = (BLOCK / inputs).next_multiple_of(PANEL).max(PANEL);
    let group = blocks_of_group(scores.len().div_ceil(block));
    let mut top = TopTokens::new(count);
    vectorized(
        #[inline(always)]
        || {
            for (index, scores) in scores.chunks_mut(block).enumerate() {
                if index > 0 && index.is_multiple_of(group) {
                    top.end_group();
                }
                top.extend(index * block, scores, suppressed);
            }
        },
    );
    top.end_group();
    top.finish()
}

/// Number of blocks in a group of a projection with this number of blocks.
fn blocks_of_group(blocks: usize) -> usize {
    blocks.div_ceil(GROUPS).max(MIN_BLOCKS)
}

/// Best scores of a row so far, and the sum of the exponentials of all.
///
/// `log softmax(x)_i = x_i - max - ln Σ e^(x_j - max)`; maximum and sum are updated with every
/// block of scores (Milakov and Gimelshein 2018).
#[derive(Debug)]
struct TopTokens {
    best: TopK,
    /// Score that enough tokens of other groups reach, so that lower ones need not be listed.
    floor: f32,
    /// Sum of the finished groups.
    total: ExpSum,
    /// Sum of the current group.
    group: ExpSum,
}

/// Sum of exponentials, relative to their maximum.
#[derive(Debug, Clone, Copy)]
struct ExpSum {
    max: f32,
    /// `Σ e^(x - max)`
    sum: f64,
}

impl ExpSum {
    const EMPTY: Self = Self { max: f32::NEG_INFINITY, sum: 0.0 };

    fn plus(self, other: Self) -> Self {
        let max = self.max.max(other.max);
        if max == f32::NEG_INFINITY {
            // Both are empty, unless a score is NaN.
            return Self { max, sum: self.sum + other.sum };
        }
        let part = |part: Self| part.sum * f64::from(part.max - max).exp();
        Self { max, sum: part(self) + part(other) }
    }
}

/// Score that the requested number of tokens of a row reach, shared by all groups.
struct Floor(AtomicU32);

impl Default for Floor {
    fn default() -> Self {
        Self(AtomicU32::new(f32::NEG_INFINITY.to_bits()))
    }
}

impl Floor {
    /// Raises the floor to the last listed score of a group. Returns a threshold just below the
    /// highest floor so far, because an equal score may belong to an earlier token.
    fn raise(&self, threshold: f32) -> f32 {
        let higher = |bits| (threshold > f32::from_bits(bits)).then_some(threshold.to_bits());
        let old = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, higher);
        old.map_or_else(f32::from_bits, |_| threshold).next_down()
    }
}

impl TopTokens {
    /// Creates a list for the best `count` tokens of a row.
    fn new(count: usize) -> Self {
        Self {
            best: TopK::new(count),
            floor: f32::NEG_INFINITY,
            total: ExpSum::EMPTY,
            group: ExpSum::EMPTY,
        }
    }

    /// Computes the best `count` tokens of each of the `rows` rows of `x` among those of some blocks of the
    /// projection.
    ///
    /// If `shares`, the groups are divided among the threads of the pool. The result is bit-identical.
    fn of(
        x: Input<'_>,
        (rows, shares): (usize, bool),
        blocks: &[Columns<'_>],
        suppressed: &[u32],
        count: usize,
    ) -> Vec<Self> {
        let new = || (0..rows).map(|_| Self::new(count)).collect::<Vec<_>>();
        let groups = blocks.chunks(blocks_of_group(blocks.len()));
        let mut top = new();
        if groups.len() == 1 || !shares {
            for group in groups {
                Self::add_group(&mut top, x, group, suppressed, |_| {});
            }
            return top;
        }
        // A group need not list tokens that are worse than enough tokens of other groups.
        let floors: Vec<Floor> = (0..rows).map(|_| Floor::default()).collect();
        let raise = |top: &mut [Self]| {
            for (top, floor) in top.iter_mut().zip(&floors) {
                top.floor = floor.raise(top.threshold());
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
                for (token, score) in found.best.into_vec() {
                    top.offer(token, score);
                }
            }
        }
        top
    }

    /// Adds the tokens of a group of blocks; `between` is called before each block and at the end.
    fn add_group(
        top: &mut [Self],
        x: Input<'_>,
        group: &[Columns<'_>],
        suppressed: &[u32],
        between: impl Fn(&mut [Self]),
    ) {
        let mut scores = SCORES.take();
        for columns in group {
            between(top);
            scores.resize(top.len() * columns.count(), 0.0);
            columns.product(x, &mut scores);
            vectorized(
                #[inline(always)]
                || {
                    for (top, scores) in
                        top.iter_mut().zip(scores.chunks_exact_mut(columns.count()))
                    {
                        top.extend(columns.first(), scores, suppressed);
                    }
                },
            );
        }
        between(top);
        SCORES.set(scores);
        top.iter_mut().for_each(Self::end_group);
    }

    fn end_group(&mut self) {
        self.total = self.total.plus(std::mem::replace(&mut self.group, ExpSum::EMPTY));
    }

    /// Adds the scores of the tokens from `first`. Those of `suppressed` tokens count in the sum,
    /// but are not listed; they are overwritten.
    #[inline(always)]
    fn extend(&mut self, first: usize, scores: &mut [f32], suppressed: &[u32]) {
        let block_max = vector::max(scores);
        let ExpSum { max, sum } = &mut self.group;
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
        if block_max > self.threshold() {
            for (chunk, scores) in scores.chunks(CHUNK).enumerate() {
                let threshold = self.threshold();
                if scores.iter().fold(false, |any, &score| any | (score > threshold)) {
                    self.insert(first + chunk * CHUNK, scores);
                }
            }
        }
    }

    /// Score that a token must exceed to be listed.
    #[inline(always)]
    fn threshold(&self) -> f32 {
        self.best.threshold().max(self.floor)
    }

    #[inline(never)]
    fn insert(&mut self, first: usize, scores: &[f32]) {
        for (part, scores) in scores.chunks(PART).enumerate() {
            let threshold = self.threshold();
            if scores.iter().fold(false, |any, &score| any | (score > threshold)) {
                for (index, &score) in scores.iter().enumerate() {
                    self.offer((first + part * PART + index) as u32, score);
                }
            }
        }
    }

    #[inline(always)]
    fn offer(&mut self, token: u32, score: f32) {
        if score > self.floor {
            self.best.offer(token, score);
        }
    }

    /// Returns the listed tokens with their log-probabilities, best first. If a score is not
    /// finite, returns one token with the log-probability NaN.
    fn finish(self) -> Vec<(u32, f32)> {
        let ExpSum { max, sum } = self.total;
        let log_sum = sum.ln();
        if !log_sum.is_finite() {
            return vec![(0, f32::NAN)];
        }
        let mut best = self.best.into_vec();
        for (_, score) in &mut best {
            *score = (f64::from(*score - max) - log_sum) as f32;
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use tx_kernels::packed_matrix::PackedMatrix;

    use super::*;

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
    fn the_best_come_first_and_ties_go_to_the_lower_id() {
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

    /// Scores of all tokens, and the tokens of a projection whose columns give these scores.
    #[test]
    fn scores_are_ranked_as_those_of_a_projection() {
        let (inputs, outputs) = (512, 5_001);
        let weight: Vec<f32> = (0..outputs as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 1e6)
            .chain(std::iter::repeat_n(0.0, (inputs - 1) * outputs))
            .collect();
        let matrix = PackedMatrix::new(inputs, &[&weight], Vec::new(), 1.0, false);
        let x: Vec<f32> = (0..inputs).map(|i| f32::from(u8::from(i == 0))).collect();
        let suppressed = [3, 4_000];
        let expected = likeliest(&Linear::F32(matrix), &x, &suppressed, 9);
        let found = likeliest_of(&mut weight[..outputs].to_vec(), inputs, &suppressed, 9);
        assert_eq!(expected, [found]);
        assert!(likeliest_of(&mut [], inputs, &[], 9)[0].1.is_nan());
    }

    /// One such score among others, in any block.
    #[test]
    fn a_score_that_is_not_finite_is_reported() {
        for odd in [f32::NAN, f32::INFINITY] {
            for index in 0..5 {
                let mut scores = [0.0, 1.0, 2.0, 3.0, 4.0];
                scores[index] = odd;
                for block in [1, 2, 5] {
                    let found = top(&scores, 2, &[0], block);
                    assert!(found.len() == 1 && found[0].1.is_nan(), "{odd} {index}: {found:?}");
                }
            }
        }
        assert!(top(&[f32::NAN; 5], 2, &[], 2)[0].1.is_nan());
        // Minus infinity is a valid score.
        let found = top(&[f32::NEG_INFINITY, 0.0], 2, &[], 2);
        assert_eq!(found, [(1, 0.0)]);
    }

    /// Groups one after another on one thread, and in parallel on three.
    #[test]
    fn shared_groups_are_bit_identical() {
        let noise = |seed: u32, count: u32| -> Vec<f32> {
            (0..count).map(|i| ((seed + i).wrapping_mul(2_654_435_761) >> 8) as f32 / 1e7).collect()
        };
        let (inputs, outputs) = (6, 5_000);
        let weight = noise(1, inputs * outputs);
        let weights = [&weight[..]];
        let matrix = PackedMatrix::new(inputs as usize, &weights, Vec::new(), 1.0, false);
        let matrix = Linear::F32(matrix);
        let blocks = matrix.blocks(100);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        for rows in [1, 3, FEW as u32, FEW as u32 + 1] {
            let x = noise(9, rows * inputs);
            let top = || -> Vec<_> {
                let rows = (rows as usize, has_helpers());
                let top = |x: Input<'_>| TopTokens::of(x, rows, &blocks, &[7], 4);
                matrix.with_input(&x, top).into_iter().map(TopTokens::finish).collect()
            };
            assert_eq!(top(), pool.install(top), "{rows} rows");
            assert_eq!(top().len(), rows as usize);
        }
    }

    /// Compared with a sort of all scores.
    #[test]
    fn scores_in_blocks_are_ranked_as_by_sorting() {
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
