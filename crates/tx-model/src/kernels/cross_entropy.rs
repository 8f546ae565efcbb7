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
#[derive(Default)]
struct Part {
    loss: f64,
    nll: f64,
    correct: i32,
    log_sums: Vec<f32>,
}

/// Smoothing and ignored target id in the kernel's dtypes.
fn options(config: CrossEntropyConfig) -> (f32, i32) {
    (config.smoothing as f32, config.ignore_index as i32)
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
    let (smoothing, ignore_index) = options(config);
    let [_, width] = rows(logits);
    let (logits, targets, weights) = (floats(logits), ids(targets), weights.map(floats));
    let piece = per_piece(width);
    let parts: Vec<Part> = logits
        .par_chunks((piece * width).max(1))
        .zip(targets.par_chunks(piece))
        .enumerate()
        .map(|(number, (logits, targets))| {
            let weights = weights.map(|weights| &weights[number * piece..]);
            let mut part = Part { log_sums: vec![0.0; targets.len()], ..Part::default() };
            vectorized(
                #[inline(always)]
                || {
                    let rows = logits.chunks_exact(width).zip(targets).zip(&mut part.log_sums);
                    for (row, ((x, &target), log_sum)) in rows.enumerate() {
                        let (largest, sum) = max_and_exp_sum(x);
                        *log_sum = largest + sum.ln();
                        if target == ignore_index {
                            continue;
                        }
                        let score = x[target as usize];
                        let weight = weights.map_or(1.0, |weights| weights[row]);
                        part.loss += f64::from(weight * (*log_sum - (1.0 - smoothing) * score));
                        part.nll += f64::from(*log_sum - score);
                        if smoothing > 0.0 {
                            let mean = sum_of(x, |x| x) / width as f32;
                            part.loss -= f64::from(weight * (smoothing * mean));
                        }
                        // On a tie the first is the best, as in `argmax`.
                        let best = score == largest
                            && x.iter().position(|&x| x == largest) == Some(target as usize);
                        part.correct += i32::from(best);
                    }
                },
            );
            part
        })
        .collect();
    let loss: f64 = parts.iter().map(|part| part.loss).sum();
    let nll: f64 = parts.iter().map(|part| part.nll).sum();
    let correct: i32 = parts.iter().map(|part| part.correct).sum();
    CrossEntropyOutput {
        loss: tensor(vec![loss as f32], [1]),
        nll: tensor(vec![nll as f32], [1]),
        correct: FlexTensor::from_data(TensorData::new(vec![correct], Shape::new([1]))),
        log_sums: parts.into_iter().flat_map(|part| part.log_sums).collect(),
    }
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
    let (smoothing, ignore_index) = options(config);
    let [_, width] = rows(&logits);
    let (targets, weights) = (ids(targets), weights.map(floats));
    let mut logits = writable(logits);
    each_piece(logits.storage_mut(), width, |first, x| {
        vectorized(
            #[inline(always)]
            || {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    let target = targets[first + i];
                    if target == ignore_index {
                        x.fill(0.0);
                        continue;
                    }
                    let log_sum = log_sums[first + i];
                    let grad = grad * weights.map_or(1.0, |weights| weights[first + i]);
                    let uniform = grad * smoothing / width as f32;
                    for x in x.iter_mut() {
                        *x = grad * exp(*x - log_sum) - uniform;
                    }
                    x[target as usize] -= grad * (1.0 - smoothing);
                }
            },
        );
    });
    logits
}
