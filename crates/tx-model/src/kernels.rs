//! Fused kernels, each with a reference implementation from Burn's operations.
//!
//! The functions of this module choose the implementation. On Burn's `flex` backend in single
//! precision (feature `flex`) they run a fused kernel: single-pass, saving little for backward,
//! parallel over rows. On CubeCL devices (features `wgpu` and `cuda`) some of them run a kernel that
//! needs few launches, in `cube`. Otherwise they run the same computation from Burn's operations,
//! in [`composed`]. Tests compare each kernel with its composed version, values and gradients.
//!
//! Each kernel is a file of functions on slices. `extension` makes them operations of Burn, and
//! `gradients` adds their backward passes.

pub mod composed;
mod devices;
mod hashed_mask;
pub mod launches;
mod loss;
mod losses;

#[cfg(feature = "flex")]
mod activation;
#[cfg(feature = "flex")]
mod adam;
#[cfg(feature = "flex")]
mod attention;
#[cfg(feature = "flex")]
mod cross_entropy;
#[cfg(feature = "flex")]
mod distillation;
#[cfg(feature = "flex")]
mod divergence;
#[cfg(feature = "flex")]
mod embedding;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod feed_forward;
#[cfg(feature = "flex")]
mod layer_norm;
#[cfg(feature = "flex")]
mod linear;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod linear_cross_entropy;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod linear_r_drop;
#[cfg(feature = "flex")]
mod recurrence;
#[cfg(feature = "flex")]
mod residual;

#[cfg(feature = "flex")]
mod flex;
#[cfg(feature = "flex")]
mod products;

#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
pub(crate) mod cube;
mod flat;

#[cfg(feature = "flex")]
mod extension;
#[cfg(all(feature = "flex", feature = "autodiff"))]
mod gradients;
#[cfg(any(feature = "flex", feature = "cubecl"))]
mod optional;
#[cfg(all(feature = "autodiff", any(feature = "flex", feature = "cubecl")))]
mod saved_state;

#[cfg(all(test, feature = "flex", feature = "autodiff"))]
mod tests;

#[cfg(any(feature = "flex", feature = "cubecl"))]
use burn::backend::Dispatch;
#[cfg(feature = "flex")]
use burn::tensor::Device;
use burn::tensor::{Bool, Int, Tensor};
#[cfg(any(feature = "flex", feature = "cubecl"))]
use burn::tensor::{DType, IntDType};
#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
use cube::{dropout::KeyedMask, extension::CubeKernels};
#[cfg(feature = "flex")]
use extension::{Kernels, UpdateKernel};
#[cfg(any(feature = "flex", feature = "cubecl"))]
use optional::{OptionalMask, OptionalTensor};

use crate::{config::Activation, product_precision::ProductPrecision};
pub use devices::{has_f16_units, has_gpu_kernels};
pub use flat::{AdamBuffers, FlatTensors, flattened};
pub use hashed_mask::HashedMask;
pub use loss::{CrossEntropy, CrossEntropyConfig, Targets};
pub use losses::{
    Distillation, LinearInput, cross_entropy, distillation, divergence, linear_cross_entropy,
    linear_r_drop, r_drop,
};

/// Elements of one tensor that dropout sets to 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DropoutMask {
    /// None: outside training.
    KeepAll,
    /// Elements chosen by a hash of their position.
    Hashed(HashedMask),
    /// Elements chosen by the device: by another hash in fused kernels, and otherwise by Burn's random
    /// numbers.
    OnDevice {
        /// Key of the hash.
        key: u64,
        /// Probability of an element, in `0.0..1.0`.
        rate: f64,
    },
}

#[cfg(feature = "flex")]
impl DropoutMask {
    fn hashed(self) -> Option<HashedMask> {
        match self {
            Self::Hashed(mask) => Some(mask),
            Self::KeepAll | Self::OnDevice { .. } => None,
        }
    }
}

#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
impl DropoutMask {
    /// Returns the mask of the kernels in `Some`; `Some(None)` without dropout, and `None` for another
    /// mask.
    fn on_device(self) -> Option<Option<KeyedMask>> {
        match self {
            Self::KeepAll => Some(None),
            Self::OnDevice { key, rate } => Some(Some(KeyedMask::new(key, rate))),
            Self::Hashed(_) => None,
        }
    }
}

/// Returns `true` if the fused kernels take this tensor. Devices are equal whether or not they
/// track gradients.
#[cfg(feature = "flex")]
fn is_flex_f32<const D: usize>(x: &Tensor<D>) -> bool {
    x.dtype() == DType::F32 && x.device() == Device::flex()
}

