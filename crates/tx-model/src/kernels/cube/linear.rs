//! Linear layer and its backward pass, as products of matrices without batches.

use burn::backend::{Cube, ops::FloatTensorOps};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};

use super::{reshaped, rows, sums::column_sums};

/// Computes `x w + b`.
///
/// # Shapes
///
/// - `x`: `[.., d_in]`; `w`: `[d_in, d_out]`; `b`: `[d_out]`; returns `[.., d_out]`
pub fn forward(x: CubeTensor, w: CubeTensor, b: Option<CubeTensor>) -> CubeTensor {
    let mut shape = x.meta.shape().clone();
    let (last, width) = (shape.num_dims() - 1, w.meta.shape()[1]);
    shape[last] = width;
    let mut y = Cube::float_matmul(matrix(x), w);
    if let Some(b) = b {
        y = Cube::float_add(y, reshaped(b, [1, width]));
    }
    Cube::float_reshape(y, shape)
}

/// Returns `dy wᵀ`.
pub fn gradient_of_x(dy: CubeTensor, w: CubeTensor) -> CubeTensor {
    let mut shape = dy.meta.shape().clone();
    let last = shape.num_dims() - 1;
    shape[last] = w.meta.shape()[0];
    Cube::float_reshape(Cube::float_matmul(matrix(dy), Cube::float_transpose(w)), shape)
}

/// Returns `xᵀ dy`.
pub fn gradient_of_w(x: CubeTensor, dy: CubeTensor) -> CubeTensor {
    Cube::float_matmul(Cube::float_transpose(matrix(x)), matrix(dy))
}

/// Returns the sum of the rows of `dy`.
pub fn gradient_of_b(dy: CubeTensor) -> CubeTensor {
    let [sum] = column_sums(into_contiguous(dy));
    sum
}

/// Flattens all dimensions but the last.
fn matrix(x: CubeTensor) -> CubeTensor {
    let shape = rows(&x);
    reshaped(x, shape)
}
