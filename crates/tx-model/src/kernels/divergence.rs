//! Symmetric Kullback-Leibler divergence between the two halves of a batch, and its backward pass.

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    formulas::max_and_exp_sum,
    rows::per_piece,
    vector::{exp, sum_of_two, vectorized},
};

use super::flex::{floats, ids, rows, tensor, writable};

/// Divergence of a batch.
#[derive(Debug)]
pub struct DivergenceOutput {
    /// Sum over the tokens that count: `[1]`.
    pub sum: FlexTensor,
    /// State for the backward pass.
    pub pairs: Vec<Pair>,
}

/// Sums over the logits `x` and `y` of one token in both halves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pair {
    /// `log Σ exp x` and `log Σ exp y`.
    log_sums: [f32; 2],
    /// `KL(p ‖ q)` and `KL(q ‖ p)` with `p = softmax(x)` and `q = softmax(y)`.
    divergences: [f32; 2],
}

impl Pair {
    /// Computes the sums in three passes.
    #[inline(always)]
    fn of(x: &[f32], y: &[f32]) -> Self {
        // Not `map`, whose closure is compiled without vectors.
        let (first, second) = (log_sum(x), log_sum(y));
        let forward = sum_of_two(
            x,
            y,
            #[inline(always)]
            |x, y| exp(x - first) * ((x - first) - (y - second)),
        );
        let reverse = sum_of_two(
            x,
            y,
            #[inline(always)]
            |x, y| exp(y - second) * ((y - second) - (x - first)),
        );
        Self { log_sums: [first, second], divergences: [forward, reverse] }
    }

    /// Replaces the logits by the gradient of `KL(p ‖ q) + KL(q ‖ p)`, times `grad`. With
    /// `d = log p - log q`, it is `p (d - KL(p ‖ q)) + p - q` for `x`, and
    /// `q (-d - KL(q ‖ p)) + q - p` for `y`.
    #[inline(always)]
    fn gradient(self, x: &mut [f32], y: &mut [f32], grad: f32) {
        let Self { log_sums: [first, second], divergences: [forward, reverse] } = self;
        for (x, y) in x.iter_mut().zip(y) {
            let (log_p, log_q) = (*x - first, *y - second);
            let (p, q, d) = (exp(log_p), exp(log_q), log_p - log_q);
            *x = grad * (p * (d - forward) + (p - q));
            *y = grad * (q * (-d - reverse) + (q - p));
        }
    }
}

/// `log Σ exp x`
#[inline(always)]
fn log_sum(x: &[f32]) -> f32 {
    let (largest, sum) = max_and_exp_sum(x);
    largest + sum.ln()
}

/// Computes `Σ w (KL(p ‖ q) + KL(q ‖ p))` over the tokens whose target is not `ignore_index`, where `p` and
/// `q` are the softmax of row `i` and of row `N + i`, and `w` is the weight of the token.
///
/// # Shapes
///
/// - `logits`: `[2 N, V]`; `targets` and `weights`: `[N]`
pub fn forward(
    logits: &FlexTensor,
    targets: &FlexTensor,
    weights: Option<&FlexTensor>,
    ignore_index: u32,
) -> DivergenceOutput {
    let [_, width] = rows(logits);
    let (logits, targets, weights) = (floats(logits), ids(targets), weights.map(floats));
    let (first, second) = logits.split_at(logits.len() / 2);
    let piece = per_piece(width);
    let parts: Vec<(f64, Vec<Pair>)> = first
        .par_chunks((piece * width).max(1))
        .zip(second.par_chunks((piece * width).max(1)))
        .zip(targets.par_chunks(piece))
        .enumerate()
        .map(|(number, ((first, second), targets))| {
            let weights = weights.map(|weights| &weights[number * piece..]);
            let (mut sum, mut pairs) = (0.0_f64, vec![Pair::default(); targets.len()]);
            vectorized(
                #[inline(always)]
                || {
                    let rows = first.chunks_exact(width).zip(second.chunks_exact(width));
                    let rows = rows.zip(targets).zip(&mut pairs).enumerate();
                    for (row, (((x, y), &target), pair)) in rows {
                        if target != ignore_index as i32 {
                            *pair = Pair::of(x, y);
                            let weight = weights.map_or(1.0, |weights| f64::from(weights[row]));
                            let [forward, reverse] = pair.divergences.map(f64::from);
                            sum += weight * (forward + reverse);
                        }
                    }
                },
            );
            (sum, pairs)
        })
        .collect();
    let sum: f64 = parts.iter().map(|part| part.0).sum();
    let pairs = parts.into_iter().flat_map(|part| part.1).collect();
    DivergenceOutput { sum: tensor(vec![sum as f32], [1]), pairs }
}

/// Returns the gradient of the logits, times `grad`. It overwrites the logits if they are not used
/// elsewhere.
pub fn backward(
    logits: FlexTensor,
    targets: &FlexTensor,
    weights: Option<&FlexTensor>,
    pairs: &[Pair],
    grad: f32,
    ignore_index: u32,
) -> FlexTensor {
    let [_, width] = rows(&logits);
    let (targets, weights) = (ids(targets), weights.map(floats));
    let mut logits = writable(logits);
    let numbers: &mut [f32] = logits.storage_mut();
    let (first, second) = numbers.split_at_mut(numbers.len() / 2);
    let piece = per_piece(width);
    first
        .par_chunks_mut((piece * width).max(1))
        .zip(second.par_chunks_mut((piece * width).max(1)))
        .zip(targets.par_chunks(piece).zip(pairs.par_chunks(piece)))
        .enumerate()
        .for_each(|(number, ((first, second), (targets, pairs)))| {
            let weights = weights.map(|weights| &weights[number * piece..]);
            vectorized(
                #[inline(always)]
                || {
                    let rows = first.chunks_exact_mut(width).zip(second.chunks_exact_mut(width));
                    let rows = rows.zip(targets.iter().zip(pairs)).enumerate();
                    for (row, ((x, y), (&target, pair))) in rows {
                        if target == ignore_index as i32 {
                            x.fill(0.0);
                            y.fill(0.0);
                        } else {
                            let weight = weights.map_or(1.0, |weights| weights[row]);
                            pair.gradient(x, y, grad * weight);
                        }
                    }
                },
            );
        });
    logits
}
