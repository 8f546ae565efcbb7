//! The kernels as operations of Burn: an extension of its backends.

use burn::backend::{
    Backend, Flex, backend_extension,
    flex::FlexTensor,
    ops::{FloatTensorOps, IntTensorOps},
    tensor::{FloatTensor, IntTensor},
};

use super::{
    AdamUpdate, CrossEntropyConfig, HashedMask, activation, adam, attention, cross_entropy,
    distillation, divergence,
    embedding::{self, EmbeddingOptions},
    flex::{contiguous, floats, forward, rows, tensor},
    layer_norm, linear,
    optional::{OptionalMask, OptionalTensor},
    recurrence, residual,
};
use crate::{config::Activation, product_precision::ProductPrecision};

/// Kernels with a backward pass; each is described in its file. The precision of products applies
/// with autodiff; without it, they are computed in single precision.
#[backend_extension(Flex, Autodiff: cfg(feature = "autodiff"))]
pub trait Kernels: Backend {
    /// See [`mod@linear`].
    fn linear_kernel(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] b: OptionalTensor<Self>,
        precision: ProductPrecision,
    ) -> FloatTensor<Self>;

    /// See [`feed_forward`](super::feed_forward()).
    fn feed_forward_kernel(
        x: FloatTensor<Self>,
        inner: FloatTensor<Self>,
        #[extension_type] inner_bias: OptionalTensor<Self>,
        outer: FloatTensor<Self>,
        #[extension_type] outer_bias: OptionalTensor<Self>,
        mask: Option<HashedMask>,
    ) -> FloatTensor<Self>;

    /// See [`mod@attention`].
    fn attention_kernel(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] blocked: OptionalMask<Self>,
        mask: Option<HashedMask>,
        precision: ProductPrecision,
    ) -> FloatTensor<Self>;

    /// See [`mod@layer_norm`].
    fn layer_norm_kernel(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        #[extension_type] beta: OptionalTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self>;

    /// See [`mod@recurrence`].
    fn recurrence_kernel(x: FloatTensor<Self>, gates: FloatTensor<Self>) -> FloatTensor<Self>;

    /// See [`mod@residual`].
    fn residual_kernel(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        mask: HashedMask,
    ) -> FloatTensor<Self>;

    /// See [`mod@activation`].
    fn activation_kernel(
        x: FloatTensor<Self>,
        activation: Activation,
        mask: Option<HashedMask>,
    ) -> FloatTensor<Self>;

    /// See [`residual::dropout`].
    fn dropout_kernel(x: FloatTensor<Self>, mask: HashedMask) -> FloatTensor<Self>;

    /// See [`mod@embedding`].
    fn embedding_kernel(
        table: FloatTensor<Self>,
        tokens: IntTensor<Self>,
        #[extension_type] positions: OptionalTensor<Self>,
        options: EmbeddingOptions,
    ) -> FloatTensor<Self>;

    /// See [`mod@cross_entropy`]; returns the loss, the negative log-likelihood and the number of
    /// correct tokens.
    fn cross_entropy_kernel(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, IntTensor<Self>);

    /// See [`linear_cross_entropy`](super::linear_cross_entropy()); returns what
    /// [`cross_entropy_kernel`](Self::cross_entropy_kernel) returns. With the weight `r_drop`, see
    /// [`linear_r_drop`](super::linear_r_drop()); negative log-likelihood and number of correct tokens
    /// are then those of both halves together.
    fn linear_cross_entropy_kernel(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] b: OptionalTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
        r_drop: Option<f32>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, IntTensor<Self>);

    /// See [`mod@distillation`]; returns what [`cross_entropy_kernel`](Self::cross_entropy_kernel) returns.
    fn distillation_kernel(
        logits: FloatTensor<Self>,
        teachers: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
        weight: f32,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, IntTensor<Self>);

    /// See [`mod@divergence`].
    fn divergence_kernel(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> FloatTensor<Self>;
}

/// Kernels without a backward pass.
#[backend_extension(Flex)]
pub trait UpdateKernel: Backend {
    /// See [`mod@adam`]; returns parameter, first and second moment.
    fn adam_kernel(
        parameter: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        exp_avg: FloatTensor<Self>,
        exp_avg_sq: FloatTensor<Self>,
        update: AdamUpdate,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// See [`adam::sum_of_squares`].
    fn squares_kernel(x: FloatTensor<Self>) -> FloatTensor<Self>;
}

impl UpdateKernel for Flex {
    fn adam_kernel(
        parameter: FlexTensor,
        gradient: FlexTensor,
        exp_avg: FlexTensor,
        exp_avg_sq: FlexTensor,
        update: AdamUpdate,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        adam::update(parameter, gradient, exp_avg, exp_avg_sq, update)
    }

    fn squares_kernel(x: FlexTensor) -> FlexTensor {
        tensor(vec![adam::sum_of_squares(x) as f32], [1])
    }
}

impl Kernels for Flex {
    fn linear_kernel(
        x: FlexTensor,
        w: FlexTensor,
        b: OptionalTensor<Self>,
        _: ProductPrecision,
    ) -> FlexTensor {
        let b = b.into_option().map(contiguous);
        linear::forward(&contiguous(x), &forward(w), b.as_ref(), ProductPrecision::F32)
    }

