//! Attention of one query at a time to keys and values anywhere in a buffer.
//!
//! Axis letters: `H` heads, `D` features per head, `M` features per token (`d_model = H · D`),
//! `K` keys.

use std::ops::Range;

use pulp::{Simd, WithSimd};
use tx_kernels::{
    formulas::exp_shifted,
    prefetch::prefetch,
    vector::{LANES, vectors},
};
use tx_model::{
    config::{ModelConfig, Positions},
    position_formulas::{alibi_slopes, relative_row, rotary_wavelengths},
};

use crate::{linear::Linear, probe::Probe, source::Packer};

/// Multi-head attention: its projections and positional encoding.
#[derive(Debug, Clone)]
pub(crate) struct PackedAttention {
    /// `[M, M]`, already divided by √D.
    query: Linear,
    /// `[M, 2M]`: keys, then values.
    pub(crate) keys_values: Linear,
    /// `[M, M]`
    pub(crate) output: Linear,
    n_heads: usize,
    positions: AttentionPositions,
}

/// Positional encoding inside attention.
#[derive(Debug, Clone)]
enum AttentionPositions {
    /// No encoding: cross-attention, and encodings that are added to the embeddings.
    None,
    /// Queries and keys are rotated by their position, with wavelengths (divided by 2π) `[D / 2]`.
    Rotary(Vec<f64>),
    /// Bias per clipped distance and head, `[2k + 1, H]`.
    Relative(Vec<f32>),
    /// Slopes `[H]` of the bias that falls with the distance.
    Alibi(Vec<f32>),
}

/// Buffers of attention.
#[derive(Debug, Default)]
pub(crate) struct AttentionScratch {
    /// `[rows, M]`
    pub(crate) queries: Vec<f32>,
    /// Mixed values `[rows, M]`.
    pub(crate) context: Vec<f32>,
    /// Scores of one query, `[H, K]`; each head is padded to whole vectors.
    scores: Vec<f32>,
    /// The scores before the softmax, if they are recorded.
    recorded: Vec<f32>,
}

impl AttentionScratch {
    /// Resizes queries and context to `len` elements each.
    fn resize(&mut self, len: usize) {
        self.queries.resize(len, 0.0);
        self.context.resize(len, 0.0);
    }
}

/// Keys and values that a query attends to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory<'a> {
    /// `[slots, 2M]`: keys and values side by side.
    pub(crate) keys_values: &'a [f32],
    /// Slot of the key at each position of the sequence: `[K]`.
    pub(crate) slots: &'a [u32],
}

/// Minimum number of features per token for which keys and values are prefetched. Smaller models fit in
/// the second-level cache with all their keys and values.
const WIDE: usize = 256;

impl<'a> Memory<'a> {
    /// No keys.
    pub(crate) const EMPTY: Self = Self { keys_values: &[], slots: &[] };

    /// Keys of one slot, `[M]`.
    #[inline(always)]
    fn keys(self, slot: u32, d_model: usize) -> &'a [f32] {
        &self.keys_values[slot as usize * 2 * d_model..][..d_model]
    }

    /// Values of one slot, `[M]`.
    #[inline(always)]
    fn values(self, slot: u32, d_model: usize) -> &'a [f32] {
        &self.keys_values[(slot as usize * 2 + 1) * d_model..][..d_model]
    }
}

