//! Label-smoothed cross-entropy from logits without a dense target, and its backward pass.

use burn::{
    backend::flex::FlexTensor,
    tensor::{Shape, TensorData},
};
use rayon::prelude::*;

use super::{
    CrossEntropyConfig,
    flex::{floats, ids, rows, tensor, writable},
    rows::{each_piece, per_piece},
};
use crate::{
    formulas::max_and_exp_sum,
    vector::{exp, sum_of, vectorized},
};

/// Loss of a batch.
#[derive(Debug)]
pub struct CrossEntropyOutput {
    /// Sum over the tokens that count: `[1]`.
    pub loss: FlexTensor,
    /// The same without smoothing: `[1]`.
    pub nll: FlexTensor,
    /// Number of those whose target has the highest logit: `[1]`.
    pub correct: FlexTensor,
    /// `log Σ exp` of each row.
    pub log_sums: Vec<f32>,
}

/// Loss of some rows.
#[derive(Debug, Default)]
pub struct RowsLoss {
    loss: f64,
    nll: f64,
    correct: i32,
    log_sums: Vec<f32>,
}

/// Smoothing and ignored target id in the kernel's dtypes.
#[derive(Debug, Clone, Copy)]
pub struct RowOptions {
    smoothing: f32,
    ignore_index: i32,
}

impl From<CrossEntropyConfig> for RowOptions {
    fn from(config: CrossEntropyConfig) -> Self {
        Self { smoothing: config.smoothing as f32, ignore_index: config.ignore_index as i32 }
    }
}

impl RowsLoss {
    /// Adds the loss of the logits `x` of a token. Returns `log Σ exp x`.
    #[inline(always)]
    pub fn add(&mut self, x: &[f32], target: i32, weight: f32, options: RowOptions) -> f32 {
        let (largest, sum) = max_and_exp_sum(x);
        let log_sum = largest + sum.ln();
        self.log_sums.push(log_sum);
        if target == options.ignore_index {
            return log_sum;
        }
        let smoothing = options.smoothing;
        let score = x[target as usize];
        self.loss += f64::from(weight * (log_sum - (1.0 - smoothing) * score));
        self.nll += f64::from(log_sum - score);
        if smoothing > 0.0 {
            let mean = sum_of(x, |x| x) / x.len() as f32;
            self.loss -= f64::from(weight * (smoothing * mean));
        }
        // On a tie the first is the best, as in `argmax`.
        let best =
            score == largest && x.iter().position(|&x| x == largest) == Some(target as usize);
        self.correct += i32::from(best);
        log_sum
    }
}

impl CrossEntropyOutput {
    /// Adds up the losses of all rows, in their order.
    pub fn of(parts: Vec<RowsLoss>) -> Self {
        let loss: f64 = parts.iter().map(|part| part.loss).sum();
        let nll: f64 = parts.iter().map(|part| part.nll).sum();
        let correct: i32 = parts.iter().map(|part| part.correct).sum();
        Self {
            loss: tensor(vec![loss as f32], [1]),
            nll: tensor(vec![nll as f32], [1]),
            correct: FlexTensor::from_data(TensorData::new(vec![correct], Shape::new([1]))),
            log_sums: parts.into_iter().flat_map(|part| part.log_sums).collect(),
        }
    }
}

/// Replaces the logits `x` of a token by their gradient: `grad (softmax(x) - (1 - ε) [v = t] - ε / V)`.
#[inline(always)]
pub fn gradient_of_row(x: &mut [f32], target: i32, log_sum: f32, grad: f32, options: RowOptions) {
    if target == options.ignore_index {
        x.fill(0.0);
        return;
    }
    let uniform = grad * options.smoothing / x.len() as f32;
    for x in x.iter_mut() {
        *x = grad * exp(*x - log_sum) - uniform;
    }
    x[target as usize] -= grad * (1.0 - options.smoothing);
}

/// Computes the loss: for a row `x` with target `t` and weight `w`:
/// `w (log Σ exp x - (1 - ε) x_t - ε mean(x))`; and the negative log-likelihood `log Σ exp x - x_t`.
///
/// # Shapes
///
/// - `logits`: `[N, V]`; `targets` and `weights`: `[N]`
pub fn forward(
    logits: &FlexTensor,
    targets: &FlexTensor,
    weights: Option<&FlexTensor>,
    config: CrossEntropyConfig,
) -> CrossEntropyOutput {
    let options = config.into();
    let [_, width] = rows(logits);
    let (logits, targets, weights) = (floats(logits), ids(targets), weights.map(floats));
    let piece = per_piece(width);
    let parts = logits
        .par_chunks((piece * width).max(1))
        .zip(targets.par_chunks(piece))
        .enumerate()
        .map(|(number, (logits, targets))| {
            let mut part = RowsLoss::default();
            vectorized(
                #[inline(always)]
                || {
                    for (row, (x, &target)) in logits.chunks_exact(width).zip(targets).enumerate() {
                        let weight = weights.map_or(1.0, |weights| weights[number * piece + row]);
                        part.add(x, target, weight, options);
                    }
                },
            );
            part
        })
        .collect();
    CrossEntropyOutput::of(parts)
}

/// Returns the gradient of the logits: `grad · w (softmax(x) - (1 - ε) [v = t] - ε / V)`. It
/// overwrites the logits if they are not used elsewhere.
pub fn backward(
    logits: FlexTensor,
    targets: &FlexTensor,
    weights: Option<&FlexTensor>,
    log_sums: &[f32],
    grad: f32,
    config: CrossEntropyConfig,
) -> FlexTensor {
    let options = config.into();
    let [_, width] = rows(&logits);
    let (targets, weights) = (ids(targets), weights.map(floats));
    let mut logits = writable(logits);
    each_piece(logits.storage_mut(), width, |first, x| {
        vectorized(
            #[inline(always)]
            || {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    let grad = grad * weights.map_or(1.0, |weights| weights[first + i]);
                    gradient_of_row(x, targets[first + i], log_sums[first + i], grad, options);
                }
            },
        );
    });
    logits
}
