//! Kernel with the instruction `sdot` of ARM, as inline assembly because its intrinsic is not
//! stable.
#![allow(unsafe_code)]
// Loops over constant ranges are unrolled, which keeps the sums in registers.
#![allow(clippy::needless_range_loop)]

use std::{
    arch::{
        aarch64::{int8x16_t, int32x4_t, vdupq_n_s32, vld1q_s8, vreinterpretq_s8_s32, vst1q_s32},
        asm,
    },
    array,
};

use super::Product;
use crate::{layout::PANEL, quantized_rows::ZERO};

/// Vectors of a panel.
const VECTORS: usize = PANEL / 4;

/// Maximum number of rows of a tile: 16 vectors of sums.
const ROWS: usize = 2;

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
            for (index, panel) in product.panels.chunks_exact(PANEL * inputs).enumerate() {
                let mut first = 0;
                while first < count {
                    let rows = ROWS.min(count - first);
                    match rows {
                        1 => tile::<1>(product, panel, index, first),
                        _ => tile::<ROWS>(product, panel, index, first),
                    }
                    first += rows;
                }
            }
        }
        // SAFETY: `new` has found the instructions.
        unsafe { run(product) }
    }
}

/// Computes `R` rows of `y` from row `first` on in the columns of panel `index`.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn tile<const R: usize>(product: &mut Product<'_>, panel: &[u8], index: usize, first: usize) {
    let inputs = product.inputs();
    let groups = panel.as_chunks::<{ 4 * PANEL }>().0;
    let x: [&[[u8; 4]]; R] = array::from_fn(|row| {
        &product.x.bytes[(first + row) * inputs..][..inputs].as_chunks().0[..groups.len()]
    });
    let mut sums = [[vdupq_n_s32(0); VECTORS]; R];
    for (group, weights) in groups.iter().enumerate() {
        let weights: [int8x16_t; VECTORS] = array::from_fn(|v| {
            let weights = &weights[16 * v..][..16];
            // SAFETY: the slice has 16 bytes.
            unsafe { vld1q_s8(weights.as_ptr().cast()) }
        });
        for row in 0..R {
            // The instruction multiplies signed bytes: without the byte that stands for zero. Zeros
            // of the padding become −128, which is multiplied by weights of zero.
            let bytes = x[row][group].map(|byte| byte ^ ZERO);
            let bytes = vreinterpretq_s8_s32(vdupq_n_s32(i32::from_le_bytes(bytes)));
            for v in 0..VECTORS {
                sums[row][v] = dot(sums[row][v], weights[v], bytes);
            }
        }
    }
    for (row, sums) in sums.into_iter().enumerate() {
        let mut stored = [0; PANEL];
        for (to, sums) in stored.as_chunks_mut::<4>().0.iter_mut().zip(sums) {
            // SAFETY: the array has four sums.
            unsafe { vst1q_s32(to.as_mut_ptr(), sums) };
        }
        product.finish(first + row, index, &stored);
    }
}

/// Adds to each sum the products of four signed bytes of `weights` and of `x`.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn dot(mut sums: int32x4_t, weights: int8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: the function is compiled for CPUs with the instruction, which changes `sums` only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {weights:v}.16b, {x:v}.16b",
            sums = inout(vreg) sums,
            weights = in(vreg) weights,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}
