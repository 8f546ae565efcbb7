//! Matrix products: large ones by the `gemm` crate, the one place with raw pointers; the smallest, of
//! a short sentence's attention say, by a loop of our own, which is done before `gemm` has begun.

use gemm::Parallelism;
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::rows::per_piece;
use crate::vector::LANES;

/// Products with more multiplications than this are shared among the cores.
const SHARED: usize = 1 << 19;

/// Products with fewer multiplications than this are small. (10 × 8 by 8 × 10 takes `gemm` 0.30 µs
/// and us 0.07; at 20 × 32 by 32 × 20 we are even.)
const SMALL: usize = 1 << 12;

/// An output so many times as large as both factors together takes its bias as one more column of
/// the left factor, ones, and one more row of the right: copying those is less than filling it with
/// the bias and reading it again.
const MANY: usize = 4;

/// Room for the right factor of a small product.
const ROOM: usize = 512;

/// A matrix of numbers that lie in memory at regular steps; element `(i, j)` is
/// `data[i · row_step + j · column_step]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    data: &'a [f32],
    rows: usize,
    columns: usize,
    row_step: usize,
    column_step: usize,
}

impl<'a> Matrix<'a> {
    /// Row by row without gaps.
    pub fn new(data: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::with_steps(data, [rows, columns], [columns, 1])
    }

    /// Of `shape` rows and columns, with the steps from one to the next.
    ///
    /// # Panics
    ///
    /// When the last element lies beyond the data.
    pub fn with_steps(data: &'a [f32], shape: [usize; 2], steps: [usize; 2]) -> Self {
        assert!(fits(data.len(), shape, steps), "{shape:?} by {steps:?} in {}", data.len());
        let ([rows, columns], [row_step, column_step]) = (shape, steps);
        Self { data, rows, columns, row_step, column_step }
    }

    /// Row by row, each with one more number at its end.
    fn with_column(self, last: impl Fn(usize) -> f32) -> Vec<f32> {
        let mut numbers = Vec::with_capacity(self.rows * (self.columns + 1));
        for i in 0..self.rows {
            let row = &self.data[i * self.row_step..];
            if self.column_step == 1 {
                numbers.extend_from_slice(&row[..self.columns]);
            } else {
                numbers.extend((0..self.columns).map(|j| row[j * self.column_step]));
            }
            numbers.push(last(i));
        }
        numbers
    }

    /// The same numbers with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_step: self.column_step,
            column_step: self.row_step,
            ..self
        }
    }
}

/// Where a product goes: row by row, each row without gaps.
#[derive(Debug)]
pub struct Output<'a> {
    data: &'a mut [f32],
    row_step: usize,
}

impl<'a> Output<'a> {
    /// Rows one after the other.
    pub fn new(data: &'a mut [f32], columns: usize) -> Self {
        Self { data, row_step: columns }
    }

    /// Rows that begin `row_step` places from one another.
    pub fn with_step(data: &'a mut [f32], row_step: usize) -> Self {
        Self { data, row_step }
    }
}

/// What becomes of the numbers that are in the output before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// They are overwritten.
    Replace,
    /// The product is added to them.
    Add,
}