    fn feed_forward_kernel(
        x: FlexTensor,
        inner: FlexTensor,
        inner_bias: OptionalTensor<Self>,
        outer: FlexTensor,
        outer_bias: OptionalTensor<Self>,
        mask: Option<HashedMask>,
    ) -> FlexTensor {
        let x = Self::linear_kernel(x, inner, inner_bias, ProductPrecision::F32);
        let x = activation::forward(x, Activation::Relu, mask);
        Self::linear_kernel(x, outer, outer_bias, ProductPrecision::F32)
    }

    fn attention_kernel(
        q: FlexTensor,
        k: FlexTensor,
        v: FlexTensor,
        blocked: OptionalMask<Self>,
        mask: Option<HashedMask>,
        _: ProductPrecision,
    ) -> FlexTensor {
        let [q, k, v] = [q, k, v].map(forward);
        let blocked = blocked.into_option().map(forward);
        attention::forward(&q, &k, &v, blocked.as_ref(), mask, ProductPrecision::F32).0
    }

    fn layer_norm_kernel(
        x: FlexTensor,
        gamma: FlexTensor,
        beta: OptionalTensor<Self>,
        epsilon: f32,
    ) -> FlexTensor {
        let beta = beta.into_option().map(contiguous);
        layer_norm::forward(&contiguous(x), &contiguous(gamma), beta.as_ref(), epsilon)
    }

    fn recurrence_kernel(x: FlexTensor, gates: FlexTensor) -> FlexTensor {
        recurrence::forward(&contiguous(x), &contiguous(gates))
    }

    fn residual_kernel(x: FlexTensor, y: FlexTensor, mask: HashedMask) -> FlexTensor {
        residual::forward(&contiguous(x), y, mask)
    }

    fn activation_kernel(
        x: FlexTensor,
        activation: Activation,
        mask: Option<HashedMask>,
    ) -> FlexTensor {
        activation::forward(x, activation, mask)
    }

    fn dropout_kernel(x: FlexTensor, mask: HashedMask) -> FlexTensor {
        residual::dropout(&contiguous(x), mask)
    }

    fn embedding_kernel(
        table: FlexTensor,
        tokens: FlexTensor,
        positions: OptionalTensor<Self>,
        options: EmbeddingOptions,
    ) -> FlexTensor {
        let positions = positions.into_option().map(contiguous);
        embedding::forward(&contiguous(table), &contiguous(tokens), positions.as_ref(), options)
    }

    fn cross_entropy_kernel(
        logits: FlexTensor,
        targets: FlexTensor,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let [logits, targets] = [logits, targets].map(contiguous);
        let weights = weights.into_option().map(contiguous);
        let output = cross_entropy::forward(&logits, &targets, weights.as_ref(), config);
        (output.loss, output.nll, output.correct)
    }

    fn linear_cross_entropy_kernel(
        x: FlexTensor,
        w: FlexTensor,
        b: OptionalTensor<Self>,
        targets: FlexTensor,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
        r_drop: Option<f32>,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let logits = Self::linear_kernel(x, w, b, ProductPrecision::F32);
        let shape = rows(&logits);
        let logits = logits.reshape(shape.into());
        let Some(alpha) = r_drop else {
            return Self::cross_entropy_kernel(logits, targets, weights, config);
        };
        let [logits, targets] = [logits, targets].map(contiguous);
        let weights = weights.into_option().map(contiguous);
        let ignore_index = config.ignore_index;
        let divergence = divergence::forward(&logits, &targets, weights.as_ref(), ignore_index);
        let targets = Self::int_cat(vec![targets.clone(), targets], 0);
        let weights = weights.map(|weights| Self::float_cat(vec![weights.clone(), weights], 0));
        let output = cross_entropy::forward(&logits, &targets, weights.as_ref(), config);
        let loss = 0.5 * floats(&output.loss)[0] + 0.25 * alpha * floats(&divergence.sum)[0];
        (tensor(vec![loss], [1]), output.nll, output.correct)
    }

    fn distillation_kernel(
        logits: FlexTensor,
        teachers: FlexTensor,
        targets: FlexTensor,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
        weight: f32,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let [logits, teachers, targets] = [logits, teachers, targets].map(contiguous);
        let weights = weights.into_option().map(contiguous);
        let weights = weights.as_ref();
        let (output, _) =
            distillation::forward(logits, &teachers, &targets, weights, config, weight);
        (output.loss, output.nll, output.correct)
    }

    fn divergence_kernel(
        logits: FlexTensor,
        targets: FlexTensor,
        weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> FlexTensor {
        let [logits, targets] = [logits, targets].map(contiguous);
        let weights = weights.into_option().map(contiguous);
        divergence::forward(&logits, &targets, weights.as_ref(), ignore_index).sum
    }
}
