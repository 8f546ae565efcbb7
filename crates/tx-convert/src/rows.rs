//! Rows of matrices: one for each token of a vocabulary.

use std::sync::Arc;

/// Logit bias of a token that the source model does not have. The probability underflows to 0, and
/// label smoothing over it stays finite.
pub(crate) const ABSENT_BIAS: f32 = -100.0;

/// Order of the rows of a vocabulary: for each id of the bundle, the id of the source model; `None`
/// for a token that the source model does not have.
pub(crate) type RowOrder = Arc<[Option<u32>]>;

/// Transposes a matrix `[rows, columns]`. Blocks of 32 · 32 values stay in the cache.
pub(crate) fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
    const BLOCK: usize = 32;
    let mut transposed = vec![0.0; values.len()];
    for first_row in (0..rows).step_by(BLOCK) {
        for first in (0..columns).step_by(BLOCK) {
            for row in first_row..rows.min(first_row + BLOCK) {
                for column in first..columns.min(first + BLOCK) {
                    transposed[column * rows + row] = values[row * columns + column];
                }
            }
        }
    }
    transposed
}
