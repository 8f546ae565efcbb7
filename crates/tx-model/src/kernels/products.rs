//! Matrix products in the precision of training.

use tx_kernels::{
    bf16::{self, Split, Unit},
    matrix::{self, Matrix, Output, Write},
};

use crate::product_precision::ProductPrecision;

/// Products on one thread with fewer multiplications than this, as in the attention of a short
/// sentence, are always in single precision, because packing their factors takes longer than bf16
/// saves. (20 × 32 by 32 × 20 takes 1.3 µs in bf16 and 0.6 µs in single precision; 350 × 64 by 64 × 350
/// takes 40 and 73 µs.)
const SINGLE_THRESHOLD: usize = 1 << 16;

/// Parts of the factors in bf16; `None` in single precision.
fn split(precision: ProductPrecision) -> Option<Split> {
    match precision {
        ProductPrecision::F32 | ProductPrecision::F16 => None,
        ProductPrecision::Bf16 => Some(Split::High),
        ProductPrecision::Bf16x3 => Some(Split::HighAndLow),
    }
}

/// Computes `a b`, or `a b + bias` in each row, in row-major order. Large products are divided
/// among the cores.
///
/// # Panics
///
/// If the shapes disagree.
pub fn product(
    precision: ProductPrecision,
    a: Matrix<'_>,
    b: Matrix<'_>,
    bias: Option<&[f32]>,
) -> Vec<f32> {
    match split(precision) {
        None => matrix::product(a, b, bias),
        Some(split) => bf16::product(Unit::fastest(), split, (a, b), bias),
    }
}

/// Computes `out = factor · a b`, or adds that to `out`, on this thread; for work that is already
/// divided among the cores.
///
/// # Panics
///
/// If the shapes disagree.
pub fn multiply_here(
    precision: ProductPrecision,
    factors: [Matrix<'_>; 2],
    factor: f32,
    out: Output<'_>,
    write: Write,
) {
    let [a, b] = factors;
    let ([rows, inner], [_, columns]) = (a.shape(), b.shape());
    let is_small = rows * inner * columns < SINGLE_THRESHOLD;
    match split(precision).filter(|_| !is_small) {
        None => matrix::multiply_here(a, b, factor, out, write),
        Some(split) => bf16::multiply_here(Unit::fastest(), split, factors, factor, out, write),
    }
}
