//! Cache of keys and values for decoding step by step.
//!
//! Keys and values of the encoder's output, if there is an encoder, are computed once per sentence;
//! those of the target grow by one position a step. A hypothesis is one row of the batch; rows can be
//! reordered, repeated and removed with [`DecoderCache::select`].

use burn::tensor::{Bool, Int, Tensor};

use crate::attention::KeysValues;

/// State of a batch of unfinished translations.
#[derive(Debug, Clone)]
pub struct DecoderCache {
    pub(crate) layers: Vec<LayerCache>,
    /// `[B, 1, 1, S]`; `true` = padding of the source.
    pub(crate) source_blocked: Tensor<4, Bool>,
    /// Number of tokens decoded so far, the same for every row.
    pub(crate) len: usize,
}

/// Keys and values of one decoder layer.
#[derive(Debug, Clone)]
pub(crate) struct LayerCache {
    /// Keys and values of the encoder's output, `[B, H, S, D]` each.
    pub(crate) cross: KeysValues,
    /// Keys and values of the tokens decoded so far.
    pub(crate) target: Past,
}

/// State of a batch of unfinished texts of a language model.
#[derive(Debug, Clone)]
pub struct LanguageModelCache {
    /// One for each layer.
    pub(crate) layers: Vec<Past>,
    /// Number of texts.
    pub(crate) rows: usize,
    /// Tokens decoded so far, the same for every row.
    pub(crate) len: usize,
}

/// Keys and values of one layer for the tokens decoded so far, `[B, H, len, D]` each; none before
/// the first step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Past(Option<KeysValues>);

impl DecoderCache {
    /// Returns the number of tokens decoded so far, `<bos>` included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if no token has been decoded yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a cache whose row `i` is row `rows[i]` of this cache.
    ///
    /// # Shapes
    ///
    /// - `rows`: `[new B]`, each below the current batch size; rows may repeat and be omitted
    pub fn select(self, rows: &Tensor<1, Int>) -> Self {
        Self {
            layers: self
                .layers
                .into_iter()
                .map(|layer| LayerCache {
                    cross: select(layer.cross, rows),
                    target: layer.target.select(rows),
                })
                .collect(),
            source_blocked: select_mask(self.source_blocked, rows),
            len: self.len,
        }
    }

    /// Same as [`select`](Self::select) if `rows[i]` and `i` always belong to the same source
    /// sentence, but leaves keys and values of the source in place.
    ///
    /// # Shapes
    ///
    /// - `rows`: `[B]`
    pub fn reorder(self, rows: &Tensor<1, Int>) -> Self {
        Self {
            layers: self
                .layers
                .into_iter()
                .map(|layer| LayerCache { cross: layer.cross, target: layer.target.select(rows) })
                .collect(),
            ..self
        }
    }
}

impl LanguageModelCache {
    /// Tokens decoded so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no token has been decoded yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a cache whose row `i` is row `rows[i]` of this cache.
    ///
    /// # Shapes
    ///
    /// - `rows`: `[new B]`, each below the current batch size; rows may repeat and be omitted
    pub fn select(self, rows: &Tensor<1, Int>) -> Self {
        let [count] = rows.dims();
        let layers = self.layers.into_iter().map(|layer| layer.select(rows)).collect();
        Self { layers, rows: count, len: self.len }
    }
}

impl Past {
    /// Adds the keys and values of the newest token, `[B, H, 1, D]`, and returns all of them.
    pub(crate) fn push(&mut self, newest: KeysValues) -> KeysValues {
        let all = match self.0.take() {
            None => newest,
            Some(KeysValues { keys, values }) => KeysValues {
                keys: Tensor::cat(vec![keys, newest.keys], 2),
                values: Tensor::cat(vec![values, newest.values], 2),
            },
        };
        self.0.insert(all).clone()
    }

    /// Returns the keys and values of row `rows[i]` as row `i`.
    fn select(self, rows: &Tensor<1, Int>) -> Self {
        Self(self.0.map(|kv| select(kv, rows)))
    }
}

fn select(kv: KeysValues, rows: &Tensor<1, Int>) -> KeysValues {
    KeysValues { keys: kv.keys.select(0, rows.clone()), values: kv.values.select(0, rows.clone()) }
}

/// Selects rows of a mask by way of integers, because flex (burn-flex 0.22.1, `bool_select`)
/// returns an integer tensor, on which the next `bool_not` panics.
fn select_mask(mask: Tensor<4, Bool>, rows: &Tensor<1, Int>) -> Tensor<4, Bool> {
    mask.int().select(0, rows.clone()).equal_elem(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::{Device, TensorData};

    #[test]
    fn a_selected_mask_is_still_a_mask() {
        let device = Device::flex();
        let mask = Tensor::<4, Bool>::from_data([[[[false, true]]], [[[false, false]]]], &device);
        let rows = Tensor::<1, Int>::from_data([1, 0, 0], &device);
        let seen = select_mask(mask, &rows).bool_not();
        let expected = TensorData::from([[[[true, true]]], [[[true, false]]], [[[true, false]]]]);
        seen.into_data().assert_eq(&expected, true);
    }
}