impl PackedAttention {
    /// Packs the attention at path `name`, with the encoding `positions`.
    pub(crate) fn pack(packer: &Packer<'_>, name: &str, positions: Positions) -> Self {
        let ModelConfig { d_model, n_heads, attention_bias, .. } = *packer.config;
        let bias = |part: &str| packer.optional(&format!("{name}.{part}.bias"), attention_bias);
        // Scaling the weights costs less than scaling the queries.
        let scale = ((d_model / n_heads) as f32).sqrt();
        let query_bias = bias("query").into_iter().map(|bias| bias / scale).collect();
        let keys_values_bias = [bias("key"), bias("value")].concat();
        Self {
            query: packer.matrix(d_model, &[&format!("{name}.query.weight")], query_bias, scale),
            keys_values: packer.matrix(
                d_model,
                &[&format!("{name}.key.weight"), &format!("{name}.value.weight")],
                keys_values_bias,
                1.0,
            ),
            output: packer.linear(&format!("{name}.output"), d_model, attention_bias),
            n_heads,
            positions: match positions {
                Positions::Sinusoidal | Positions::Learned | Positions::None => {
                    AttentionPositions::None
                }
                Positions::Rotary => {
                    AttentionPositions::Rotary(rotary_wavelengths(d_model / n_heads))
                }
                Positions::Relative => {
                    let table = packer.weight(&format!("{name}.relative"));
                    AttentionPositions::Relative(table.into_owned())
                }
                Positions::Alibi => AttentionPositions::Alibi(alibi_slopes(n_heads)),
            },
        }
    }

    /// Number of heads.
    pub(crate) fn n_heads(&self) -> usize {
        self.n_heads
    }

    /// Projects `x` to queries, and resizes the buffer of their results.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, M]`
    pub(crate) fn project_queries(&self, x: &[f32], scratch: &mut AttentionScratch) {
        scratch.resize(x.len());
        self.query.product_of(x, &mut scratch.queries);
    }

    /// Projects `x` to queries, keys and values, and resizes the buffer of the results of queries.
    ///
    /// # Shapes
    ///
    /// - `x`: `[rows, M]`; `keys_values`: `[rows, 2M]`
    pub(crate) fn project(
        &self,
        x: &[f32],
        scratch: &mut AttentionScratch,
        keys_values: &mut [f32],
    ) {
        scratch.resize(x.len());
        self.query.with_input(x, |x| {
            self.query.product(x, &mut scratch.queries);
            self.keys_values.product(x, keys_values);
        });
    }

    /// Computes the angles for rows at these positions; empty if positions are not rotary.
    pub(crate) fn rotation(&self, positions: impl Iterator<Item = usize>) -> Rotation {
        match &self.positions {
            AttentionPositions::Rotary(wavelengths) => Rotation::new(positions, wavelengths),
            AttentionPositions::None
            | AttentionPositions::Relative(_)
            | AttentionPositions::Alibi(_) => Rotation::default(),
        }
    }

    /// Rotates queries and keys by their positions, if positions are rotary.
    ///
    /// # Shapes
    ///
    /// - `queries`: `[rows, M]`; `keys_values`: `[rows, 2M]`; `rotation`: of the same rows
    pub(crate) fn rotate(&self, queries: &mut [f32], keys_values: &mut [f32], rotation: &Rotation) {
        match &self.positions {
            AttentionPositions::Rotary(_) => {}
            AttentionPositions::None
            | AttentionPositions::Relative(_)
            | AttentionPositions::Alibi(_) => return,
        }
        let d_model = self.query.outputs();
        let rows = queries.chunks_exact_mut(d_model).zip(keys_values.chunks_exact_mut(2 * d_model));
        for ((query, keys_values), turn) in rows.zip(rotation.rows()) {
            turn_heads(query, turn);
            turn_heads(&mut keys_values[..d_model], turn);
        }
    }

