//! Product by tiles of the output: some rows × a panel or a part of it, whose sums stay in registers.
#![allow(unsafe_code)]
// Loops over constant ranges are unrolled, which keeps the sums in registers.
#![allow(clippy::needless_range_loop)]

use super::{Epilogue, Product};
use crate::{layout::PANEL, prefetch::prefetch};

/// Groups of four inputs between two bounds checks.
const GROUPS: usize = 4;

/// Rows of a panel: four inputs of each column.
type Rows<'a> = &'a [[u8; 4 * PANEL]];

/// Panels of a product.
#[derive(Clone, Copy)]
pub(super) struct Panels<'a> {
    /// Rows of all panels.
    rows: Rows<'a>,
    /// Rows of a panel.
    count: usize,
}

impl<'a> Panels<'a> {
    /// Panels of a product.
    #[inline(always)]
    pub(super) fn of(product: &Product<'a>) -> Self {
        Self { rows: product.panels.as_chunks().0, count: product.inputs() / 4 }
    }

    /// Number of panels.
    #[inline(always)]
    pub(super) fn len(self) -> usize {
        self.rows.len() / self.count.max(1)
    }

    #[inline(always)]
    fn panel(self, index: usize) -> Rows<'a> {
        &self.rows[index * self.count..][..self.count]
    }

    /// Selects the rows that tile `tile` of `tiles` of panel `index` prefetches.
    ///
    /// Only the first tile reads its panel from memory, and the others read it from the cache. So the
    /// first two tiles prefetch the next panel. A single tile waits for the memory in any case.
    #[inline(always)]
    pub(super) fn ahead(self, index: usize, tile: usize, tiles: usize) -> Ahead<'a> {
        let start = match tile < 2 && tiles > 1 {
            true => (index + 1) * self.count,
            false => self.rows.len(),
        };
        Ahead { rows: &self.rows[start.min(self.rows.len())..], is_second: tile == 1 }
    }
}

/// Rows of the next panel that a tile prefetches.
#[derive(Clone, Copy)]
pub(super) struct Ahead<'a> {
    rows: Rows<'a>,
    /// Whether the second half of each [`GROUPS`] rows is prefetched instead of the first one.
    is_second: bool,
}

impl Ahead<'_> {
    /// Prefetches rows while [`GROUPS`] rows of the panel from row `row` on are read.
    #[inline(always)]
    fn prefetch(self, row: usize) {
        let rows = self.rows.get(row..).and_then(|rows| rows.first_chunk::<GROUPS>());
        let Some([a, b, c, d]) = rows else { return };
        for row in if self.is_second { [c, d] } else { [a, b] } {
            prefetch(row);
        }
    }
}

/// Vectors of a CPU that multiplies and adds bytes.
///
/// # Safety of the methods
///
/// The CPU must have the instructions. All methods are inlined into a function for which the
/// instructions are enabled.
pub(super) trait Vectors: Copy {
    /// Sums of 32 bits.
    type Sums: Copy;
    /// Four bytes, repeated, in the form that [`multiply_add`](Self::multiply_add) uses.
    type Bytes: Copy;
    /// Numbers in single precision, as many as there are sums.
    type Floats: Copy;
    /// Number of sums.
    const LANES: usize;

    unsafe fn zero() -> Self::Sums;
    unsafe fn load_sums(sums: &[i32]) -> Self::Sums;
    unsafe fn splat_bytes(bytes: [u8; 4]) -> Self::Bytes;
    /// Adds to each sum the products of four unsigned bytes of `x` and four signed bytes.
    unsafe fn multiply_add(sums: Self::Sums, x: Self::Bytes, weights: &[u8]) -> Self::Sums;
    unsafe fn add_sums(a: Self::Sums, b: Self::Sums) -> Self::Sums;

