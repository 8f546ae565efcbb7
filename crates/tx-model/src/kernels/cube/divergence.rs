//! Symmetric Kullback-Leibler divergence between the two halves of a batch, for R-Drop, and its backward
//! pass.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, prelude::*},
    tensor::CubeTensor,
};

use super::{
    cross_entropy::weight_of_token, cubes, empty, log_sum_of_row, rows, sum_over_units,
    sums::column_sums,
};

/// Units of a cube that process a pair of rows together, at most.
const UNITS: usize = 128;

/// Numbers of a pair: log sums of exponentials of both rows, `KL(p ‖ q)`, and `KL(q ‖ p)`.
const NUMBERS: usize = 4;

/// Results of a forward pass.
#[derive(Debug)]
pub struct Output {
    /// `[1]`
    pub sum: CubeTensor,
    /// Numbers of each pair, for the backward pass: `[N, 4]`.
    pub numbers: CubeTensor,
}

/// Computes the divergence, see [`divergence`](crate::kernels::divergence()).
///
/// # Shapes
///
/// - `logits`: `[2 N, V]`; `targets`: `[N]`, 32-bit integers; `weights`: `[N]`; all contiguous
pub fn forward(
    logits: CubeTensor,
    targets: CubeTensor,
    weights: Option<CubeTensor>,
    ignore_index: u32,
) -> Output {
    let [count, vocabulary] = rows(&logits);
    let pairs = count / 2;
    let numbers = empty(&logits, Shape::new([pairs, NUMBERS]));
    let sums = empty(&logits, Shape::new([pairs, 1]));
    if pairs > 0 {
        let (cubes, dim, units) = cubes(&logits, pairs, UNITS);
        each_pair::launch(
            &logits.client.clone(),
            cubes,
            dim,
            logits.into_buffer_arg(),
            targets.into_buffer_arg(),
            weights.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            numbers.clone().into_buffer_arg(),
            sums.clone().into_buffer_arg(),
            pairs,
            vocabulary,
            ignore_index as i32,
            units,
        );
    }
    let [sum] = column_sums(sums);
    Output { sum, numbers }
}

/// Returns the gradient of the logits. `dy` is that of the sum: `[1]`.
///
/// With `d = log p - log q`, it is `p (d - KL(p ‖ q)) + p - q` for the first row of a pair, and
/// `q (-d - KL(q ‖ p)) + q - p` for the second.
pub fn backward(
    logits: CubeTensor,
    targets: CubeTensor,
    weights: Option<CubeTensor>,
    numbers: CubeTensor,
    dy: CubeTensor,
    ignore_index: u32,
) -> CubeTensor {
    let dx = empty(&logits, logits.meta.shape().clone());
    let [count, vocabulary] = rows(&logits);
    let pairs = count / 2;
    if pairs * vocabulary > 0 {
        let (cubes, dim, units) = cubes(&logits, pairs, UNITS);
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
            pairs,
            vocabulary,
            ignore_index as i32,
            units,
        );
    }
    dx
}

/// Numbers and divergence of each pair of rows, by one cube.
#[cube(launch)]
fn each_pair(
    logits: &[f32],
    targets: &[i32],
    weights: &Sequence<Box<[f32]>>,
    numbers: &mut [f32],
    sums: &mut [f32],
    pairs: usize,
    vocabulary: usize,
    ignore_index: i32,
    #[comptime] units: usize,
) {
    let pair = CUBE_POS;
    if pair >= pairs {
        terminate!();
    }
    let (x, y) = (pair * vocabulary, (pairs + pair) * vocabulary);
    let log_p_sum = log_sum_of_row(logits, x, vocabulary, units);
    let log_q_sum = log_sum_of_row(logits, y, vocabulary, units);
    let mut own_forward = 0.0f32;
    let mut own_reverse = 0.0f32;
    let mut i = UNIT_POS as usize;
    while i < vocabulary {
        let log_p = logits[x + i] - log_p_sum;
        let log_q = logits[y + i] - log_q_sum;
        own_forward += log_p.exp() * (log_p - log_q);
        own_reverse += log_q.exp() * (log_q - log_p);
        i += units;
    }
    let forward = sum_over_units(own_forward, units);
    let reverse = sum_over_units(own_reverse, units);
    if UNIT_POS == 0 {
        let weight = weight_of_token(targets, weights, pair, ignore_index);
        sums[pair] = select(weight == 0.0f32, 0.0f32, weight * (forward + reverse));
        numbers[4 * pair] = log_p_sum;
        numbers[4 * pair + 1] = log_q_sum;
        numbers[4 * pair + 2] = forward;
        numbers[4 * pair + 3] = reverse;
    }
}

/// Gradients of each pair of rows, by one cube.
#[cube(launch)]
fn of_logits(
    logits: &[f32],
    targets: &[i32],
    weights: &Sequence<Box<[f32]>>,
    numbers: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    pairs: usize,
    vocabulary: usize,
    ignore_index: i32,
    #[comptime] units: usize,
) {
    let pair = CUBE_POS;
    if pair >= pairs {
        terminate!();
    }
    let factor = dy[0] * weight_of_token(targets, weights, pair, ignore_index);
    let (x, y) = (pair * vocabulary, (pairs + pair) * vocabulary);
    let mut i = UNIT_POS as usize;
    while i < vocabulary {
        let log_p = logits[x + i] - numbers[4 * pair];
        let log_q = logits[y + i] - numbers[4 * pair + 1];
        let (p, q, d) = (log_p.exp(), log_q.exp(), log_p - log_q);
        dx[x + i] = factor * (p * (d - numbers[4 * pair + 2]) + p - q);
        dx[y + i] = factor * (q * (-d - numbers[4 * pair + 3]) + q - p);
        i += units;
    }
}
