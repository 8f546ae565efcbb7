//! Kernel with the 128-bit vectors of WebAssembly.
// Loops over constant ranges are unrolled, which keeps the sums in registers.
#![allow(clippy::needless_range_loop)]

use std::{
    arch::wasm32::{
        i8x16, i16x8, i16x8_extend_high_i8x16, i16x8_extend_low_i8x16, i32x4, i32x4_add,
        i32x4_dot_i16x8, i32x4_shuffle, v128,
    },
    array,
};

use super::Product;
use crate::{layout::PANEL, quantized_rows::ZERO};

/// Vectors of four columns that a tile computes, with two sums for each column.
const VECTORS: usize = 4;

/// Columns of a tile.
const WIDTH: usize = 4 * VECTORS;

/// Maximum number of rows of a tile.
const ROWS: usize = 2;

/// The kernel. Vectors are a property of the compiled module, not of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Simd128;

impl Simd128 {
    pub(super) fn multiply(self, product: &mut Product<'_>) {
        let (inputs, count) = (product.inputs(), product.rows());
        for (index, panel) in product.panels.chunks_exact(PANEL * inputs).enumerate() {
            let mut first = 0;
            while first < count {
                let rows = ROWS.min(count - first);
                match rows {
                    1 => rows_of_panel::<1>(product, panel, index, first),
                    _ => rows_of_panel::<ROWS>(product, panel, index, first),
                }
                first += rows;
            }
        }
    }
}

/// Computes `R` rows of `y` from row `first` on in the columns of panel `index`.
fn rows_of_panel<const R: usize>(
    product: &mut Product<'_>,
    panel: &[u8],
    index: usize,
    first: usize,
) {
    let inputs = product.inputs();
    let groups = panel.as_chunks::<{ 4 * PANEL }>().0;
    let x: [&[[u8; 4]]; R] = array::from_fn(|row| {
        &product.x.bytes[(first + row) * inputs..][..inputs].as_chunks().0[..groups.len()]
    });
    let mut stored = [[0; PANEL]; R];
    for part in 0..PANEL / WIDTH {
        let sums = tile(groups, 4 * WIDTH * part, x);
        for row in 0..R {
            stored[row][WIDTH * part..][..WIDTH].copy_from_slice(sums[row].as_flattened());
        }
    }
    for (row, sums) in stored.iter().enumerate() {
        product.finish(first + row, index, sums);
    }
}

/// Sums of products of `R` rows with the columns whose weights begin at byte `start` of each group of
/// four inputs.
#[inline(always)]
fn tile<const R: usize>(
    groups: &[[u8; 4 * PANEL]],
    start: usize,
    x: [&[[u8; 4]]; R],
) -> [[[i32; 4]; VECTORS]; R] {
    // For each column the sums of the first and the last two of four inputs.
    let mut sums = [[[i32x4(0, 0, 0, 0); 2]; VECTORS]; R];
    for (group, weights) in groups.iter().enumerate() {
        let weights: &[[u8; 16]] = weights[start..][..4 * WIDTH].as_chunks().0;
        // Without the byte that stands for zero. Zeros of the padding become −128, which is multiplied by
        // weights of zero.
        let x: [v128; R] = array::from_fn(|row| {
            let [a, b, c, d] = x[row][group].map(|byte| i16::from((byte ^ ZERO) as i8));
            i16x8(a, b, c, d, a, b, c, d)
        });
        for v in 0..VECTORS {
            let weights = vector(&weights[v]);
            let halves = [i16x8_extend_low_i8x16(weights), i16x8_extend_high_i8x16(weights)];
            for row in 0..R {
                for half in 0..2 {
                    let products = i32x4_dot_i16x8(halves[half], x[row]);
                    sums[row][v][half] = i32x4_add(sums[row][v][half], products);
                }
            }
        }
    }
    sums.map(|sums| {
        sums.map(|[low, high]| {
            let even = i32x4_shuffle::<0, 2, 4, 6>(low, high);
            let odd = i32x4_shuffle::<1, 3, 5, 7>(low, high);
            array_of(i32x4_add(even, odd))
        })
    })
}

/// Loads a vector. The compiler turns it into one instruction.
#[inline(always)]
fn vector(bytes: &[u8; 16]) -> v128 {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes.map(|byte| byte as i8);
    i8x16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

/// Elements of a vector.
#[inline(always)]
fn array_of(vector: v128) -> [i32; 4] {
    use std::arch::wasm32::i32x4_extract_lane;

    [
        i32x4_extract_lane::<0>(vector),
        i32x4_extract_lane::<1>(vector),
        i32x4_extract_lane::<2>(vector),
        i32x4_extract_lane::<3>(vector),
    ]
}
