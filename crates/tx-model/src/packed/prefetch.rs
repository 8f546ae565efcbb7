//! Requests for memory that is read soon.
#![allow(unsafe_code)]

/// Bytes of a line of the cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Asks the CPU to read `values` into its second-level cache, without waiting for them. Does nothing on
/// other architectures than x86-64.
#[inline(always)]
pub(super) fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

        let start = values.as_ptr().cast::<i8>();
        for offset in (0..size_of_val(values)).step_by(LINE) {
            // SAFETY: the instruction reads nothing that the program can observe, at any address.
            unsafe { _mm_prefetch::<_MM_HINT_T1>(start.wrapping_add(offset)) }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
}

/// Rows of a panel between two bounds checks of a product.
const ROWS: usize = 4;

/// Number of rows between one that is read and one that is prefetched, if a panel is read only once.
const DISTANCE: usize = 32;

/// Rows of the panels of a matrix that a tile of a product prefetches, as many as it reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ahead<'a, R> {
    rows: &'a [R],
    /// Half of the rows; `None` for all.
    half: Option<usize>,
}

impl<'a, R> Ahead<'a, R> {
    /// Selects rows for tile `tile` of `tiles` of panel `panel`. `rows` are those of all panels, `count`
    /// of each.
    ///
    /// Only the first tile reads its panel from memory, and the others read it from the cache. So the
    /// first two tiles prefetch the next panel.
    #[inline(always)]
    pub(super) fn new(
        rows: &'a [R],
        (panel, count): (usize, usize),
        (tile, tiles): (usize, usize),
    ) -> Self {
        let (distance, half) = match (tile, tiles) {
            (_, 1) => (DISTANCE, None),
            (0 | 1, _) => (count, Some(tile)),
            _ => return Self { rows: &[], half: None },
        };
        let start = (panel * count + distance).min(rows.len());
        Self { rows: &rows[start..], half }
    }

    /// Prefetches rows while four rows from row `row` of the panel are read.
    #[inline(always)]
    pub(super) fn prefetch(self, row: usize) {
        let rows = self.rows.get(row..).and_then(|rows| rows.first_chunk::<ROWS>());
        let Some([a, b, c, d]) = rows else { return };
        if self.half != Some(1) {
            prefetch(std::slice::from_ref(a));
            prefetch(std::slice::from_ref(b));
        }
        if self.half != Some(0) {
            prefetch(std::slice::from_ref(c));
            prefetch(std::slice::from_ref(d));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three panels of eight rows: one tile, and the first two of several, together prefetch each row that
    /// follows once; the last panel has no successor.
    #[test]
    fn tiles_prefetch_the_rows_that_follow() {
        let rows: Vec<usize> = (0..24).collect();
        let selected = |panel, tile, tiles| {
            let Ahead { rows, half } = Ahead::new(&rows, (panel, 8), (tile, tiles));
            (rows.first().copied(), half)
        };
        assert_eq!(selected(0, 0, 1), (None, None));
        assert_eq!(selected(0, 0, 3), (Some(8), Some(0)));
        assert_eq!(selected(1, 1, 3), (Some(16), Some(1)));
        assert_eq!(selected(1, 2, 3), (None, None));
        assert_eq!(selected(2, 0, 2), (None, Some(0)));
        let many: Vec<usize> = (0..100).collect();
        let ahead = Ahead::new(&many, (1, 8), (0, 1));
        assert_eq!((ahead.rows.first(), ahead.half), (Some(&(8 + DISTANCE)), None));
        // Beyond the end, nothing happens.
        (0..200).for_each(|row| ahead.prefetch(row));
    }
}
