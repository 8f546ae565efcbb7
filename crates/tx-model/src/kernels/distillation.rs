//! Loss of word-level distillation from logits, and its gradient, in one pass over the rows.

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    formulas::add_softmax,
    rows::{each_piece, per_piece},
    vector::{max, sum_of_two, vectorized},
};

use super::{
    CrossEntropyConfig,
    cross_entropy::{CrossEntropyOutput, RowOptions, RowsLoss},
    flex::{floats, ids, rows, writable},
};

/// Computes the loss: for a row `x` with target `t`, weight `w` and the mean `q` of the predictions of the
/// teachers, `w ((1 - α) CE(x, t) - α Σ_v q_v log softmax(x)_v)`, where CE is the loss of
/// [`cross_entropy::forward`](super::cross_entropy::forward). Returns it with the gradient of the logits,
/// which overwrites them if they are not used elsewhere.
///
/// # Shapes
///
/// - `logits`: `[N, V]`; `teachers`: `[M, N, V]`; `targets` and `weights`: `[N]`
pub fn forward(
    logits: FlexTensor,
    teachers: &FlexTensor,
    targets: &FlexTensor,
    weights: Option<&FlexTensor>,
    config: CrossEntropyConfig,
    alpha: f32,
) -> (CrossEntropyOutput, FlexTensor) {
    let options = RowOptions::from(config);
    let [count, width] = rows(&logits);
    let (teachers, targets, weights) = (floats(teachers), ids(targets), weights.map(floats));
    let len = (count * width).max(1);
    let fraction = len as f32 / teachers.len().max(1) as f32;
    let piece = per_piece(width);
    let mut logits = writable(logits);
    let numbers: &mut [f32] = logits.storage_mut();
    let parts = numbers
        .par_chunks_mut((piece * width).max(1))
        .zip(targets.par_chunks(piece))
        .enumerate()
        .map_init(
            || vec![0.0; width],
            |q, (number, (logits, targets))| {
                let mut part = RowsLoss::default();
                for (row, (x, &target)) in logits.chunks_exact_mut(width).zip(targets).enumerate() {
                    let Some(target) = options.place(target) else {
                        x.fill(0.0);
                        continue;
                    };
                    let row = number * piece + row;
                    q.fill(0.0);
                    for teacher in teachers.chunks_exact(len) {
                        add_softmax(&teacher[row * width..][..width], fraction, q);
                    }
                    let weight = weights.map_or(1.0, |weights| weights[row]);
                    vectorized(
                        #[inline(always)]
                        || replace_by_gradient(x, q, target, [weight, alpha], options, &mut part),
                    );
                }
                part
            },
        )
        .collect();
    (CrossEntropyOutput::of(parts), logits)
}

/// Adds the loss of a token to `part`, and replaces its logits `x` by their gradient.
#[inline(always)]
fn replace_by_gradient(
    x: &mut [f32],
    q: &[f32],
    target: usize,
    [weight, alpha]: [f32; 2],
    options: RowOptions,
    part: &mut RowsLoss,
) {
    let largest = max(x);
    let crossed = sum_of_two(q, x, |q, x| q * (x - largest));
    let of_label = (1.0 - alpha) * weight;
    let sum = part.add_and_exponentiate(x, target, of_label, options);
    part.add_loss(f64::from(alpha * weight * (sum.ln() - crossed)));
    let [constant, of_target] = options.constant_gradients(of_label, x.len());
    let (factor, of_teachers) = (weight / sum, alpha * weight);
    for (x, &q) in x.iter_mut().zip(q) {
        *x = factor * *x - of_teachers * q + constant;
    }
    x[target] += of_target;
}

/// Returns the gradient of the logits from that of the loss, `dy`.
pub fn backward(gradient: FlexTensor, dy: f32) -> FlexTensor {
    let [_, width] = rows(&gradient);
    let mut gradient = writable(gradient);
    each_piece(gradient.storage_mut(), width, |_, x| {
        vectorized(
            #[inline(always)]
            || x.iter_mut().for_each(|x| *x *= dy),
        );
    });
    gradient
}
