//! Matrix products. Large ones are computed by the `gemm` crate, which needs raw pointers. The
//! smallest, as in the attention of a short sentence, are computed by a loop that takes less time
//! than `gemm` needs to start.

use std::ops::Range;

use gemm::Parallelism;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::{
    rows::per_piece,
    vector::{LANES, vectors},
};

/// Products with more multiplications than this are divided among the cores.
const PARALLEL_THRESHOLD: usize = 1 << 19;

/// Products with fewer multiplications than this are small. (10 × 8 by 8 × 10 takes 0.30 µs with
/// `gemm` and 0.07 µs here; 20 × 32 by 32 × 20 takes the same time with both.)
const SMALL_THRESHOLD: usize = 1 << 12;

/// If an output is this many times as large as both factors together, its bias is computed as
/// another column of the left factor, ones, and another row of the right. Copying the factors then
/// takes less time than writing the bias to the output and reading it again.
const BIAS_COLUMN_RATIO: usize = 4;

/// Maximum number of elements of the right factor of a small product.
const MAX_RIGHT_FACTOR: usize = 512;

/// View of a matrix with strides; element `(i, j)` is `data[i · row_stride + j · column_stride]`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, T = f32> {
    pub(crate) data: &'a [T],
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl<'a, T: Copy> Matrix<'a, T> {
    /// Creates a view of a contiguous matrix in row-major order.
    pub fn new(data: &'a [T], rows: usize, columns: usize) -> Self {
        Self::with_strides(data, [rows, columns], [columns, 1])
    }

    /// Creates a view with `shape` rows and columns, and the strides of both.
    ///
    /// # Panics
    ///
    /// If the last element lies beyond the data.
    pub fn with_strides(data: &'a [T], shape: [usize; 2], strides: [usize; 2]) -> Self {
        assert!(fits(data.len(), shape, strides), "{shape:?} by {strides:?} in {}", data.len());
        let ([rows, columns], [row_stride, column_stride]) = (shape, strides);
        Self { data, rows, columns, row_stride, column_stride }
    }

    /// Returns the numbers of rows and columns.
    pub fn shape(self) -> [usize; 2] {
        [self.rows, self.columns]
    }

    /// Returns an element.
    ///
    /// # Panics
    ///
    /// If it lies beyond the data.
    pub fn at(self, row: usize, column: usize) -> T {
        self.data[row * self.row_stride + column * self.column_stride]
    }

    /// Returns the view of some rows and columns.
    ///
    /// # Panics
    ///
    /// If they are not in the matrix.
    pub fn part(self, rows: Range<usize>, columns: Range<usize>) -> Self {
        assert!(rows.end <= self.rows && columns.end <= self.columns, "part of a matrix");
        let shape = [rows.len(), columns.len()];
        let start = rows.start * self.row_stride + columns.start * self.column_stride;
        let data = if shape.contains(&0) { &[] } else { &self.data[start..] };
        Self { data, rows: shape[0], columns: shape[1], ..self }
    }

    /// Returns the transposed view.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }
}

impl Matrix<'_> {
    /// Copies the matrix, with another column at the end.
    fn with_column(self, last: impl Fn(usize) -> f32) -> Vec<f32> {
        let mut numbers = Vec::with_capacity(self.rows * (self.columns + 1));
        for i in 0..self.rows {
            let row = &self.data[i * self.row_stride..];
            if self.column_stride == 1 {
                numbers.extend_from_slice(&row[..self.columns]);
            } else {
                numbers.extend((0..self.columns).map(|j| row[j * self.column_stride]));
            }
            numbers.push(last(i));
        }
        numbers
    }
}

/// Output of a product, row by row; each row is contiguous.
#[derive(Debug)]
pub struct Output<'a> {
    pub(crate) data: &'a mut [f32],
    pub(crate) row_stride: usize,
}

impl<'a> Output<'a> {
    /// Creates an output with contiguous rows.
    pub fn new(data: &'a mut [f32], columns: usize) -> Self {
        Self { data, row_stride: columns }
    }

    /// Creates an output with rows that start `row_stride` elements apart.
    pub fn with_stride(data: &'a mut [f32], row_stride: usize) -> Self {
        Self { data, row_stride }
    }

    /// Checks that `a b` exists and fits.
    ///
    /// # Panics
    ///
    /// If the shapes disagree.
    pub(crate) fn check(&self, a: Matrix<'_>, b: Matrix<'_>) {
        let Self { data, row_stride } = self;
        assert_eq!(a.columns, b.rows, "inner sizes");
        assert!(
            *row_stride >= b.columns || a.rows <= 1,
            "rows of {} are {row_stride} apart",
            b.columns
        );
        assert!(fits(data.len(), [a.rows, b.columns], [*row_stride, 1]), "output is too small");
    }
}

