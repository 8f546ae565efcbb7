//! `x + dropout(y)`, and back.

use burn::backend::flex::FlexTensor;

use super::{
    dropped::Dropped,
    flex::{floats, rows, tensor, writable},
    rows::{copy_pieces, each_piece, per_piece},
};
use crate::vector::vectorized;

/// # Shapes
///
/// - `x` and `y`: `[.., width]`, and so is the result
pub fn forward(x: &FlexTensor, y: FlexTensor, dropped: Dropped) -> FlexTensor {
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
                    let row = dropped.row(first + i);
                    for (column, (y, x)) in y.iter_mut().zip(x).enumerate() {
                        *y = x + *y * row.factor(column);
                    }
                }
            },
        );
    });
    y
}

/// `dropout(x)`; also what goes back to `y`, from what came back to the sum.
pub fn dropout(x: &FlexTensor, dropped: Dropped) -> FlexTensor {
    let [_, width] = rows(x);
    let (out, _) = copy_pieces(floats(x), width, per_piece(width), |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (i, row) in out.chunks_exact_mut(width).enumerate() {
                    dropped.row(first + i).apply(row);
                }
            },
        );
    });
    tensor(out, x.layout().shape().clone())
}
