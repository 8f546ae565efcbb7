//! Linear layer and label-smoothed cross-entropy of its result with bf16 products, in one pass over
//! the rows: the logits of a few rows at a time stay in the cache, and only their gradients are stored,
//! as bf16 numbers, to which the backward products would round them anyway.

use std::{mem::MaybeUninit, sync::Arc};

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    bf16::{self, RightFactor, Split, Unit},
    matrix::Matrix,
    rows::{copy_pieces, per_piece, sum_in_order},
    vector::vectorized,
};

use super::{
    CrossEntropyConfig,
    cross_entropy::{CrossEntropyOutput, RowOptions, RowsLoss},
    flex::{dims, floats, ids, matrix, rows, tensor},
    linear::reduced_gradient_of_w,
};

/// Rows whose logits are computed together: two panels of the matrix unit.
pub const ROWS: usize = 64;

/// Gradients of the loss with respect to the logits.
#[derive(Debug)]
pub struct LogitGradients {
    /// Bf16 numbers, `[N, V]`.
    values: Vec<u16>,
    /// Sum of the rows in single precision, `[V]`; empty without bias.
    of_bias: Vec<f32>,
}

impl LogitGradients {
    /// Adds up losses and gradients of the bias of all parts in their order.
    pub fn collect(
        parts: Vec<(RowsLoss, Vec<f32>)>,
        values: Vec<u16>,
        sum_width: usize,
    ) -> (CrossEntropyOutput, Arc<Self>) {
        let (losses, sums): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
        let of_bias = sum_in_order(sums, sum_width);
        (CrossEntropyOutput::of(losses), Arc::new(Self { values, of_bias }))
    }
}

/// Factors and bias of the linear layer.
#[derive(Debug, Clone, Copy)]
pub struct Layer<'a> {
    /// `[.., d_in]`
    pub x: &'a FlexTensor,
    /// `[d_in, V]`, in any memory layout
    pub w: &'a FlexTensor,
    /// `[V]`
    pub b: Option<&'a FlexTensor>,
}

/// Computes the loss of [`cross_entropy::forward`](super::cross_entropy::forward) for the logits
/// `x w + b`, and their gradients.
///
/// # Shapes
///
/// - `targets` and `weights`: `[N]`, for the `N` rows of `x`
pub fn forward(
    Layer { x, w, b }: Layer<'_>,
    targets: &FlexTensor,
    weights: Option<&FlexTensor>,
    config: CrossEntropyConfig,
) -> (CrossEntropyOutput, Arc<LogitGradients>) {
    let options = RowOptions::from(config);
    let [count, d_in] = rows(x);
    let [_, width] = dims(w);
    let x = Matrix::new(floats(x), count, d_in);
    let (bias, weights) = (b.map(floats), weights.map(floats));
    assert_eq!(ids(targets).len(), count, "one target for each row");
    let layer = RightFactor::new(Unit::fastest(), matrix(w));
    let mut values = Vec::with_capacity(count * width);
    let sum_width = if bias.is_some() { width } else { 0 };
    let chunk =
        |logits: &mut Vec<f32>,
         (number, (room, targets)): (usize, (&mut [MaybeUninit<u16>], &[i32]))| {
            let first = number * ROWS;
            let x = x.part(first..first + targets.len(), 0..d_in);
            logits.reserve(targets.len() * width);
            let scratch = &mut logits.spare_capacity_mut()[..targets.len() * width];
            let logits = layer.multiply(x, bias, scratch);
            let mut part = RowsLoss::default();
            let mut sum = vec![0.0; sum_width];
            vectorized(
                #[inline(always)]
                || {
                    let rows = logits.chunks_exact_mut(width).zip(room.chunks_exact_mut(width));
                    for (row, ((x, room), &target)) in rows.zip(targets).enumerate() {
                        let Some(target) = options.place(target) else {
                            room.fill(MaybeUninit::new(0));
                            continue;
                        };
                        let weight = weights.map_or(1.0, |weights| weights[first + row]);
                        let factor = weight / part.add_and_exponentiate(x, target, weight, options);
                        let [constant, of_target] = options.constant_gradients(weight, width);
                        if sum.is_empty() {
                            for (place, &x) in room.iter_mut().zip(&*x) {
                                place.write(bf16::round(factor * x + constant));
                            }
                        } else {
                            for ((place, sum), &x) in room.iter_mut().zip(&mut sum).zip(&*x) {
                                let x = factor * x + constant;
                                *sum += x;
                                place.write(bf16::round(x));
                            }
                            sum[target] += of_target;
                        }
                        let of_target = factor * x[target] + constant + of_target;
                        room[target].write(bf16::round(of_target));
                    }
                },
            );
            (part, sum)
        };
    let room = &mut values.spare_capacity_mut()[..count * width];
    let parts = room
        .par_chunks_mut((ROWS * width).max(1))
        .zip(ids(targets).par_chunks(ROWS))
        .enumerate()
        .map_init(Vec::new, chunk)
        .collect();
    // SAFETY: every row has been written.
    #[allow(unsafe_code)]
    unsafe {
        values.set_len(count * width);
    }
    LogitGradients::collect(parts, values, sum_width)
}

/// Returns the gradients of `x`, `w` and `b` that are `needed`, from the gradient `dy` of the loss.
pub fn backward(
    Layer { x, w, .. }: Layer<'_>,
    gradients: &LogitGradients,
    dy: f32,
    needed: [bool; 3],
) -> [Option<FlexTensor>; 3] {
    let [count, d_in] = rows(x);
    let [_, width] = dims(w);
    let logits = Matrix::new(&gradients.values, count, width);
    let [of_x, of_w, of_b] = needed;
    let unit = Unit::fastest();
    let dx = of_x.then(|| {
        let dx = bf16::product(unit, Split::High, (logits, matrix(w).transposed()), None);
        tensor(scaled(&dx, d_in, dy), x.layout().shape().clone())
    });
    let dw = of_w.then(|| {
        let x = scaled(floats(x), d_in, dy);
        reduced_gradient_of_w(Matrix::new(&x, count, d_in), logits, w)
    });
    let db = of_b.then(|| tensor(scaled(&gradients.of_bias, width, dy), [width]));
    [dx, dw, db]
}

/// Returns rows multiplied by a factor.
fn scaled(x: &[f32], width: usize, factor: f32) -> Vec<f32> {
    let multiply = |_, x: &mut [f32]| {
        vectorized(
            #[inline(always)]
            || x.iter_mut().for_each(|x| *x *= factor),
        );
    };
    copy_pieces(x, width, per_piece(width), multiply).0
}
