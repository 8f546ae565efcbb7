//! Attention of one query at a time to keys and values that lie anywhere in a buffer.
//!
//! Axis letters: `H` heads, `D` features per head, `M` features per token (`d_model = H · D`),
//! `K` keys.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::PackedMatrix;
use crate::{kernels::simd::exp, position::angle};

/// Scores of a head are padded to a multiple of this, so that whole vectors are used.
const SCORES: usize = 16;

/// Multi-head attention: its projections, and what is known about places.
#[derive(Debug, Clone)]
pub(crate) struct PackedAttention {
    /// `[M, M]`, divided by √D already.
    pub(crate) query: PackedMatrix,
    /// `[M, 2M]`: keys, then values.
    pub(crate) keys_values: PackedMatrix,
    /// `[M, M]`
    pub(crate) output: PackedMatrix,
    pub(crate) n_heads: usize,
    /// Bias per clipped distance and head, `[2k + 1, H]`.
    pub(crate) relative: Option<Vec<f32>>,
    /// Whether queries and keys are turned by their place.
    pub(crate) rotary: bool,
}

/// Room for attention.
#[derive(Debug, Default)]
pub(super) struct AttentionScratch {
    /// `[rows, M]`
    pub(super) queries: Vec<f32>,
    /// Mixed values `[rows, M]`.
    pub(super) context: Vec<f32>,
    /// `[H, K]`, padded.
    scores: Vec<f32>,
}

/// What a query looks at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory<'a> {
    /// `[slots, 2M]`: keys and values side by side.
    pub(super) keys_values: &'a [f32],
    /// Where the key of each place of the sequence is: `[K]`.
    pub(super) slots: &'a [u32],
}

impl PackedAttention {
    /// Features per head.
    pub(super) fn d_head(&self) -> usize {
        self.query.outputs() / self.n_heads
    }

    /// Projects `x` to queries and makes room for what they find.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, M]`
    pub(super) fn project_queries(&self, x: &[f32], scratch: &mut AttentionScratch) {
        scratch.queries.resize(x.len(), 0.0);
        scratch.context.resize(x.len(), 0.0);
        self.query.product(x, &mut scratch.queries);
    }

    /// Turns queries and keys by their places, where positions are rotary.
    ///
    /// # Shapes
    ///
    /// - `keys_values`: `[rows, 2M]`; row `i` stands at place `rotation.places[i]`
    pub(super) fn rotate(&self, queries: &mut [f32], keys_values: &mut [f32], rotation: &Rotation) {
        if !self.rotary {
            return;
        }
        let d_model = self.query.outputs();
        let rows = queries.chunks_exact_mut(d_model).zip(keys_values.chunks_exact_mut(2 * d_model));
        for ((query, keys_values), turn) in rows.zip(rotation.rows()) {
            turn_heads(query, turn);
            turn_heads(&mut keys_values[..d_model], turn);
        }
    }

    /// Row `row` of the queries, which stands at `place` of its sequence, looks at `memory`.
    ///
    /// A query that sees nothing gets zeros.
    pub(super) fn attend(
        &self,
        scratch: &mut AttentionScratch,
        row: usize,
        place: usize,
        memory: Memory<'_>,
    ) {
        let d_model = self.query.outputs();
        let at = row * d_model..(row + 1) * d_model;
        let padded = memory.slots.len().next_multiple_of(SCORES);
        // Beyond the last key, weights are `e^-∞ = 0`.
        scratch.scores.clear();
        scratch.scores.resize(self.n_heads * padded, f32::NEG_INFINITY);
        Arch::new().dispatch(Attend {
            attention: self,
            query: &scratch.queries[at.clone()],
            place,
            memory,
            scores: &mut scratch.scores,
            context: &mut scratch.context[at],
        });
    }

    /// What the query of the last [`attend`](Self::attend) took from each key, on the mean of the
    /// heads.
    ///
    /// # Shapes
    ///
    /// - `weights`: `[K]`; sums to 1
    pub(super) fn mean_weights(&self, scratch: &AttentionScratch, weights: &mut [f32]) {
        weights.fill(0.0);
        let padded = weights.len().next_multiple_of(SCORES).max(SCORES);
        for scores in scratch.scores.chunks_exact(padded) {
            let scale = 1.0 / (self.n_heads as f32 * scores.iter().sum::<f32>());
            weights.iter_mut().zip(scores).for_each(|(weight, score)| *weight += scale * score);
        }
    }
}