/// Treatment of the previous contents of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Overwrites them.
    Replace,
    /// Adds the product to them.
    Add,
}

/// Computes `a b`, or `a b + bias` in each row, in row-major order. Large products are divided
/// among the cores.
///
/// # Panics
///
/// If the shapes disagree.
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
        && count > BIAS_COLUMN_RATIO * (a.rows + columns) * a.columns
    {
        return product_with_bias(a, b, bias);
    }
    // Not cleared first, because one thread would do that while the others wait.
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
    let to = Pointer { data: room.as_mut_ptr().cast(), row_stride: columns };
    // SAFETY: `to` is `rows` times `columns` contiguous elements. They are read only if there is a
    // bias, which they then contain; afterwards all of them are written.
    #[allow(unsafe_code)]
    unsafe {
        gemm(a, b, 1.0, to, bias.is_some(), parallelism(a, b));
        out.set_len(count);
    }
    out
}

/// Computes `[a 1] [b; bias]`.
fn product_with_bias(a: Matrix<'_>, b: Matrix<'_>, bias: &[f32]) -> Vec<f32> {
    let (inner, columns) = (a.columns + 1, b.columns);
    let left = a.with_column(|_| 1.0);
    let left = Matrix::new(&left, a.rows, inner);
    if b.column_stride == 1 {
        let mut right = Vec::with_capacity(inner * columns);
        for k in 0..b.rows {
            right.extend_from_slice(&b.data[k * b.row_stride..][..columns]);
        }
        right.extend_from_slice(bias);
        product(left, Matrix::new(&right, inner, columns), None)
    } else {
        let right = b.transposed().with_column(|column| bias[column]);
        product(left, Matrix::new(&right, columns, inner).transposed(), None)
    }
}

/// Computes `out = factor · a b`, or adds that to `out`, on this thread; for work that is already
/// divided among the cores.
///
/// # Panics
///
/// If the shapes disagree.
pub fn multiply_here(a: Matrix<'_>, b: Matrix<'_>, factor: f32, out: Output<'_>, write: Write) {
    out.check(a, b);
    if a.rows == 0 || b.columns == 0 {
        return;
    }
    if is_small(a, b) {
        let padded = b.columns.next_multiple_of(LANES);
        vectors().dispatch(Small { a, b, padded, factor, out, write });
        return;
    }
    let to = Pointer { data: out.data.as_mut_ptr(), row_stride: out.row_stride };
    // SAFETY: by the assertions every element that is written lies in `out.data`, which is borrowed
    // for writing and so overlaps neither input, and no two written elements coincide.
    #[allow(unsafe_code)]
    unsafe {
        gemm(a, b, factor, to, write == Write::Add, Parallelism::None);
    }
}

fn is_small(a: Matrix<'_>, b: Matrix<'_>) -> bool {
    a.rows * a.columns * b.columns < SMALL_THRESHOLD
        && b.rows * b.columns.next_multiple_of(LANES) <= MAX_RIGHT_FACTOR
}

fn parallelism(a: Matrix<'_>, b: Matrix<'_>) -> Parallelism {
    let work = a.rows.saturating_mul(a.columns).saturating_mul(b.columns);
    if work >= PARALLEL_THRESHOLD { Parallelism::Rayon(0) } else { Parallelism::None }
}

/// Output of `gemm`.
struct Pointer {
    data: *mut f32,
    row_stride: usize,
}

