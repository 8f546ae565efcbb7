//! Attention: "Attention Is All You Need", section 3.2.
//!
//! Axis letters, used as name suffixes below: `B` batch, `H` heads, `Q` query positions,
//! `K` key positions, `D` features per head, `M` features per token (`d_model = H · D`).
//!
//! Masks say what must **not** be seen: `true` = blocked, as everywhere in Burn.

use burn::{
    module::{Module, Param},
    nn::{Initializer, Linear},
    tensor::{Bool, Device, Tensor, activation::softmax, assert_shape},
};

use crate::{
    config::{ModelConfig, Positions},
    dropout::Dropout,
    init,
    kernels::{self, composed},
    position::PositionTables,
    position_formulas::RELATIVE_DISTANCES,
};

/// Score given to a blocked position: far below any real score, yet finite, also in half precision.
const BLOCKED_SCORE: f32 = -1.0e4;

/// How much each query takes from each key: `softmax(q · kᵀ / √D + bias)` (equation 1).
///
/// # Shapes
///
/// - `q_bhqd`: `[B, H, Q, D]`, `k_bhkd`: `[B, H, K, D]`
/// - `bias_1hqk`: `[1, H, Q, K]`, added to the scores
/// - `blocked`: broadcasts to `[B, H, Q, K]`; `true` = this query must not see this key
/// - returns `[B, H, Q, K]`; rows sum to 1, but a query with every key blocked gets zeros
///
/// # Panics
///
/// When the shapes disagree. That is a bug in the caller, never the user's input.
pub fn attention_weights(
    q_bhqd: Tensor<4>,
    k_bhkd: Tensor<4>,
    bias_1hqk: Option<Tensor<4>>,
    blocked: Option<Tensor<4, Bool>>,
) -> Tensor<4> {
    let [batch, heads, _, d_head] = q_bhqd.dims();
    assert_shape!(k_bhkd, [batch, heads, _, d_head]);

    // Scaling the queries costs less than scaling the scores.
    let q_bhqd = q_bhqd.div_scalar((d_head as f32).sqrt());
    let mut scores_bhqk = q_bhqd.matmul(k_bhkd.transpose());
    if let Some(bias) = bias_1hqk {
        scores_bhqk = scores_bhqk + bias;
    }
    match blocked {
        None => softmax(scores_bhqk, 3),
        // The second fill matters only for a query with every key blocked.
        Some(blocked) => softmax(scores_bhqk.mask_fill(blocked.clone(), BLOCKED_SCORE), 3)
            .mask_fill(blocked, 0.0),
    }
}

/// Keys and values of one attention, ready to be looked at by any number of queries.
#[derive(Debug, Clone)]
pub struct KeysValues {
    /// `[B, H, K, D]`
    pub keys: Tensor<4>,
    /// `[B, H, K, D]`
    pub values: Tensor<4>,
}

/// What attention gives back.
#[derive(Debug, Clone)]
pub struct AttentionOutput {
    /// The mixed values after the output projection: `[B, Q, M]`.
    pub context: Tensor<3>,
    /// How much each query took from each key, before dropout, where it was asked for:
    /// `[B, H, Q, K]`.
    pub weights: Option<Tensor<4>>,
}

/// Multi-head attention (section 3.2.2): `h` attentions side by side on projections of the input.
#[derive(Module, Debug)]
pub struct MultiHeadAttention {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    /// Bias per clipped distance and head, `[2k + 1, H]`; self-attention with relative positions.
    relative: Option<Param<Tensor<2>>>,
    dropout: Dropout,
    #[module(skip)]
    n_heads: usize,
}

/// Role of an attention in its layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttentionRole {
    /// Queries and keys come from the same sequence; relative and rotary positions apply.
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
            Positions::Sinusoidal | Positions::Learned | Positions::Rotary | Positions::None => {
                None
            }
        };
        Self {
            query: linear(),
            key: linear(),
            value: linear(),
            output: linear(),
            relative,
            dropout: Dropout::new(config.dropout.attention),
            n_heads: config.n_heads,
        }
    }

    /// Projects the tokens to attend to.
    ///
    /// # Shapes
    ///
    /// - `memory_bkm`: `[B, K, M]`, at the positions of `tables`
    pub fn keys_values(&self, memory_bkm: Tensor<3>, tables: &PositionTables) -> KeysValues {
        let keys = self.split_heads(project(&self.key, memory_bkm.clone()));
        let values = self.split_heads(project(&self.value, memory_bkm));
        KeysValues { keys: tables.rotate(keys), values }
    }

    /// Attends to `memory` from each token of `x_bqm`.
    ///
    /// # Shapes
    ///
    /// - `x_bqm`: `[B, Q, M]`, at the positions of `tables`
    /// - `blocked`: broadcasts to `[B, H, Q, K]`; `true` = must not be seen
    /// - `wants_weights`: whether to give back where the queries looked
    pub fn forward(
        &self,
        x_bqm: Tensor<3>,
        memory: &KeysValues,
        blocked: Option<Tensor<4, Bool>>,
        tables: &PositionTables,
        wants_weights: bool,
    ) -> AttentionOutput {
        let [_, n_queries, _] = x_bqm.dims();
        let KeysValues { keys, values } = memory.clone();

        let draw = self.dropout.draw(&x_bqm.device());
        let q_bhqd = tables.rotate(self.split_heads(project(&self.query, x_bqm)));
        let relative = self.relative.as_ref();
        let bias = relative.and_then(|table| tables.bias(table.val(), n_queries));
        // The weights exist in full only where someone looks at them or adds to them.
        let (mixed_bqm, weights) = if wants_weights || bias.is_some() {
            let weights = attention_weights(q_bhqd, keys, bias, blocked);
            (composed::mixed(weights.clone(), values, draw), wants_weights.then_some(weights))
        } else {
            (kernels::attention(q_bhqd, keys, values, blocked, draw), None)
        };
        AttentionOutput { context: project(&self.output, mixed_bqm), weights }
    }

    /// `[B, L, M]` → `[B, H, L, D]`
    fn split_heads(&self, x_blm: Tensor<3>) -> Tensor<4> {
        let [batch, len, d_model] = x_blm.dims();
        x_blm.reshape([batch, len, self.n_heads, d_model / self.n_heads]).swap_dims(1, 2)
    }
}

