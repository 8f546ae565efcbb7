//! Product with the matrix unit: blocks of rows for each panel, with the epilogue in vectors.
#![allow(unsafe_code)]

use super::{
    Product,
    tile::{Columns, Vectors},
    x86_64::Avx512Vnni,
};
use crate::{
    amx::{Amx, MAX_ROWS, Rows, RowsMut, Start, Tiles},
    layout::PANEL,
};

/// Minimum number of rows for tiles, whose time hardly depends on their number. Fewer rows are
/// multiplied with vectors.
pub(super) const FEW_ROWS: usize = 8;

/// Sums of a block, one row of tiles in a line of the cache.
#[repr(align(64))]
struct Sums([[i32; PANEL]; MAX_ROWS]);

/// Rows of a product in one panel.
#[derive(Clone, Copy)]
struct Block {
    panel: usize,
    /// First row that is multiplied.
    start: usize,
    /// First row to which the epilogue applies. The rows before it belong to the previous block.
    first: usize,
}

/// Computes the product.
///
/// All blocks have the same height, so that the tiles are configured once. The last one overlaps
/// with the previous block if the number of rows is not divisible by the height. All blocks of a panel
/// are multiplied before the next panel is read.
pub(super) fn multiply(amx: Amx, _proof: Avx512Vnni, product: &mut Product<'_>) {
    let blocks = product.rows().div_ceil(MAX_ROWS);
    let height = product.rows().div_ceil(blocks);
    // SAFETY: there is a proof of the instructions.
    amx.with_tiles(height, |tiles| unsafe { run(tiles, product) });
}

/// Multiplies each block before the epilogue of the block before it, so that the matrix unit and the
/// vectors work at the same time.
///
/// # Safety
///
/// The CPU must have the instructions of [`Avx512Vnni`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn run(tiles: &Tiles, product: &mut Product<'_>) {
    let (count, height, inputs) = (product.rows(), tiles.rows(), product.inputs());
    let (bytes, panels) = (&product.x.bytes, product.panels);
    let size = PANEL * inputs;
    let mut sums = [const { Sums([[0; PANEL]; MAX_ROWS]) }; 2];
    let [mut current, mut previous] = sums.each_mut();
    let mut last: Option<Block> = None;
    for (panel, weights) in panels.chunks_exact(size).enumerate() {
        for first in (0..count).step_by(height) {
            let start = first.min(count - height);
            let x = Rows::new(&bytes[start * inputs..], inputs);
            let y = RowsMut { values: current.0.as_flattened_mut(), stride: PANEL };
            tiles.multiply_i8(x, weights, y, Start::Zero);
            if let Some(block) = last {
                // SAFETY: the caller guarantees the instructions.
                unsafe { finish(product, block, height, previous) };
            }
            last = Some(Block { panel, start, first });
            (current, previous) = (previous, current);
        }
    }
    if let Some(block) = last {
        // SAFETY: the caller guarantees the instructions.
        unsafe { finish(product, block, height, previous) };
    }
}

/// Applies the epilogue to a block.
///
/// # Safety
///
/// The CPU must have the instructions of [`Avx512Vnni`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
#[inline]
unsafe fn finish(product: &mut Product<'_>, block: Block, height: usize, sums: &Sums) {
    let Block { panel, start, first } = block;
    // SAFETY: the caller guarantees the instructions.
    unsafe {
        let [left, right] = [0, 1].map(|v| Columns::<Avx512Vnni>::load(product, panel, v));
        for row in first..start + height {
            let (a, b) = sums.0[row - start].split_at(Avx512Vnni::LANES);
            left.finish(product, row, Avx512Vnni::load_sums(a));
            right.finish(product, row, Avx512Vnni::load_sums(b));
        }
    }
}
