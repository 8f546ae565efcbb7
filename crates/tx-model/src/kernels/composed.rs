//! Each kernel put together from Burn's operations: for devices without kernels of ours, and what
//! the kernels are held against.

use std::f64::consts::FRAC_1_SQRT_2;

use burn::tensor::{
    Bool, Distribution, Int, Tensor, TensorData,
    activation::{relu, silu},
    module,
};

use super::{AdamUpdate, Draw, Function, WithMoments};
use crate::{attention::attention_weights, formulas::NORM_EPSILON};

/// See [`linear`](super::linear()).
pub fn linear(x: Tensor<3>, w: Tensor<2>, b: Option<Tensor<1>>) -> Tensor<3> {
    module::linear(x, w, b)
}

/// See [`attention`](super::attention()).
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    blocked: Option<Tensor<4, Bool>>,
    draw: Draw,
) -> Tensor<3> {
    let weights = attention_weights(q, k, None, blocked);
    mixed(weights, v, draw)
}

/// The values mixed by attention's weights `[B, H, Q, K]`: `[B, Q, H · D]`.
pub fn mixed(weights: Tensor<4>, v: Tensor<4>, draw: Draw) -> Tensor<3> {
    let [batch, n_heads, n_queries, _] = weights.dims();
    let [_, _, _, d_head] = v.dims();
    let mixed_bhqd = dropout(weights, draw).matmul(v);
    mixed_bhqd.swap_dims(1, 2).reshape([batch, n_queries, n_heads * d_head])
}

/// See [`layer_norm`](super::layer_norm()).
pub fn layer_norm(x: Tensor<3>, gamma: Tensor<1>, beta: Tensor<1>) -> Tensor<3> {
    module::layer_norm(x, gamma, Some(beta), NORM_EPSILON)
}

/// See [`residual`](super::residual()).
pub fn residual(x: Tensor<3>, y: Tensor<3>, draw: Draw) -> Tensor<3> {
    x + dropout(y, draw)
}

/// See [`activation`](super::activation()).
pub fn activation(x: Tensor<3>, function: Function, draw: Draw) -> Tensor<3> {
    let active = match function {
        Function::Relu => relu(x),
        Function::Swish => silu(x),
        Function::Gelu => gelu(x),
    };
    dropout(active, draw)
}

/// `x · Φ(x) = x (1 + erf(x / √2)) / 2`.
///
/// Put together here because Burn's own `gelu` computes this, but on every backend except flex and
/// LibTorch goes back by the derivative of the approximation with tanh (burn-backend 0.22.1,
/// `gelu_backward`), which is off by up to a thousandth.
fn gelu(x: Tensor<3>) -> Tensor<3> {
    let twice_cdf = x.clone().mul_scalar(FRAC_1_SQRT_2).erf().add_scalar(1.0);
    x.mul_scalar(0.5) * twice_cdf
}

/// See [`dropout`](super::dropout()).
pub fn dropout<const D: usize>(x: Tensor<D>, draw: Draw) -> Tensor<D> {
    let device = x.device().inner();
    let shape = x.shape();
    let factors = match draw {
        Draw::KeepAll => return x,
        Draw::Hashed(dropped) => {
            let width = shape[D - 1];
            let rows = shape.num_elements() / width.max(1);
            let factors = (0..rows).flat_map(|row| {
                let row = dropped.row(row);
                (0..width).map(move |column| row.factor(column))
            });
            let factors = TensorData::new(factors.collect::<Vec<f32>>(), shape);
            Tensor::from_data(factors, (&device, x.dtype()))
        }
        Draw::OnDevice(share) => {
            let keep = 1.0 - share;
            Tensor::random(shape, Distribution::Bernoulli(keep), &device) / keep
        }
    };
    x * factors
}

/// See [`embedding`](super::embedding()).
pub fn embedding(
    table: Tensor<2>,
    ids: Tensor<2, Int>,
    positions: Option<Tensor<2>>,
    scale: f32,
    draw: Draw,
) -> Tensor<3> {
    let mut x = module::embedding(table, ids);
    if scale != 1.0 {
        x = x * scale;
    }
    if let Some(positions) = positions {
        let positions = positions.cast(x.dtype());
        x = x + positions.unsqueeze();
    }
    dropout(x, draw)
}

/// See [`cross_entropy`](super::cross_entropy()).
pub fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    smoothing: f64,
    ignored: u32,
) -> (Tensor<1>, Tensor<1, Int>) {
    let counts = targets.clone().not_equal_elem(ignored);
    let best = logits.clone().detach().argmax(1).squeeze_dim(1);
    let correct = best.equal(targets.clone()).bool_and(counts.clone()).int().sum();

    // Shifted by the largest logit, no exponential overflows; the shift cancels out.
    let targets_n1 = targets.unsqueeze_dim(1);
    let max_n1 = logits.clone().detach().max_dim(1);
    let log_sum_n1 = (logits.clone() - max_n1.clone()).exp().sum_dim(1).log() + max_n1;
    let right_n1 = logits.clone().gather(1, targets_n1);
    let mut loss_n1 = log_sum_n1 - right_n1 * (1.0 - smoothing);
    if smoothing > 0.0 {
        loss_n1 = loss_n1 - logits.mean_dim(1) * smoothing;
    }
    (loss_n1.mask_fill(counts.bool_not().unsqueeze_dim(1), 0.0).sum(), correct)
}

/// See [`adam`](super::adam()).
pub fn adam<const D: usize>(
    now: WithMoments<D>,
    gradient: Tensor<D>,
    update: AdamUpdate,
) -> WithMoments<D> {
    let AdamUpdate { beta_1, beta_2, step, epsilon, penalty, shrink } = update;
    let gradient = gradient + now.parameter.clone() * penalty;
    let first = now.first * beta_1 + gradient.clone() * (1.0 - beta_1);
    let second = now.second * beta_2 + gradient.square() * (1.0 - beta_2);
    let change = first.clone() * step / (second.clone().sqrt() + epsilon);
    WithMoments { parameter: now.parameter * shrink - change, first, second }
}

/// See [`sum_of_squares`](super::sum_of_squares()).
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    x.square().sum()
}
