//! Linear layer, `y = x w + b`, and its backward pass.

use burn::backend::flex::FlexTensor;
use tx_kernels::{bf16, matrix::Matrix, rows::sum_pieces, vector::vectorized};

use super::{
    flex::{dims, floats, matrix, rows, tensor},
    products::product,
};
use crate::product_precision::ProductPrecision;

/// Computes `x w + b`.
///
/// # Shapes
///
/// - `x`: `[.., d_in]`; `w`: `[d_in, d_out]`, in any memory layout; `b`: `[d_out]`
/// - returns `[.., d_out]`
pub fn forward(
    x: &FlexTensor,
    w: &FlexTensor,
    b: Option<&FlexTensor>,
    precision: ProductPrecision,
) -> FlexTensor {
    let [count, d_in] = rows(x);
    let [_, d_out] = dims(w);
    let y = product(precision, Matrix::new(floats(x), count, d_in), matrix(w), b.map(floats));
    tensor(y, with_width(x, d_out))
}

/// Returns the gradient of `x`: `dy wᵀ`.
pub fn gradient_of_x(dy: &FlexTensor, w: &FlexTensor, precision: ProductPrecision) -> FlexTensor {
    let [count, d_out] = rows(dy);
    let [d_in, _] = dims(w);
    let dy_rows = Matrix::new(floats(dy), count, d_out);
    let dx = product(precision, dy_rows, matrix(w).transposed(), None);
    tensor(dx, with_width(dy, d_in))
}

/// Returns the gradient of `w`: `xᵀ dy`, `[d_in, d_out]`, in the memory layout of `w`.
pub fn gradient_of_w(
    x: &FlexTensor,
    dy: &FlexTensor,
    w: &FlexTensor,
    precision: ProductPrecision,
) -> FlexTensor {
    let [count, d_in] = rows(x);
    let [_, d_out] = rows(dy);
    let x = Matrix::new(floats(x), count, d_in);
    let dy = Matrix::new(floats(dy), count, d_out);
    if is_transposed(w) {
        tensor(product(precision, dy.transposed(), x, None), [d_out, d_in]).transpose(0, 1)
    } else {
        tensor(product(precision, x.transposed(), dy, None), [d_in, d_out])
    }
}

/// Returns the gradient of `w`, as [`gradient_of_w`] does, with products of bf16 numbers.
pub fn reduced_gradient_of_w<X: bf16::Number, D: bf16::Number>(
    x: Matrix<'_, X>,
    dy: Matrix<'_, D>,
    w: &FlexTensor,
) -> FlexTensor {
    let (unit, split) = (bf16::Unit::fastest(), bf16::Split::High);
    let ([_, d_in], [_, d_out]) = (x.shape(), dy.shape());
    if is_transposed(w) {
        let dw = bf16::product(unit, split, (dy.transposed(), x), None);
        tensor(dw, [d_out, d_in]).transpose(0, 1)
    } else {
        tensor(bf16::product(unit, split, (x.transposed(), dy), None), [d_in, d_out])
    }
}

/// Returns whether the rows of a matrix are not contiguous in memory.
fn is_transposed(w: &FlexTensor) -> bool {
    w.layout().strides()[1] != 1
}

/// Returns the gradient of `b`: the sum of the rows of `dy`, `[d_out]`.
pub fn gradient_of_b(dy: &FlexTensor) -> FlexTensor {
    let [_, d_out] = rows(dy);
    let sum = sum_pieces(floats(dy), d_out, d_out, |_, rows, sum| {
        vectorized(
            #[inline(always)]
            || {
                for row in rows.chunks_exact(d_out) {
                    for (sum, x) in sum.iter_mut().zip(row) {
                        *sum += x;
                    }
                }
            },
        );
    });
    tensor(sum, [d_out])
}

/// Shape of `x` with another last dimension.
fn with_width(x: &FlexTensor, width: usize) -> Vec<usize> {
    let shape = x.layout().shape();
    let mut sizes: Vec<usize> = (0..shape.num_dims()).map(|i| shape[i]).collect();
    if let Some(last) = sizes.last_mut() {
        *last = width;
    }
    sizes
}
