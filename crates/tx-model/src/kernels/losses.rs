//! Losses of the predictions of a vocabulary, and of a linear layer that makes the predictions.

#[cfg(any(feature = "flex", feature = "cubecl"))]
use burn::backend::Dispatch;
use burn::tensor::{Int, Tensor};

#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
use super::cube::{self, extension::CubeKernels};
use super::{
    LinearWeights, composed, linear,
    loss::{CrossEntropy, CrossEntropyConfig, Targets},
};
#[cfg(feature = "flex")]
use super::{extension::Kernels, is_flex_f32};
#[cfg(any(feature = "flex", feature = "cubecl"))]
use super::{in_32_bits, optional::OptionalTensor};
use crate::product_precision::ProductPrecision;

/// Label-smoothed cross-entropy.
///
/// For logits `x`, target `t` and smoothing `ε`, the loss of a token is
///
/// ```text
/// -Σ_v q_v log softmax(x)_v        q_v = (1 - ε) [v = t] + ε / V
/// = log Σ_v exp x_v - (1 - ε) x_t - ε mean(x)
/// ```
///
/// times its weight, which is 1 by default. The negative log-likelihood has no weights.
///
/// # Shapes
///
/// - `logits`: `[N, V]`; `targets` and `weights`: `[N]`
pub fn cross_entropy(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    config: CrossEntropyConfig,
) -> CrossEntropy {
    #[cfg(feature = "flex")]
    if is_flex_f32(&logits) {
        let (logits, targets) = (logits.into_dispatch(), in_32_bits(targets).into_dispatch());
        let weights = OptionalTensor::from_tensor(weights);
        let found = Dispatch::cross_entropy_kernel(logits, targets, weights, config);
        return CrossEntropy::from_dispatch(found);
    }
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&logits) {
        let (logits, targets) = (logits.into_dispatch(), in_32_bits(targets).into_dispatch());
        let weights = OptionalTensor::from_tensor(weights);
        let found = Dispatch::cross_entropy_on_cube(logits, targets, weights, config);
        return CrossEntropy::from_dispatch(found);
    }
    composed::cross_entropy(logits, targets, weights, config)
}

/// Linear layer with its input.
#[derive(Debug, Clone)]
pub struct LinearInput {
    /// `[B, L, d_in]`
    pub x: Tensor<3>,
    /// Weights of the layer.
    pub weights: LinearWeights,
    /// Precision of products; devices without fused kernels ignore it.
    pub precision: ProductPrecision,
}

/// Label-smoothed cross-entropy of the result of a linear layer: [`linear()`], then
/// [`cross_entropy()`]. In training with [`ProductPrecision::Bf16`], it stores no logits.
///
/// # Shapes
///
/// - `targets`: `[B · L]`
pub fn linear_cross_entropy(
    layer: LinearInput,
    targets: Targets,
    config: CrossEntropyConfig,
) -> CrossEntropy {
    let (LinearInput { x, weights: layer, precision }, Targets { ids, weights }) = (layer, targets);
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    if is_flex_f32(&x) && precision == ProductPrecision::Bf16 {
        let LinearWeights { w, b } = layer;
        let [x, w] = [x.into_dispatch(), w.into_dispatch()];
        let ids = in_32_bits(ids).into_dispatch();
        let (b, weights) = (OptionalTensor::from_tensor(b), OptionalTensor::from_tensor(weights));
        let found = Dispatch::linear_cross_entropy_kernel(x, w, b, ids, weights, config, None);
        return CrossEntropy::from_dispatch(found);
    }
    let [batch, len, _] = x.dims();
    let [_, width] = layer.w.dims();
    let logits = linear(x, layer, precision).reshape([batch * len, width]);
    cross_entropy(logits, ids, weights, config)
}

/// Weight and temperature of distillation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Distillation {
    /// Weight `α` of the cross-entropy with the teachers; that of the targets is `1 - α`.
    pub weight: f64,
    /// Divisor `τ` of the logits of student and teachers (Hinton et al. 2015).
    pub temperature: f64,
}

