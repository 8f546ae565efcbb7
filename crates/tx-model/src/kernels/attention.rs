//! Scaled dot-product attention and its backward pass; each head of each sentence is one task.
//!
//! Axis letters as in [`crate::attention`]. The weights `[Q, K]` of one head are computed and used
//! while they are in the cache of a core. The backward pass computes them again from the logarithm
//! of each row's sum (Dao et al. 2022, "FlashAttention"), so that no `[B, H, Q, K]` tensor is ever
//! stored.
//!
//! Rows of weights are padded to whole vectors: beyond the last key, scores are minus infinity and
//! weights are zero.

use std::{
    mem::MaybeUninit,
    sync::{Mutex, PoisonError},
};

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    formulas::exp_shifted,
    matrix::{Matrix, Output, Write},
    rows::{filled_with_zeros, zeros},
    vector::{LANES, map, map_two, max, sum_of, sum_of_two, vectorized},
};

use super::{
    HashedMask,
    flex::{dims, floats, stride, tensor},
    products::multiply_here,
};
use crate::product_precision::ProductPrecision;

/// Rows of weights that are computed together. The steps of the softmax of one short row depend on each
/// other, and those of several rows overlap.
const ROWS: usize = 16;

/// Computes `dropout(softmax(q kᵀ / √D)) v`, and the logarithm of each row's sum of exponentials,
/// `[B, H, Q]`.
///
/// # Shapes
///
/// - `q`: `[B, H, Q, D]`; `k` and `v`: `[B, H, K, D]`; in any memory layout
/// - `blocked`: broadcasts to `[B, H, Q, K]`; `true` = must not be attended to
/// - returns `[B, Q, M]`; zeros for a query with every key blocked
pub fn forward(
    q: &FlexTensor,
    k: &FlexTensor,
    v: &FlexTensor,
    blocked: Option<&FlexTensor>,
    mask: Option<HashedMask>,
    precision: ProductPrecision,
) -> (FlexTensor, Vec<f32>) {
    let [batch, n_heads, n_queries, d_head] = dims(q);
    let [_, _, n_keys, _] = dims(k);
    let heads = Heads { q: Head::of(q), k: Head::of(k), v: Head::of(v), precision };
    let blocked = blocked.map(Mask::of);
    let d_model = n_heads * d_head;
    let padded = n_keys.next_multiple_of(LANES);
    let mut out = Vec::new();
    let mut log_sums = vec![0.0; batch * n_heads * n_queries];

    if n_queries > 0 && n_keys > 0 && d_model > 0 {
        let rows = sentences(&mut out, batch, n_queries * d_model);
        let head = |scores: &mut Vec<f32>, (index, log_sums): (usize, &mut [f32])| {
            let (b, h) = (index / n_heads, index % n_heads);
            scores.resize(n_queries * padded, 0.0);
            heads.scores(b, h, scores, padded);
            vectorized(
                #[inline(always)]
                || {
                    let blocks = scores.chunks_mut(ROWS * padded).zip(log_sums.chunks_mut(ROWS));
                    for (number, (rows, log_sums)) in blocks.enumerate() {
                        let first = number * ROWS;
                        for (i, row) in rows.chunks_exact_mut(padded).enumerate() {
                            block(row, n_keys, blocked.as_ref(), [b, h, first + i]);
                        }
                        softmax(rows, padded, log_sums);
                        if let Some(mask) = mask {
                            for (i, row) in rows.chunks_exact_mut(padded).enumerate() {
                                mask.row(index * n_queries + first + i).apply(row);
                            }
                        }
                    }
                },
            );
            let weights = Matrix::with_strides(scores, [n_queries, n_keys], [padded, 1]);
            let factors = [weights, heads.v.matrix(b, h)];
            rows[b].write(|rows| {
                let mixed = Output::with_stride(&mut rows[h * d_head..], d_model);
                multiply_here(precision, factors, 1.0, mixed, Write::Replace);
            });
        };
        log_sums
            .par_chunks_mut(n_queries)
            .enumerate()
            .with_min_len(heads.at_least())
            .for_each_init(Vec::new, head);
    }
    let out = written(out, batch * n_queries * d_model);
    (tensor(out, [batch, n_queries, d_model]), log_sums)
}

