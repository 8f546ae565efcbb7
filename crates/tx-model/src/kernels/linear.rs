//! `y = x w + b`, and back.

use burn::backend::flex::FlexTensor;

use super::{
    flex::{dims, floats, matrix, rows, tensor},
    matrix::{Matrix, product},
    rows::sum_pieces,
};
use crate::vector::vectorized;

/// # Shapes
///
/// - `x`: `[.., d_in]`; `w`: `[d_in, d_out]`, or the same turned; `b`: `[d_out]`
/// - returns `[.., d_out]`
pub fn forward(x: &FlexTensor, w: &FlexTensor, b: Option<&FlexTensor>) -> FlexTensor {
    let [count, d_in] = rows(x);
    let [_, d_out] = dims(w);
    let y = product(Matrix::new(floats(x), count, d_in), matrix(w), b.map(floats));
    tensor(y, with_width(x, d_out))
}

/// `dy wᵀ`, of the shape of `x`.
pub fn gradient_of_x(dy: &FlexTensor, w: &FlexTensor) -> FlexTensor {
    let [count, d_out] = rows(dy);
    let [d_in, _] = dims(w);
    let dx = product(Matrix::new(floats(dy), count, d_out), matrix(w).transposed(), None);
    tensor(dx, with_width(dy, d_in))
}

/// `xᵀ dy`, `[d_in, d_out]`, laid out in memory as `w` is.
pub fn gradient_of_w(x: &FlexTensor, dy: &FlexTensor, w: &FlexTensor) -> FlexTensor {
    let [count, d_in] = rows(x);
    let [_, d_out] = rows(dy);
    let x = Matrix::new(floats(x), count, d_in);
    let dy = Matrix::new(floats(dy), count, d_out);
    let turned = w.layout().strides()[1] != 1;
    if turned {
        tensor(product(dy.transposed(), x, None), [d_out, d_in]).transpose(0, 1)
    } else {
        tensor(product(x.transposed(), dy, None), [d_in, d_out])
    }
}

/// The sum of the rows of `dy`: `[d_out]`.
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

/// The shape of `x` with another last size.
fn with_width(x: &FlexTensor, width: usize) -> Vec<usize> {
    let shape = x.layout().shape();
    let mut sizes: Vec<usize> = (0..shape.num_dims()).map(|i| shape[i]).collect();
    if let Some(last) = sizes.last_mut() {
        *last = width;
    }
    sizes
}
