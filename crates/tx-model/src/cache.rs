//! Cache of keys, values and states for decoding step by step.
//!
//! Keys and values of the encoder's output, if there is an encoder, are computed once per sentence;
//! those of the target grow by one position a step, or a recurrent unit has one state. A hypothesis is one row of the batch; rows can be
//! reordered, repeated and removed with [`DecoderCache::select`].

use burn::tensor::{Bool, Int, Tensor, activation::sigmoid};

use crate::{attention::KeysValues, kernels};

/// State of a batch of unfinished translations.
#[derive(Debug, Clone)]
pub struct DecoderCache {
    pub(crate) layers: Vec<LayerCache>,
    /// `[B, 1, 1, S]`; `true` = padding of the source.
    pub(crate) source_blocked: Tensor<4, Bool>,
    /// Number of tokens decoded so far, the same for every row.
    pub(crate) len: usize,
}

/// Keys, values and state of one decoder layer.
#[derive(Debug, Clone)]
pub(crate) struct LayerCache {
    /// Keys and values of the encoder's output, `[B, H, S, D]` each.
    pub(crate) cross: KeysValues,
    /// The tokens decoded so far.
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

/// State of the autoregressive sub-layer of one layer after the tokens decoded so far.
#[derive(Debug, Clone, Default)]
#[expect(clippy::large_enum_variant, reason = "all layers of a model have the same variant")]
pub(crate) enum Past {
    /// Before the first step.
    #[default]
    Empty,
    /// Keys and values of self-attention, `[B, H, len, D]` each.
    Attention(KeysValues),
    /// State of a recurrent unit, `[B, 1, d_model]`.
    Recurrent(Tensor<3>),
}

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
        let all = match std::mem::take(self) {
            Self::Empty | Self::Recurrent(_) => newest,
            Self::Attention(KeysValues { keys, values }) => KeysValues {
                keys: Tensor::cat(vec![keys, newest.keys], 2),
                values: Tensor::cat(vec![values, newest.values], 2),
            },
        };
        *self = Self::Attention(all.clone());
        all
    }

    /// Advances a recurrent unit by one token, from its candidate and gate, `[B, 1, d_model]` each, and
    /// returns the state: one step of [`kernels::recurrence`].
    pub(crate) fn advance(&mut self, candidate: Tensor<3>, gate: Tensor<3>) -> Tensor<3> {
        let state = match std::mem::take(self) {
            Self::Empty | Self::Attention(_) => kernels::recurrence(candidate, gate),
            Self::Recurrent(state) => candidate.clone() + sigmoid(gate) * (state - candidate),
        };
        *self = Self::Recurrent(state.clone());
        state
    }

    /// Returns the keys and values of row `rows[i]` as row `i`.
    fn select(self, rows: &Tensor<1, Int>) -> Self {
        match self {
            Self::Empty => Self::Empty,
            Self::Attention(kv) => Self::Attention(select(kv, rows)),
            Self::Recurrent(state) => Self::Recurrent(state.select(0, rows.clone())),
        }
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
