//! Token embedding, `dropout(scale · table[id] + position)`, and its backward pass.

use burn::backend::flex::FlexTensor;
use tx_kernels::{
    rows::{each_piece, zeros},
    vector::vectorized,
};

use super::{
    HashedMask,
    flex::{dims, floats, ids, tensor},
};

/// Options of an embedding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EmbeddingOptions {
    /// Factor of the table's rows.
    pub scale: f32,
    /// Whether the first token of each row has the zero vector.
    pub zero_first: bool,
    /// Dropout in training.
    pub mask: Option<HashedMask>,
}

impl EmbeddingOptions {
    /// Returns `true` if token number `token` of a batch with `len` tokens a row has the zero
    /// vector.
    #[inline(always)]
    fn is_zero(self, token: usize, len: usize) -> bool {
        self.zero_first && token.is_multiple_of(len)
    }
}

/// Looks up the tokens, scales them, adds positions, and applies dropout.
///
/// # Shapes
///
/// - `table`: `[V, d_model]`; `tokens`: `[B, L]`; `positions`: `[L, d_model]`
/// - returns `[B, L, d_model]`
pub fn forward(
    table: &FlexTensor,
    tokens: &FlexTensor,
    positions: Option<&FlexTensor>,
    options: EmbeddingOptions,
) -> FlexTensor {
    let [batch, len] = dims(tokens);
    let [_, width] = dims(table);
    let (table, tokens, positions) = (floats(table), ids(tokens), positions.map(floats));
    let zero = vec![0.0; if options.zero_first { width } else { 0 }];
    let mut out = zeros(batch * len * width);
    each_piece(&mut out, width, |first, out| {
        vectorized(
            #[inline(always)]
            || {
                for (i, out) in out.chunks_exact_mut(width).enumerate() {
                    let token = first + i;
                    let row = if options.is_zero(token, len) {
                        &zero[..]
                    } else {
                        &table[tokens[token] as usize * width..][..width]
                    };
                    match positions {
                        Some(positions) => {
                            let position = &positions[token % len * width..][..width];
                            for ((out, x), position) in out.iter_mut().zip(row).zip(position) {
                                *out = x * options.scale + position;
                            }
                        }
                        None => {
                            for (out, x) in out.iter_mut().zip(row) {
                                *out = x * options.scale;
                            }
                        }
                    }
                    if let Some(mask) = options.mask {
                        mask.row(token).apply(out);
                    }
                }
            },
        );
    });
    tensor(out, [batch, len, width])
}

/// Returns the gradient of the table, `[V, d_model]`; `dy` is the gradient before dropout.
pub fn gradient_of_table(
    dy: &FlexTensor,
    tokens: &FlexTensor,
    vocabulary: usize,
    options: EmbeddingOptions,
) -> FlexTensor {
    let [_, len, width] = dims(dy);
    let mut gradient = zeros(vocabulary * width);
    vectorized(
        #[inline(always)]
        || {
            for (i, (dy, &token)) in floats(dy).chunks_exact(width).zip(ids(tokens)).enumerate() {
                if options.is_zero(i, len) {
                    continue;
                }
                let row = &mut gradient[token as usize * width..][..width];
                for (sum, dy) in row.iter_mut().zip(dy) {
                    *sum += dy * options.scale;
                }
            }
        },
    );
    tensor(gradient, [vocabulary, width])
}

/// Returns the gradient of the positions, `[L, d_model]`.
pub fn gradient_of_positions(dy: &FlexTensor) -> FlexTensor {
    let [_, len, width] = dims(dy);
    let mut gradient = vec![0.0; len * width];
    vectorized(
        #[inline(always)]
        || {
            for dy in floats(dy).chunks_exact((len * width).max(1)) {
                for (sum, dy) in gradient.iter_mut().zip(dy) {
                    *sum += dy;
                }
            }
        },
    );
    tensor(gradient, [len, width])
}