/// Converts ids to the integer dtype of the kernels, for any default of the device.
#[cfg(any(feature = "flex", feature = "cubecl"))]
fn in_32_bits<const D: usize>(ids: Tensor<D, Int>) -> Tensor<D, Int> {
    if ids.dtype() == DType::I32 { ids } else { ids.cast(IntDType::I32) }
}

/// Weights of a linear layer.
#[derive(Debug, Clone)]
pub struct LinearWeights {
    /// `[d_in, d_out]`
    pub w: Tensor<2>,
    /// `[d_out]`
    pub b: Option<Tensor<1>>,
}

/// Linear layer: `x w + b`. Devices without kernels for `precision` compute in the dtype of `x`.
///
/// # Shapes
///
/// - `x`: `[B, L, d_in]`
/// - returns `[B, L, d_out]`
pub fn linear(x: Tensor<3>, weights: LinearWeights, precision: ProductPrecision) -> Tensor<3> {
    let LinearWeights { w, b } = weights;
    #[cfg(feature = "flex")]
    if is_flex_f32(&x) {
        let b = OptionalTensor::from_tensor(b);
        let (x, w) = (x.into_dispatch(), w.into_dispatch());
        return Tensor::from_dispatch(Dispatch::linear_kernel(x, w, b, precision));
    }
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&x) {
        let layer = cube::layer(LinearWeights { w, b });
        let y = Dispatch::linear_on_cube(x.into_dispatch(), layer, precision);
        return Tensor::from_dispatch(y);
    }
    let _ = precision;
    composed::linear(x, LinearWeights { w, b })
}

/// Two linear layers of the same input; see [`linear()`]. On CubeCL devices they are one product if their
/// weights have the same shape and are views of a vector. If the loss depends on one output, it must depend
/// on both.
pub fn two_linear(
    x: Tensor<3>,
    layers: [LinearWeights; 2],
    precision: ProductPrecision,
) -> [Tensor<3>; 2] {
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&x) {
        let [first, second] = layers.map(cube::layer);
        let x = x.into_dispatch();
        let (first, second) = Dispatch::two_linear_on_cube(x, first, second, precision);
        return [first, second].map(Tensor::from_dispatch);
    }
    layers.map(|weights| linear(x.clone(), weights, precision))
}

/// Three linear layers of the same input; see [`two_linear`].
pub fn three_linear(
    x: Tensor<3>,
    layers: [LinearWeights; 3],
    precision: ProductPrecision,
) -> [Tensor<3>; 3] {
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&x) {
        let [first, second, third] = layers.map(cube::layer);
        let x = x.into_dispatch();
        let (first, second, third) =
            Dispatch::three_linear_on_cube(x, first, second, third, precision);
        return [first, second, third].map(Tensor::from_dispatch);
    }
    layers.map(|weights| linear(x.clone(), weights, precision))
}

/// Linear layer whose bias the next kernel adds, if the device has such kernels; see [`linear()`].
pub fn linear_before_bias(
    x: Tensor<3>,
    weights: LinearWeights,
    precision: ProductPrecision,
) -> LinearOutput {
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&x) {
        let LinearWeights { w, b: bias } = weights;
        let product = linear(x, LinearWeights { w, b: None }, precision);
        return LinearOutput { product, bias };
    }
    linear(x, weights, precision).into()
}

/// Output of a linear layer: the sum of a product and of a bias that may have been added already.
#[derive(Debug, Clone)]
pub struct LinearOutput {
    product: Tensor<3>,
    bias: Option<Tensor<1>>,
}

impl LinearOutput {
    /// Adds the bias.
    pub fn sum(self) -> Tensor<3> {
        match self.bias {
            Some(bias) => self.product + bias.unsqueeze(),
            None => self.product,
        }
    }
}

impl From<Tensor<3>> for LinearOutput {
    fn from(product: Tensor<3>) -> Self {
        Self { product, bias: None }
    }
}

/// Arguments of [`attention()`].
#[derive(Debug, Clone)]
pub struct AttentionInput {
    /// `[B, H, Q, D]`
    pub queries: Tensor<4>,
    /// `[B, H, K, D]`
    pub keys: Tensor<4>,
    /// `[B, H, K, D]`
    pub values: Tensor<4>,
    /// Added to the scores, `[1, H, Q, K]`.
    pub bias: Option<Tensor<4>>,
    /// Broadcasts to `[B, H, Q, K]`; `true` = this query must not attend to this key.
    pub blocked: Option<Tensor<4, Bool>>,
    /// Dropout of the attention weights.
    pub dropout: DropoutMask,
    /// Precision of both products; devices without fused kernels ignore it.
    pub precision: ProductPrecision,
}

