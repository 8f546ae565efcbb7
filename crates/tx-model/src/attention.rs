//! Attention: "Attention Is All You Need", section 3.2.
//!
//! Axis letters, used as name suffixes below: `B` batch, `H` heads, `Q` query positions,
//! `K` key positions, `D` features per head, `M` features per token (`d_model = H · D`).
//!
//! In masks, `true` means that a key must **not** be attended to, as everywhere in Burn.

use burn::{
    module::{Module, Param},
    nn::{Initializer, Linear},
    tensor::{Bool, Device, Tensor},
};

use crate::{
    config::{ModelConfig, Positions},
    dropout::Dropout,
    init::{self, project, weights},
    kernels::{self, AttentionInput, LinearOutput},
    position::PositionTables,
    position_formulas::RELATIVE_DISTANCES,
    product_precision::ProductPrecision,
};

/// Keys and values of one attention, for any number of queries.
#[derive(Debug, Clone)]
pub struct KeysValues {
    /// `[B, H, K, D]`
    pub keys: Tensor<4>,
    /// `[B, H, K, D]`
    pub values: Tensor<4>,
}

/// Output of [`MultiHeadAttention`].
#[derive(Debug, Clone)]
pub struct AttentionOutput {
    /// Mixed values after the output projection, `[B, Q, M]`.
    pub context: LinearOutput,
    /// Attention weights before dropout, `[B, H, Q, K]`, if requested.
    pub weights: Option<Tensor<4>>,
}

/// Multi-head attention (section 3.2.2): `h` attentions in parallel on projections of the input.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) output: Linear,
    /// Bias per clipped distance and head, `[2k + 1, H]`; self-attention with relative positions.
    pub(crate) relative: Option<Param<Tensor<2>>>,
    dropout: Dropout,
    #[module(skip)]
    pub(crate) n_heads: usize,
    #[module(skip)]
    precision: ProductPrecision,
}

/// Role of an attention in its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttentionRole {
    /// Queries and keys come from the same sequence; positions inside attention apply.
    SelfAttention,
    /// Queries come from the decoder, keys from the encoder's output.
    CrossAttention,
}

impl MultiHeadAttention {
    /// Initializes the weights; `config` must have been checked.
    pub(crate) fn new(config: &ModelConfig, role: AttentionRole, device: &Device) -> Self {
        let positions = match role {
            AttentionRole::SelfAttention => config.positions,
            AttentionRole::CrossAttention => Positions::None,
        };
        let linear =
            || init::linear(config, config.d_model, config.d_model, config.attention_bias, device);
        let relative = match positions {
            Positions::Relative => {
                Some(Initializer::Zeros.init([RELATIVE_DISTANCES, config.n_heads], device))
            }
            Positions::Sinusoidal
            | Positions::Learned
            | Positions::Rotary
            | Positions::Alibi
            | Positions::None => None,
        };
        Self {
            query: linear(),
            key: linear(),
            value: linear(),
            output: linear(),
            relative,
            dropout: Dropout::new(config.dropout.attention),
            n_heads: config.n_heads,
            precision: ProductPrecision::default(),
        }
    }

    /// Sets the precision of products in training.
    pub(crate) fn set_product_precision(&mut self, precision: ProductPrecision) {
        self.precision = precision;
    }

    /// Projects tokens to keys and values.
    ///
    /// # Shapes
    ///
    /// - `memory_bkm`: `[B, K, M]`, at the positions of `tables`
    /// - returns keys and values, `[B, H, K, D]` each
    pub fn keys_values(&self, memory_bkm: Tensor<3>, tables: &PositionTables) -> KeysValues {
        let layers = [&self.key, &self.value].map(weights);
        let both = kernels::two_linear(memory_bkm, layers, self.precision);
        let [keys, values] = both.map(|x| self.split_heads(x));
        KeysValues { keys: tables.rotate(keys), values }
    }

    /// Projects tokens to queries for another sequence.
    ///
    /// # Shapes
    ///
    /// - `x_bqm`: `[B, Q, M]`
    /// - returns `[B, H, Q, D]`
    pub fn queries(&self, x_bqm: Tensor<3>) -> Tensor<4> {
        self.split_heads(project(&self.query, x_bqm, self.precision))
    }

    /// Projects tokens to queries, and to keys and values for the same sequence.
    ///
    /// # Shapes
    ///
    /// - `x_blm`: `[B, L, M]`, at the positions of `tables`
    /// - returns queries, keys and values, `[B, H, L, D]` each
    pub fn queries_keys_values(
        &self,
        x_blm: Tensor<3>,
        tables: &PositionTables,
    ) -> (Tensor<4>, KeysValues) {
        let layers = [&self.query, &self.key, &self.value].map(weights);
        let all = kernels::three_linear(x_blm, layers, self.precision);
        let [queries, keys, values] = all.map(|x| self.split_heads(x));
        (tables.rotate(queries), KeysValues { keys: tables.rotate(keys), values })
    }

