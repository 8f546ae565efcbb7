//! Activation functions with dropout, `dropout(f(x))`, and their backward pass.

use burn::backend::flex::FlexTensor;
use tx_kernels::{rows::each_piece, vector::vectorized};

use super::{
    HashedMask,
    flex::{floats, rows, writable},
};
use crate::config::Activation;

/// Computes `dropout(f(x))`.
///
/// # Shapes
///
/// - `x`: `[.., width]`; returns the same
pub fn forward(x: FlexTensor, activation: Activation, mask: Option<HashedMask>) -> FlexTensor {
    let [_, width] = rows(&x);
    let mut x = writable(x);
    each_piece(x.storage_mut(), width, |first, x| {
        vectorized(
            #[inline(always)]
            || {
                for (i, x) in x.chunks_exact_mut(width).enumerate() {
                    activation.apply(x);
                    if let Some(mask) = mask {
                        mask.row(first + i).apply(x);
                    }
                }
            },
        );
    });
    x
}

/// Returns the gradient of `x`. For relu, `x` may also be the result of [`forward`].
pub fn backward(
    x: &FlexTensor,
    dy: FlexTensor,
    activation: Activation,
    mask: Option<HashedMask>,
) -> FlexTensor {
    let [_, width] = rows(x);
    let x = floats(x);
    let mut dy = writable(dy);
    each_piece(dy.storage_mut(), width, |first, dy| {
        let x = &x[first * width..first * width + dy.len()];
        vectorized(
            #[inline(always)]
            || {
                for (i, (dy, x)) in
                    dy.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate()
                {
                    activation.multiply_by_derivative(dy, x);
                    if let Some(mask) = mask {
                        mask.row(first + i).apply(dy);
                    }
                }
            },
        );
    });
    dy
}
