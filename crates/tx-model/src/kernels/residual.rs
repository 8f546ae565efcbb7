//! Residual sum with dropout, `x + dropout(y)`, and its backward pass.

use burn::backend::flex::FlexTensor;
use tx_kernels::{
    rows::{copy_pieces, each_piece, per_piece},
    vector::vectorized,
};

use super::{
    HashedMask,
    flex::{floats, rows, tensor, writable},
};

/// Computes `x + dropout(y)`.
///
/// # Shapes
///
/// - `x` and `y`: `[.., width]`; returns the same
pub fn forward(x: &FlexTensor, y: FlexTensor, mask: HashedMask) -> FlexTensor {
    let [_, width] = rows(x);
    let x = floats(x);
    let mut y = writable(y);
    each_piece(y.storage_mut(), width, |first, y| {
        let x = &x[first * width..first * width + y.len()];
        vectorized(
            #[inline(always)]
            || {
                for (i, (y, x)) in y.chunks_exact_mut(width).zip(x.chunks_exact(width)).enumerate()
                {
                    let row = mask.row(first + i);
                    for (column, (y, x)) in y.iter_mut().zip(x).enumerate() {
                        *y = x + *y * row.factor(column);
                    }
                }
            },
        );
    });
    y
}

/// Computes `dropout(x)`. Applied to the gradient of the sum, it is the gradient of `y`.
pub fn dropout(x: &FlexTensor, mask: HashedMask) -> FlexTensor {
    let [_, width] = rows(x);
    let (out, _) = copy_pieces(floats(x), width, per_piece(width), |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (i, row) in out.chunks_exact_mut(width).enumerate() {
                    mask.row(first + i).apply(row);
                }
            },
        );
    });
    tensor(out, x.layout().shape().clone())
}
