//! Reference implementation of each kernel from Burn's operations, for devices without fused
//! kernels.

use std::f64::consts::FRAC_1_SQRT_2;

use burn::tensor::{
    Bool, Distribution, Int, Tensor, TensorData,
    activation::{log_softmax, relu, sigmoid, silu, softmax},
    assert_shape, module,
};

use super::{
    AdamUpdate, AttentionInput, CrossEntropy, CrossEntropyConfig, DropoutMask, EmbeddingInput,
    LinearWeights, Norm, ParameterState, Targets,
};
use crate::config::Activation;

/// Score of a blocked key: far below any real score, yet finite, also in half precision.
const BLOCKED_SCORE: f32 = -1.0e4;

/// See [`linear`](super::linear()).
pub fn linear(x: Tensor<3>, weights: LinearWeights) -> Tensor<3> {
    module::linear(x, weights.w, weights.b)
}

/// See [`attention`](super::attention()).
pub fn attention(input: AttentionInput, need_weights: bool) -> (Tensor<3>, Option<Tensor<4>>) {
    let AttentionInput { queries, keys, values, bias, blocked, dropout: mask, precision: _ } =
        input;
    let weights = attention_weights(queries, keys, bias, blocked);
    let [batch, n_heads, n_queries, _] = weights.dims();
    let [_, _, _, d_head] = values.dims();
    let returned = need_weights.then(|| weights.clone());
    let mixed_bhqd = dropout(weights, mask).matmul(values);
    (mixed_bhqd.swap_dims(1, 2).reshape([batch, n_queries, n_heads * d_head]), returned)
}

/// Attention weights: `softmax(q · kᵀ / √D + bias)` (equation 1).
///
/// # Shapes
///
/// - `q_bhqd`: `[B, H, Q, D]`, `k_bhkd`: `[B, H, K, D]`
/// - `bias_1hqk`: `[1, H, Q, K]`, added to the scores
/// - `blocked`: broadcasts to `[B, H, Q, K]`; `true` = this query must not attend to this key
/// - returns `[B, H, Q, K]`; rows sum to 1, except that a query with every key blocked gets zeros
///
/// # Panics
///
/// If the shapes disagree, which is a bug in the caller, never the user's input.
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

/// See [`rotate`](super::rotate()).
pub fn rotate(x: Tensor<4>, table: Tensor<4>) -> Tensor<4> {
    let [cos, sin] = [0, 1].map(|function| table.clone().narrow(0, function, 1));
    let [_, _, _, half] = cos.dims();
    let first = x.clone().narrow(3, 0, half);
    let second = x.narrow(3, half, half);
    Tensor::cat(
        vec![
            first.clone() * cos.clone() - second.clone() * sin.clone(),
            first * sin + second * cos,
        ],
        3,
    )
}

/// See [`layer_norm`](super::layer_norm()).
pub fn layer_norm(x: Tensor<3>, norm: Norm) -> Tensor<3> {
    let Norm { gamma, beta, epsilon } = norm;
    match beta {
        Some(beta) => module::layer_norm(x, gamma, Some(beta), epsilon),
        None => {
            let root = x.clone().square().mean_dim(2).add_scalar(epsilon).sqrt();
            x / root * gamma.unsqueeze()
        }
    }
}

/// See [`recurrence`](super::recurrence()): prefix sums by doubling (Hillis and Steele 1986), so that the
/// number of operations grows with the logarithm of T.
pub fn recurrence(x: Tensor<3>, gates: Tensor<3>) -> Tensor<3> {
    let [batch, len, width] = x.dims();
    // Factor and sum of the last `distance` positions: `s_t = factor_t s_{t-distance} + states_t`.
    let mut factors = sigmoid(gates);
    let mut states = x.clone() - x * factors.clone();
    let options = (&states.device().inner(), states.dtype());
    let mut distance = 1;
    while distance < len {
        let zeros = Tensor::zeros([batch, distance, width], options);
        let earlier = |of: &Tensor<3>| {
            Tensor::cat(vec![zeros.clone(), of.clone().narrow(1, 0, len - distance)], 1)
        };
        states = states.clone() + factors.clone() * earlier(&states);
        factors = factors.clone() * earlier(&factors);
        distance *= 2;
    }
    states
}

