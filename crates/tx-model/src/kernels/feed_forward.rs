//! Feed-forward network with relu and bf16 products, in one pass over the rows: the inner activations
//! of some rows at a time stay in the cache, and are stored as bf16 numbers only, to which the products
//! would round them anyway. So are their gradients.

use std::{mem::MaybeUninit, sync::Arc};

use burn::backend::flex::FlexTensor;
use rayon::prelude::*;
use tx_kernels::{
    bf16::{self, RightFactor, Unit},
    matrix::Matrix,
    rows::sum_in_order,
    vector::vectorized,
};

use super::{
    HashedMask,
    flex::{dims, floats, matrix, rows, tensor},
    linear::{gradient_of_b, reduced_gradient_of_w},
};
use crate::config::Activation;

/// Rows that are computed together: some panels of the matrix unit, whose activations fit into the
/// cache of the second level.
const ROWS: usize = 128;

/// Weights of the network.
#[derive(Debug, Clone)]
pub struct Weights {
    /// `[d_model, d_ff]`, in any memory layout
    pub inner: FlexTensor,
    /// `[d_ff]`
    pub inner_bias: Option<FlexTensor>,
    /// `[d_ff, d_model]`, in any memory layout
    pub outer: FlexTensor,
    /// `[d_model]`
    pub outer_bias: Option<FlexTensor>,
}

/// Gradients of input and weights; of the matrices, those that are needed.
#[derive(Debug)]
pub struct FeedForwardGradients {
    /// Shape of the input.
    pub x: FlexTensor,
    /// `[d_model, d_ff]`
    pub inner: Option<FlexTensor>,
    /// `[d_ff]`
    pub inner_bias: FlexTensor,
    /// `[d_ff, d_model]`
    pub outer: Option<FlexTensor>,
    /// `[d_model]`
    pub outer_bias: FlexTensor,
}

/// Computes `dropout(relu(x W_1 + b_1)) W_2 + b_2`, and the inner activations after dropout, `[N,
/// d_ff]` bf16 numbers.
///
/// # Shapes
///
/// - `x`: `[.., d_model]`; returns the same
pub fn forward(
    x: &FlexTensor,
    weights: &Weights,
    mask: Option<HashedMask>,
) -> (FlexTensor, Arc<Vec<u16>>) {
    let ([count, d_model], [_, d_ff]) = (rows(x), dims(&weights.inner));
    let x_rows = Matrix::new(floats(x), count, d_model);
    let [inner_bias, outer_bias] =
        [&weights.inner_bias, &weights.outer_bias].map(|bias| bias.as_ref().map(floats));
    let unit = Unit::fastest();
    let inner = RightFactor::new(unit, matrix(&weights.inner));
    let outer = RightFactor::new(unit, matrix(&weights.outer));
    let (y, hidden, _) = by_chunks(count, [d_model, d_ff], |first, scratch, Room { y, hidden }| {
        let count = hidden.len() / d_ff;
        let x = x_rows.part(first..first + count, 0..d_model);
        let x = inner.multiply(x, inner_bias, scratch);
        vectorized(
            #[inline(always)]
            || {
                let rows = x.chunks_exact(d_ff).zip(hidden.chunks_exact_mut(d_ff));
                for (i, (x, hidden)) in rows.enumerate() {
                    match mask.map(|mask| mask.row(first + i)) {
                        Some(factors) => {
                            for (column, (hidden, &x)) in hidden.iter_mut().zip(x).enumerate() {
                                hidden.write(bf16::round(
                                    Activation::Relu.value(x) * factors.factor(column),
                                ));
                            }
                        }
                        None => {
                            for (hidden, &x) in hidden.iter_mut().zip(x) {
                                hidden.write(bf16::round(Activation::Relu.value(x)));
                            }
                        }
                    }
                }
            },
        );
        // SAFETY: every number has been written.
        #[allow(unsafe_code)]
        let hidden = unsafe { hidden.assume_init_ref() };
        let y = outer.multiply(Matrix::new(hidden, count, d_ff), outer_bias, y);
        (Room { y, hidden }, ())
    });
    (tensor(y, x.layout().shape().clone()), Arc::new(hidden))
}