/// Returns the gradients of `q`, `k` and `v`, with their shapes.
///
/// With `P` the weights, `D` the factors of dropout and `∘` the elementwise product:
/// `dV = (P ∘ D)ᵀ dY`, `dP = (dY Vᵀ) ∘ D`, `dS = P ∘ (dP - Σ_k P dP)`, `dQ = dS K / √d`,
/// `dK = dSᵀ Q / √d`.
pub fn backward(
    [q, k, v]: [&FlexTensor; 3],
    blocked: Option<&FlexTensor>,
    mask: Option<HashedMask>,
    precision: ProductPrecision,
    log_sums: &[f32],
    dy: &FlexTensor,
) -> [FlexTensor; 3] {
    let [batch, n_heads, n_queries, d_head] = dims(q);
    let [_, _, n_keys, _] = dims(k);
    let heads = Heads { q: Head::of(q), k: Head::of(k), v: Head::of(v), precision };
    let blocked = blocked.map(Mask::of);
    let d_model = n_heads * d_head;
    let padded = n_keys.next_multiple_of(LANES);
    let scale = heads.scale();
    let dy = floats(dy);
    let [mut dq, mut dk, mut dv] = [const { Vec::new() }; 3];

    if n_queries > 0 && n_keys > 0 && d_model > 0 {
        let dq_rows = sentences(&mut dq, batch, n_queries * d_model);
        let [dk_rows, dv_rows] =
            [&mut dk, &mut dv].map(|gradient| sentences(gradient, batch, n_keys * d_model));
        let head = |scratch: &mut [Vec<f32>; 2], index: usize| {
            let (b, h) = (index / n_heads, index % n_heads);
            let [weights, slopes] = scratch;
            weights.resize(n_queries * padded, 0.0);
            slopes.resize(n_queries * padded, 0.0);
            let row_of = |i: usize| index * n_queries + i;
            let dy = &dy[b * n_queries * d_model + h * d_head..];
            let dy = Matrix::with_strides(dy, [n_queries, d_head], [d_model, 1]);

            heads.scores(b, h, weights, padded);
            multiply_here(
                precision,
                [dy, heads.v.matrix(b, h).transposed()],
                1.0,
                Output::with_stride(slopes, padded),
                Write::Replace,
            );
            vectorized(
                #[inline(always)]
                || {
                    let rows =
                        weights.chunks_exact_mut(padded).zip(slopes.chunks_exact_mut(padded));
                    for (i, (p, dp)) in rows.enumerate() {
                        block(p, n_keys, blocked.as_ref(), [b, h, i]);
                        // The previous head may have left a NaN here.
                        dp[n_keys..].fill(0.0);
                        let log_sum = log_sums[row_of(i)];
                        exp_shifted(p, log_sum);
                        let factors = mask.map(|mask| mask.row(row_of(i)));
                        if let Some(factors) = factors {
                            factors.apply(dp);
                        }
                        let along = sum_of_two(p, dp, |p, dp| p * dp);
                        map_two(dp, p, |dp, p| p * (dp - along));
                        if let Some(factors) = factors {
                            factors.apply(p);
                        }
                    }
                },
            );
            let [weights, slopes] = [&*weights, &*slopes]
                .map(|rows| Matrix::with_strides(rows, [n_queries, n_keys], [padded, 1]));
            let write = |rows: &[Sentence<'_>], a, b_of_head, factor| {
                rows[b].write(|rows| {
                    let to = Output::with_stride(&mut rows[h * d_head..], d_model);
                    multiply_here(precision, [a, b_of_head], factor, to, Write::Replace);
                });
            };
            write(&dv_rows, weights.transposed(), dy, 1.0);
            write(&dq_rows, slopes, heads.k.matrix(b, h), scale);
            write(&dk_rows, slopes.transposed(), heads.q.matrix(b, h), scale);
        };
        (0..batch * n_heads)
            .into_par_iter()
            .with_min_len(heads.at_least())
            .for_each_init(Default::default, head);
    }
    [(dq, n_queries), (dk, n_keys), (dv, n_keys)].map(|(gradient, len)| {
        let gradient = written(gradient, batch * len * d_model);
        tensor(gradient, [batch, len, n_heads, d_head]).permute(&[0, 2, 1, 3])
    })
}

/// Rows of a sentence, to which its heads write their columns in turn, because the columns of one head
/// are not a slice. A head holds the lock for one product, a fraction of its work.
struct Sentence<'a>(Mutex<Rows<'a>>);

enum Rows<'a> {
    Empty(&'a mut [MaybeUninit<f32>]),
    /// Zeros where no head has written.
    Filled(&'a mut [f32]),
}

impl Sentence<'_> {
    /// Calls `work` with the rows. A poisoned lock is accepted, because a panic of another head ends
    /// the whole kernel.
    fn write(&self, work: impl FnOnce(&mut [f32])) {
        let mut rows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Rows::Empty(room) = &mut *rows {
            // The first head clears the rows, which are then in its cache.
            *rows = Rows::Filled(filled_with_zeros(std::mem::take(room)));
        }
        if let Rows::Filled(rows) = &mut *rows {
            work(rows);
        }
    }
}

/// Divides memory for `count` sentences of `len` numbers among them.
fn sentences(numbers: &mut Vec<f32>, count: usize, len: usize) -> Vec<Sentence<'_>> {
    numbers.reserve_exact(count * len);
    let room = &mut numbers.spare_capacity_mut()[..count * len];
    room.chunks_exact_mut(len).map(|rows| Sentence(Mutex::new(Rows::Empty(rows)))).collect()
}

/// Returns the numbers of [`sentences`] to which at least one head each has written; zeros if there are
/// no heads.
fn written(mut numbers: Vec<f32>, len: usize) -> Vec<f32> {
    if numbers.capacity() < len {
        return zeros(len);
    }
    // SAFETY: there is room for all numbers only if there are sentences and heads, and the first head
    // of each has initialized all of its numbers.
    #[allow(unsafe_code)]
    unsafe {
        numbers.set_len(len);
    }
    numbers
}

