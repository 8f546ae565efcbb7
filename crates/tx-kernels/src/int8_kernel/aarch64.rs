//! Kernel with the instruction `sdot` of ARM, as inline assembly because its intrinsic is not
//! stable.
#![allow(unsafe_code)]
// Loops over constant ranges are unrolled, which keeps the sums in registers.
#![allow(clippy::needless_range_loop)]

use std::{
    arch::{
        aarch64::{
            int8x16_t, int32x4_t, vdupq_n_s32, vdupq_n_u8, veorq_u8, vld1q_s8, vld1q_u8,
            vreinterpretq_s8_u8, vst1q_s32,
        },
        asm,
    },
    array,
};

use super::Product;
use crate::{layout::PANEL, quantized_rows::ZERO};

/// Vectors of a panel.
const VECTORS: usize = PANEL / 4;

/// Maximum number of rows of a tile. With four vectors of columns, a tile has 20 vectors of sums, which the 32
/// registers hold beside the operands.
const ROWS: usize = 5;

/// Proof that the CPU has `sdot`.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeonDot(());

impl NeonDot {
    pub(super) fn new() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("dotprod").then_some(Self(()))
    }

    pub(super) fn multiply(self, product: &mut Product<'_>) {
        #[target_feature(enable = "neon,dotprod")]
        fn run(product: &mut Product<'_>) {
            let (inputs, count) = (product.inputs(), product.rows());
            // Tiles of similar height, because a low one does not fill the pipeline.
            let height = count.div_ceil(count.div_ceil(ROWS).max(1)).max(1);
            for (index, panel) in product.panels.chunks_exact(PANEL * inputs).enumerate() {
                let groups = panel.as_chunks::<{ 4 * PANEL }>().0.as_chunks().0;
                let mut first = 0;
                while first < count {
                    let rows = height.min(count - first);
                    match rows {
                        1 => multiply_rows::<1, VECTORS>(product, groups, index, first),
                        2 => multiply_rows::<2, VECTORS>(product, groups, index, first),
                        3 => multiply_rows::<3, 4>(product, groups, index, first),
                        4 => multiply_rows::<4, 4>(product, groups, index, first),
                        _ => multiply_rows::<ROWS, 4>(product, groups, index, first),
                    }
                    first += rows;
                }
            }
        }
        // SAFETY: `new` has found the instructions.
        unsafe { run(product) }
    }
}

/// Computes `R` rows of `y` from row `first` on in the columns of panel `index`, `V` vectors at a time.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn multiply_rows<const R: usize, const V: usize>(
    product: &mut Product<'_>,
    panel: &[[[u8; 4 * PANEL]; 4]],
    index: usize,
    first: usize,
) {
    let inputs = product.inputs();
    let x: [&[[u8; 16]]; R] = array::from_fn(|row| {
        &product.x.bytes[(first + row) * inputs..][..inputs].as_chunks().0[..panel.len()]
    });
    let mut sums = [[0; PANEL]; R];
    for part in 0..VECTORS / V {
        let found = tile::<R, V>(panel, V * part, x);
        for row in 0..R {
            let to = sums[row].as_chunks_mut::<4>().0[V * part..].iter_mut();
            for (to, sums) in to.zip(found[row]) {
                // SAFETY: the array has four sums.
                unsafe { vst1q_s32(to.as_mut_ptr(), sums) };
            }
        }
    }
    for (row, sums) in sums.iter().enumerate() {
        product.finish(first + row, index, sums);
    }
}

/// Sums of products of `R` rows with the columns of `V` vectors from vector `start` of a panel, of which 16 inputs are read
/// at a time.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn tile<const R: usize, const V: usize>(
    panel: &[[[u8; 4 * PANEL]; 4]],
    start: usize,
    x: [&[[u8; 16]]; R],
) -> [[int32x4_t; V]; R] {
    let zero = vdupq_n_u8(ZERO);
    let mut sums = [[vdupq_n_s32(0); V]; R];
    for (step, weights) in panel.iter().enumerate() {
        // The instruction multiplies signed bytes: without the byte that stands for zero. Zeros of the padding
        // become −128, which is multiplied by weights of zero.
        let x: [int8x16_t; R] = array::from_fn(|row| {
            // SAFETY: the array has 16 bytes.
            let bytes = unsafe { vld1q_u8(x[row][step].as_ptr()) };
            vreinterpretq_s8_u8(veorq_u8(bytes, zero))
        });
        add_products::<R, V, 0>(&mut sums, &weights[0], start, x);
        add_products::<R, V, 1>(&mut sums, &weights[1], start, x);
        add_products::<R, V, 2>(&mut sums, &weights[2], start, x);
        add_products::<R, V, 3>(&mut sums, &weights[3], start, x);
    }
    sums
}

/// Adds to all sums of a tile the products with the four inputs in a quarter of `x`.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn add_products<const R: usize, const V: usize, const QUARTER: usize>(
    sums: &mut [[int32x4_t; V]; R],
    weights: &[u8; 4 * PANEL],
    start: usize,
    x: [int8x16_t; R],
) {
    for v in 0..V {
        let weights = &weights[16 * (start + v)..][..16];
        // SAFETY: the slice has 16 bytes.
        let weights = unsafe { vld1q_s8(weights.as_ptr().cast()) };
        for row in 0..R {
            sums[row][v] = dot::<QUARTER>(sums[row][v], weights, x[row]);
        }
    }
}

/// Adds to each sum the products of four signed bytes of `weights` and of a quarter of `x`.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot<const QUARTER: usize>(mut sums: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the function is compiled for CPUs with the instruction, which changes `sums` only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {weights:v}.16b, {x:v}.4b[{quarter}]",
            sums = inout(vreg) sums,
            weights = in(vreg) weights,
            x = in(vreg) x,
            quarter = const QUARTER,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}