/// Loss of word-level distillation (Kim and Rush 2016, section 3.1) from the mean of the predictions of
/// one or more teachers (Freitag et al. 2017). For a token with the prediction `p` of the student and `q`
/// of the teachers:
///
/// ```text
/// (1 - α) CE(p) - α τ² Σ_v q_v(τ) log p_v(τ)        p(τ) = softmax(x / τ), q(τ) = mean_m softmax(z_m / τ)
/// ```
///
/// CE is the label-smoothed [`cross_entropy()`]. The factor `τ²` keeps the scale of the gradients (Hinton
/// et al. 2015, section 2). Negative log-likelihood and correct tokens are those of the student.
///
/// # Shapes
///
/// - `logits` `x`: `[N, V]`; `teachers` `z`: `[M, N, V]`, of which no gradient is computed; `targets`: `[N]`
pub fn distillation(
    logits: Tensor<2>,
    teachers: Tensor<3>,
    targets: Targets,
    config: CrossEntropyConfig,
    distillation: Distillation,
) -> CrossEntropy {
    let Distillation { weight, temperature } = distillation;
    if temperature == 1.0 {
        return distillation_without_temperature(logits, teachers, targets, config, weight);
    }
    let Targets { ids, weights } = targets.clone();
    let CrossEntropy { loss, nll, correct } = cross_entropy(logits.clone(), ids, weights, config);
    let (logits, teachers) = (logits / temperature, teachers / temperature);
    let crossed = distillation_without_temperature(logits, teachers, targets, config, 1.0).loss;
    let loss = loss * (1.0 - weight) + crossed * (weight * temperature * temperature);
    CrossEntropy { loss, nll, correct }
}

fn distillation_without_temperature(
    logits: Tensor<2>,
    teachers: Tensor<3>,
    targets: Targets,
    config: CrossEntropyConfig,
    weight: f64,
) -> CrossEntropy {
    #[cfg(feature = "flex")]
    if is_flex_f32(&logits) {
        let Targets { ids, weights } = targets;
        let (logits, ids) = (logits.into_dispatch(), in_32_bits(ids).into_dispatch());
        let (teachers, weights) = (teachers.into_dispatch(), OptionalTensor::from_tensor(weights));
        let weight = weight as f32;
        let found = Dispatch::distillation_kernel(logits, teachers, ids, weights, config, weight);
        return CrossEntropy::from_dispatch(found);
    }
    let Targets { ids, weights } = targets.clone();
    let found = cross_entropy(logits.clone(), ids, weights, config);
    let crossed = teacher_cross_entropy(logits, teachers, targets, config.ignore_index);
    CrossEntropy { loss: found.loss * (1.0 - weight) + crossed * weight, ..found }
}

/// Cross-entropy of the predictions with the mean of those of the teachers: `-Σ w Σ_v q_v log p_v`, over
/// the tokens that count.
fn teacher_cross_entropy(
    logits: Tensor<2>,
    teachers: Tensor<3>,
    targets: Targets,
    ignore_index: u32,
) -> Tensor<1> {
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&logits) && cube::is_cube_f32(&teachers) {
        let Targets { ids, weights } = targets;
        let (logits, ids) = (logits.into_dispatch(), in_32_bits(ids).into_dispatch());
        let (teachers, weights) = (teachers.into_dispatch(), OptionalTensor::from_tensor(weights));
        let loss = Dispatch::teachers_on_cube(logits, teachers, ids, weights, ignore_index);
        return Tensor::from_dispatch(loss);
    }
    composed::teacher_cross_entropy(logits, teachers, targets, ignore_index)
}

