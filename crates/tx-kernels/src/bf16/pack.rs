//! Packing of blocks of a factor: bf16 numbers in the order of a unit.

use std::mem::MaybeUninit;

use super::{
    layout::{BLOCK_DEPTH, BLOCK_LINES, Group, Layout, Order},
    unit::{Avx512Bf16, Unit},
};
use crate::matrix::Matrix;

/// Number of a factor.
pub trait Number: vectors::Load + Copy + Sync {
    /// Returns the bf16 number that is nearest, and the one that is nearest to the rest.
    fn parts(self) -> [u16; 2];
}

impl Number for f32 {
    fn parts(self) -> [u16; 2] {
        let high = round(self);
        [high, round(self - value(high))]
    }
}

/// A bf16 number, given by its bits.
impl Number for u16 {
    fn parts(self) -> [u16; 2] {
        [self, 0]
    }
}

/// Packs the rows of `lines`, of which there are at most 16 with at most 32 numbers, and zeros
/// beyond them. The groups of the block are `stride` apart in `high`, and those of the low parts in
/// `low`.
///
/// # Panics
///
/// If the matrix is larger, or there is no room for 16 groups.
pub fn pack_block<T: Number>(
    unit: Unit,
    lines: Matrix<'_, T>,
    order: Order,
    high: &mut [MaybeUninit<Group>],
    low: Option<&mut [MaybeUninit<Group>]>,
    stride: usize,
) {
    assert!(lines.rows <= BLOCK_LINES && lines.columns <= BLOCK_DEPTH, "size of a block");
    match unit {
        Unit::Reference => plain(lines, order, high, low, stride),
        Unit::Avx512(proof) | Unit::Amx(_, proof) => {
            vectors::pack_block(proof, lines, order, high, low, stride);
        }
    }
}

/// Panels in the order of pairs.
#[derive(Debug, Clone, Copy)]
pub struct PairPanels {
    /// Layout of a panel.
    pub layout: Layout,
    /// Groups of a panel with all its parts.
    pub len: usize,
    /// Blocks of a line.
    pub depth: usize,
}

/// Packs lines that are the columns of a matrix, row by row, into panels in the order of pairs, with
/// zeros beyond the lines and their numbers.
///
/// # Panics
///
/// If lines are not side by side, or there is no room for them.
pub fn pack_pairs<T: Number>(
    proof: Avx512Bf16,
    lines: Matrix<'_, T>,
    panels: PairPanels,
    room: &mut [MaybeUninit<Group>],
) {
    let PairPanels { layout, len, depth } = panels;
    assert!(layout.order == Order::Pairs && lines.row_stride == 1, "order of pairs");
    assert!(lines.columns <= depth * BLOCK_DEPTH, "depth of a panel");
    assert!(lines.rows <= room.len() / len * layout.lines, "number of panels");
    vectors::pack_pairs(proof, lines, panels, room);
}

/// Packs a block in plain loops.
fn plain<T: Number>(
    lines: Matrix<'_, T>,
    order: Order,
    high: &mut [MaybeUninit<Group>],
    mut low: Option<&mut [MaybeUninit<Group>]>,
    stride: usize,
) {
    let parts = |line: usize, k: usize| {
        let is_inside = line < lines.rows && k < lines.columns;
        if is_inside { lines.at(line, k).parts() } else { [0, 0] }
    };
    for group in 0..BLOCK_LINES {
        let numbers: [[u16; 2]; BLOCK_DEPTH] = std::array::from_fn(|i| match order {
            Order::Pairs => parts(i / 2, 2 * group + i % 2),
            Order::Lines => parts(group, i),
        });
        high[group * stride].write(Group(numbers.map(|[high, _]| high)));
        if let Some(low) = &mut low {
            low[group * stride].write(Group(numbers.map(|[_, low]| low)));
        }
    }
}

