//! Rounding of blocks of a factor to bf16, in the order of a unit.

use std::mem::MaybeUninit;

use super::{
    panels::{BLOCK_DEPTH, BLOCK_LINES, Group, Layout, Order},
    unit::{Avx512Bf16, Unit},
};
use crate::kernels::matrix::Matrix;

/// Packs the rows of `lines`, of which there are at most 16 with at most 32 numbers, and zeros
/// beyond them. The groups of the block are `stride` apart in `high`, and those of the low parts in
/// `low`.
///
/// # Panics
///
/// If the matrix is larger, or there is no room for 16 groups.
pub fn pack_block(
    unit: Unit,
    lines: Matrix<'_>,
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
pub fn pack_pairs(
    proof: Avx512Bf16,
    lines: Matrix<'_>,
    panels: PairPanels,
    room: &mut [MaybeUninit<Group>],
) {
    vectors::pack_pairs(proof, lines, panels, room);
}

/// Packs a block in plain loops.
fn plain(
    lines: Matrix<'_>,
    order: Order,
    high: &mut [MaybeUninit<Group>],
    mut low: Option<&mut [MaybeUninit<Group>]>,
    stride: usize,
) {
    let number = |line: usize, k: usize| {
        let is_inside = line < lines.rows && k < lines.columns;
        if is_inside { lines.at(line, k) } else { 0.0 }
    };
    for group in 0..BLOCK_LINES {
        let numbers: [f32; BLOCK_DEPTH] = std::array::from_fn(|i| match order {
            Order::Pairs => number(i / 2, 2 * group + i % 2),
            Order::Lines => number(group, i),
        });
        let rounded = numbers.map(round);
        high[group * stride].write(Group(rounded));
        if let Some(low) = &mut low {
            let rest = std::array::from_fn(|i| round(numbers[i] - value(rounded[i])));
            low[group * stride].write(Group(rest));
        }
    }
}

/// Rounds to the nearest bf16 number, on a tie to the even one. Subnormal numbers become zero, as
/// in the instructions.
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

    /// See [`super::pack_block`].
    pub(super) fn pack_block(
        proof: Avx512Bf16,
        lines: Matrix<'_>,
        order: Order,
        high: &mut [MaybeUninit<Group>],
        low: Option<&mut [MaybeUninit<Group>]>,
        stride: usize,
    ) {
        let room = (BLOCK_LINES - 1) * stride;
        assert!(high.len() > room && low.as_ref().is_none_or(|low| low.len() > room), "room");
        if lines.row_stride != 1 && lines.column_stride != 1 {
            let mut copy = [0.0; BLOCK_LINES * BLOCK_DEPTH];
            for line in 0..lines.rows {
                for k in 0..lines.columns {
                    copy[line * BLOCK_DEPTH + k] = lines.at(line, k);
                }
            }
            let copy = Matrix::with_strides(&copy, [lines.rows, lines.columns], [BLOCK_DEPTH, 1]);
            return pack_block(proof, copy, order, high, low, stride);
        }
        let high = high.as_mut_ptr().cast();
        let low = low.map(|low| low.as_mut_ptr().cast());
        // SAFETY: there is a proof of the instructions. A matrix lies within its slice, and one
        // of its strides is 1. There is room for 16 groups in `high` and `low`.
        unsafe {
            match low {
                None => {
                    let [block] = round::<1>(lines, order);
                    store(&block, high, stride);
                }
                Some(low) => {
                    let [block, rest] = round::<2>(lines, order);
                    store(&block, high, stride);
                    store(&rest, low, stride);
                }
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
    fn prefetch(place: *const f32) {
        // SAFETY: a prefetch accesses no memory that the program can observe, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }

    /// Mask of the first `count` lanes.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn first(count: usize) -> __mmask16 {
        if count >= 16 { !0 } else { (1_u16 << count) - 1 }
    }

    /// # Safety
    ///
    /// One of the strides must be 1.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    unsafe fn round<const PARTS: usize>(lines: Matrix<'_>, order: Order) -> [Block; PARTS] {
        let zero = _mm512_setzero_ps();
        let mut parts = [[_mm512_setzero_si512(); BLOCK_LINES]; PARTS];
        let start = lines.data.as_ptr();
        if lines.column_stride == 1 {
            let masks = [first(lines.columns), first(lines.columns.saturating_sub(16))];
            for line in 0..BLOCK_LINES {
                let [mut x, mut y] = [zero, zero];
                if line < lines.rows {
                    let row = start.wrapping_add(line * lines.row_stride);
                    // The block of the next panel, because rows are too short for the CPU to
                    // recognize the order.
                    let next = row.wrapping_add(BLOCK_LINES * lines.row_stride);
                    prefetch(next);
                    prefetch(next.wrapping_add(16));
                    // SAFETY: the masks contain only numbers of the row.
                    unsafe {
                        x = _mm512_maskz_loadu_ps(masks[0], row);
                        y = _mm512_maskz_loadu_ps(masks[1], row.wrapping_add(16));
                    }
                }
                for (part, rounded) in parts.iter_mut().zip(split::<PARTS>(x, y)) {
                    part[line] = rounded;
                }
            }
        } else {
            let mask = first(lines.rows);
            for pair in 0..BLOCK_LINES {
                let mut numbers = [zero, zero];
                for (i, numbers) in numbers.iter_mut().enumerate() {
                    let k = 2 * pair + i;
                    if k < lines.columns {
                        let column = start.wrapping_add(k * lines.column_stride);
                        // SAFETY: the mask contains only numbers of the column.
                        *numbers = unsafe { _mm512_maskz_loadu_ps(mask, column) };
                    }
                }
                let rounded = split::<PARTS>(numbers[0], numbers[1]);
                for (part, rounded) in parts.iter_mut().zip(rounded) {
                    part[pair] = interleave(rounded);
                }
            }
        }
        let found = if lines.column_stride == 1 { Order::Lines } else { Order::Pairs };
        if found != order {
            for part in &mut parts {
                *part = transposed(part);
            }
        }
        parts
    }

    /// See [`super::pack_pairs`].
    pub(super) fn pack_pairs(
        _proof: Avx512Bf16,
        lines: Matrix<'_>,
        panels: PairPanels,
        room: &mut [MaybeUninit<Group>],
    ) {
        let PairPanels { layout, len, depth } = panels;
        assert!(layout.order == Order::Pairs && lines.row_stride == 1, "order of pairs");
        assert!(lines.columns <= depth * BLOCK_DEPTH, "depth of a panel");
        assert!(lines.rows <= room.len() / len * layout.lines, "number of panels");
        let parts = len / (layout.lines * depth);
        // SAFETY: there is a proof of the instructions. A matrix lies within its slice, its lines are
        // side by side, and there is room for the panels.
        unsafe {
            match parts {
                1 => round_pairs::<1>(lines, panels, room),
                _ => round_pairs::<2>(lines, panels, room),
            }
        }
    }

    /// # Safety
    ///
    /// There must be room for the panels, of `PARTS` parts each.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn round_pairs<const PARTS: usize>(
        lines: Matrix<'_>,
        PairPanels { layout, len, depth }: PairPanels,
        room: &mut [MaybeUninit<Group>],
    ) {
        let blocks = layout.lines / BLOCK_LINES;
        let count = room.len() / len * blocks;
        let to: *mut __m512i = room.as_mut_ptr().cast();
        let start = lines.data.as_ptr();
        for pair in 0..depth * BLOCK_LINES {
            for block in 0..count {
                let mask = first(lines.rows.saturating_sub(block * BLOCK_LINES));
                let mut numbers = [_mm512_setzero_ps(); 2];
                for (i, numbers) in numbers.iter_mut().enumerate() {
                    let k = 2 * pair + i;
                    if k < lines.columns {
                        let place = k * lines.column_stride + block * BLOCK_LINES;
                        prefetch(start.wrapping_add(place + ROWS_AHEAD * lines.column_stride));
                        // SAFETY: the mask contains only numbers of the row.
                        *numbers =
                            unsafe { _mm512_maskz_loadu_ps(mask, start.wrapping_add(place)) };
                    }
                }
                let rounded = split::<PARTS>(numbers[0], numbers[1]);
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

/// Other architectures, which have no [`Avx512Bf16`].
#[cfg(not(target_arch = "x86_64"))]
mod vectors {
    use super::*;

    pub(super) fn pack_block(
        proof: Avx512Bf16,
        _lines: Matrix<'_>,
        _order: Order,
        _high: &mut [MaybeUninit<Group>],
        _low: Option<&mut [MaybeUninit<Group>]>,
        _stride: usize,
    ) {
        match proof.absurd() {}
    }

    pub(super) fn pack_pairs(
        proof: Avx512Bf16,
        _lines: Matrix<'_>,
        _panels: PairPanels,
        _room: &mut [MaybeUninit<Group>],
    ) {
        match proof.absurd() {}
    }
}