/// Multi-head attention without its projections: `dropout(softmax(q · kᵀ / √D + bias)) · v`, with
/// the heads concatenated (sections 3.2.1 and 3.2.2).
///
/// # Shapes
///
/// - returns `[B, Q, H · D]`, zeros for a query with every key blocked; and, if `need_weights`, the
///   attention weights before dropout, `[B, H, Q, K]`
pub fn attention(input: AttentionInput, need_weights: bool) -> (Tensor<3>, Option<Tensor<4>>) {
    // The kernels return no weights, and those of the CPU take no bias.
    #[cfg(feature = "flex")]
    if is_flex_f32(&input.queries) && input.bias.is_none() && !need_weights {
        let AttentionInput { queries, keys, values, bias: _, blocked, dropout, precision } = input;
        let [q, k, v] = [queries, keys, values].map(Tensor::into_dispatch);
        let blocked = OptionalMask::from_tensor(blocked);
        let mixed = Dispatch::attention_kernel(q, k, v, blocked, dropout.hashed(), precision);
        return (Tensor::from_dispatch(mixed), None);
    }
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if let (true, false, Some(mask)) =
        (cube::takes_attention(&input), need_weights, input.dropout.on_device())
    {
        let AttentionInput { queries, keys, values, bias, blocked, .. } = input;
        let [q, k, v] = [queries, keys, values].map(Tensor::into_dispatch);
        let bias = OptionalTensor::from_tensor(bias);
        let blocked = OptionalMask::from_tensor(blocked);
        let mixed = Dispatch::attention_on_cube(q, k, v, bias, blocked, mask);
        return (Tensor::from_dispatch(mixed), None);
    }
    composed::attention(input, need_weights)
}

/// Rotary positions (Su et al. 2021): rotates each pair of features `(x_i, x_{i + D/2})` by the angle of its
/// position.
///
/// # Shapes
///
/// - `x`: `[B, H, L, D]`; `table`: cosines of the angles, then sines, `[2, 1, L, D / 2]`
/// - returns `[B, H, L, D]`
pub fn rotate(x: Tensor<4>, table: Tensor<4>) -> Tensor<4> {
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&x) {
        let (x, table) = (x.into_dispatch(), table.into_dispatch());
        return Tensor::from_dispatch(Dispatch::rotate_on_cube(x, table));
    }
    composed::rotate(x, table)
}

/// Weights of a norm.
#[derive(Debug, Clone)]
pub struct Norm {
    /// Scale, `[width]`.
    pub gamma: Tensor<1>,
    /// Shift, `[width]`; `None` in RMSNorm.
    pub beta: Option<Tensor<1>>,
    /// Added to the variance, or to the mean of the squares.
    pub epsilon: f64,
}

/// Layer normalization: `(x - mean) / √(variance + epsilon) · γ + β` for each token. Without `β`,
/// RMSNorm: `x / √(mean of squares + epsilon) · γ`.
///
/// # Shapes
///
/// - `x`: `[B, L, width]`
/// - returns `[B, L, width]`
pub fn layer_norm(x: Tensor<3>, norm: Norm) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if is_flex_f32(&x) {
        let Norm { gamma, beta, epsilon } = norm;
        let beta = OptionalTensor::from_tensor(beta);
        let (x, gamma) = (x.into_dispatch(), gamma.into_dispatch());
        return Tensor::from_dispatch(Dispatch::layer_norm_kernel(x, gamma, beta, epsilon as f32));
    }
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&x) {
        let y = Dispatch::layer_norm_on_cube(x.into_dispatch(), norm.into());
        return Tensor::from_dispatch(y);
    }
    composed::layer_norm(x, norm)
}

/// Gated recurrence: `s_t = f_t s_{t-1} + (1 - f_t) x_t` with `f = σ(gates)` and `s_{-1} = 0`.
///
/// # Shapes
///
/// - `x` and `gates`: `[B, T, width]`
/// - returns all states, `[B, T, width]`
pub fn recurrence(x: Tensor<3>, gates: Tensor<3>) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if is_flex_f32(&x) {
        let (x, gates) = (x.into_dispatch(), gates.into_dispatch());
        return Tensor::from_dispatch(Dispatch::recurrence_kernel(x, gates));
    }
    composed::recurrence(x, gates)
}

