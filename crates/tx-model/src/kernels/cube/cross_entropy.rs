//! Label-smoothed cross-entropy with counts, and its backward pass.

use burn::tensor::{DType, Shape};
use burn_cubecl::{
    cubecl::{self, prelude::*},
    ops::numeric::empty_device_contiguous_dtype,
    tensor::CubeTensor,
};

use super::{cubes, empty, max_over_units, rows, sum_over_units};
use crate::kernels::CrossEntropyConfig;

/// Units of a cube that process a row together, at most.
const UNITS: usize = 128;

/// Numbers of a row: log sum of exponentials, loss, negative log-likelihood, and whether it is correct.
const NUMBERS: usize = 4;

/// Results of a forward pass.
#[derive(Debug)]
pub struct Output {
    /// `[1]`
    pub loss: CubeTensor,
    /// `[1]`
    pub nll: CubeTensor,
    /// `[1]`, 32-bit integer.
    pub correct: CubeTensor,
    /// Numbers of each row, for the backward pass: `[N, 4]`.
    pub numbers: CubeTensor,
}

/// Computes the loss, see [`cross_entropy`](crate::kernels::cross_entropy()).
///
/// # Shapes
///
/// - `logits`: `[N, V]`; `targets`: `[N]`, 32-bit integers; `weights`: `[N]`; all contiguous
pub fn forward(
    logits: CubeTensor,
    targets: CubeTensor,
    weights: Option<CubeTensor>,
    config: CrossEntropyConfig,
) -> Output {
    let [count, vocabulary] = rows(&logits);
    let (client, device) = (logits.client.clone(), logits.device.clone());
    let number = |dtype| {
        empty_device_contiguous_dtype(client.clone(), device.clone(), Shape::new([1]), dtype)
    };
    let (loss, nll, correct) = (number(DType::F32), number(DType::F32), number(DType::I32));
    let numbers = empty(&logits, Shape::new([count.max(1), NUMBERS]));
    if count > 0 {
        let (cubes, dim, units) = cubes(&logits, count, UNITS);
        each_row::launch(
            &client,
            cubes,
            dim,
            logits.into_buffer_arg(),
            targets.into_buffer_arg(),
            weights.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            numbers.clone().into_buffer_arg(),
            count,
            vocabulary,
            config.smoothing as f32,
            config.ignore_index as i32,
            units,
        );
    }
    let (cubes, dim, units) = cubes(&numbers, 1, UNITS);
    all_rows::launch(
        &client,
        cubes,
        dim,
        numbers.clone().into_buffer_arg(),
        loss.clone().into_buffer_arg(),
        nll.clone().into_buffer_arg(),
        correct.clone().into_buffer_arg(),
        count,
        units,
    );
    Output { loss, nll, correct, numbers }
}

/// Returns the gradient of the logits. `dy` is that of the loss: `[1]`.
pub fn backward(
    logits: CubeTensor,
    targets: CubeTensor,
    weights: Option<CubeTensor>,
    numbers: CubeTensor,
    dy: CubeTensor,
    config: CrossEntropyConfig,
) -> CubeTensor {
    let dx = empty(&logits, logits.meta.shape().clone());
    let [count, vocabulary] = rows(&logits);
    if count * vocabulary == 0 {
        return dx;
    }
    let (cubes, dim, units) = cubes(&logits, count, UNITS);
    of_logits::launch(
        &logits.client.clone(),
        cubes,
        dim,
        logits.into_buffer_arg(),
        targets.into_buffer_arg(),
        weights.into_iter().map(CubeTensor::into_buffer_arg).collect(),
        numbers.into_buffer_arg(),
        dy.into_buffer_arg(),
        dx.clone().into_buffer_arg(),
        count,
        vocabulary,
        config.smoothing as f32,
        config.ignore_index as i32,
        units,
    );
    dx
}

/// Returns the weight of a token in a loss: 0 if its target does not count, and 1 without weights.
#[cube]
pub fn weight_of_token(
    targets: &[i32],
    weights: &Sequence<Box<[f32]>>,
    row: usize,
    ignore_index: i32,
) -> f32 {
    let mut weight = 0.0f32;
    if targets[row] != ignore_index {
        weight = 1.0f32;
        if comptime!(weights.len() > 0) {
            weight = weights[0][row];
        }
    }
    weight
}

