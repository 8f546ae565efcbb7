//! `y = x w + b`, and back.

use burn::backend::flex::FlexTensor;

use super::{
    flex::{dims, floats, matrix, rows, tensor},
    matrix::{Matrix, Output, Write, multiply},
    rows::sum_pieces,
    simd::vectorised,
};

/// # Shapes
///
/// - `x`: `[.., d_in]`; `w`: `[d_in, d_out]`, or the same turned; `b`: `[d_out]`
/// - returns `[.., d_out]`
pub fn forward(x: &FlexTensor, w: &FlexTensor, b: Option<&FlexTensor>) -> FlexTensor {
    let [count, d_in] = rows(x);
    let [_, d_out] = dims(w);
    let mut y = match b {
        // The product is added to the bias: no pass of its own.
        Some(b) => floats(b).repeat(count),
        None => vec![0.0; count * d_out],
    };
    let write = if b.is_some() { Write::Add } else { Write::Replace };
    multiply(
        Matrix::new(floats(x), count, d_in),
        matrix(w),
        1.0,
        Output::new(&mut y, d_out),
        write,
    );
    tensor(y, with_width(x, d_out))
}

/// `dy wᵀ`, of the shape of `x`.
pub fn gradient_of_x(dy: &FlexTensor, w: &FlexTensor) -> FlexTensor {
    let [count, d_out] = rows(dy);
    let [d_in, _] = dims(w);
    let mut dx = vec![0.0; count * d_in];
    let out = Output::new(&mut dx, d_in);
    multiply(
        Matrix::new(floats(dy), count, d_out),
        matrix(w).transposed(),
        1.0,
        out,
        Write::Replace,
    );
    tensor(dx, with_width(dy, d_in))
}

/// `xᵀ dy`, `[d_in, d_out]`, laid out in memory as `w` is.
pub fn gradient_of_w(x: &FlexTensor, dy: &FlexTensor, w: &FlexTensor) -> FlexTensor {
    let [count, d_in] = rows(x);
    let [_, d_out] = rows(dy);
    let x = Matrix::new(floats(x), count, d_in);
    let dy = Matrix::new(floats(dy), count, d_out);
    let mut dw = vec![0.0; d_in * d_out];
    let turned = w.layout().strides()[1] != 1;
    if turned {
        multiply(dy.transposed(), x, 1.0, Output::new(&mut dw, d_in), Write::Replace);
        tensor(dw, [d_out, d_in]).transpose(0, 1)
    } else {
        multiply(x.transposed(), dy, 1.0, Output::new(&mut dw, d_out), Write::Replace);
        tensor(dw, [d_in, d_out])
    }
}

/// The sum of the rows of `dy`: `[d_out]`.
pub fn gradient_of_b(dy: &FlexTensor) -> FlexTensor {
    let [_, d_out] = rows(dy);
    let sum = sum_pieces(floats(dy), d_out, d_out, |_, rows, sum| {
        vectorised(
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
