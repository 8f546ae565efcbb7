//! The hot parts of the model, each in two versions that compute the same.
//!
//! The functions of this module choose: on Burn's `flex` backend (feature `cpu`) a kernel of its
//! own, which goes over memory once, keeps little for the way back and shares rows among the cores;
//! on every other device the same from Burn's operations, in [`composed`]. Tests hold each kernel
//! against its composed version, values and gradients.
//!
//! A kernel lives in a file by its name and works on slices; `extension` makes them operations of
//! Burn, `gradients` adds how they are gone back through.

pub mod composed;
mod dropped;

#[cfg(feature = "flex")]
mod activation;
#[cfg(feature = "flex")]
mod adam;
#[cfg(feature = "flex")]
mod attention;
#[cfg(feature = "flex")]
mod cross_entropy;
#[cfg(feature = "flex")]
mod embedding;
#[cfg(feature = "flex")]
mod layer_norm;
#[cfg(feature = "flex")]
mod linear;
#[cfg(feature = "flex")]
mod residual;

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod matrix;
#[cfg(feature = "flex")]
mod rows;

#[cfg(feature = "flex")]
mod extension;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod gradients;

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests;

use burn::tensor::{Bool, Int, Tensor};
#[cfg(feature = "flex")]
use burn::{
    backend::Dispatch,
    tensor::{DType, IntDType},
};
#[cfg(feature = "flex")]
use extension::{Kernels, Maybe, MaybeMask, UpdateKernel, serves};

pub use dropped::{Dropped, mix};

/// What dropout does to one tensor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Draw {
    /// Nothing: outside training.
    KeepAll,
    /// Drops by a hash of the place.
    Hashed(Dropped),
    /// Drops this share, by the device's own generator.
    OnDevice(f64),
}

#[cfg(feature = "flex")]
impl Draw {
    fn hashed(self) -> Option<Dropped> {
        match self {
            Self::Hashed(dropped) => Some(dropped),
            Self::KeepAll | Self::OnDevice(_) => None,
        }
    }
}

/// What a hidden unit does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// `max(x, 0)`
    Relu,
    /// `x / (1 + e^-x)`
    Swish,
    /// `x Φ(x)`
    Gelu,
}

/// `x w + b`
///
/// # Shapes
///
/// - `x`: `[B, L, d_in]`; `w`: `[d_in, d_out]`; `b`: `[d_out]`
/// - returns `[B, L, d_out]`
pub fn linear(x: Tensor<3>, w: Tensor<2>, b: Option<Tensor<1>>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if serves(&x) {
        let b = b.map_or(Maybe::Absent, |b| Maybe::Given(b.into_dispatch()));
        let (x, w) = (x.into_dispatch(), w.into_dispatch());
        return Tensor::from_dispatch(Dispatch::linear_kernel(x, w, b));
    }
    composed::linear(x, w, b)
}

/// `dropout(softmax(q kᵀ / √D)) v`, heads side by side (sections 3.2.1 and 3.2.2).
///
/// # Shapes
///
/// - `q`: `[B, H, Q, D]`; `k` and `v`: `[B, H, K, D]`
/// - `blocked`: broadcasts to `[B, H, Q, K]`; `true` = must not be seen
/// - returns `[B, Q, H · D]`; zeros for a query with every key blocked
pub fn attention(
    q: Tensor<4>,
    k: Tensor<4>,
    v: Tensor<4>,
    blocked: Option<Tensor<4, Bool>>,
    draw: Draw,
) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if serves(&q) {
        let [q, k, v] = [q, k, v].map(Tensor::into_dispatch);
        let blocked =
            blocked.map_or(MaybeMask::Absent, |mask| MaybeMask::Given(mask.into_dispatch()));
        return Tensor::from_dispatch(Dispatch::attention_kernel(q, k, v, blocked, draw.hashed()));
    }
    composed::attention(q, k, v, blocked, draw)
}

/// `(x - mean) / √(variance + 1e-5) · γ + β`, for each token.
///
/// # Shapes
///
/// - `x`: `[B, L, width]`, and so is the result; `gamma` and `beta`: `[width]`
pub fn layer_norm(x: Tensor<3>, gamma: Tensor<1>, beta: Tensor<1>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if serves(&x) {
        let (x, gamma, beta) = (x.into_dispatch(), gamma.into_dispatch(), beta.into_dispatch());
        return Tensor::from_dispatch(Dispatch::layer_norm_kernel(x, gamma, beta));
    }
    composed::layer_norm(x, gamma, beta)
}

/// `x + dropout(y)`
///
/// # Shapes
///
/// - `x` and `y`: `[B, L, width]`, and so is the result
pub fn residual(x: Tensor<3>, y: Tensor<3>, draw: Draw) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if let (true, Draw::Hashed(dropped)) = (serves(&x), draw) {
        let (x, y) = (x.into_dispatch(), y.into_dispatch());
        return Tensor::from_dispatch(Dispatch::residual_kernel(x, y, dropped));
    }
    composed::residual(x, y, draw)
}