/// Numbers of each row, by one cube.
#[cube(launch)]
fn each_row(
    logits: &[f32],
    targets: &[i32],
    weights: &Sequence<Box<[f32]>>,
    numbers: &mut [f32],
    count: usize,
    vocabulary: usize,
    smoothing: f32,
    ignore_index: i32,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= count {
        terminate!();
    }
    let first = row * vocabulary;
    let unit = UNIT_POS as usize;

    let mut own_highest = logits[first];
    let mut own_sum = 0.0f32;
    let mut i = unit;
    while i < vocabulary {
        own_highest = max(own_highest, logits[first + i]);
        own_sum += logits[first + i];
        i += units;
    }
    let highest = max_over_units(own_highest, units);
    let mean = sum_over_units(own_sum, units) / f32::cast_from(vocabulary);

    // A target is correct if no logit before it equals the highest, too.
    let target = usize::cast_from(targets[row]);
    let mut own = 0.0f32;
    let mut own_earlier = 0.0f32;
    let mut i = unit;
    while i < vocabulary {
        let logit = logits[first + i];
        own += (logit - highest).exp();
        if i < target && logit == highest {
            own_earlier = 1.0f32;
        }
        i += units;
    }
    let log_sum = sum_over_units(own, units).ln() + highest;
    let earlier = max_over_units(own_earlier, units);

    if unit == 0 {
        let mut loss = 0.0f32;
        let mut nll = 0.0f32;
        let mut correct = 0.0f32;
        if targets[row] != ignore_index {
            let logit = logits[first + target];
            nll = log_sum - logit;
            loss = log_sum - (1.0f32 - smoothing) * logit;
            if smoothing > 0.0f32 {
                loss -= smoothing * mean;
            }
            if comptime!(weights.len() > 0) {
                loss *= weights[0][row];
            }
            if logit == highest && earlier == 0.0f32 {
                correct = 1.0f32;
            }
        }
        numbers[4 * row] = log_sum;
        numbers[4 * row + 1] = loss;
        numbers[4 * row + 2] = nll;
        numbers[4 * row + 3] = correct;
    }
}

/// Sums over all rows, by one cube.
#[cube(launch)]
fn all_rows(
    numbers: &[f32],
    loss: &mut [f32],
    nll: &mut [f32],
    correct: &mut [i32],
    count: usize,
    #[comptime] units: usize,
) {
    let mut own_loss = 0.0f32;
    let mut own_nll = 0.0f32;
    let mut own_correct = 0.0f32;
    let mut row = UNIT_POS as usize;
    while row < count {
        own_loss += numbers[4 * row + 1];
        own_nll += numbers[4 * row + 2];
        own_correct += numbers[4 * row + 3];
        row += units;
    }
    let all_loss = sum_over_units(own_loss, units);
    let all_nll = sum_over_units(own_nll, units);
    // Exact up to 2²⁴ rows.
    let all_correct = sum_over_units(own_correct, units);
    if UNIT_POS == 0 {
        loss[0] = all_loss;
        nll[0] = all_nll;
        correct[0] = i32::cast_from(all_correct);
    }
}

/// Gradient of each row, by one cube.
#[cube(launch)]
fn of_logits(
    logits: &[f32],
    targets: &[i32],
    weights: &Sequence<Box<[f32]>>,
    numbers: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    count: usize,
    vocabulary: usize,
    smoothing: f32,
    ignore_index: i32,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= count {
        terminate!();
    }
    let first = row * vocabulary;
    let factor = dy[0] * weight_of_token(targets, weights, row, ignore_index);
    let target = usize::cast_from(targets[row]);
    let log_sum = numbers[4 * row];
    let uniform = smoothing / f32::cast_from(vocabulary);
    let mut i = UNIT_POS as usize;
    while i < vocabulary {
        let mut wanted = uniform;
        if i == target {
            wanted += 1.0f32 - smoothing;
        }
        let mut gradient = 0.0f32;
        if factor != 0.0f32 {
            gradient = factor * ((logits[first + i] - log_sum).exp() - wanted);
        }
        dx[first + i] = gradient;
        i += units;
    }
}