/// `a b`, or with a bias `a b + bias` in each row; row by row. Large products are shared among the
/// cores.
///
/// # Panics
///
/// When the shapes disagree.
pub fn product(a: Matrix<'_>, b: Matrix<'_>, bias: Option<&[f32]>) -> Vec<f32> {
    let (count, columns) = (a.rows * b.columns, b.columns);
    assert!(bias.is_none_or(|bias| bias.len() == columns), "length of the bias");
    if a.columns == 0 || count == 0 || is_small(a, b) {
        let mut out = bias.map_or_else(|| vec![0.0; count], |bias| bias.repeat(a.rows));
        let write = if bias.is_some() { Write::Add } else { Write::Replace };
        multiply_here(a, b, 1.0, Output::new(&mut out, columns), write);
        return out;
    }
    if let Some(bias) = bias
        && count > MANY * (a.rows + columns) * a.columns
    {
        return product_with_bias(a, b, bias);
    }
    // Room that nobody clears first: one thread alone would, while the others wait.
    let mut out = Vec::with_capacity(count);
    let room = &mut out.spare_capacity_mut()[..count];
    if let Some(bias) = bias {
        room.par_chunks_mut(per_piece(columns) * columns).for_each(|rows| {
            for row in rows.chunks_exact_mut(columns) {
                for (place, x) in row.iter_mut().zip(bias) {
                    place.write(*x);
                }
            }
        });
    }
    let to = Pointer { data: room.as_mut_ptr().cast(), row_step: columns };
    // SAFETY: `to` is `rows` times `columns` places without gaps. They are read only where there
    // is a bias, and then they hold it; afterwards all of them are written.
    #[allow(unsafe_code)]
    unsafe {
        gemm(a, b, 1.0, to, bias.is_some(), share(a, b));
        out.set_len(count);
    }
    out
}

/// `[a 1] [b; bias]`
fn product_with_bias(a: Matrix<'_>, b: Matrix<'_>, bias: &[f32]) -> Vec<f32> {
    let (inner, columns) = (a.columns + 1, b.columns);
    let left = a.with_column(|_| 1.0);
    let left = Matrix::new(&left, a.rows, inner);
    if b.column_step == 1 {
        let mut right = Vec::with_capacity(inner * columns);
        for k in 0..b.rows {
            right.extend_from_slice(&b.data[k * b.row_step..][..columns]);
        }
        right.extend_from_slice(bias);
        product(left, Matrix::new(&right, inner, columns), None)
    } else {
        let right = b.transposed().with_column(|column| bias[column]);
        product(left, Matrix::new(&right, columns, inner).transposed(), None)
    }
}

/// `out = factor · a b`, or that added to `out`; on this thread alone, for work that is shared out
/// already.
///
/// # Panics
///
/// When the shapes disagree.
pub fn multiply_here(a: Matrix<'_>, b: Matrix<'_>, factor: f32, out: Output<'_>, write: Write) {
    assert_eq!(a.columns, b.rows, "inner sizes");
    assert!(
        out.row_step >= b.columns || a.rows <= 1,
        "rows of {} lie {} apart",
        b.columns,
        out.row_step
    );
    assert!(fits(out.data.len(), [a.rows, b.columns], [out.row_step, 1]), "output is too small");
    if a.rows == 0 || b.columns == 0 {
        return;
    }
    if is_small(a, b) {
        let padded = b.columns.next_multiple_of(LANES);
        Arch::new().dispatch(Small { a, b, padded, factor, out, write });
        return;
    }
    let to = Pointer { data: out.data.as_mut_ptr(), row_step: out.row_step };
    // SAFETY: by the assertions every element that is written lies in `out.data`, which is
    // borrowed for writing and so overlaps neither input, and no two written elements are one.
    #[allow(unsafe_code)]
    unsafe {
        gemm(a, b, factor, to, write == Write::Add, Parallelism::None);
    }
}

fn is_small(a: Matrix<'_>, b: Matrix<'_>) -> bool {
    a.rows * a.columns * b.columns < SMALL && b.rows * b.columns.next_multiple_of(LANES) <= ROOM
}

fn share(a: Matrix<'_>, b: Matrix<'_>) -> Parallelism {
    let work = a.rows.saturating_mul(a.columns).saturating_mul(b.columns);
    if work >= SHARED { Parallelism::Rayon(0) } else { Parallelism::None }
}

/// Where `gemm` writes to.
struct Pointer {
    data: *mut f32,
    row_step: usize,
}