/// See [`residual`](super::residual()).
pub fn residual(x: Tensor<3>, y: Tensor<3>, mask: DropoutMask) -> Tensor<3> {
    x + dropout(y, mask)
}

/// See [`activation`](super::activation()).
pub fn activation(x: Tensor<3>, activation: Activation, mask: DropoutMask) -> Tensor<3> {
    let active = match activation {
        Activation::Relu => relu(x),
        Activation::Gelu => gelu(x),
        Activation::Swish | Activation::Gated => silu(x),
    };
    dropout(active, mask)
}

/// `x · Φ(x) = x (1 + erf(x / √2)) / 2`.
///
/// Burn's own `gelu` has the same value, but its backward pass uses the derivative of the
/// approximation with tanh on every backend except flex and LibTorch (burn-backend 0.22.1,
/// `gelu_backward`), which deviates by up to a thousandth.
fn gelu(x: Tensor<3>) -> Tensor<3> {
    let twice_cdf = x.clone().mul_scalar(FRAC_1_SQRT_2).erf().add_scalar(1.0);
    x.mul_scalar(0.5) * twice_cdf
}

/// See [`dropout`](super::dropout()).
pub fn dropout<const D: usize>(x: Tensor<D>, mask: DropoutMask) -> Tensor<D> {
    let device = x.device().inner();
    let shape = x.shape();
    let factors = match mask {
        DropoutMask::KeepAll => return x,
        DropoutMask::Hashed(mask) => {
            let width = shape[D - 1];
            let rows = shape.num_elements() / width.max(1);
            let factors = (0..rows).flat_map(|row| {
                let row = mask.row(row);
                (0..width).map(move |column| row.factor(column))
            });
            let factors = TensorData::new(factors.collect::<Vec<f32>>(), shape);
            Tensor::from_data(factors, (&device, x.dtype()))
        }
        DropoutMask::OnDevice { rate, .. } => {
            let keep = 1.0 - rate;
            Tensor::random(shape, Distribution::Bernoulli(keep), &device) / keep
        }
    };
    x * factors
}

/// See [`embedding`](super::embedding()).
pub fn embedding(input: EmbeddingInput) -> Tensor<3> {
    let EmbeddingInput { table, ids, positions, scale, zero_first, dropout: mask } = input;
    let mut x = module::embedding(table, ids);
    if scale != 1.0 {
        x = x * scale;
    }
    if zero_first {
        let [_, len, _] = x.dims();
        let place = Tensor::<1, Int>::arange(0..len as i64, &x.device().inner());
        x = x.mask_fill(place.equal_elem(0).reshape([1, len, 1]), 0.0);
    }
    if let Some(positions) = positions {
        let positions = positions.cast(x.dtype());
        x = x + positions.unsqueeze();
    }
    dropout(x, mask)
}

/// See [`cross_entropy`](super::cross_entropy()).
pub fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    config: CrossEntropyConfig,
) -> CrossEntropy {
    let CrossEntropyConfig { smoothing, ignore_index } = config;
    let counts = targets.clone().not_equal_elem(ignore_index);
    let best = logits.clone().detach().argmax(1).squeeze_dim(1);
    let correct = best.equal(targets.clone()).bool_and(counts.clone()).int().sum();

    // No exponential overflows, because the largest logit is subtracted; this cancels out.
    let targets_n1 = targets.unsqueeze_dim(1);
    let max_n1 = logits.clone().detach().max_dim(1);
    let log_sum_n1 = (logits.clone() - max_n1.clone()).exp().sum_dim(1).log() + max_n1;
    let target_n1 = logits.clone().gather(1, targets_n1);
    let ignored_n1 = counts.bool_not().unsqueeze_dim(1);
    let nll_n1 = log_sum_n1.clone().detach() - target_n1.clone().detach();
    let nll = nll_n1.mask_fill(ignored_n1.clone(), 0.0).sum();
    let mut loss_n1 = log_sum_n1 - target_n1 * (1.0 - smoothing);
    if smoothing > 0.0 {
        loss_n1 = loss_n1 - logits.mean_dim(1) * smoothing;
    }
    if let Some(weights) = weights {
        loss_n1 = loss_n1 * weights.unsqueeze_dim(1);
    }
    CrossEntropy { loss: loss_n1.mask_fill(ignored_n1, 0.0).sum(), nll, correct }
}