    unsafe fn splat(x: f32) -> Self::Floats;
    unsafe fn load(x: &[f32]) -> Self::Floats;
    unsafe fn store(x: Self::Floats, to: &mut [f32]);
    unsafe fn multiply(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    unsafe fn add(a: Self::Floats, b: Self::Floats) -> Self::Floats;
    /// Converts the sums, multiplies them and adds.
    unsafe fn scale(sums: Self::Sums, scale: Self::Floats, bias: Self::Floats) -> Self::Floats;
    /// Zero for numbers that are not positive; NaN for NaN.
    unsafe fn relu(x: Self::Floats) -> Self::Floats;
}

/// Computes `R` rows of `y` from row `first` on in the columns of panel `index`: those of `V` vectors
/// from vector `start` of the panel on. `U` is the number of independent sums of a vector.
///
/// # Safety
///
/// The CPU must have the instructions of `T`.
#[inline(always)]
pub(super) unsafe fn tile<T: Vectors, const V: usize, const R: usize, const U: usize>(
    product: &mut Product<'_>,
    panels: Panels<'_>,
    index: usize,
    start: usize,
    first: usize,
    ahead: Ahead<'_>,
) {
    // The compiler derives from it that all vectors are in the panel.
    assert!(start + V <= PANEL / T::LANES);
    let panel = panels.panel(index).as_chunks::<GROUPS>().0;
    let (inputs, steps) = (product.inputs(), panel.len());
    let x: [&[[[u8; 4]; GROUPS]]; R] = std::array::from_fn(|row| {
        &product.x.bytes[(first + row) * inputs..][..inputs].as_chunks().0.as_chunks().0[..steps]
    });
    // SAFETY: the caller says that the CPU has the instructions.
    unsafe {
        let zero = T::zero();
        let mut sums = [[[zero; V]; U]; R];
        for (step, weights) in panel.iter().enumerate() {
            // Tiles of so few rows that they need several sums are the only ones of their panel.
            if const { U == 1 } {
                ahead.prefetch(step * GROUPS);
            }
            let x: [&[[u8; 4]; GROUPS]; R] = std::array::from_fn(|row| &x[row][step]);
            for group in 0..GROUPS / U {
                for part in 0..U {
                    let group = group * U + part;
                    for row in 0..R {
                        let bytes = T::splat_bytes(x[row][group]);
                        for v in 0..V {
                            let at = (start + v) * 4 * T::LANES;
                            let weights = &weights[group][at..at + 4 * T::LANES];
                            sums[row][part][v] =
                                T::multiply_add(sums[row][part][v], bytes, weights);
                        }
                    }
                }
            }
        }

        // A copy, because the sums would otherwise be kept in memory for the loop below.
        let mut totals = [[zero; V]; R];
        for row in 0..R {
            for v in 0..V {
                let mut total = sums[row][0][v];
                for part in 1..U {
                    total = T::add_sums(total, sums[row][part][v]);
                }
                totals[row][v] = total;
            }
        }
        for v in 0..V {
            let columns = Columns::<T>::load(product, index, start + v);
            for row in 0..R {
                columns.finish(product, first + row, totals[row][v]);
            }
        }
    }
}

/// Columns of one vector, with their operands in the epilogue.
pub(super) struct Columns<T: Vectors> {
    offsets: T::Sums,
    scales: T::Floats,
    bias: T::Floats,
    /// First column of the product.
    first: usize,
    /// Columns that exist.
    width: usize,
}

impl<T: Vectors> Columns<T> {
    /// Loads the operands of vector `v` of panel `index`.
    ///
    /// # Safety
    ///
    /// The CPU must have the instructions of `T`.
    #[inline(always)]
    pub(super) unsafe fn load(product: &Product<'_>, index: usize, v: usize) -> Self {
        let first = index * PANEL + v * T::LANES;
        let lanes = first..first + T::LANES;
        // SAFETY: the caller says that the CPU has the instructions.
        unsafe {
            Self {
                offsets: T::load_sums(&product.offsets[lanes.clone()]),
                scales: T::load(&product.scales[lanes.clone()]),
                bias: T::load(&product.bias[lanes]),
                first,
                width: product.columns.saturating_sub(first).min(T::LANES),
            }
        }
    }

    /// Applies the epilogue to the sums of one row.
    ///
    /// # Safety
    ///
    /// The CPU must have the instructions of `T`.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, product: &mut Product<'_>, row: usize, sums: T::Sums) {
        // SAFETY: the caller says that the CPU has the instructions.
        unsafe {
            let sums = T::add_sums(sums, self.offsets);
            let x_scale = T::splat(product.x.scales[row]);
            let result = T::scale(sums, T::multiply(x_scale, self.scales), self.bias);
            let at = row * product.stride + product.first + self.first;
            if self.width == T::LANES {
                let y = &mut product.y[at..at + T::LANES];
                let result = match product.epilogue {
                    Epilogue::Replace => result,
                    Epilogue::Add => T::add(T::load(y), result),
                    Epilogue::Relu => T::relu(result),
                };
                T::store(result, y);
            } else if self.width > 0 {
                let y = &mut product.y[at..at + self.width];
                let mut edge = [0.0; PANEL];
                let edge = &mut edge[..T::LANES];
                edge[..y.len()].copy_from_slice(y);
                let result = match product.epilogue {
                    Epilogue::Replace => result,
                    Epilogue::Add => T::add(T::load(edge), result),
                    Epilogue::Relu => T::relu(result),
                };
                T::store(result, edge);
                y.copy_from_slice(&edge[..y.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three panels of eight rows: the first two tiles prefetch half of the next panel each; the last panel
    /// has no successor.
    #[test]
    fn the_first_two_tiles_prefetch_the_next_panel() {
        let rows: Vec<[u8; 4 * PANEL]> = (0..24).map(|row| [row; 4 * PANEL]).collect();
        let panels = Panels { rows: &rows, count: 8 };
        let selected = |panel, tile, tiles| {
            let Ahead { rows, is_second } = panels.ahead(panel, tile, tiles);
            rows.first().map(|row| (row[0], is_second))
        };
        assert_eq!(selected(0, 0, 1), None);
        assert_eq!(selected(0, 0, 3), Some((8, false)));
        assert_eq!(selected(1, 1, 3), Some((16, true)));
        assert_eq!(selected(1, 2, 3), None);
        assert_eq!(selected(2, 0, 2), None);
        // Beyond the end, nothing happens.
        (0..200).for_each(|row| panels.ahead(0, 0, 2).prefetch(row));
    }
}
