//! Products of packed factors.

use super::{
    Split,
    layout::{BLOCK_DEPTH, Group},
    panels::Panels,
    unit::{Avx512Bf16, Unit},
};
use crate::amx::{self, Amx, Tiles};

/// Output of a product: a window of a matrix in row-major order.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// First element.
    pub data: *mut f32,
    /// Distance from a row to the next.
    pub row_stride: usize,
}

/// Value to which a product is added.
#[derive(Debug, Clone, Copy)]
pub enum Addend<'a> {
    /// Zero: the product replaces the output.
    Zero,
    /// The previous content of the output.
    Content,
    /// The same row for all rows.
    Bias(&'a [f32]),
}

/// Place of the sums of some inner positions of a product.
#[derive(Debug)]
pub enum Part<'a> {
    /// The output.
    Output,
    /// Blocks in memory, because other positions follow.
    Inner {
        /// Whether they are the first.
        is_first: bool,
        /// Sums of all blocks.
        sums: &'a mut [Sums],
    },
    /// The output, with the sums of the positions before.
    Last {
        /// Sums of all blocks.
        sums: &'a mut [Sums],
    },
}

impl<'a> Part<'a> {
    /// Returns the value to which part `index` of `count` is added, and its place.
    ///
    /// The rows of the output can be so far apart that they compete for places in the cache. Many parts
    /// are therefore added up in `sums`, which get room for the blocks of the product.
    pub fn of<'s>(
        [index, count]: [usize; 2],
        [left, right]: [&Panels; 2],
        start: Addend<'s>,
        sums: &'a mut Vec<Sums>,
    ) -> (Addend<'s>, Self) {
        if count <= PARTS_OF_OUTPUT {
            return (if index == 0 { start } else { Addend::Content }, Self::Output);
        }
        let blocks = left.count() * right.count();
        if sums.len() < blocks {
            sums.resize_with(blocks, Sums::default);
        }
        if index + 1 == count {
            (start, Self::Last { sums })
        } else {
            (start, Self::Inner { is_first: index == 0, sums })
        }
    }
}

/// Computes `out = start + factor · left right`, or a part of it.
///
/// # Safety
///
/// `out` must be valid for writing all elements of the product, and with [`Addend::Content`] and after the
/// first of several parts for reading them; nothing else may use them meanwhile.
///
/// # Panics
///
/// If the inner sizes differ, or a bias has another length than the rows of the output or comes with a
/// factor.
#[allow(unsafe_code)]
pub unsafe fn multiply(
    unit: Unit,
    split: Split,
    [left, right]: [&Panels; 2],
    factor: f32,
    out: Window,
    start: Addend<'_>,
    part: Part<'_>,
) {
    assert_eq!(left.inner, right.inner, "inner sizes");
    if let Addend::Bias(bias) = start {
        assert!(bias.len() == right.lines && factor == 1.0, "length of the bias, and factor");
    }
    // Without tiles, sums of a part are added to the output.
    let added = match part {
        Part::Output | Part::Inner { is_first: true, .. } => start,
        Part::Inner { is_first: false, .. } | Part::Last { .. } => Addend::Content,
    };
    // SAFETY: the caller guarantees `out`.
    unsafe {
        match unit {
            Unit::Reference => plain(split, [left, right], factor, out, added),
            Unit::Amx(unit, proof) => match part {
                Part::Output => tiles(unit, proof, split, [left, right], factor, out, start),
                Part::Inner { is_first, sums } => {
                    let start = is_first.then_some(start);
                    add_to_sums(unit, split, [left, right], start, sums);
                }
                Part::Last { sums } => {
                    let unit = (unit, proof);
                    finish_sums(unit, split, [left, right], factor, out, start, sums);
                }
            },
            Unit::Avx512(proof) => {
                vectors::multiply(proof, split, [left, right], factor, out, added)
            }
        }
    }
}

/// Rows and columns of a block of the output, which two panels have.
const BLOCK: [usize; 2] = [amx::MAX_ROWS, amx::COLUMNS];

/// Panels of the left factor that are multiplied by one panel of the right after the other, so that they
/// stay in the nearest cache.
const GROUP: usize = 2;

/// Number of parts that are added to the output itself.
const PARTS_OF_OUTPUT: usize = 2;

/// Sums of a block, one row of a tile in a line of the cache.
#[derive(Debug)]
#[repr(align(64))]
pub struct Sums([[f32; BLOCK[1]]; BLOCK[0]]);

