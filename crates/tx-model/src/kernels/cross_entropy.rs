//! Label-smoothed cross-entropy from logits, and back, without a dense target.

use burn::{
    backend::flex::FlexTensor,
    tensor::{Shape, TensorData},
};
use rayon::prelude::*;

use super::{
    flex::{floats, ids, rows, tensor, writable},
    rows::{each_piece, per_piece},
};
use crate::vector::{exp, max, sum_of, vectorized};

/// What a model should say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// `ε`, the share of the probability that is spread over the whole vocabulary.
    pub smoothing: f32,
    /// Rows with this target count for nothing.
    pub ignored: i32,
}

/// What a batch costs.
#[derive(Debug)]
pub struct Costs {
    /// The sum over tokens that are not `ignored`: `[1]`.
    pub loss: FlexTensor,
    /// How many of them have the highest logit at the target: `[1]`.
    pub correct: FlexTensor,
    /// `log Σ exp` of each row.
    pub log_sums: Vec<f32>,
}

/// For a row `x` with target `t`: `log Σ exp x - (1 - ε) x_t - ε mean(x)`.
///
/// # Shapes
///
/// - `logits`: `[N, V]`; `targets`: `[N]`
pub fn forward(logits: &FlexTensor, targets: &FlexTensor, target: Target) -> Costs {
    let Target { smoothing, ignored } = target;
    let [_, width] = rows(logits);
    let (logits, targets) = (floats(logits), ids(targets));
    let piece = per_piece(width);
    let parts: Vec<(f64, i32, Vec<f32>)> = logits
        .par_chunks((piece * width).max(1))
        .zip(targets.par_chunks(piece))
        .map(|(logits, targets)| {
            let (mut loss, mut correct) = (0.0_f64, 0);
            let mut log_sums = vec![0.0; targets.len()];
            vectorized(
                #[inline(always)]
                || {
                    let rows = logits.chunks_exact(width).zip(targets).zip(&mut log_sums);
                    for ((x, &target), log_sum) in rows {
                        let largest = max(x);
                        *log_sum = largest + sum_of(x, |x| exp(x - largest)).ln();
                        if target == ignored {
                            continue;
                        }
                        let right = x[target as usize];
                        loss += f64::from(*log_sum - (1.0 - smoothing) * right);
                        if smoothing > 0.0 {
                            loss -= f64::from(smoothing * (sum_of(x, |x| x) / width as f32));
                        }
                        // Of equals the first counts, as in `argmax`.
                        let first = right == largest
                            && x.iter().position(|&x| x == largest) == Some(target as usize);
                        correct += i32::from(first);
                    }
                },
            );
            (loss, correct, log_sums)
        })
        .collect();
    let loss: f64 = parts.iter().map(|part| part.0).sum();
    let correct: i32 = parts.iter().map(|part| part.1).sum();
    Costs {
        loss: tensor(vec![loss as f32], [1]),
        correct: FlexTensor::from_data(TensorData::new(vec![correct], Shape::new([1]))),
        log_sums: parts.into_iter().flat_map(|part| part.2).collect(),
    }
}

/// What goes back to the logits: `grad · (softmax(x) - (1 - ε) [v = t] - ε / V)`; the logits
/// themselves are written over where nobody else holds them.
pub fn backward(
    logits: FlexTensor,
    targets: &FlexTensor,
    log_sums: &[f32],
    grad: f32,
    target: Target,
) -> FlexTensor {
    let Target { smoothing, ignored } = target;
    let [_, width] = rows(&logits);
    let targets = ids(targets);
    let mut logits = writable(logits);
    let everywhere = grad * smoothing / width as f32;
    each_piece(logits.storage_mut(), width, |first, x| {
        vectorized(
            #[inline(always)]
            || {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    let target = targets[first + i];
                    if target == ignored {
                        x.fill(0.0);
                        continue;
                    }
                    let log_sum = log_sums[first + i];
                    for x in x.iter_mut() {
                        *x = grad * exp(*x - log_sum) - everywhere;
                    }
                    x[target as usize] -= grad * (1.0 - smoothing);
                }
            },
        );
    });
    logits
}