/// Residual sum: `x + dropout(y)`.
///
/// # Shapes
///
/// - `x` and `y`: `[B, L, width]`
/// - returns `[B, L, width]`
pub fn residual(x: Tensor<3>, y: impl Into<LinearOutput>, mask: DropoutMask) -> Tensor<3> {
    let y = y.into();
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if let (true, Some(mask)) = (cube::is_cube_f32(&x), mask.on_device()) {
        let bias = OptionalTensor::from_tensor(y.bias);
        let (x, y) = (x.into_dispatch(), y.product.into_dispatch());
        return Tensor::from_dispatch(Dispatch::residual_on_cube(x, y, bias, mask));
    }
    let y = y.sum();
    #[cfg(feature = "flex")]
    if let (true, DropoutMask::Hashed(mask)) = (is_flex_f32(&x), mask) {
        let (x, y) = (x.into_dispatch(), y.into_dispatch());
        return Tensor::from_dispatch(Dispatch::residual_kernel(x, y, mask));
    }
    composed::residual(x, y, mask)
}

/// Norm of a residual sum: `norm(x + dropout(y))`.
///
/// # Shapes
///
/// - `x` and `y`: `[B, L, width]`
/// - returns `[B, L, width]`
pub fn residual_norm(
    x: Tensor<3>,
    y: impl Into<LinearOutput>,
    mask: DropoutMask,
    norm: Norm,
) -> Tensor<3> {
    let y = y.into();
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if let (true, Some(mask)) = (cube::is_cube_f32(&x), mask.on_device()) {
        let bias = OptionalTensor::from_tensor(y.bias);
        let (x, y) = (x.into_dispatch(), y.product.into_dispatch());
        let y = Dispatch::residual_norm_on_cube(x, y, bias, mask, norm.into());
        return Tensor::from_dispatch(y);
    }
    layer_norm(residual(x, y, mask), norm)
}

/// Activation function with dropout: `dropout(f(x))`. [`Activation::Gated`] applies swish, as to
/// its gate.
///
/// # Shapes
///
/// - `x`: `[B, L, width]`
/// - returns `[B, L, width]`
pub fn activation(
    x: impl Into<LinearOutput>,
    activation: Activation,
    mask: DropoutMask,
) -> Tensor<3> {
    let x = x.into();
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if let (true, Some(mask)) = (cube::is_cube_f32(&x.product), mask.on_device()) {
        let (x, bias) = (x.product.into_dispatch(), OptionalTensor::from_tensor(x.bias));
        return Tensor::from_dispatch(Dispatch::activation_on_cube(x, bias, activation, mask));
    }
    let x = x.sum();
    #[cfg(feature = "flex")]
    if is_flex_f32(&x) {
        let x = Dispatch::activation_kernel(x.into_dispatch(), activation, mask.hashed());
        return Tensor::from_dispatch(x);
    }
    composed::activation(x, activation, mask)
}

/// Feed-forward network without gate: `dropout(f(x W_1 + b_1)) W_2 + b_2` (section 3.3), of layers that
/// have both a bias or none. In training with relu and [`ProductPrecision::Bf16`], it is one kernel.
///
/// # Shapes
///
/// - `x`: `[B, L, d_model]`
/// - returns `[B, L, d_model]`
pub fn feed_forward(
    x: Tensor<3>,
    [inner, outer]: [LinearWeights; 2],
    function: Activation,
    mask: DropoutMask,
    precision: ProductPrecision,
) -> LinearOutput {
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    if is_flex_f32(&x) && precision == ProductPrecision::Bf16 && function == Activation::Relu {
        let [inner_bias, outer_bias] = [inner.b, outer.b].map(OptionalTensor::from_tensor);
        let [inner, outer] = [inner.w, outer.w].map(Tensor::into_dispatch);
        let (x, mask) = (x.into_dispatch(), mask.hashed());
        let y = Dispatch::feed_forward_kernel(x, inner, inner_bias, outer, outer_bias, mask);
        return Tensor::<3>::from_dispatch(y).into();
    }
    let x = activation(linear_before_bias(x, inner, precision), function, mask);
    linear_before_bias(x, outer, precision)
}

/// Dropout: sets the elements of `mask` to 0 and scales the others by `1 / (1 - rate)`.
///
/// # Shapes
///
/// - `x`: any; returns the same
pub fn dropout<const D: usize>(x: Tensor<D>, mask: DropoutMask) -> Tensor<D> {
    #[cfg(feature = "flex")]
    if let (true, DropoutMask::Hashed(mask)) = (is_flex_f32(&x), mask) {
        return Tensor::from_dispatch(Dispatch::dropout_kernel(x.into_dispatch(), mask));
    }
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if let (true, Some(Some(mask))) = (cube::is_cube_f32(&x), mask.on_device()) {
        return Tensor::from_dispatch(Dispatch::dropout_on_cube(x.into_dispatch(), mask));
    }
    composed::dropout(x, mask)
}