impl Sums {
    fn rows(&mut self) -> amx::RowsPointer {
        amx::RowsPointer { first: self.0.as_flattened_mut().as_mut_ptr(), stride: BLOCK[1] }
    }
}

impl Default for Sums {
    fn default() -> Self {
        Self([[0.0; BLOCK[1]]; BLOCK[0]])
    }
}

/// Factors of a block: rows `i` and columns `j`, for each term. An iterator, because factors that are
/// written to memory would wait there for the output of the matrix unit.
#[inline(always)]
fn terms<'a>(
    split: Split,
    [left, right]: [&'a Panels; 2],
    [i, j]: [usize; 2],
) -> impl Iterator<Item = (amx::Rows<'a, u16>, &'a [u16])> {
    split.terms().iter().map(move |&[a, b]| {
        let values = numbers(left.panels(i, 1, a));
        // Blocks of 16 rows follow each other.
        let rows = amx::Rows { values, stride: BLOCK_DEPTH, step: BLOCK_DEPTH * BLOCK[0] };
        (rows, numbers(right.panels(j, 1, b)))
    })
}

/// Computes blocks of 32 by 32 with tiles.
///
/// Whole blocks are written by the matrix unit, and blocks at the right edge or with a factor by
/// vectors.
///
/// # Safety
///
/// As for [`multiply`].
#[allow(unsafe_code)]
unsafe fn tiles(
    unit: Amx,
    proof: Avx512Bf16,
    split: Split,
    [left, right]: [&Panels; 2],
    factor: f32,
    out: Window,
    start: Addend<'_>,
) {
    each_block(unit, [left, right], |tiles, [i, j]| {
        let factors = terms(split, [left, right], [i, j]);
        let column = j * BLOCK[1];
        let columns = (right.lines - column).min(BLOCK[1]);
        // SAFETY: row and column are within the product, and a block that is not whole has sums of
        // its own.
        unsafe {
            let first = out.data.add(i * BLOCK[0] * out.row_stride + column);
            if columns == BLOCK[1] && factor == 1.0 {
                let y = amx::RowsPointer { first, stride: out.row_stride };
                let start = match start {
                    Addend::Zero => amx::Start::Zero,
                    Addend::Content => amx::Start::Content,
                    Addend::Bias(bias) => amx::Start::Row(&bias[column..][..BLOCK[1]]),
                };
                tiles.multiply_bf16(factors, y, start);
                return;
            }
            let mut sums = Sums::default();
            tiles.multiply_bf16(factors, sums.rows(), amx::Start::Zero);
            let start = match start {
                Addend::Zero | Addend::Content => start,
                Addend::Bias(bias) => Addend::Bias(&bias[column..][..columns]),
            };
            let window = Window { data: first, ..out };
            vectors::finish(proof, &sums, [tiles.rows(), columns], factor, window, start);
        }
    });
}

/// Adds a part of a product to the sums of its blocks. The first part of a whole block begins with the bias.
fn add_to_sums(
    unit: Amx,
    split: Split,
    [left, right]: [&Panels; 2],
    start: Option<Addend<'_>>,
    sums: &mut [Sums],
) {
    each_block(unit, [left, right], |tiles, [i, j]| {
        let factors = terms(split, [left, right], [i, j]);
        let y = sums[i * right.count() + j].rows();
        let column = j * BLOCK[1];
        let start = match start {
            None => amx::Start::Content,
            Some(Addend::Bias(bias)) if column + BLOCK[1] <= right.lines => {
                amx::Start::Row(&bias[column..][..BLOCK[1]])
            }
            Some(Addend::Bias(_) | Addend::Zero | Addend::Content) => amx::Start::Zero,
        };
        // SAFETY: the sums have a whole block, and are borrowed for writing.
        #[allow(unsafe_code)]
        unsafe {
            tiles.multiply_bf16(factors, y, start);
        }
    });
}

