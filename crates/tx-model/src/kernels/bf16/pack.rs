//! Rounding of blocks of a factor to bf16, in the order of a unit.

use std::mem::MaybeUninit;

use super::{
    panels::{BLOCK_DEPTH, BLOCK_LINES, Group, Order},
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
        _proof: Avx512Bf16,
        lines: Matrix<'_>,
        order: Order,
        high: &mut [MaybeUninit<Group>],
        low: Option<&mut [MaybeUninit<Group>]>,
        stride: usize,
    ) {
        let room = (BLOCK_LINES - 1) * stride;
        assert!(high.len() > room && low.as_ref().is_none_or(|low| low.len() > room), "room");
        let mut copy = [0.0; BLOCK_LINES * BLOCK_DEPTH];
        let lines = if lines.row_stride == 1 || lines.column_stride == 1 {
            lines
        } else {
            for line in 0..lines.rows {
                for k in 0..lines.columns {
                    copy[line * BLOCK_DEPTH + k] = lines.at(line, k);
                }
            }
            Matrix::with_strides(&copy, [lines.rows, lines.columns], [BLOCK_DEPTH, 1])
        };
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
                    // SAFETY: the masks contain only numbers of the row.
                    unsafe {
                        x = _mm512_maskz_loadu_ps(masks[0], row);
                        y = _mm512_maskz_loadu_ps(masks[1], row.wrapping_add(16));
                    }
                }
                split(x, y, line, &mut parts);
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
                split(numbers[0], numbers[1], pair, &mut parts);
            }
            for part in &mut parts {
                interleave(part);
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

    /// Rounds 32 numbers, and what the rounding leaves if there is another part.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn split<const PARTS: usize>(x: __m512, y: __m512, i: usize, parts: &mut [Block; PARTS]) {
        // SAFETY: the types have the same bits.
        let high: __m512i = unsafe { transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(y, x)) };
        parts[0][i] = high;
        if PARTS > 1 {
            let value = |half| _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(half));
            let rest_x = _mm512_sub_ps(x, _mm512_castsi512_ps(value(_mm512_castsi512_si256(high))));
            let rest_y =
                _mm512_sub_ps(y, _mm512_castsi512_ps(value(_mm512_extracti64x4_epi64::<1>(high))));
            // SAFETY: as above.
            parts[PARTS - 1][i] =
                unsafe { transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(rest_y, rest_x)) };
        }
    }

    /// Interleaves both halves of each vector.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    #[inline]
    fn interleave(block: &mut Block) {
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
        for group in block {
            *group = _mm512_permutexvar_epi16(order, *group);
        }
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
}