/// Queries, keys and values of all heads.
struct Heads<'a> {
    q: Head<'a>,
    k: Head<'a>,
    v: Head<'a>,
    precision: ProductPrecision,
}

impl Heads<'_> {
    /// Returns the minimum number of heads for which using another core pays off.
    fn at_least(&self) -> usize {
        let [queries, d_head] = self.q.shape;
        let work = queries * d_head * self.k.shape[0];
        (1 << 15) / work.max(1) + 1
    }

    fn scale(&self) -> f32 {
        1.0 / (self.q.shape[1] as f32).sqrt()
    }

    /// Computes `q kᵀ / √D` of one head, in rows of `padded` elements.
    fn scores(&self, b: usize, h: usize, scores: &mut [f32], padded: usize) {
        let factors = [self.q.matrix(b, h), self.k.matrix(b, h).transposed()];
        let out = Output::with_stride(scores, padded);
        multiply_here(self.precision, factors, self.scale(), out, Write::Replace);
    }
}

/// View of the heads of queries, keys or values.
struct Head<'a> {
    data: &'a [f32],
    /// Numbers of positions and features.
    shape: [usize; 2],
    /// Strides of sentence, head, position and feature.
    strides: [usize; 4],
}

impl<'a> Head<'a> {
    fn of(tensor: &'a FlexTensor) -> Self {
        let layout = tensor.layout();
        let [_, _, len, d_head] = dims(tensor);
        let strides = std::array::from_fn(|i| stride(layout.strides()[i]));
        let data = &tensor.storage::<f32>()[layout.start_offset()..];
        Self { data, shape: [len, d_head], strides }
    }

    fn matrix(&self, b: usize, h: usize) -> Matrix<'a> {
        let [sentence, head, position, feature] = self.strides;
        Matrix::with_strides(&self.data[b * sentence + h * head..], self.shape, [position, feature])
    }
}

/// View of a mask.
struct Mask<'a> {
    data: &'a [u8],
    /// Strides of sentence, head, query and key; 0 for a dimension that broadcasts.
    strides: [usize; 4],
}

impl<'a> Mask<'a> {
    fn of(tensor: &'a FlexTensor) -> Self {
        let layout = tensor.layout();
        let shape = dims::<4>(tensor);
        let stride = |i: usize| if shape[i] == 1 { 0 } else { stride(layout.strides()[i]) };
        let data = &tensor.storage::<u8>()[layout.start_offset()..];
        Self { data, strides: std::array::from_fn(stride) }
    }
}

/// Writes minus infinity for the keys that the query of sentence, head and position `[b, h, i]`
/// must not attend to, and beyond the last key.
#[inline(always)]
fn block(scores: &mut [f32], n_keys: usize, mask: Option<&Mask<'_>>, [b, h, i]: [usize; 3]) {
    let (scores, beyond) = scores.split_at_mut(n_keys);
    beyond.fill(f32::NEG_INFINITY);
    let Some(Mask { data, strides }) = mask else { return };
    let row = &data[b * strides[0] + h * strides[1] + i * strides[2]..];
    if strides[3] == 1 {
        for (score, &blocked) in scores.iter_mut().zip(row) {
            *score = if blocked == 0 { *score } else { f32::NEG_INFINITY };
        }
    } else {
        for (j, score) in scores.iter_mut().enumerate() {
            *score = if row[j * strides[3]] == 0 { *score } else { f32::NEG_INFINITY };
        }
    }
}

/// Replaces each row of at most [`ROWS`] rows of scores by weights that sum to 1, or by zeros if all of
/// its scores are minus infinity, and writes the logarithms of the sums of exponentials, which are
/// infinite in the latter case. A score that is NaN makes its row and its logarithm NaN.
#[inline(always)]
fn softmax(scores: &mut [f32], padded: usize, log_sums: &mut [f32]) {
    let (mut shifts, mut sums) = ([0.0; ROWS], [0.0; ROWS]);
    for (shift, row) in shifts.iter_mut().zip(scores.chunks_exact(padded)) {
        let largest = max(row);
        *shift = if largest == f32::NEG_INFINITY { 0.0 } else { largest };
    }
    for (shift, row) in shifts.iter().zip(scores.chunks_exact_mut(padded)) {
        exp_shifted(row, *shift);
    }
    for (sum, row) in sums.iter_mut().zip(scores.chunks_exact(padded)) {
        *sum = sum_of(row, |x| x);
    }
    for (sum, row) in sums.iter().zip(scores.chunks_exact_mut(padded)) {
        let factor = if *sum == 0.0 { 0.0 } else { 1.0 / sum };
        map(row, |x| x * factor);
    }
    for (log_sum, (shift, sum)) in log_sums.iter_mut().zip(shifts.into_iter().zip(sums)) {
        *log_sum = if sum == 0.0 { f32::INFINITY } else { shift + sum.ln() };
    }
}
