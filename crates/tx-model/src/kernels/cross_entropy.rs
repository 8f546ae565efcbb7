//! Label-smoothed cross-entropy from logits without a dense target, and its backward pass.

use burn::{
    backend::flex::FlexTensor,
    tensor::{Shape, TensorData},
};
use rayon::prelude::*;
use tx_kernels::{
    formulas::max_and_exp_sum,
    rows::{each_piece, per_piece},
    vector::{exp, map, max, sum_of, vectorized},
};

use super::{
    CrossEntropyConfig,
    flex::{floats, ids, rows, tensor, writable},
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

/// Numbers of a row of logits on which the loss of its token depends.
#[derive(Debug)]
pub struct Row {
    largest: f32,
    /// Logit of the target, and the mean of all.
    target: f32,
    mean: f32,
    is_correct: bool,
}

impl Row {
    #[inline(always)]
    /// Computes the numbers of the logits `x`, of which `largest` is the maximum.
    pub fn new(x: &[f32], largest: f32, target: usize, options: RowOptions) -> Self {
        let mean = if options.smoothing > 0.0 { sum_of(x, |x| x) / x.len() as f32 } else { 0.0 };
        // On a tie the first is the best, as in `argmax`.
        let is_correct =
            x[target] == largest && x.iter().position(|&x| x == largest) == Some(target);
        Self { largest, target: x[target], mean, is_correct }
    }
}

impl RowOptions {
    /// Returns the place of the target, unless its token is ignored.
    #[inline(always)]
    pub fn place(self, target: i32) -> Option<usize> {
        (target != self.ignore_index).then_some(target as usize)
    }

    /// Returns the parts of the gradient that do not depend on the logits: that of every element, and
    /// that of the target in addition.
    #[inline(always)]
    pub fn constant_gradients(self, grad: f32, width: usize) -> [f32; 2] {
        [-grad * self.smoothing / width as f32, -grad * (1.0 - self.smoothing)]
    }
}

impl RowsLoss {
    /// Adds the loss of the logits `x` of a token.
    #[inline(always)]
    pub fn add(&mut self, x: &[f32], target: i32, weight: f32, options: RowOptions) {
        let (largest, sum) = max_and_exp_sum(x);
        self.log_sums.push(largest + sum.ln());
        if let Some(target) = options.place(target) {
            self.add_row(&Row::new(x, largest, target, options), sum, weight, options);
        }
    }

    /// Adds the loss of the logits `x` of the token `target`, and replaces them by `e^(x - max)`. Returns
    /// the sum of these numbers.
    #[inline(always)]
    pub fn add_and_exponentiate(
        &mut self,
        x: &mut [f32],
        target: usize,
        weight: f32,
        options: RowOptions,
    ) -> f32 {
        let largest = max(x);
        let row = Row::new(x, largest, target, options);
        map(x, |x| exp(x - largest));
        let sum = sum_of(x, |x| x);
        self.add_row(&row, sum, weight, options);
        sum
    }

    /// Adds the loss of a row, of which `sum` is `Σ e^(x - max)`.
    #[inline(always)]
    pub fn add_row(&mut self, row: &Row, sum: f32, weight: f32, options: RowOptions) {
        let &Row { largest, target, mean, is_correct } = row;
        let (log_sum, smoothing) = (largest + sum.ln(), options.smoothing);
        self.loss += f64::from(weight * (log_sum - (1.0 - smoothing) * target));
        self.loss -= f64::from(weight * (smoothing * mean));
        self.nll += f64::from(log_sum - target);
        self.correct += i32::from(is_correct);
    }

    /// Adds another part of the loss.
    pub fn add_loss(&mut self, loss: f64) {
        self.loss += loss;
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
    let options = RowOptions::from(config);
    let [_, width] = rows(&logits);
    let (targets, weights) = (ids(targets), weights.map(floats));
    let mut logits = writable(logits);
    each_piece(logits.storage_mut(), width, |first, x| {
        vectorized(
            #[inline(always)]
            || {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    let Some(target) = options.place(targets[first + i]) else {
                        x.fill(0.0);
                        continue;
                    };
                    let log_sum = log_sums[first + i];
                    let grad = grad * weights.map_or(1.0, |weights| weights[first + i]);
                    let [constant, of_target] = options.constant_gradients(grad, width);
                    for x in x.iter_mut() {
                        *x = grad * exp(*x - log_sum) + constant;
                    }
                    x[target] += of_target;
                }
            },
        );
    });
    logits
}