    /// Computes the attention of each query to `memory`.
    ///
    /// # Shapes
    ///
    /// - `queries`: `[B, H, Q, D]`, at the positions of `tables`
    /// - `blocked`: broadcasts to `[B, H, Q, K]`; `true` = must not be attended to
    /// - `need_weights`: also return the attention weights
    pub fn forward(
        &self,
        queries: Tensor<4>,
        memory: &KeysValues,
        blocked: Option<Tensor<4, Bool>>,
        tables: &PositionTables,
        need_weights: bool,
    ) -> AttentionOutput {
        let [_, _, n_queries, _] = queries.dims();
        let KeysValues { keys, values } = memory.clone();

        let precision = self.precision;
        let dropout = self.dropout.sample(&queries.device());
        let learned = self.relative.as_ref().map(Param::val);
        let bias = tables.bias(learned, n_queries);
        let input = AttentionInput { queries, keys, values, bias, blocked, dropout, precision };
        let (mixed_bqm, maps) = kernels::attention(input, need_weights);
        let context = kernels::linear_before_bias(mixed_bqm, weights(&self.output), precision);
        AttentionOutput { context, weights: maps }
    }

    /// Splits the features into heads: `[B, L, M]` → `[B, H, L, D]`.
    fn split_heads(&self, x_blm: Tensor<3>) -> Tensor<4> {
        let [batch, len, d_model] = x_blm.dims();
        x_blm.reshape([batch, len, self.n_heads, d_model / self.n_heads]).swap_dims(1, 2)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{TensorData, Tolerance};

    use super::*;
    use crate::position_formulas::MAX_RELATIVE_DISTANCE;

    fn device() -> Device {
        Device::flex()
    }

    /// With zero projections the scores are the bias alone: keys one position back get ln 3, others
    /// 0.
    ///
    /// ```text
    /// query 0 (no key one back)        1/3   1/3   1/3
    /// query 1                          3/5   1/5   1/5
    /// query 2                          1/5   3/5   1/5
    /// ```
    #[test]
    fn relative_bias_depends_on_the_distance_alone() {
        let config = ModelConfig {
            d_model: 2,
            n_heads: 1,
            positions: Positions::Relative,
            ..ModelConfig::default()
        };
        let mut attention =
            MultiHeadAttention::new(&config, AttentionRole::SelfAttention, &device());
        let mut bias = vec![0.0_f32; RELATIVE_DISTANCES];
        bias[MAX_RELATIVE_DISTANCE - 1] = 3.0_f32.ln();
        let bias = TensorData::new(bias, [RELATIVE_DISTANCES, 1]);
        attention.relative = Some(Param::from_data(bias, &device()));

        let x = Tensor::<3>::zeros([1, 3, 2], &device());
        let memory = attention.keys_values(x.clone(), &PositionTables::None);
        let weights = |x: Tensor<3>, offset| {
            let [_, len, _] = x.dims();
            let tables = PositionTables::new(Positions::Relative, [1, 2], offset, len, &x);
            let queries = attention.queries(x);
            attention.forward(queries, &memory, None, &tables, true).weights.unwrap()
        };
        let all = weights(x.clone(), 0);
        let third = 1.0_f32 / 3.0;
        let expected =
            TensorData::from([[[[third, third, third], [0.6, 0.2, 0.2], [0.2, 0.6, 0.2_f32]]]]);
        all.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());

        // The last query alone, at position 2, has the same weights.
        let last = weights(x.slice([0..1, 2..3]), 2);
        let expected = TensorData::from([[[[0.2_f32, 0.6, 0.2]]]]);
        last.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
    }

    /// With zero projections the scores are the bias alone. Two heads have the slopes 2⁻⁴ and 2⁻⁸.
    #[test]
    fn alibi_lowers_scores_by_the_distance() {
        let config = ModelConfig {
            d_model: 2,
            n_heads: 2,
            positions: Positions::Alibi,
            ..ModelConfig::default()
        };
        let attention = MultiHeadAttention::new(&config, AttentionRole::SelfAttention, &device());
        let x = Tensor::<3>::zeros([1, 3, 2], &device());
        let memory = attention.keys_values(x.clone(), &PositionTables::None);
        for offset in 0..3 {
            let part = x.clone().slice([0..1, offset..3]);
            let tables = PositionTables::new(Positions::Alibi, [2, 1], offset, 3 - offset, &x);
            let queries = attention.queries(part);
            let weights = attention.forward(queries, &memory, None, &tables, true).weights.unwrap();
            let weights: Vec<f32> = weights.into_data().try_to_vec().unwrap();
            let expected = [16.0_f32, 256.0].into_iter().flat_map(|divisor| {
                (offset..3).flat_map(move |query| {
                    let e = move |key: usize| (-(query.abs_diff(key) as f32) / divisor).exp();
                    (0..3).map(move |key| e(key) / (e(0) + e(1) + e(2)))
                })
            });
            for (weight, expected) in weights.into_iter().zip(expected) {
                assert!((weight - expected).abs() < 1e-6, "{weight} {expected}");
            }
        }
    }
}