/// `x W + b`
pub(crate) fn project(layer: &Linear, x: Tensor<3>) -> Tensor<3> {
    kernels::linear(x, layer.weight.val(), layer.bias.as_ref().map(Param::val))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{TensorData, Tolerance};

    use super::*;
    use crate::position_formulas::MAX_RELATIVE_DISTANCE;

    fn device() -> Device {
        Device::flex()
    }

    /// One head, one query, three keys, D = 4, so √D = 2. On paper:
    ///
    /// ```text
    /// scores   q·k₀/2 = 2·ln 3/2 = ln 3     q·k₁/2 = 0     k₂ is blocked
    /// weights  (3, 1, 0) / (3 + 1) = (3/4, 1/4, 0)
    /// ```
    #[test]
    fn weights_follow_the_scores_and_skip_blocked_keys() {
        let ln3 = 3.0_f32.ln();
        let q = Tensor::<4>::from_data([[[[2.0, 0.0, 0.0, 0.0]]]], &device());
        let k = [[ln3, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [9.0, 9.0, 9.0, 9.0]];
        let k = Tensor::<4>::from_data([[k]], &device());
        let blocked = Tensor::<4, Bool>::from_data([[[[false, false, true]]]], &device());

        let weights = attention_weights(q, k, None, Some(blocked));

        let expected = TensorData::from([[[[0.75_f32, 0.25, 0.0]]]]);
        weights.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
    }

    #[test]
    fn a_query_that_may_see_nothing_gets_zeros() {
        let q = Tensor::<4>::from_data([[[[1.0], [1.0]]]], &device());
        let k = Tensor::<4>::from_data([[[[1.0], [2.0]]]], &device());
        let blocked = Tensor::<4, Bool>::from_data([[[[true, true], [false, true]]]], &device());

        let weights = attention_weights(q, k, None, Some(blocked));

        let expected = TensorData::from([[[[0.0_f32, 0.0], [1.0, 0.0]]]]);
        weights.into_data().assert_eq(&expected, true);
    }

    /// A mask over keys `[B, 1, 1, K]` serves all heads and queries.
    #[test]
    fn masks_broadcast() {
        let q = Tensor::<4>::zeros([2, 3, 4, 5], &device());
        let k = Tensor::<4>::zeros([2, 3, 2, 5], &device());
        let blocked =
            Tensor::<4, Bool>::from_data([[[[false, true]]], [[[false, false]]]], &device());

        let weights = attention_weights(q, k, None, Some(blocked));

        assert_eq!(weights.dims(), [2, 3, 4, 2]);
        let first = weights.clone().narrow(0, 0, 1).sum_dim(2).sum_dim(1);
        first.into_data().assert_eq(&TensorData::from([[[[12.0_f32, 0.0]]]]), true);
        let second = weights.narrow(0, 1, 1).sum_dim(2).sum_dim(1);
        second.into_data().assert_eq(&TensorData::from([[[[6.0_f32, 6.0]]]]), true);
    }

    /// With zero projections only the bias speaks: keys one step back get ln 3 more than others.
    ///
    /// ```text
    /// query 0 (no key one step back)   1/3   1/3   1/3
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
            let tables = PositionTables::new(Positions::Relative, 2, offset, len, &x);
            attention.forward(x, &memory, None, &tables, true).weights.unwrap()
        };
        let all = weights(x.clone(), 0);
        let third = 1.0_f32 / 3.0;
        let expected =
            TensorData::from([[[[third, third, third], [0.6, 0.2, 0.2], [0.2, 0.6, 0.2_f32]]]]);
        all.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());

        // The last query alone, told that it stands at place 2, sees the same.
        let last = weights(x.slice([0..1, 2..3]), 2);
        let expected = TensorData::from([[[[0.2_f32, 0.6, 0.2]]]]);
        last.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
    }
}
