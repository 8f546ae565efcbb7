//! Products with the instructions of AVX512-BF16.

use std::{arch::x86_64::*, mem::transmute};

use super::{super::layout::BLOCK_LINES, *};

/// Rows of a tile, of which a panel has two.
const ROWS: usize = 8;

/// Maximum number of vectors in a row of a tile. 24 sums, three vectors of the right factor and
/// one number of the left fit into the 32 registers.
const VECTORS: usize = 3;

/// One term of a tile: half a panel of the left factor and adjacent panels of the right.
#[derive(Clone, Copy)]
struct Term {
    left: *const i32,
    right: *const Group,
}

/// See [`super::multiply`].
///
/// # Safety
///
/// As for [`super::multiply`]; the factors must be packed for this unit.
pub(super) unsafe fn multiply(
    _proof: Avx512Bf16,
    split: Split,
    [left, right]: [&Panels; 2],
    factor: f32,
    out: Window,
    start: Addend<'_>,
) {
    let pairs = left.inner.div_ceil(2);
    for j in (0..right.count()).step_by(VECTORS) {
        let vectors = (right.count() - j).min(VECTORS);
        let column = j * BLOCK_LINES;
        let columns = (right.lines - column).min(VECTORS * BLOCK_LINES);
        for first in (0..left.lines).step_by(ROWS) {
            let rows = (left.lines - first).min(ROWS);
            let mut terms = [Term { left: std::ptr::null(), right: std::ptr::null() }; 3];
            let count = split.terms().len();
            for (term, &[a, b]) in terms.iter_mut().zip(split.terms()) {
                let panel = left.panels(first / BLOCK_LINES, 1, a);
                *term = Term {
                    left: panel.as_ptr().cast::<i32>().wrapping_add(first % BLOCK_LINES),
                    right: right.panels(j, vectors, b).as_ptr(),
                };
            }
            // SAFETY: the tile is within the product, and the panels have been found.
            unsafe {
                let tile = Tile {
                    terms: &terms[..count],
                    pairs,
                    panel_stride: right.panel_stride(),
                    rows,
                    last: !0 >> (vectors * BLOCK_LINES - columns),
                    factor,
                    out: Window {
                        data: out.data.add(first * out.row_stride + column),
                        row_stride: out.row_stride,
                    },
                    start: match start {
                        Addend::Bias(bias) => Addend::Bias(&bias[column..][..columns]),
                        Addend::Zero | Addend::Content => start,
                    },
                };
                match vectors {
                    1 => tile.compute::<1>(),
                    2 => tile.compute::<2>(),
                    _ => tile.compute::<VECTORS>(),
                }
            }
        }
    }
}

/// Writes `start + factor · sums` for the rows and columns of a block that exist.
///
/// # Safety
///
/// The output must be valid for writing them, and with [`Addend::Content`] for reading them.
pub(super) unsafe fn finish(
    _proof: Avx512Bf16,
    sums: &Sums,
    [rows, columns]: [usize; 2],
    factor: f32,
    out: Window,
    start: Addend<'_>,
) {
    let start = match start {
        Addend::Zero | Addend::Content => start,
        Addend::Bias(bias) => Addend::Bias(&bias[..columns]),
    };
    // SAFETY: there is a proof of the instructions, and the caller guarantees the output.
    unsafe { finish_rows(sums, [rows, columns], factor, out, start) };
}

/// # Safety
///
/// As for [`finish`]; a bias must have all columns.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
unsafe fn finish_rows(
    sums: &Sums,
    [rows, columns]: [usize; 2],
    factor: f32,
    out: Window,
    start: Addend<'_>,
) {
    let factor = _mm512_set1_ps(factor);
    for (first, lane) in [0, BLOCK_LINES].into_iter().enumerate() {
        let mask = match columns.saturating_sub(lane) {
            0 => break,
            1..BLOCK_LINES => (1_u16 << (columns - lane)) - 1,
            _ => !0,
        };
        for (row, sums) in sums.0.iter().take(rows).enumerate() {
            let sums = &sums.as_chunks::<BLOCK_LINES>().0[first];
            // SAFETY: the caller guarantees the output; the bias has the lanes of the mask.
            unsafe {
                let y = out.data.add(row * out.row_stride + lane);
                let product = _mm512_mul_ps(_mm512_loadu_ps(sums.as_ptr()), factor);
                add_and_store(y, mask, product, start, lane);
            }
        }
    }
}

/// Writes the lanes of `mask` of `start + product`.
///
/// # Safety
///
/// `y`, and a bias from `lane` on, must have the lanes of the mask.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
#[inline]
unsafe fn add_and_store(
    y: *mut f32,
    mask: __mmask16,
    product: __m512,
    start: Addend<'_>,
    lane: usize,
) {
    // SAFETY: the caller guarantees the lanes.
    unsafe {
        let result = match start {
            Addend::Zero => product,
            Addend::Content => _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), product),
            Addend::Bias(bias) => {
                let bias = _mm512_maskz_loadu_ps(mask, bias.as_ptr().add(lane));
                _mm512_add_ps(bias, product)
            }
        };
        _mm512_mask_storeu_ps(y, mask, result);
    }
}

struct Tile<'a> {
    terms: &'a [Term],
    pairs: usize,
    /// Groups from a panel of the right factor to the next.
    panel_stride: usize,
    /// Rows that are written.
    rows: usize,
    /// Lanes of the last vector that are written.
    last: __mmask16,
    factor: f32,
    out: Window,
    start: Addend<'a>,
}

impl Tile<'_> {
    /// # Safety
    ///
    /// The panels must have `pairs` groups, and the output must be valid for the lanes that are
    /// written.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn compute<const V: usize>(&self) {
        let mut sums = [[_mm512_setzero_ps(); V]; ROWS];
        for term in self.terms {
            for pair in 0..self.pairs {
                let mut right = [_mm512_setzero_si512(); V];
                for (v, right) in right.iter_mut().enumerate() {
                    // SAFETY: the caller guarantees it; groups are aligned.
                    *right = unsafe {
                        _mm512_load_si512(term.right.add(v * self.panel_stride + pair).cast())
                    };
                }
                for (row, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: as above.
                    unsafe {
                        let left = *term.left.add(pair * BLOCK_LINES + row);
                        let left: __m512bh = transmute(_mm512_set1_epi32(left));
                        for (sum, right) in sums.iter_mut().zip(right) {
                            *sum =
                                _mm512_dpbf16_ps(*sum, left, transmute::<__m512i, __m512bh>(right));
                        }
                    }
                }
            }
        }
        let factor = _mm512_set1_ps(self.factor);
        for (row, sums) in sums.iter().enumerate() {
            if row >= self.rows {
                break;
            }
            // SAFETY: the caller guarantees the output; the bias has the lanes of the mask.
            unsafe {
                let y = self.out.data.add(row * self.out.row_stride);
                for (v, sum) in sums.iter().enumerate() {
                    let lane = v * BLOCK_LINES;
                    let mask = if v + 1 < V { !0 } else { self.last };
                    let product = _mm512_mul_ps(*sum, factor);
                    add_and_store(y.add(lane), mask, product, self.start, lane);
                }
            }
        }
    }
}