/// # Safety
///
/// `to` must be good for writing the product's rows, each a `row_step` after the one before, and
/// where `add` for reading them; nothing else may use those places meanwhile.
#[allow(unsafe_code)]
unsafe fn gemm(
    a: Matrix<'_>,
    b: Matrix<'_>,
    factor: f32,
    to: Pointer,
    add: bool,
    share: Parallelism,
) {
    assert_eq!(a.columns, b.rows, "inner sizes");
    // SAFETY: `Matrix::with_steps` says that every element that is read lies in its slice; the
    // caller answers for `to`. Sizes and steps of slices in memory are far below `isize::MAX`.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            to.data,
            1,
            to.row_step as isize,
            add,
            a.data.as_ptr(),
            a.column_step as isize,
            a.row_step as isize,
            b.data.as_ptr(),
            b.column_step as isize,
            b.row_step as isize,
            if add { 1.0 } else { 0.0 },
            factor,
            false,
            false,
            false,
            share,
        );
    }
}

/// A small product.
struct Small<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    /// Columns of `b` in whole vectors.
    padded: usize,
    factor: f32,
    out: Output<'a>,
    write: Write,
}

impl WithSimd for Small<'_> {
    type Output = ();

    /// Brings the right factor into rows of whole vectors; then makes four rows of the product at a
    /// time, a vector wide.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Self { a, b, padded, .. } = self;
        let mut room = [0.0; ROOM];
        for (k, row) in room.chunks_exact_mut(padded).take(b.rows).enumerate() {
            let from = &b.data[k * b.row_step..];
            if b.column_step == 1 {
                for (x, from) in row.iter_mut().zip(&from[..b.columns]) {
                    *x = *from;
                }
            } else {
                for (j, x) in row[..b.columns].iter_mut().enumerate() {
                    *x = from[j * b.column_step];
                }
            }
        }
        let (room, _) = S::as_simd_f32s(&room[..b.rows * padded]);
        for vector in 0..b.columns.div_ceil(S::F32_LANES) {
            for first in (0..a.rows).step_by(4) {
                match a.rows - first {
                    1 => self.tile::<S, 1>(simd, first, vector, room),
                    2 => self.tile::<S, 2>(simd, first, vector, room),
                    3 => self.tile::<S, 3>(simd, first, vector, room),
                    _ => self.tile::<S, 4>(simd, first, vector, room),
                }
            }
        }
    }
}

impl Small<'_> {
    /// `R` rows from `first` on, in one vector of columns.
    #[inline(always)]
    fn tile<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        first: usize,
        vector: usize,
        b: &[S::f32s],
    ) {
        let Self { a, padded, factor, write, .. } = *self;
        let step = padded / S::F32_LANES;
        let mut sums = [simd.splat_f32s(0.0); R];
        if a.column_step == 1 {
            let rows: [&[f32]; R] =
                std::array::from_fn(|i| &a.data[(first + i) * a.row_step..][..a.columns]);
            for k in 0..a.columns {
                for i in 0..R {
                    let x = simd.splat_f32s(rows[i][k]);
                    sums[i] = simd.mul_add_e_f32s(x, b[k * step + vector], sums[i]);
                }
            }
        } else {
            for k in 0..a.columns {
                let x = &a.data[k * a.column_step + first * a.row_step..];
                for i in 0..R {
                    let x = simd.splat_f32s(x[i * a.row_step]);
                    sums[i] = simd.mul_add_e_f32s(x, b[k * step + vector], sums[i]);
                }
            }
        }
        // A copy: what a loop counts through cannot stay in registers in the loops above.
        let factor = simd.splat_f32s(factor);
        let mut tile = [simd.splat_f32s(0.0); R];
        for i in 0..R {
            tile[i] = simd.mul_f32s(factor, sums[i]);
        }
        let column = vector * S::F32_LANES;
        let width = S::F32_LANES.min(self.b.columns - column);
        for (i, tile) in tile.into_iter().enumerate() {
            let out = &mut self.out.data[(first + i) * self.out.row_step + column..][..width];
            let tile = match write {
                Write::Replace => tile,
                Write::Add => simd.add_f32s(tile, simd.partial_load_f32s(out)),
            };
            simd.partial_store_f32s(out, tile);
        }
    }
}