/// Adds the last part of a product to the sums of its blocks, and writes the output.
///
/// # Safety
///
/// As for [`multiply`].
#[allow(unsafe_code)]
unsafe fn finish_sums(
    (unit, proof): (Amx, Avx512Bf16),
    split: Split,
    [left, right]: [&Panels; 2],
    factor: f32,
    out: Window,
    start: Addend<'_>,
    sums: &mut [Sums],
) {
    // With a bias, the sums of a whole block contain it.
    let is_direct = factor == 1.0 && !matches!(start, Addend::Content);
    each_block(unit, [left, right], |tiles, [i, j]| {
        let factors = terms(split, [left, right], [i, j]);
        let column = j * BLOCK[1];
        let columns = (right.lines - column).min(BLOCK[1]);
        let sums = &mut sums[i * right.count() + j];
        // SAFETY: row and column are within the product, and the sums have a whole block.
        unsafe {
            let first = out.data.add(i * BLOCK[0] * out.row_stride + column);
            if is_direct && columns == BLOCK[1] {
                let y = amx::RowsPointer { first, stride: out.row_stride };
                tiles.multiply_bf16(factors, y, amx::Start::Block(sums.0.as_flattened()));
                return;
            }
            tiles.multiply_bf16(factors, sums.rows(), amx::Start::Content);
            let start = match start {
                Addend::Zero | Addend::Content => start,
                Addend::Bias(bias) => Addend::Bias(&bias[column..][..columns]),
            };
            let window = Window { data: first, ..out };
            vectors::finish(proof, sums, [tiles.rows(), columns], factor, window, start);
        }
    });
}

/// Calls `work` with the tiles and the panels `[i, j]` of each block.
#[inline(always)]
fn each_block(unit: Amx, [left, right]: [&Panels; 2], mut work: impl FnMut(&Tiles, [usize; 2])) {
    let (full, rest) = (left.lines / BLOCK[0], left.lines % BLOCK[0]);
    for (panels, rows) in [(0..full, BLOCK[0]), (full..left.count(), rest)] {
        if !panels.is_empty() {
            unit.with_tiles(rows, |tiles| {
                for first in panels.clone().step_by(GROUP) {
                    for j in 0..right.count() {
                        (first..(first + GROUP).min(panels.end)).for_each(|i| work(tiles, [i, j]));
                    }
                }
            });
        }
    }
}

/// Computes blocks of 32 by 32 in plain loops.
///
/// # Safety
///
/// As for [`multiply`].
#[allow(unsafe_code)]
unsafe fn plain(
    split: Split,
    [left, right]: [&Panels; 2],
    factor: f32,
    out: Window,
    start: Addend<'_>,
) {
    for j in 0..right.count() {
        for i in 0..left.count() {
            let [row, column] = [i * BLOCK[0], j * BLOCK[1]];
            let rows = (left.lines - row).min(BLOCK[0]);
            let columns = (right.lines - column).min(BLOCK[1]);
            let mut sums = Sums::default();
            for (x, panel) in terms(split, [left, right], [i, j]) {
                let y = amx::RowsMut { values: sums.0.as_flattened_mut(), stride: BLOCK[1] };
                amx::reference_bf16(rows, x, panel, y, amx::Start::Content);
            }
            for (i, sums) in sums.0.iter().take(rows).enumerate() {
                // SAFETY: row and column are within the product.
                let y = unsafe {
                    let y = out.data.add((row + i) * out.row_stride + column);
                    std::slice::from_raw_parts_mut(y, columns)
                };
                let y = y.iter_mut().zip(sums);
                match start {
                    Addend::Zero => y.for_each(|(y, sum)| *y = factor * sum),
                    Addend::Content => y.for_each(|(y, sum)| *y += factor * sum),
                    Addend::Bias(bias) => {
                        y.zip(&bias[column..]).for_each(|((y, sum), b)| *y = b + factor * sum);
                    }
                }
            }
        }
    }
}

/// Numbers of consecutive groups.
fn numbers(groups: &[Group]) -> &[u16] {
    let len = groups.len() * BLOCK_DEPTH;
    // SAFETY: a group is an array of numbers without padding.
    #[allow(unsafe_code)]
    unsafe {
        std::slice::from_raw_parts(groups.as_ptr().cast(), len)
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vectors;

/// Other architectures, which have no [`Avx512Bf16`], so that these functions are never called.
#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    use super::*;

    pub(super) fn multiply(
        _proof: Avx512Bf16,
        _split: Split,
        _factors: [&Panels; 2],
        _factor: f32,
        _out: Window,
        _start: Addend<'_>,
    ) {
    }

    pub(super) fn finish(
        _proof: Avx512Bf16,
        _sums: &Sums,
        _size: [usize; 2],
        _factor: f32,
        _out: Window,
        _start: Addend<'_>,
    ) {
    }
}