/// Returns the gradients, of the matrices only if they are needed, from the inner activations of [`forward`] and the gradient of its result.
///
/// With `h` the inner activations and `s` the factor of dropout, `g = dy W_2ᵀ s [h ≠ 0]`, `dx = g
/// W_1ᵀ`, `dW_1 = xᵀ g`, `dW_2 = hᵀ dy`.
pub fn backward(
    x: &FlexTensor,
    weights: &Weights,
    mask: Option<HashedMask>,
    hidden: &[u16],
    dy: &FlexTensor,
    [of_inner, of_outer]: [bool; 2],
) -> FeedForwardGradients {
    let ([count, d_model], [_, d_ff]) = (rows(x), dims(&weights.inner));
    let dy_rows = Matrix::new(floats(dy), count, d_model);
    let unit = Unit::fastest();
    let outer = RightFactor::new(unit, matrix(&weights.outer).transposed());
    let inner = RightFactor::new(unit, matrix(&weights.inner).transposed());
    let scale = mask.map_or(1.0, HashedMask::scale);
    let (dx, gradients, sums) =
        by_chunks(count, [d_model, d_ff], |first, scratch, Room { y: dx, hidden: gradients }| {
            let count = gradients.len() / d_ff;
            let dy = dy_rows.part(first..first + count, 0..d_model);
            let dy = outer.multiply(dy, None, scratch);
            let hidden = &hidden[first * d_ff..][..count * d_ff];
            let mut sum = vec![0.0; d_ff];
            vectorized(
                #[inline(always)]
                || {
                    let rows = dy.chunks_exact(d_ff).zip(gradients.chunks_exact_mut(d_ff));
                    for ((dy, gradients), hidden) in rows.zip(hidden.chunks_exact(d_ff)) {
                        let columns = gradients.iter_mut().zip(dy).zip(hidden).zip(&mut sum);
                        for (((gradient, &dy), &hidden), sum) in columns {
                            let slope = if hidden == 0 { 0.0 } else { dy * scale };
                            *sum += slope;
                            gradient.write(bf16::round(slope));
                        }
                    }
                },
            );
            // SAFETY: every number has been written.
            #[allow(unsafe_code)]
            let gradients = unsafe { gradients.assume_init_ref() };
            let dx = inner.multiply(Matrix::new(gradients, count, d_ff), None, dx);
            (Room { y: dx, hidden: gradients }, sum)
        });
    let x_rows = Matrix::new(floats(x), count, d_model);
    let [hidden, gradients] = [hidden, &gradients].map(|rows| Matrix::new(rows, count, d_ff));
    FeedForwardGradients {
        x: tensor(dx, x.layout().shape().clone()),
        inner: of_inner.then(|| reduced_gradient_of_w(x_rows, gradients, &weights.inner)),
        inner_bias: tensor(sum_in_order(sums, d_ff), [d_ff]),
        outer: of_outer.then(|| reduced_gradient_of_w(hidden, dy_rows, &weights.outer)),
        outer_bias: gradient_of_b(dy),
    }
}

/// Numbers of some rows: `y`, `[rows, d_model]`, and `hidden`, `[rows, d_ff]`.
struct Room<Y, H> {
    y: Y,
    hidden: H,
}

/// Memory of the numbers before and after they are written.
type Empty<'a> = Room<&'a mut [MaybeUninit<f32>], &'a mut [MaybeUninit<u16>]>;
type Written<'a> = Room<&'a mut [f32], &'a [u16]>;

/// Allocates `count` rows and lets `work` write them chunk by chunk, in parallel. It gets the index of
/// the first row and room for `[rows, d_ff]` other numbers. Returns the rows, and the results of `work`
/// in their order.
fn by_chunks<R: Send>(
    count: usize,
    [d_model, d_ff]: [usize; 2],
    work: impl for<'a> Fn(usize, &mut [MaybeUninit<f32>], Empty<'a>) -> (Written<'a>, R) + Sync,
) -> (Vec<f32>, Vec<u16>, Vec<R>) {
    let (mut y, mut hidden) =
        (Vec::with_capacity(count * d_model), Vec::with_capacity(count * d_ff));
    let y_room = &mut y.spare_capacity_mut()[..count * d_model];
    let hidden_room = &mut hidden.spare_capacity_mut()[..count * d_ff];
    let results = y_room
        .par_chunks_mut((ROWS * d_model).max(1))
        .zip(hidden_room.par_chunks_mut((ROWS * d_ff).max(1)))
        .enumerate()
        .map_init(Vec::<f32>::new, |scratch, (number, (y, hidden))| {
            scratch.reserve(hidden.len());
            let room = &mut scratch.spare_capacity_mut()[..hidden.len()];
            let places = (y.as_ptr().cast(), y.len(), hidden.as_ptr().cast(), hidden.len());
            let (written, result) = work(number * ROWS, room, Room { y, hidden });
            let Room { y, hidden } = written;
            let found = (y.as_ptr(), y.len(), hidden.as_ptr(), hidden.len());
            assert!(found == places, "the whole chunk is written");
            result
        })
        .collect();
    // SAFETY: `work` returned every chunk as initialized numbers, which is checked above.
    #[allow(unsafe_code)]
    unsafe {
        y.set_len(count * d_model);
        hidden.set_len(count * d_ff);
    }
    (y, hidden, results)
}