/// Loss of R-Drop (Wu et al. 2021): half of their equation 4, so that it is comparable with the loss of
/// one pass. For a token with the predictions `p` and `q` of two passes with different dropout masks:
///
/// ```text
/// ½ (CE(p) + CE(q)) + α/4 (KL(p ‖ q) + KL(q ‖ p))
/// ```
///
/// CE is the label-smoothed [`cross_entropy()`]. The negative log-likelihood is the mean of both passes,
/// and so is the number of correct tokens, rounded down.
///
/// # Shapes
///
/// - `logits`: `[2 N, V]`, the second pass after the first; `targets`: `[N]`
pub fn r_drop(
    logits: Tensor<2>,
    targets: Targets,
    config: CrossEntropyConfig,
    alpha: f64,
) -> CrossEntropy {
    let Targets { ids, weights } = targets;
    let twice = Tensor::cat(vec![ids.clone(), ids.clone()], 0);
    let both = weights.clone().map(|weights| Tensor::cat(vec![weights.clone(), weights], 0));
    let CrossEntropy { loss, nll, correct } = cross_entropy(logits.clone(), twice, both, config);
    let divergence = divergence(logits, ids, weights, config.ignore_index);
    let loss = loss * 0.5 + divergence * (0.25 * alpha);
    CrossEntropy { loss, nll: nll * 0.5, correct: correct / 2 }
}

/// Loss of R-Drop of the result of a linear layer: [`linear()`], then [`r_drop()`]. In training with
/// [`ProductPrecision::Bf16`], it stores no logits.
///
/// # Shapes
///
/// - `x` of the layer: `[2 B, L, d_in]`, the second pass after the first; `targets`: `[B · L]`
pub fn linear_r_drop(
    layer: LinearInput,
    targets: Targets,
    config: CrossEntropyConfig,
    alpha: f64,
) -> CrossEntropy {
    let LinearInput { x, weights: layer, precision } = layer;
    #[cfg(all(feature = "flex", feature = "autodiff"))]
    if is_flex_f32(&x) && precision == ProductPrecision::Bf16 {
        let Targets { ids, weights } = targets;
        let LinearWeights { w, b } = layer;
        let [x, w] = [x.into_dispatch(), w.into_dispatch()];
        let ids = in_32_bits(ids).into_dispatch();
        let (b, weights) = (OptionalTensor::from_tensor(b), OptionalTensor::from_tensor(weights));
        let alpha = Some(alpha as f32);
        let found = Dispatch::linear_cross_entropy_kernel(x, w, b, ids, weights, config, alpha);
        let CrossEntropy { loss, nll, correct } = CrossEntropy::from_dispatch(found);
        return CrossEntropy { loss, nll: nll * 0.5, correct: correct / 2 };
    }
    let [batch, len, _] = x.dims();
    let [_, width] = layer.w.dims();
    let logits = linear(x, layer, precision).reshape([batch * len, width]);
    r_drop(logits, targets, config, alpha)
}

/// Symmetric Kullback-Leibler divergence between the predictions of both halves of a batch, summed over
/// the tokens that count: `Σ w (KL(p ‖ q) + KL(q ‖ p))`, where `p` and `q` are the softmax of row `i` and
/// of row `N + i` of the logits, and `w` is the weight of the token, 1 by default.
///
/// # Shapes
///
/// - `logits`: `[2 N, V]`; `targets`: `[N]`, of which those with `ignore_index` do not count; `weights`:
///   `[N]`
/// - returns `[1]`, in nats
pub fn divergence(
    logits: Tensor<2>,
    targets: Tensor<1, Int>,
    weights: Option<Tensor<1>>,
    ignore_index: u32,
) -> Tensor<1> {
    #[cfg(feature = "flex")]
    if is_flex_f32(&logits) {
        let (logits, targets) = (logits.into_dispatch(), in_32_bits(targets).into_dispatch());
        let weights = OptionalTensor::from_tensor(weights);
        let sum = Dispatch::divergence_kernel(logits, targets, weights, ignore_index);
        return Tensor::from_dispatch(sum);
    }
    #[cfg(all(feature = "cubecl", not(feature = "fusion")))]
    if cube::is_cube_f32(&logits) {
        let (logits, targets) = (logits.into_dispatch(), in_32_bits(targets).into_dispatch());
        let weights = OptionalTensor::from_tensor(weights);
        let sum = Dispatch::divergence_on_cube(logits, targets, weights, ignore_index);
        return Tensor::from_dispatch(sum);
    }
    composed::divergence(logits, targets, weights, ignore_index)
}