    /// Computes the attention of row `row` of the queries, at `position` of its sequence, to
    /// `memory`. The keys of `next`, which the next call reads, are prefetched. `probe` can record one
    /// sequence.
    ///
    /// The context of a query without keys is zero.
    pub(crate) fn attend(
        &self,
        scratch: &mut AttentionScratch,
        row: usize,
        position: usize,
        [memory, next]: [Memory<'_>; 2],
        probe: &mut Probe,
    ) {
        let d_model = self.query.outputs();
        let at = row * d_model..(row + 1) * d_model;
        let padded = memory.slots.len().next_multiple_of(LANES);
        // Beyond the last key, weights are `e^-∞ = 0`.
        scratch.scores.clear();
        scratch.scores.resize(self.n_heads * padded, f32::NEG_INFINITY);
        vectors().dispatch(Attend {
            attention: self,
            query: &scratch.queries[at.clone()],
            position,
            memory,
            next,
            scores: &mut scratch.scores,
            recorded: probe.records_all().then_some(&mut scratch.recorded),
            context: &mut scratch.context[at],
        });
        if probe.records() {
            let keys = memory.slots.len();
            let mut scores = scratch.recorded.chunks_exact(padded.max(1));
            let heads = self.weights(scratch, keys).map(|(sum, weights)| {
                (scores.next().map_or(&[][..], |scores| &scores[..keys]), sum, weights)
            });
            probe.record_query(position, self.n_heads, heads);
        }
    }

    /// Records projected queries, keys and values.
    ///
    /// # Shapes
    ///
    /// - `queries`: `[rows, M]`; `keys_values`: `[keys, 2M]`
    pub(crate) fn record(&self, queries: &[f32], keys_values: &[f32], probe: &mut Probe) {
        probe.record_attention(|trace| {
            let d_model = self.query.outputs();
            let scale = ((d_model / self.n_heads) as f32).sqrt();
            trace.queries.extend(queries.iter().map(|query| query * scale));
            for row in keys_values.chunks_exact(2 * d_model) {
                trace.keys.extend_from_slice(&row[..d_model]);
                trace.values.extend_from_slice(&row[d_model..]);
            }
        });
    }

    /// Sets the context of heads that are turned off to 0.
    pub(crate) fn silence(&self, scratch: &mut AttentionScratch, probe: &Probe) {
        probe.silence(&mut scratch.context, self.n_heads, self.query.outputs());
    }

    /// Attention weights of each head in the last [`attend`](Self::attend), which had `n_keys`
    /// keys.
    ///
    /// # Shapes
    ///
    /// - yields, for each head, a sum and the `[n_keys]` numbers that divided by it are the weights
    pub(crate) fn weights<'a>(
        &self,
        scratch: &'a AttentionScratch,
        n_keys: usize,
    ) -> impl Iterator<Item = (f32, &'a [f32])> {
        let padded = n_keys.next_multiple_of(LANES).max(LANES);
        scratch.scores.chunks_exact(padded).map(move |scores| {
            // The rest is zero.
            (scores.iter().sum::<f32>(), &scores[..n_keys])
        })
    }

    /// Mean over the heads of the attention weights of the last [`attend`](Self::attend).
    ///
    /// # Shapes
    ///
    /// - `weights`: `[K]`; sums to 1
    pub(crate) fn mean_weights(&self, scratch: &AttentionScratch, weights: &mut [f32]) {
        weights.fill(0.0);
        for (sum, scores) in self.weights(scratch, weights.len()) {
            let scale = 1.0 / (self.n_heads as f32 * sum);
            weights.iter_mut().zip(scores).for_each(|(weight, score)| *weight += scale * score);
        }
    }
}

/// Attention of one query.
struct Attend<'a> {
    attention: &'a PackedAttention,
    /// `[M]`
    query: &'a [f32],
    position: usize,
    memory: Memory<'a>,
    /// Memory of the next query.
    next: Memory<'a>,
    /// `[H, K]`, padded with minus infinity.
    scores: &'a mut [f32],
    /// Receives a copy of the scores before the softmax.
    recorded: Option<&'a mut Vec<f32>>,
    /// `[M]`
    context: &'a mut [f32],
}

