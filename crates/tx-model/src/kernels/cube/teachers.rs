//! Cross-entropy with the mean prediction of teachers, for word-level distillation, and its backward pass.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, prelude::*},
    tensor::CubeTensor,
};

use super::{
    cross_entropy::weight_of_token, cubes, empty, log_sum_of_row, rows, sum_over_units,
    sums::column_sums,
};

/// Units of a cube that process a row together, at most.
const UNITS: usize = 128;

/// Arguments of a forward pass.
#[derive(Debug, Clone)]
pub struct Input {
    /// `[N, V]`
    pub logits: CubeTensor,
    /// `[M, N, V]`
    pub teachers: CubeTensor,
    /// `[N]`, 32-bit integers
    pub targets: CubeTensor,
    /// `[N]`
    pub weights: Option<CubeTensor>,
    /// Target that does not count.
    pub ignore_index: u32,
}

/// Results of a forward pass.
#[derive(Debug)]
pub struct Output {
    /// `[1]`
    pub loss: CubeTensor,
    /// Log sums of exponentials of the logits and of those of each teacher, for the backward pass:
    /// `[N, 1 + M]`.
    pub log_sums: CubeTensor,
}

impl Input {
    fn teachers(&self) -> usize {
        self.teachers.meta.shape()[0]
    }
}

/// Computes `-Σ w Σ_v q_v log softmax(x)_v`, where `q` is the mean of the softmax of the teachers, over the
/// tokens that count. All tensors are contiguous.
pub fn forward(input: Input) -> Output {
    let ([count, vocabulary], teachers) = (rows(&input.logits), input.teachers());
    let log_sums = empty(&input.logits, Shape::new([count, 1 + teachers]));
    let losses = empty(&input.logits, Shape::new([count, 1]));
    if count > 0 {
        let (cubes, dim, units) = cubes(&input.logits, count, UNITS);
        each_row::launch(
            &losses.client,
            cubes,
            dim,
            input.logits.into_buffer_arg(),
            input.teachers.into_buffer_arg(),
            input.targets.into_buffer_arg(),
            input.weights.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            log_sums.clone().into_buffer_arg(),
            losses.clone().into_buffer_arg(),
            count,
            vocabulary,
            input.ignore_index as i32,
            teachers,
            units,
        );
    }
    let [loss] = column_sums(losses);
    Output { loss, log_sums }
}

/// Returns the gradient of the logits, `p - q` for a token. `dy` is that of the loss: `[1]`.
pub fn backward(input: Input, log_sums: CubeTensor, dy: CubeTensor) -> CubeTensor {
    let dx = empty(&input.logits, input.logits.meta.shape().clone());
    let ([count, vocabulary], teachers) = (rows(&dx), input.teachers());
    if count * vocabulary > 0 {
        let (cubes, dim, units) = cubes(&dx, count, UNITS);
        of_logits::launch(
            &dx.client,
            cubes,
            dim,
            input.logits.into_buffer_arg(),
            input.teachers.into_buffer_arg(),
            input.targets.into_buffer_arg(),
            input.weights.into_iter().map(CubeTensor::into_buffer_arg).collect(),
            log_sums.into_buffer_arg(),
            dy.into_buffer_arg(),
            dx.clone().into_buffer_arg(),
            count,
            vocabulary,
            input.ignore_index as i32,
            teachers,
            units,
        );
    }
    dx
}

/// Log sums and loss of each row, by one cube.
#[cube(launch)]
fn each_row(
    logits: &[f32],
    teachers: &[f32],
    targets: &[i32],
    weights: &Sequence<Box<[f32]>>,
    log_sums: &mut [f32],
    losses: &mut [f32],
    count: usize,
    vocabulary: usize,
    ignore_index: i32,
    #[comptime] number: usize,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= count {
        terminate!();
    }
    let first = row * vocabulary;
    let first_sum = row * comptime!(1 + number);
    let log_sum = log_sum_of_row(logits, first, vocabulary, units);
    if UNIT_POS == 0 {
        log_sums[first_sum] = log_sum;
    }
    let mut own = 0.0f32;
    for teacher in 0..number {
        let first_z = (teacher * count + row) * vocabulary;
        let of_teacher = log_sum_of_row(teachers, first_z, vocabulary, units);
        if UNIT_POS == 0 {
            log_sums[first_sum + 1 + teacher] = of_teacher;
        }
        let mut i = UNIT_POS as usize;
        while i < vocabulary {
            own += (teachers[first_z + i] - of_teacher).exp() * (log_sum - logits[first + i]);
            i += units;
        }
    }
    let crossed = sum_over_units(own, units) / f32::cast_from(number);
    if UNIT_POS == 0 {
        let weight = weight_of_token(targets, weights, row, ignore_index);
        losses[row] = select(weight == 0.0f32, 0.0f32, weight * crossed);
    }
}

/// Gradient of each row, by one cube.
#[cube(launch)]
fn of_logits(
    logits: &[f32],
    teachers: &[f32],
    targets: &[i32],
    weights: &Sequence<Box<[f32]>>,
    log_sums: &[f32],
    dy: &[f32],
    dx: &mut [f32],
    count: usize,
    vocabulary: usize,
    ignore_index: i32,
    #[comptime] number: usize,
    #[comptime] units: usize,
) {
    let row = CUBE_POS;
    if row >= count {
        terminate!();
    }
    let factor = dy[0] * weight_of_token(targets, weights, row, ignore_index);
    let first = row * vocabulary;
    let first_sum = row * comptime!(1 + number);
    let mut i = UNIT_POS as usize;
    while i < vocabulary {
        let mut q = 0.0f32;
        for teacher in 0..number {
            let z = teachers[(teacher * count + row) * vocabulary + i];
            q += (z - log_sums[first_sum + 1 + teacher]).exp();
        }
        let p = (logits[first + i] - log_sums[first_sum]).exp();
        dx[first + i] = factor * (p - q / f32::cast_from(number));
        i += units;
    }
}
