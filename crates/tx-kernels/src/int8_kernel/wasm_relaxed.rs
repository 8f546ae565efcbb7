//! Kernel with the relaxed dot product of WebAssembly, which is one instruction on processors with AVX-VNNI or with the
//! dot products of ARM.
//!
//! The instruction multiplies signed bytes by bytes of 7 bits. Processors differ in what they do with the eighth bit of the
//! latter: those of Intel and AMD read unsigned bytes, and those of ARM signed ones. Both are exact for weights with small
//! pairs ([`LARGEST_PAIR`](crate::quantized_weight::LARGEST_PAIR)), so the kernel asks which it is.
// Loops over constant ranges are unrolled, which keeps the sums in registers.
#![allow(clippy::needless_range_loop)]

use std::{
    arch::wasm32::{
        i8x16_splat, i32x4_extract_lane, i32x4_relaxed_dot_i8x16_i7x16_add, i32x4_splat,
        u8x16_splat, u32x4_splat, v128,
    },
    array,
    hint::black_box,
};

use super::{
    Product,
    wasm::{elements, sums_of_rows, vector},
};
use crate::{layout::PANEL, quantized_rows::ZERO};

/// Maximum number of rows of a tile.
const ROWS: usize = 3;

/// The kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct RelaxedDot(Inputs);

/// Bytes that the instruction reads as inputs.
#[derive(Debug, Clone, Copy)]
enum Inputs {
    /// Unsigned bytes.
    Unsigned,
    /// Signed bytes: inputs without the byte that stands for zero.
    Signed,
}

impl RelaxedDot {
    /// `None` if the instruction reads inputs in another way.
    pub(super) fn new() -> Option<Self> {
        let [weights, inputs] = [i8x16_splat(1), u8x16_splat(ZERO)].map(black_box);
        let sums = i32x4_relaxed_dot_i8x16_i7x16_add(weights, inputs, i32x4_splat(0));
        let expected = 4 * i32::from(ZERO);
        match i32x4_extract_lane::<0>(sums) {
            found if found == expected => Some(Self(Inputs::Unsigned)),
            found if found == -expected => Some(Self(Inputs::Signed)),
            _ => None,
        }
    }

    pub(super) fn multiply(self, product: &mut Product<'_>) {
        let (inputs, count) = (product.inputs(), product.rows());
        let groups = inputs / 4;
        let flipped = match self.0 {
            Inputs::Unsigned => 0,
            Inputs::Signed => u32::from_ne_bytes([ZERO; 4]),
        };
        let x = product.x.bytes.as_chunks().0.iter();
        let x: Vec<u32> = x.map(|group| u32::from_ne_bytes(*group) ^ flipped).collect();
        for (index, panel) in product.panels.chunks_exact(PANEL * inputs).enumerate() {
            let panel = panel.as_chunks().0;
            let mut first = 0;
            while first < count {
                let rows = ROWS.min(count - first);
                let x = &x[first * groups..][..rows * groups];
                match rows {
                    1 => self.multiply_rows::<1, 8>(product, panel, x, index, first),
                    2 => self.multiply_rows::<2, 4>(product, panel, x, index, first),
                    _ => self.multiply_rows::<ROWS, 4>(product, panel, x, index, first),
                }
                first += rows;
            }
        }
    }

    /// Computes `R` rows of `y` from row `first` on in the columns of panel `index`, `V` vectors of four columns at a time.
    fn multiply_rows<const R: usize, const V: usize>(
        self,
        product: &mut Product<'_>,
        panel: &[[u8; 4 * PANEL]],
        x: &[u32],
        index: usize,
        first: usize,
    ) {
        let sums = sums_of_rows(panel, x, tile::<R, V>);
        for (row, mut sums) in sums.into_iter().enumerate() {
            if matches!(self.0, Inputs::Unsigned) {
                let offsets = &product.offsets[index * PANEL..][..PANEL];
                sums.iter_mut().zip(offsets).for_each(|(sum, offset)| *sum += offset);
            }
            product.finish(first + row, index, &sums);
        }
    }
}

/// Sums of products of `R` rows with the columns whose weights begin at byte `start` of each group of four inputs.
#[inline(always)]
fn tile<const R: usize, const V: usize>(
    panel: &[[u8; 4 * PANEL]],
    start: usize,
    x: [&[u32]; R],
) -> [[[i32; 4]; V]; R] {
    let mut sums: [[v128; V]; R] = [[i32x4_splat(0); V]; R];
    for (group, weights) in panel.iter().enumerate() {
        let weights: &[[u8; 16]] = weights[start..][..16 * V].as_chunks().0;
        let x: [v128; R] = array::from_fn(|row| u32x4_splat(x[row][group]));
        for v in 0..V {
            let weights = vector(&weights[v]);
            for row in 0..R {
                sums[row][v] = i32x4_relaxed_dot_i8x16_i7x16_add(weights, x[row], sums[row][v]);
            }
        }
    }
    sums.map(|sums| sums.map(elements))
}