/// # Safety
///
/// `to` must be valid for writing the product's rows, which are `row_stride` apart, and if `add`
/// for reading them; nothing else may use those elements meanwhile.
#[allow(unsafe_code)]
unsafe fn gemm(
    a: Matrix<'_>,
    b: Matrix<'_>,
    factor: f32,
    to: Pointer,
    add: bool,
    parallelism: Parallelism,
) {
    assert_eq!(a.columns, b.rows, "inner sizes");
    // SAFETY: `Matrix::with_strides` has checked that every element that is read lies in its slice;
    // the caller guarantees `to`. Sizes and strides of slices in memory are far below `isize::MAX`.
    unsafe {
        gemm::gemm(
            a.rows,
            b.columns,
            a.columns,
            to.data,
            1,
            to.row_stride as isize,
            add,
            a.data.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            if add { 1.0 } else { 0.0 },
            factor,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// Small product.
struct Small<'a> {
    a: Matrix<'a>,
    b: Matrix<'a>,
    /// Columns of `b`, padded to whole vectors.
    padded: usize,
    factor: f32,
    out: Output<'a>,
    write: Write,
}

impl WithSimd for Small<'_> {
    type Output = ();

    /// Copies the right factor into rows of whole vectors, then computes tiles of four rows by one
    /// vector.
    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let Self { a, b, padded, .. } = self;
        let mut room = [0.0; MAX_RIGHT_FACTOR];
        for (k, row) in room.chunks_exact_mut(padded).take(b.rows).enumerate() {
            let from = &b.data[k * b.row_stride..];
            if b.column_stride == 1 {
                for (x, from) in row.iter_mut().zip(&from[..b.columns]) {
                    *x = *from;
                }
            } else {
                for (j, x) in row[..b.columns].iter_mut().enumerate() {
                    *x = from[j * b.column_stride];
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
    /// Computes `R` rows from `first` in one vector of columns.
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
        if a.column_stride == 1 {
            let rows: [&[f32]; R] =
                std::array::from_fn(|i| &a.data[(first + i) * a.row_stride..][..a.columns]);
            for k in 0..a.columns {
                for i in 0..R {
                    let x = simd.splat_f32s(rows[i][k]);
                    sums[i] = simd.mul_add_e_f32s(x, b[k * step + vector], sums[i]);
                }
            }
        } else {
            for k in 0..a.columns {
                let x = &a.data[k * a.column_stride + first * a.row_stride..];
                for i in 0..R {
                    let x = simd.splat_f32s(x[i * a.row_stride]);
                    sums[i] = simd.mul_add_e_f32s(x, b[k * step + vector], sums[i]);
                }
            }
        }
        // A copy, because an array that is indexed by a loop counter would not stay in registers
        // above.
        let factor = simd.splat_f32s(factor);
        let mut tile = [simd.splat_f32s(0.0); R];
        for i in 0..R {
            tile[i] = simd.mul_f32s(factor, sums[i]);
        }
        let column = vector * S::F32_LANES;
        let width = S::F32_LANES.min(self.b.columns - column);
        for (i, tile) in tile.into_iter().enumerate() {
            let out = &mut self.out.data[(first + i) * self.out.row_stride + column..][..width];
            let tile = match write {
                Write::Replace => tile,
                Write::Add => simd.add_f32s(tile, simd.partial_load_f32s(out)),
            };
            simd.partial_store_f32s(out, tile);
        }
    }
}

/// Returns `true` if the last element lies within `len`; an index that overflows does not.
fn fits(len: usize, [rows, columns]: [usize; 2], [row_stride, column_stride]: [usize; 2]) -> bool {
    if rows == 0 || columns == 0 {
        return true;
    }
    let row = (rows - 1).checked_mul(row_stride);
    let column = (columns - 1).checked_mul(column_stride);
    let last = row.zip(column).and_then(|(row, column)| row.checked_add(column));
    last.is_some_and(|last| last < len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers, whose sums are exact in any order.
    #[test]
    fn products_of_any_shape_and_strides() {
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
            let b_transposed: Vec<f32> =
                (0..columns * inner).map(|i| b[(i % inner) * columns + i / inner]).collect();
            let expected = |i: usize, j: usize| -> f32 {
                (0..inner).map(|k| a[i * inner + k] * b[k * columns + j]).sum()
            };
            let step = columns + 3;
            let mut out = vec![100.0; rows * step];
            let left = Matrix::new(&a, rows, inner);
            let right = Matrix::new(&b_transposed, columns, inner).transposed();
            multiply_here(left, right, 2.0, Output::with_stride(&mut out, step), Write::Add);
            for i in 0..rows {
                for j in 0..step {
                    let added = if j < columns { 2.0 * expected(i, j) } else { 0.0 };
                    assert_eq!(out[i * step + j], 100.0 + added);
                }
            }
            let mut out = vec![f32::NAN; rows * columns];
            let right = Matrix::new(&b, inner, columns);
            let a_transposed: Vec<f32> =
                (0..inner * rows).map(|i| a[(i % rows) * inner + i / rows]).collect();
            let left = Matrix::new(&a_transposed, inner, rows).transposed();
            multiply_here(left, right, 1.0, Output::new(&mut out, columns), Write::Replace);
            assert!((0..rows * columns).all(|i| out[i] == expected(i / columns, i % columns)));

            assert_eq!(product(left, right, None), out);
            let bias: Vec<f32> = (0..columns).map(|i| number(i + 9)).collect();
            let biased = product(left, right, Some(&bias));
            assert_eq!(biased.len(), out.len());
            assert!((0..biased.len()).all(|i| biased[i] == out[i] + bias[i % columns]));
            let right = Matrix::new(&b_transposed, columns, inner).transposed();
            assert_eq!(product(left, right, Some(&bias)), biased);
        }
    }

    /// As `usize`, a stride of -1 wraps around: 3 · 8 - 7 is 17, which is below 32.
    #[test]
    #[should_panic(expected = "[4, 8] by [8, 18446744073709551615] in 32")]
    #[cfg(target_pointer_width = "64")]
    fn an_index_that_overflows_does_not_fit() {
        Matrix::with_strides(&[0.0; 32], [4, 8], [8, usize::MAX]);
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