/// Part of [`distillation`](super::distillation()) that depends on the teachers, without weight and
/// temperature.
pub fn teacher_cross_entropy(
    logits: Tensor<2>,
    teachers: Tensor<3>,
    Targets { ids, weights }: Targets,
    ignore_index: u32,
) -> Tensor<1> {
    let wanted_nv = softmax(teachers.detach(), 2).mean_dim(0).squeeze_dim::<2>(0);
    let mut crossed_n1 = -(wanted_nv * log_softmax(logits, 1)).sum_dim(1);
    if let Some(weights) = weights {
        crossed_n1 = crossed_n1 * weights.unsqueeze_dim(1);
    }
    let ignored_n1 = ids.equal_elem(ignore_index).unsqueeze_dim(1);
    crossed_n1.mask_fill(ignored_n1, 0.0).sum()
}

/// See [`divergence`](super::divergence()).
pub fn divergence(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    ignore_index: u32,
) -> Tensor<1> {
    let [rows, _] = logits.dims();
    let ignored = targets.equal_elem(ignore_index);
    let log = log_softmax(logits, 1);
    let log_p_nv = log.clone().narrow(0, 0, rows / 2);
    let log_q_nv = log.narrow(0, rows / 2, rows / 2);
    let difference_nv = log_p_nv.clone().exp() - log_q_nv.clone().exp();
    let mut sums_n1 = (difference_nv * (log_p_nv - log_q_nv)).sum_dim(1);
    if let Some(weights) = weights {
        sums_n1 = sums_n1 * weights.unsqueeze_dim(1);
    }
    sums_n1.mask_fill(ignored.unsqueeze_dim(1), 0.0).sum()
}

/// See [`adam`](super::adam()).
pub fn adam<const D: usize>(
    state: ParameterState<D>,
    gradient: Tensor<D>,
    update: AdamUpdate,
) -> ParameterState<D> {
    let AdamUpdate { beta_1, beta_2, step, epsilon, l2, decay } = update;
    let gradient = gradient + state.parameter.clone() * l2;
    let exp_avg = state.exp_avg * beta_1 + gradient.clone() * (1.0 - beta_1);
    let exp_avg_sq = state.exp_avg_sq * beta_2 + gradient.square() * (1.0 - beta_2);
    let change = exp_avg.clone() * step / (exp_avg_sq.clone().sqrt() + epsilon);
    ParameterState { parameter: state.parameter * decay - change, exp_avg, exp_avg_sq }
}

/// See [`sum_of_squares`](super::sum_of_squares()).
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    x.square().sum()
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, Tolerance};

    use super::*;

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
    fn a_query_with_every_key_blocked_gets_zeros() {
        let q = Tensor::<4>::from_data([[[[1.0], [1.0]]]], &device());
        let k = Tensor::<4>::from_data([[[[1.0], [2.0]]]], &device());
        let blocked = Tensor::<4, Bool>::from_data([[[[true, true], [false, true]]]], &device());

        let weights = attention_weights(q, k, None, Some(blocked));

        let expected = TensorData::from([[[[0.0_f32, 0.0], [1.0, 0.0]]]]);
        weights.into_data().assert_eq(&expected, true);
    }

    /// A mask over keys, `[B, 1, 1, K]`, applies to all heads and queries.
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
}