/// Arguments of [`embedding()`].
#[derive(Debug, Clone)]
pub struct EmbeddingInput {
    /// `[V, d_model]`
    pub table: Tensor<2>,
    /// `[B, L]`
    pub ids: Tensor<2, Int>,
    /// Added to every row of the batch, `[L, d_model]`.
    pub positions: Option<Tensor<2>>,
    /// Factor of the table's rows.
    pub scale: f32,
    /// Whether the first token of each row has the zero vector in place of its row of the table.
    pub zero_first: bool,
    /// Dropout of the sum.
    pub dropout: DropoutMask,
}

/// Token embedding: `dropout(scale · table[id] + position)`.
///
/// # Shapes
///
/// - returns `[B, L, d_model]`
pub fn embedding(input: EmbeddingInput) -> Tensor<3> {
    #[cfg(feature = "flex")]
    if is_flex_f32(&input.table) {
        let EmbeddingInput { table, ids, positions, scale, zero_first, dropout } = input;
        let options = embedding::EmbeddingOptions { scale, zero_first, mask: dropout.hashed() };
        let (table, ids) = (table.into_dispatch(), in_32_bits(ids).into_dispatch());
        let positions = OptionalTensor::from_tensor(positions);
        return Tensor::from_dispatch(Dispatch::embedding_kernel(table, ids, positions, options));
    }
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if let (true, Some(mask)) = (cube::is_cube_f32(&input.table), input.dropout.on_device()) {
        let EmbeddingInput { table, ids, positions, scale, zero_first, .. } = input;
        let options = cube::embedding::Options { scale, zero_first, mask };
        let (table, ids) = (table.into_dispatch(), in_32_bits(ids).into_dispatch());
        let positions = OptionalTensor::from_tensor(positions);
        return Tensor::from_dispatch(Dispatch::embedding_on_cube(table, ids, positions, options));
    }
    let mask = input.dropout;
    let x = composed::embedding(EmbeddingInput { dropout: DropoutMask::KeepAll, ..input });
    dropout(x, mask)
}

/// Coefficients of one update by Adam (Kingma and Ba 2015), the same for all parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamUpdate {
    /// `β₁`
    pub beta_1: f32,
    /// `β₂`
    pub beta_2: f32,
    /// Step size `α √(1 - β₂ᵗ) / (1 - β₁ᵗ)`.
    pub step: f32,
    /// `ε √(1 - β₂ᵗ)`
    pub epsilon: f32,
    /// Weight decay of Adam: this multiple of the parameter is added to its gradient.
    pub l2: f32,
    /// Weight decay of AdamW: the parameter is multiplied by this before the update.
    pub decay: f32,
}

/// Parameter with its moments.
#[derive(Debug, Clone)]
pub struct ParameterState<const D: usize> {
    /// `θ`
    pub parameter: Tensor<D>,
    /// First moment `m`: moving average of the gradient.
    pub exp_avg: Tensor<D>,
    /// Second moment `v`: moving average of the squared gradient.
    pub exp_avg_sq: Tensor<D>,
}

/// Updates a parameter: `m ← β₁ m + (1 - β₁) g`, `v ← β₂ v + (1 - β₂) g²`,
/// `θ ← decay · θ - step · m / (√v + ε)`, with `g = gradient + l2 · θ`.
///
/// # Shapes
///
/// - all tensors have the same shape
pub fn adam<const D: usize>(
    state: ParameterState<D>,
    gradient: Tensor<D>,
    update: AdamUpdate,
) -> ParameterState<D> {
    #[cfg(feature = "flex")]
    if is_flex_f32(&state.parameter) {
        let ParameterState { parameter, exp_avg, exp_avg_sq } = state;
        let [parameter, gradient, exp_avg, exp_avg_sq] =
            [parameter, gradient, exp_avg, exp_avg_sq].map(Tensor::into_dispatch);
        let (parameter, exp_avg, exp_avg_sq) =
            Dispatch::adam_kernel(parameter, gradient, exp_avg, exp_avg_sq, update);
        return ParameterState {
            parameter: Tensor::from_dispatch(parameter),
            exp_avg: Tensor::from_dispatch(exp_avg),
            exp_avg_sq: Tensor::from_dispatch(exp_avg_sq),
        };
    }
    composed::adam(state, gradient, update)
}

/// Sum of squares: `Σ x²`.
///
/// # Shapes
///
/// - `x`: any; returns `[1]`
pub fn sum_of_squares<const D: usize>(x: Tensor<D>) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if is_flex_f32(&x) {
        return Tensor::from_dispatch(Dispatch::squares_kernel(x.into_dispatch()));
    }
    composed::sum_of_squares(x)
}