/// Whether the last element lies within `len`; a position too large for `usize` does not.
fn fits(len: usize, [rows, columns]: [usize; 2], [row_step, column_step]: [usize; 2]) -> bool {
    if rows == 0 || columns == 0 {
        return true;
    }
    let row = (rows - 1).checked_mul(row_step);
    let column = (columns - 1).checked_mul(column_step);
    let last = row.zip(column).and_then(|(row, column)| row.checked_add(column));
    last.is_some_and(|last| last < len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole numbers, so exact in any order.
    #[test]
    fn any_shape_any_steps() {
        let number = |i: usize| ((i * 31) % 17) as f32 - 8.0;
        for (rows, inner, columns) in [
            (1, 1, 1),
            (0, 3, 2),
            (3, 0, 2),
            (2, 3, 0),
            (3, 5, 7),
            (7, 8, 40),
            (10, 8, 16),
            (17, 33, 9),
            (1, 70, 130),
            (130, 70, 1),
            (130, 130, 130),
            (130, 600, 130),
            (130, 9, 300),
        ] {
            let a: Vec<f32> = (0..rows * inner).map(number).collect();
            let b: Vec<f32> = (0..inner * columns).map(|i| number(i + 5)).collect();
            let b_turned: Vec<f32> =
                (0..columns * inner).map(|i| b[(i % inner) * columns + i / inner]).collect();
            let expected = |i: usize, j: usize| -> f32 {
                (0..inner).map(|k| a[i * inner + k] * b[k * columns + j]).sum()
            };
            let step = columns + 3;
            let mut out = vec![100.0; rows * step];
            let left = Matrix::new(&a, rows, inner);
            let right = Matrix::new(&b_turned, columns, inner).transposed();
            multiply_here(left, right, 2.0, Output::with_step(&mut out, step), Write::Add);
            for i in 0..rows {
                for j in 0..step {
                    let added = if j < columns { 2.0 * expected(i, j) } else { 0.0 };
                    assert_eq!(out[i * step + j], 100.0 + added);
                }
            }
            let mut out = vec![f32::NAN; rows * columns];
            let right = Matrix::new(&b, inner, columns);
            let a_turned: Vec<f32> =
                (0..inner * rows).map(|i| a[(i % rows) * inner + i / rows]).collect();
            let left = Matrix::new(&a_turned, inner, rows).transposed();
            multiply_here(left, right, 1.0, Output::new(&mut out, columns), Write::Replace);
            assert!((0..rows * columns).all(|i| out[i] == expected(i / columns, i % columns)));

            assert_eq!(product(left, right, None), out);
            let bias: Vec<f32> = (0..columns).map(|i| number(i + 9)).collect();
            let biased = product(left, right, Some(&bias));
            assert_eq!(biased.len(), out.len());
            assert!((0..biased.len()).all(|i| biased[i] == out[i] + bias[i % columns]));
            let right = Matrix::new(&b_turned, columns, inner).transposed();
            assert_eq!(product(left, right, Some(&bias)), biased);
        }
    }

    /// As `usize`, a step of -1 wraps around: 3 · 8 - 7 is 17, which a matrix of 32 has.
    #[test]
    #[should_panic(expected = "[4, 8] by [8, 18446744073709551615] in 32")]
    #[cfg(target_pointer_width = "64")]
    fn a_position_that_overflows_does_not_fit() {
        Matrix::with_steps(&[0.0; 32], [4, 8], [8, usize::MAX]);
    }

    #[test]
    #[should_panic(expected = "inner sizes")]
    fn shapes_must_agree() {
        let x = [0.0; 6];
        let mut out = [0.0; 4];
        let (a, b) = (Matrix::new(&x, 2, 3), Matrix::new(&x, 2, 3));
        multiply_here(a, b, 1.0, Output::new(&mut out, 3), Write::Replace);
    }
}
