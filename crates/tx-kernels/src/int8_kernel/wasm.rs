//! Kernel with the 128-bit vectors of WebAssembly.
// Loops over constant ranges are unrolled, which keeps the sums in registers.
#![allow(clippy::needless_range_loop)]

use std::{
    arch::wasm32::{
        i8x16, i16x8_extend_high_i8x16, i16x8_extend_low_i8x16, i32x4, i32x4_add, i32x4_dot_i16x8,
        i32x4_extract_lane, i32x4_shuffle, u64x2_splat, v128,
    },
    array,
};

use super::Product;
use crate::{layout::PANEL, quantized_rows::ZERO};

/// Maximum number of rows of a tile. With two vectors of columns, a tile has 12 vectors of sums, which
/// the 16 registers of x86-64 hold beside the operands.
const ROWS: usize = 3;

/// The kernel. Vectors are a property of the compiled module, not of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Simd128;

impl Simd128 {
    pub(super) fn multiply(self, product: &mut Product<'_>) {
        let (inputs, count) = (product.inputs(), product.rows());
        let x = widened(&product.x.bytes);
        let groups = inputs / 4;
        for (index, panel) in product.panels.chunks_exact(PANEL * inputs).enumerate() {
            let panel = panel.as_chunks().0;
            let mut first = 0;
            while first < count {
                let rows = ROWS.min(count - first);
                let x = &x[first * groups..][..rows * groups];
                match rows {
                    1 => multiply_rows::<1, 4>(product, panel, x, index, first),
                    2 => multiply_rows::<2, 2>(product, panel, x, index, first),
                    _ => multiply_rows::<ROWS, 2>(product, panel, x, index, first),
                }
                first += rows;
            }
        }
    }
}

/// Four bytes of input at a time, as four signed numbers of 16 bits, without the byte that stands for
/// zero. Zeros of the padding become −128, which is multiplied by weights of zero.
fn widened(bytes: &[u8]) -> Vec<u64> {
    let wide = |group: &[u8; 4]| {
        let [a, b, c, d] = group.map(|byte| u64::from(i16::from((byte ^ ZERO) as i8) as u16));
        a | b << 16 | c << 32 | d << 48
    };
    bytes.as_chunks().0.iter().map(wide).collect()
}

/// Computes `R` rows of `y` from row `first` on in the columns of panel `index`, `V` vectors of four
/// columns at a time.
fn multiply_rows<const R: usize, const V: usize>(
    product: &mut Product<'_>,
    panel: &[[u8; 4 * PANEL]],
    x: &[u64],
    index: usize,
    first: usize,
) {
    let sums = sums_of_rows(panel, x, tile::<R, V>);
    for (row, sums) in sums.iter().enumerate() {
        product.finish(first + row, index, sums);
    }
}

/// Sums of `R` rows in the columns of a panel, which `tile` computes for `V` vectors of four columns at a time. `X` are four
/// inputs.
#[inline(always)]
pub(super) fn sums_of_rows<X, const R: usize, const V: usize>(
    panel: &[[u8; 4 * PANEL]],
    x: &[X],
    tile: impl Fn(&[[u8; 4 * PANEL]], usize, [&[X]; R]) -> [[[i32; 4]; V]; R],
) -> [[i32; PANEL]; R] {
    let x: [&[X]; R] = array::from_fn(|row| &x[row * panel.len()..][..panel.len()]);
    let mut sums = [[0; PANEL]; R];
    for part in 0..PANEL / (4 * V) {
        let found = tile(panel, 16 * V * part, x);
        for row in 0..R {
            sums[row][4 * V * part..][..4 * V].copy_from_slice(found[row].as_flattened());
        }
    }
    sums
}

/// Sums of products of `R` rows with the columns whose weights begin at byte `start` of each group of
/// four inputs.
#[inline(always)]
fn tile<const R: usize, const V: usize>(
    panel: &[[u8; 4 * PANEL]],
    start: usize,
    x: [&[u64]; R],
) -> [[[i32; 4]; V]; R] {
    // For each column the sums of the first and the last two of four inputs.
    let mut sums = [[[i32x4(0, 0, 0, 0); 2]; V]; R];
    for (group, weights) in panel.iter().enumerate() {
        let weights: &[[u8; 16]] = weights[start..][..16 * V].as_chunks().0;
        for v in 0..V {
            let weights = vector(&weights[v]);
            let halves = [i16x8_extend_low_i8x16(weights), i16x8_extend_high_i8x16(weights)];
            for row in 0..R {
                let x = u64x2_splat(x[row][group]);
                for half in 0..2 {
                    let products = i32x4_dot_i16x8(halves[half], x);
                    sums[row][v][half] = i32x4_add(sums[row][v][half], products);
                }
            }
        }
    }
    sums.map(|sums| {
        sums.map(|[low, high]| {
            let even = i32x4_shuffle::<0, 2, 4, 6>(low, high);
            let odd = i32x4_shuffle::<1, 3, 5, 7>(low, high);
            elements(i32x4_add(even, odd))
        })
    })
}

/// Loads a vector. The compiler turns it into one instruction.
#[inline(always)]
pub(super) fn vector(bytes: &[u8; 16]) -> v128 {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes.map(|byte| byte as i8);
    i8x16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

#[inline(always)]
pub(super) fn elements(vector: v128) -> [i32; 4] {
    [
        i32x4_extract_lane::<0>(vector),
        i32x4_extract_lane::<1>(vector),
        i32x4_extract_lane::<2>(vector),
        i32x4_extract_lane::<3>(vector),
    ]
}