/// One query's way through attention.
struct Attend<'a> {
    attention: &'a PackedAttention,
    /// `[M]`
    query: &'a [f32],
    place: usize,
    memory: Memory<'a>,
    /// `[H, K]`, padded with minus infinity.
    scores: &'a mut [f32],
    /// `[M]`
    context: &'a mut [f32],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { attention, query, place, memory, scores, context } = self;
        let Memory { keys_values, slots } = memory;
        let (d_model, n_heads) = (query.len(), attention.n_heads);
        let d_head = d_model / n_heads;
        let padded = scores.len() / n_heads;
        context.fill(0.0);
        if slots.is_empty() {
            return;
        }

        for (key, &slot) in slots.iter().enumerate() {
            let keys = &keys_values[slot as usize * 2 * d_model..][..d_model];
            let heads = query.chunks_exact(d_head).zip(keys.chunks_exact(d_head));
            for (head, (query, keys)) in heads.enumerate() {
                scores[head * padded + key] = dot(simd, query, keys);
            }
        }
        if let Some(table) = &attention.relative {
            for (key, bias) in relative_rows(table, n_heads, place, slots.len()).enumerate() {
                for (head, bias) in bias.iter().enumerate() {
                    scores[head * padded + key] += bias;
                }
            }
        }
        for scores in scores.chunks_exact_mut(padded) {
            let minus_infinity = simd.splat_f32s(f32::NEG_INFINITY);
            let largest = fold(simd, scores, minus_infinity, |a, b| simd.max_f32s(a, b));
            let largest = simd.reduce_max_f32s(largest);
            for scores in scores.as_chunks_mut::<SCORES>().0 {
                for score in scores {
                    *score = exp(*score - largest);
                }
            }
        }
        for (key, &slot) in slots.iter().enumerate() {
            let values = &keys_values[slot as usize * 2 * d_model + d_model..][..d_model];
            let heads = context.chunks_exact_mut(d_head).zip(values.chunks_exact(d_head));
            for (head, (context, values)) in heads.enumerate() {
                add_scaled(simd, context, scores[head * padded + key], values);
            }
        }
        let heads = context.chunks_exact_mut(d_head).zip(scores.chunks_exact(padded));
        for (context, weights) in heads {
            let sum = fold(simd, weights, simd.splat_f32s(0.0), |a, b| simd.add_f32s(a, b));
            let scale = simd.reduce_sum_f32s(sum).recip();
            context.iter_mut().for_each(|x| *x *= scale);
        }
    }
}

/// The bias of every head for each of the first `n_keys` keys, seen from `place`.
#[inline(always)]
fn relative_rows(
    table: &[f32],
    n_heads: usize,
    place: usize,
    n_keys: usize,
) -> impl Iterator<Item = &[f32]> {
    let furthest = (table.len() / n_heads / 2) as i64;
    (0..n_keys as i64).map(move |key| {
        let row = (key - place as i64).clamp(-furthest, furthest) + furthest;
        &table[row as usize * n_heads..][..n_heads]
    })
}

/// Joins a whole number of vectors into one.
#[inline(always)]
fn fold<S: Simd>(
    _simd: S,
    x: &[f32],
    first: S::f32s,
    join: impl Fn(S::f32s, S::f32s) -> S::f32s,
) -> S::f32s {
    S::as_simd_f32s(x).0.iter().fold(first, |all, &x| join(all, x))
}

/// `Σ x y`
#[inline(always)]
fn dot<S: Simd>(simd: S, x: &[f32], y: &[f32]) -> f32 {
    let ((x, x_rest), (y, y_rest)) = (S::as_simd_f32s(x), S::as_simd_f32s(y));
    let mut sum = simd.splat_f32s(0.0);
    for (&x, &y) in x.iter().zip(y) {
        sum = simd.mul_add_e_f32s(x, y, sum);
    }
    let rest = x_rest.iter().zip(y_rest).map(|(x, y)| x * y).sum::<f32>();
    simd.reduce_sum_f32s(sum) + rest
}

/// `y += a x`
#[inline(always)]
fn add_scaled<S: Simd>(simd: S, y: &mut [f32], a: f32, x: &[f32]) {
    let ((y, y_rest), (x, x_rest)) = (S::as_mut_simd_f32s(y), S::as_simd_f32s(x));
    let a_all = simd.splat_f32s(a);
    for (y, &x) in y.iter_mut().zip(x) {
        *y = simd.mul_add_e_f32s(a_all, x, *y);
    }
    for (y, x) in y_rest.iter_mut().zip(x_rest) {
        *y += a * x;
    }
}

/// Cosines and sines of the angles by which rotary positions turn (Su et al. 2021).
#[derive(Debug, Default)]
pub(super) struct Rotation {
    /// `[rows, D / 2]` pairs of cosine and sine.
    turns: Vec<(f32, f32)>,
    /// D / 2
    pairs: usize,
}

impl Rotation {
    /// A row for each place, in any order and number.
    pub(super) fn new(places: impl Iterator<Item = usize>, d_head: usize) -> Self {
        let pairs = d_head / 2;
        let turns = places
            .flat_map(|place| (0..pairs).map(move |pair| angle(place, pair, d_head)))
            .map(|angle| (angle.cos() as f32, angle.sin() as f32))
            .collect();
        Self { turns, pairs }
    }

    fn rows(&self) -> impl Iterator<Item = &[(f32, f32)]> {
        self.turns.chunks_exact(self.pairs.max(1))
    }
}

/// Turns the pairs `(x_i, x_{i + D/2})` of every head.
fn turn_heads(x: &mut [f32], turn: &[(f32, f32)]) {
    for head in x.chunks_exact_mut(2 * turn.len()) {
        let (first, second) = head.split_at_mut(turn.len());
        for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(turn) {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        }
    }
}

/// `0, 1, 2, …`: the slots of keys that lie in the order of their sequence.
pub(super) fn in_order(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

/// Sentences one after another: where each begins and ends.
pub(super) fn ranges(lengths: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = 0;
    lengths
        .map(|len| {
            let start = end;
            end += len;
            start..end
        })
        .collect()
}