impl WithSimd for Attend<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { attention, query, position, memory, next, scores, recorded, context } = self;
        let slots = memory.slots;
        let (d_model, n_heads) = (query.len(), attention.n_heads);
        let d_head = d_model / n_heads;
        let padded = scores.len() / n_heads;
        context.fill(0.0);
        if slots.is_empty() {
            return;
        }

        let prefetches = d_model >= WIDE;
        for (key, &slot) in slots.iter().enumerate() {
            if prefetches {
                prefetch(memory.values(slot, d_model));
            }
            let keys = memory.keys(slot, d_model);
            let heads = query.chunks_exact(d_head).zip(keys.chunks_exact(d_head));
            for (head, (query, keys)) in heads.enumerate() {
                scores[head * padded + key] = dot(simd, query, keys);
            }
        }
        match &attention.positions {
            AttentionPositions::None | AttentionPositions::Rotary(_) => {}
            AttentionPositions::Relative(table) => {
                for key in 0..slots.len() {
                    let bias = &table[relative_row(position, key) * n_heads..][..n_heads];
                    for (head, bias) in bias.iter().enumerate() {
                        scores[head * padded + key] += bias;
                    }
                }
            }
            AttentionPositions::Alibi(slopes) => {
                for (scores, slope) in scores.chunks_exact_mut(padded).zip(slopes) {
                    for (key, score) in scores[..slots.len()].iter_mut().enumerate() {
                        *score -= slope * position.abs_diff(key) as f32;
                    }
                }
            }
        }
        if let Some(recorded) = recorded {
            recorded.clear();
            recorded.extend_from_slice(scores);
        }
        for scores in scores.chunks_exact_mut(padded) {
            let minus_infinity = simd.splat_f32s(f32::NEG_INFINITY);
            let max = fold(simd, scores, minus_infinity, |a, b| simd.max_f32s(a, b));
            exp_shifted(scores, simd.reduce_max_f32s(max));
        }
        for (key, &slot) in slots.iter().enumerate() {
            if let Some(&slot) = next.slots.get(key).filter(|_| prefetches) {
                prefetch(next.keys(slot, d_model));
            }
            let values = memory.values(slot, d_model);
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

/// Reduces a whole number of vectors to one.
#[inline(always)]
fn fold<S: Simd>(
    _simd: S,
    x: &[f32],
    start: S::f32s,
    join: impl Fn(S::f32s, S::f32s) -> S::f32s,
) -> S::f32s {
    S::as_simd_f32s(x).0.iter().fold(start, |all, &x| join(all, x))
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

/// Cosines and sines of the angles of rotary positions (Su et al. 2021).
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// `[rows, D / 2]` pairs of cosine and sine.
    turns: Vec<(f32, f32)>,
    /// D / 2
    pairs: usize,
}

impl Rotation {
    /// Computes a row for each position.
    fn new(positions: impl Iterator<Item = usize>, wavelengths: &[f64]) -> Self {
        let (mut turns, pairs) = (Vec::new(), wavelengths.len());
        let mut previous = None;
        for position in positions {
            // All rows of a decoding step are at one position.
            if previous.replace(position) == Some(position) {
                turns.extend_from_within(turns.len() - pairs..);
                continue;
            }
            let angles = wavelengths.iter().map(|wavelength| position as f64 / wavelength);
            turns.extend(angles.map(|angle| (angle.cos() as f32, angle.sin() as f32)));
        }
        Self { turns, pairs }
    }

    fn rows(&self) -> impl Iterator<Item = &[(f32, f32)]> {
        self.turns.chunks_exact(self.pairs.max(1))
    }
}

/// Rotates the pairs `(x_i, x_{i + D/2})` of every head.
fn turn_heads(x: &mut [f32], turn: &[(f32, f32)]) {
    for head in x.chunks_exact_mut(2 * turn.len()) {
        let (first, second) = head.split_at_mut(turn.len());
        for ((a, b), (cos, sin)) in first.iter_mut().zip(second).zip(turn) {
            (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
        }
    }
}

/// `0, 1, 2, …`: the slots of keys that are stored in the order of their sequence.
pub(crate) fn in_order(len: usize) -> Vec<u32> {
    (0..len as u32).collect()
}

/// Row ranges of sentences that are stored one after another.
pub(crate) fn ranges(lengths: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = 0;
    lengths
        .map(|len| {
            let start = end;
            end += len;
            start..end
        })
        .collect()
}