/// `dropout(f(x))`
///
/// # Shapes
///
/// - `x`: `[B, L, width]`, and so is the result
pub fn activation(x: Tensor<3>, function: Function, draw: Draw) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if serves(&x) {
        let x = Dispatch::activation_kernel(x.into_dispatch(), function, draw.hashed());
        return Tensor::from_dispatch(x);
    }
    composed::activation(x, function, draw)
}

/// `dropout(x)`
///
/// # Shapes
///
/// - `x`: any, and so is the result
pub fn dropout<const D: usize>(x: Tensor<D>, draw: Draw) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if let (true, Draw::Hashed(dropped)) = (serves(&x), draw) {
        return Tensor::from_dispatch(Dispatch::dropout_kernel(x.into_dispatch(), dropped));
    }
    composed::dropout(x, draw)
}

/// `dropout(scale · table[id] + position)`
///
/// # Shapes
///
/// - `table`: `[V, d_model]`; `ids`: `[B, L]`; `positions`: `[L, d_model]`
/// - returns `[B, L, d_model]`
pub fn embedding(
    table: Tensor<2>,
    ids: Tensor<2, Int>,
    positions: Option<Tensor<2>>,
    scale: f32,
    draw: Draw,
) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if serves(&table) {
        let manner = embedding::Manner { scale, dropped: draw.hashed() };
        let (table, ids) = (table.into_dispatch(), in_32_bits(ids).into_dispatch());
        let positions = positions.map_or(Maybe::Absent, |rows| Maybe::Given(rows.into_dispatch()));
        return Tensor::from_dispatch(Dispatch::embedding_kernel(table, ids, positions, manner));
    }
    composed::embedding(table, ids, positions, scale, draw)
}

/// Label-smoothed cross-entropy, summed over the tokens that are not `ignored`, and how many of
/// them have the highest logit at their target.
///
/// For logits `x`, the right token `t` and smoothing `ε`, a token costs
///
/// ```text
/// -Σ_v q_v log softmax(x)_v        q_v = (1 - ε) [v = t] + ε / V
/// = log Σ_v exp x_v - (1 - ε) x_t - ε mean(x)
/// ```
///
/// # Shapes
///
/// - `logits`: `[N, V]`; `targets`: `[N]`
/// - returns `[1]` each, the first in nats
pub fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    smoothing: f64,
    ignored: u32,
) -> (Tensor<1>, Tensor<1, Int>) {
    #[cfg(feature = "flex")]
    if serves(&logits) {
        let target = cross_entropy::Target { smoothing: smoothing as f32, ignored: ignored as i32 };
        let (logits, targets) = (logits.into_dispatch(), in_32_bits(targets).into_dispatch());
        let (loss, correct) = Dispatch::cross_entropy_kernel(logits, targets, target);
        return (Tensor::from_dispatch(loss), Tensor::from_dispatch(correct));
    }
    composed::cross_entropy(logits, targets, smoothing, ignored)
}

/// Ids as the kernels read them, whatever integer dtype the device is configured with.
#[cfg(feature = "flex")]
fn in_32_bits<const D: usize>(ids: Tensor<D, Int>) -> Tensor<D, Int> {
    if ids.dtype() == DType::I32 { ids } else { ids.cast(IntDType::I32) }
}

/// The numbers of one update by Adam (Kingma and Ba 2015), the same for all parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamUpdate {
    /// `β₁`
    pub beta_1: f32,
    /// `β₂`
    pub beta_2: f32,
    /// `α √(1 - β₂ᵗ) / (1 - β₁ᵗ)`
    pub step: f32,
    /// `ε √(1 - β₂ᵗ)`
    pub epsilon: f32,
    /// So much of the parameter is added to its gradient first: weight decay of Adam.
    pub penalty: f32,
    /// The parameter is multiplied by this first: weight decay of AdamW.
    pub shrink: f32,
}

/// A parameter with its moments.
#[derive(Debug, Clone)]
pub struct WithMoments<const D: usize> {
    /// `θ`
    pub parameter: Tensor<D>,
    /// `m`
    pub first: Tensor<D>,
    /// `v`
    pub second: Tensor<D>,
}

/// `m ← β₁ m + (1 - β₁) g`, `v ← β₂ v + (1 - β₂) g²`, `θ ← shrink · θ - step · m / (√v + ε)`, with
/// `g = gradient + penalty · θ`.
///
/// # Shapes
///
/// - all alike
pub fn adam<const D: usize>(
    now: WithMoments<D>,
    gradient: Tensor<D>,
    update: AdamUpdate,
) -> WithMoments<D> {
    #[cfg(feature = "flex")]
    if serves(&now.parameter) {
        let WithMoments { parameter, first, second } = now;
        let [parameter, gradient, first, second] =
            [parameter, gradient, first, second].map(Tensor::into_dispatch);
        let (parameter, first, second) =
            Dispatch::adam_kernel(parameter, gradient, first, second, update);
        return WithMoments {
            parameter: Tensor::from_dispatch(parameter),
            first: Tensor::from_dispatch(first),
            second: Tensor::from_dispatch(second),
        };
    }
    composed::adam(now, gradient, update)
}

/// `Σ x²`: `[1]`
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if serves(&x) {
        return Tensor::from_dispatch(Dispatch::squares_kernel(x.into_dispatch()));
    }
    composed::sum_of_squares(x)
}