/// Rounds to the nearest bf16 number, on a tie to the even one. Subnormal numbers become zero, as
/// in the instructions.
#[inline(always)]
pub fn round(x: f32) -> u16 {
    let bits = x.to_bits();
    let rounded = if x.is_nan() {
        bits | 1 << 22
    } else if x.abs() < f32::MIN_POSITIVE {
        bits & 1 << 31
    } else {
        bits + 0x7fff + (bits >> 16 & 1)
    };
    (rounded >> 16) as u16
}

/// Value of a bf16 number.
#[inline(always)]
pub fn value(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vectors {
    use std::{arch::x86_64::*, mem::transmute};

    use super::*;

    /// Sixteen vectors of 32 bf16 numbers.
    type Block = [__m512i; BLOCK_LINES];

    /// Numbers that are loaded into vectors of bf16 numbers, and what a rounding leaves if there is
    /// another part.
    ///
    /// # Safety of the methods
    ///
    /// The CPU must have the instructions, and the masks must contain only numbers of the slice.
    pub trait Load: Sized {
        /// Loads 32 numbers.
        unsafe fn line<const PARTS: usize>(
            row: *const Self,
            masks: [__mmask16; 2],
        ) -> [__m512i; PARTS];

        /// Loads 16 numbers of each of two rows; those of one that does not exist are zero.
        unsafe fn pair<const PARTS: usize>(
            rows: [Option<*const Self>; 2],
            mask: __mmask16,
        ) -> [__m512i; PARTS];
    }

    impl Load for f32 {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
        #[inline]
        unsafe fn line<const PARTS: usize>(
            row: *const Self,
            masks: [__mmask16; 2],
        ) -> [__m512i; PARTS] {
            // SAFETY: the caller guarantees the numbers.
            unsafe {
                let x = _mm512_maskz_loadu_ps(masks[0], row);
                split(x, _mm512_maskz_loadu_ps(masks[1], row.wrapping_add(16)))
            }
        }

        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
        #[inline]
        unsafe fn pair<const PARTS: usize>(
            rows: [Option<*const Self>; 2],
            mask: __mmask16,
        ) -> [__m512i; PARTS] {
            let [mut x, mut y] = [_mm512_setzero_ps(); 2];
            // SAFETY: the caller guarantees the numbers.
            unsafe {
                if let Some(row) = rows[0] {
                    x = _mm512_maskz_loadu_ps(mask, row);
                }
                if let Some(row) = rows[1] {
                    y = _mm512_maskz_loadu_ps(mask, row);
                }
            }
            split(x, y)
        }
    }

    impl Load for u16 {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
        #[inline]
        unsafe fn line<const PARTS: usize>(
            row: *const Self,
            masks: [__mmask16; 2],
        ) -> [__m512i; PARTS] {
            let mask = u32::from(masks[1]) << 16 | u32::from(masks[0]);
            let mut parts = [_mm512_setzero_si512(); PARTS];
            // SAFETY: the caller guarantees the numbers.
            parts[0] = unsafe { _mm512_maskz_loadu_epi16(mask, row.cast()) };
            parts
        }

        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
        #[inline]
        unsafe fn pair<const PARTS: usize>(
            rows: [Option<*const Self>; 2],
            mask: __mmask16,
        ) -> [__m512i; PARTS] {
            let [mut x, mut y] = [_mm256_setzero_si256(); 2];
            // SAFETY: the caller guarantees the numbers.
            unsafe {
                if let Some(row) = rows[0] {
                    x = _mm256_maskz_loadu_epi16(mask, row.cast());
                }
                if let Some(row) = rows[1] {
                    y = _mm256_maskz_loadu_epi16(mask, row.cast());
                }
            }
            let mut parts = [_mm512_setzero_si512(); PARTS];
            parts[0] = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(x), y);
            parts
        }
    }

    /// See [`super::pack_block`].
    pub(super) fn pack_block<T: Number>(
        _proof: Avx512Bf16,
        lines: Matrix<'_, T>,
        order: Order,
        high: &mut [MaybeUninit<Group>],
        low: Option<&mut [MaybeUninit<Group>]>,
        stride: usize,
    ) {
        let room = (BLOCK_LINES - 1) * stride;
        assert!(high.len() > room && low.as_ref().is_none_or(|low| low.len() > room), "room");
        if lines.row_stride != 1 && lines.column_stride != 1 {
            return plain(lines, order, high, low, stride);
        }
        let high = high.as_mut_ptr().cast();
        let low = low.map(|low| low.as_mut_ptr().cast());
        // SAFETY: there is a proof of the instructions. A matrix lies within its slice, and one
        // of its strides is 1. There is room for 16 groups in `high` and `low`.
        unsafe {
            match (lines.column_stride == 1, low) {
                (true, None) => pack_rows::<T, 1>(lines, order, [high], stride),
                (true, Some(low)) => pack_rows::<T, 2>(lines, order, [high, low], stride),
                (false, None) => pack_columns::<T, 1>(lines, order, [high], stride),
                (false, Some(low)) => pack_columns::<T, 2>(lines, order, [high, low], stride),
            }
        }
    }

    /// # Safety
    ///
    /// There must be room for 16 vectors, `stride` vectors apart.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn store(block: &Block, to: *mut __m512i, stride: usize) {
        for (i, group) in block.iter().enumerate() {
            // SAFETY: the caller guarantees it.
            unsafe { _mm512_store_si512(to.add(i * stride), *group) };
        }
    }

    /// Rows of a matrix between one that is packed and one that is prefetched.
    const ROWS_AHEAD: usize = 16;

    /// Fetches a cache line. Addresses beyond the data have no effect.
    #[inline]
    fn prefetch<T>(place: *const T) {
        // SAFETY: a prefetch accesses no memory that the program can observe, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }

    /// Mask of the first `count` lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn first(count: usize) -> __mmask16 {
        if count >= 16 { !0 } else { (1_u16 << count) - 1 }
    }

    // The loops below have constant bounds, so that they are unrolled and blocks stay in registers.

    /// Packs a block whose lines are contiguous.
    ///
    /// # Safety
    ///
    /// There must be room for 16 vectors, `stride` vectors apart, at each of `to`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[allow(clippy::needless_range_loop)]
    unsafe fn pack_rows<T: Number, const PARTS: usize>(
        lines: Matrix<'_, T>,
        order: Order,
        to: [*mut __m512i; PARTS],
        stride: usize,
    ) {
        let start = lines.data.as_ptr();
        let masks = [first(lines.columns), first(lines.columns.saturating_sub(16))];
        let mut parts = [[_mm512_setzero_si512(); BLOCK_LINES]; PARTS];
        for line in 0..BLOCK_LINES {
            let mut found = [_mm512_setzero_si512(); PARTS];
            if line < lines.rows {
                let row = start.wrapping_add(line * lines.row_stride);
                // The block of the next panel, because rows are too short for the CPU to
                // recognize the order.
                let next = row.wrapping_add(BLOCK_LINES * lines.row_stride);
                prefetch(next);
                prefetch(next.wrapping_add(16));
                // SAFETY: the masks contain only numbers of the row.
                found = unsafe { T::line::<PARTS>(row, masks) };
            }
            for part in 0..PARTS {
                match order {
                    // SAFETY: the caller guarantees the room.
                    Order::Lines => unsafe {
                        _mm512_store_si512(to[part].add(line * stride), found[part]);
                    },
                    Order::Pairs => parts[part][line] = found[part],
                }
            }
        }
        if order == Order::Pairs {
            for part in 0..PARTS {
                // SAFETY: the caller guarantees the room.
                unsafe { store(&transposed(&parts[part]), to[part], stride) };
            }
        }
    }

    /// Packs a block whose lines are the columns of rows in memory.
    ///
    /// # Safety
    ///
    /// Same as [`pack_rows`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[allow(clippy::needless_range_loop)]
    unsafe fn pack_columns<T: Number, const PARTS: usize>(
        lines: Matrix<'_, T>,
        order: Order,
        to: [*mut __m512i; PARTS],
        stride: usize,
    ) {
        let mask = first(lines.rows);
        let mut parts = [[_mm512_setzero_si512(); BLOCK_LINES]; PARTS];
        for pair in 0..BLOCK_LINES {
            let rows = row_pair(lines, pair, 0);
            for row in rows.into_iter().flatten() {
                prefetch(row.wrapping_add(BLOCK_DEPTH * lines.column_stride));
            }
            // SAFETY: the mask contains only numbers of the rows.
            let found = unsafe { T::pair::<PARTS>(rows, mask) };
            for part in 0..PARTS {
                let found = interleave(found[part]);
                match order {
                    // SAFETY: the caller guarantees the room.
                    Order::Pairs => unsafe {
                        _mm512_store_si512(to[part].add(pair * stride), found);
                    },
                    Order::Lines => parts[part][pair] = found,
                }
            }
        }
        if order == Order::Lines {
            for part in 0..PARTS {
                // SAFETY: the caller guarantees the room.
                unsafe { store(&transposed(&parts[part]), to[part], stride) };
            }
        }
    }

    /// Rows in memory of the numbers `2 pair` and `2 pair + 1` of all lines, from `line` on. There are none
    /// beyond the lines, because a masked load from memory that does not exist is slow.
    #[inline(always)]
    fn row_pair<T: Number>(
        lines: Matrix<'_, T>,
        pair: usize,
        line: usize,
    ) -> [Option<*const T>; 2] {
        let start = lines.data.as_ptr().wrapping_add(line);
        let exists = |k: usize| k < lines.columns && line < lines.rows;
        let row = |k: usize| exists(k).then_some(start.wrapping_add(k * lines.column_stride));
        [row(2 * pair), row(2 * pair + 1)]
    }

    /// See [`super::pack_pairs`], which checks the sizes.
    pub(super) fn pack_pairs<T: Number>(
        _proof: Avx512Bf16,
        lines: Matrix<'_, T>,
        panels: PairPanels,
        room: &mut [MaybeUninit<Group>],
    ) {
        let parts = panels.len / (panels.layout.lines * panels.depth);
        // SAFETY: there is a proof of the instructions. A matrix lies within its slice, its lines are
        // side by side, and there is room for the panels.
        unsafe {
            match parts {
                1 => load_pairs::<T, 1>(lines, panels, room),
                _ => load_pairs::<T, 2>(lines, panels, room),
            }
        }
    }

    /// # Safety
    ///
    /// There must be room for the panels, of `PARTS` parts each.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn load_pairs<T: Number, const PARTS: usize>(
        lines: Matrix<'_, T>,
        PairPanels { layout, len, depth }: PairPanels,
        room: &mut [MaybeUninit<Group>],
    ) {
        let blocks = layout.lines / BLOCK_LINES;
        let count = room.len() / len * blocks;
        let to: *mut __m512i = room.as_mut_ptr().cast();
        for pair in 0..depth * BLOCK_LINES {
            for block in 0..count {
                let mask = first(lines.rows.saturating_sub(block * BLOCK_LINES));
                let rows = row_pair(lines, pair, block * BLOCK_LINES);
                for row in rows.into_iter().flatten() {
                    prefetch(row.wrapping_add(ROWS_AHEAD * lines.column_stride));
                }
                // SAFETY: the mask contains only numbers of the rows.
                let rounded = unsafe { T::pair::<PARTS>(rows, mask) };
                for (part, rounded) in rounded.into_iter().enumerate() {
                    let place = block / blocks * len + part * layout.lines * depth;
                    let place = place + pair * blocks + block % blocks;
                    // SAFETY: the caller guarantees the room.
                    unsafe { _mm512_store_si512(to.add(place), interleave(rounded)) };
                }
            }
        }
    }

    /// Rounds 32 numbers, and what the rounding leaves if there is another part.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn split<const PARTS: usize>(x: __m512, y: __m512) -> [__m512i; PARTS] {
        // SAFETY: the types have the same bits.
        let bits = |x| unsafe { transmute::<__m512bh, __m512i>(x) };
        let high = bits(_mm512_cvtne2ps_pbh(y, x));
        let mut parts = [high; PARTS];
        if PARTS > 1 {
            let value =
                |half| _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half)));
            let x = _mm512_sub_ps(x, value(_mm512_castsi512_si256(high)));
            let y = _mm512_sub_ps(y, value(_mm512_extracti64x4_epi64::<1>(high)));
            parts[PARTS - 1] = bits(_mm512_cvtne2ps_pbh(y, x));
        }
        parts
    }

    /// Interleaves both halves of a vector.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn interleave(group: __m512i) -> __m512i {
        const ORDER: [u16; 32] = {
            let mut order = [0; 32];
            let mut i = 0;
            while i < 32 {
                order[i] = (i / 2 + 16 * (i % 2)) as u16;
                i += 1;
            }
            order
        };
        // SAFETY: the types have the same bits.
        let order = unsafe { transmute::<[u16; 32], __m512i>(ORDER) };
        _mm512_permutexvar_epi16(order, group)
    }

    /// Transposes 16 by 16 pairs.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn transposed(rows: &Block) -> Block {
        let mut a = [_mm512_setzero_si512(); 16];
        for i in 0..8 {
            a[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
            a[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
        }
        // `b[4 i + c]` has the columns `c`, `c + 4`, `c + 8` and `c + 12` of the rows from `4 i` on.
        let mut b = [_mm512_setzero_si512(); 16];
        for i in 0..4 {
            b[4 * i] = _mm512_unpacklo_epi64(a[4 * i], a[4 * i + 2]);
            b[4 * i + 1] = _mm512_unpackhi_epi64(a[4 * i], a[4 * i + 2]);
            b[4 * i + 2] = _mm512_unpacklo_epi64(a[4 * i + 1], a[4 * i + 3]);
            b[4 * i + 3] = _mm512_unpackhi_epi64(a[4 * i + 1], a[4 * i + 3]);
        }
        let mut columns = [_mm512_setzero_si512(); 16];
        for c in 0..4 {
            let upper_even = _mm512_shuffle_i32x4::<0x88>(b[c], b[4 + c]);
            let upper_odd = _mm512_shuffle_i32x4::<0xdd>(b[c], b[4 + c]);
            let lower_even = _mm512_shuffle_i32x4::<0x88>(b[8 + c], b[12 + c]);
            let lower_odd = _mm512_shuffle_i32x4::<0xdd>(b[8 + c], b[12 + c]);
            columns[c] = _mm512_shuffle_i32x4::<0x88>(upper_even, lower_even);
            columns[8 + c] = _mm512_shuffle_i32x4::<0xdd>(upper_even, lower_even);
            columns[4 + c] = _mm512_shuffle_i32x4::<0x88>(upper_odd, lower_odd);
            columns[12 + c] = _mm512_shuffle_i32x4::<0xdd>(upper_odd, lower_odd);
        }
        columns
    }
}

/// Other architectures, which have no [`Avx512Bf16`], so that these functions are never called.
#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    use super::*;

    /// Numbers that other architectures load in plain loops.
    pub trait Load {}
    impl Load for f32 {}
    impl Load for u16 {}

    pub(super) fn pack_block<T>(
        _proof: Avx512Bf16,
        _lines: Matrix<'_, T>,
        _order: Order,
        _high: &mut [MaybeUninit<Group>],
        _low: Option<&mut [MaybeUninit<Group>]>,
        _stride: usize,
    ) {
    }

    pub(super) fn pack_pairs<T>(
        _proof: Avx512Bf16,
        _lines: Matrix<'_, T>,
        _panels: PairPanels,
        _room: &mut [MaybeUninit<Group>],
    ) {
    }
}
