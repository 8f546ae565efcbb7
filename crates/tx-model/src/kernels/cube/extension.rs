//! The kernels as operations of Burn: an extension of its CubeCL backend.

use burn::backend::{
    Backend, Cube, ExtensionType, backend_extension,
    tensor::{FloatTensor, IntTensor},
};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};

use super::{
    activation, attention, cross_entropy, divergence,
    dropout::KeyedMask,
    embedding,
    layer_norm::{self, Norm},
    linear::{self, Stack, part},
    residual::Branch,
    rotation::rotate,
    rows, teachers,
};
use crate::{
    config::Activation,
    kernels::{
        CrossEntropyConfig,
        optional::{OptionalMask, OptionalTensor},
    },
    product_precision::ProductPrecision,
};

/// Weights of a linear layer.
#[derive(ExtensionType)]
pub struct Layer<B: Backend> {
    /// `[d_in, d_out]`
    pub w: FloatTensor<B>,
    /// `[d_out]`
    #[extension_type]
    pub b: OptionalTensor<B>,
}

/// Weights of a norm.
#[derive(ExtensionType)]
pub struct NormWeights<B: Backend> {
    /// `[width]`
    pub gamma: FloatTensor<B>,
    /// `[width]`; absent in RMSNorm
    #[extension_type]
    pub beta: OptionalTensor<B>,
    /// Added to the variance.
    pub epsilon: f32,
}

/// Kernels with a backward pass; each is described in its file. `None` means no dropout.
#[backend_extension(Cube, Autodiff: cfg(feature = "autodiff"))]
pub trait CubeKernels: Backend {
    /// See [`mod@linear`].
    fn linear_on_cube(
        x: FloatTensor<Self>,
        #[extension_type] layer: Layer<Self>,
        precision: ProductPrecision,
    ) -> FloatTensor<Self>;

    /// See [`mod@linear`]; returns the outputs of both layers.
    fn two_linear_on_cube(
        x: FloatTensor<Self>,
        #[extension_type] first: Layer<Self>,
        #[extension_type] second: Layer<Self>,
        precision: ProductPrecision,
    ) -> (FloatTensor<Self>, FloatTensor<Self>);

    /// See [`mod@linear`]; returns the outputs of all layers.
    fn three_linear_on_cube(
        x: FloatTensor<Self>,
        #[extension_type] first: Layer<Self>,
        #[extension_type] second: Layer<Self>,
        #[extension_type] third: Layer<Self>,
        precision: ProductPrecision,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>);

    /// See [`mod@attention`].
    fn attention_on_cube(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] bias: OptionalTensor<Self>,
        #[extension_type] blocked: OptionalMask<Self>,
        mask: Option<KeyedMask>,
    ) -> FloatTensor<Self>;

    /// See [`mod@rotation`](super::rotation).
    fn rotate_on_cube(x: FloatTensor<Self>, table: FloatTensor<Self>) -> FloatTensor<Self>;

    /// See [`mod@layer_norm`].
    fn layer_norm_on_cube(
        x: FloatTensor<Self>,
        #[extension_type] norm: NormWeights<Self>,
    ) -> FloatTensor<Self>;

    /// See [`mod@residual`](super::residual).
    fn residual_on_cube(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        #[extension_type] bias: OptionalTensor<Self>,
        mask: Option<KeyedMask>,
    ) -> FloatTensor<Self>;

    /// See [`mod@layer_norm`]; of a residual sum.
    fn residual_norm_on_cube(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        #[extension_type] bias: OptionalTensor<Self>,
        mask: Option<KeyedMask>,
        #[extension_type] norm: NormWeights<Self>,
    ) -> FloatTensor<Self>;

    /// See [`mod@activation`].
    fn activation_on_cube(
        x: FloatTensor<Self>,
        #[extension_type] bias: OptionalTensor<Self>,
        activation: Activation,
        mask: Option<KeyedMask>,
    ) -> FloatTensor<Self>;

    /// See [`mod@dropout`](super::dropout).
    fn dropout_on_cube(x: FloatTensor<Self>, mask: KeyedMask) -> FloatTensor<Self>;

    /// See [`mod@embedding`].
    fn embedding_on_cube(
        table: FloatTensor<Self>,
        ids: IntTensor<Self>,
        #[extension_type] positions: OptionalTensor<Self>,
        options: embedding::Options,
    ) -> FloatTensor<Self>;

    /// See [`mod@cross_entropy`]; returns the loss, the negative log-likelihood and the number of
    /// correct tokens.
    fn cross_entropy_on_cube(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, IntTensor<Self>);

    /// See [`mod@divergence`].
    fn divergence_on_cube(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> FloatTensor<Self>;

    /// See [`mod@teachers`]; returns the loss.
    fn teachers_on_cube(
        logits: FloatTensor<Self>,
        teachers: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> FloatTensor<Self>;
}

impl From<NormWeights<Cube>> for Norm {
    fn from(NormWeights { gamma, beta, epsilon }: NormWeights<Cube>) -> Self {
        Self::new(gamma, beta.into_option(), epsilon)
    }
}

/// Returns the outputs of linear layers of the same input.
fn apply_all<const N: usize>(
    x: CubeTensor,
    layers: [Layer<Cube>; N],
    precision: ProductPrecision,
) -> [CubeTensor; N] {
    let layers = layers.map(|layer| (layer.w, layer.b.into_option()));
    let (w, b) =
        (layers.each_ref().map(|(w, _)| w.clone()), layers.each_ref().map(|(_, b)| b.clone()));
    match Stack::of(rows(&x)[0], &w, &b, precision) {
        Some(stack) => {
            let y = stack.forward(x);
            std::array::from_fn(|index| part(&y, index))
        }
        None => layers.map(|(w, b)| linear::forward(x.clone(), w, b, precision)),
    }
}

impl CubeKernels for Cube {
    fn linear_on_cube(
        x: CubeTensor,
        layer: Layer<Self>,
        precision: ProductPrecision,
    ) -> CubeTensor {
        linear::forward(x, layer.w, layer.b.into_option(), precision)
    }

    fn two_linear_on_cube(
        x: CubeTensor,
        first: Layer<Self>,
        second: Layer<Self>,
        precision: ProductPrecision,
    ) -> (CubeTensor, CubeTensor) {
        apply_all(x, [first, second], precision).into()
    }

    fn three_linear_on_cube(
        x: CubeTensor,
        first: Layer<Self>,
        second: Layer<Self>,
        third: Layer<Self>,
        precision: ProductPrecision,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        apply_all(x, [first, second, third], precision).into()
    }

    fn attention_on_cube(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        bias: OptionalTensor<Self>,
        blocked: OptionalMask<Self>,
        mask: Option<KeyedMask>,
    ) -> CubeTensor {
        let (bias, blocked) = (bias.into_option(), blocked.into_option());
        attention::forward(&attention::Input::new([q, k, v], bias, blocked, mask))
    }

    fn rotate_on_cube(x: CubeTensor, table: CubeTensor) -> CubeTensor {
        rotate(x, table, false)
    }

    fn layer_norm_on_cube(x: CubeTensor, norm: NormWeights<Self>) -> CubeTensor {
        layer_norm::forward(into_contiguous(x), norm.into())
    }

    fn residual_on_cube(
        x: CubeTensor,
        y: CubeTensor,
        bias: OptionalTensor<Self>,
        mask: Option<KeyedMask>,
    ) -> CubeTensor {
        Branch::new(y, bias.into_option(), mask).add_to(x)
    }

    fn residual_norm_on_cube(
        x: CubeTensor,
        y: CubeTensor,
        bias: OptionalTensor<Self>,
        mask: Option<KeyedMask>,
        norm: NormWeights<Self>,
    ) -> CubeTensor {
        let branch = Branch::new(y, bias.into_option(), mask);
        let [_, y] = layer_norm::forward_of_sum(x, branch, norm.into());
        y
    }

    fn activation_on_cube(
        x: CubeTensor,
        bias: OptionalTensor<Self>,
        activation: Activation,
        mask: Option<KeyedMask>,
    ) -> CubeTensor {
        activation::forward(&activation::Input::new(x, bias.into_option(), activation, mask))
    }

    fn dropout_on_cube(x: CubeTensor, mask: KeyedMask) -> CubeTensor {
        mask.apply(x)
    }

    fn embedding_on_cube(
        table: CubeTensor,
        ids: CubeTensor,
        positions: OptionalTensor<Self>,
        options: embedding::Options,
    ) -> CubeTensor {
        let [table, ids] = [table, ids].map(into_contiguous);
        let positions = positions.into_option().map(into_contiguous);
        embedding::forward(table, ids, positions, 0, options)
    }

    fn cross_entropy_on_cube(
        logits: CubeTensor,
        targets: CubeTensor,
        weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (CubeTensor, CubeTensor, CubeTensor) {
        let [logits, targets] = [logits, targets].map(into_contiguous);
        let weights = weights.into_option().map(into_contiguous);
        let output = cross_entropy::forward(logits, targets, weights, config);
        (output.loss, output.nll, output.correct)
    }

    fn divergence_on_cube(
        logits: CubeTensor,
        targets: CubeTensor,
        weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> CubeTensor {
        let [logits, targets] = [logits, targets].map(into_contiguous);
        let weights = weights.into_option().map(into_contiguous);
        divergence::forward(logits, targets, weights, ignore_index).sum
    }

    fn teachers_on_cube(
        logits: CubeTensor,
        teachers: CubeTensor,
        targets: CubeTensor,
        weights: OptionalTensor<Self>,
        ignore_index: u32,
    ) -> CubeTensor {
        let [logits, teachers, targets] = [logits, teachers, targets].map(into_contiguous);
        let weights = weights.into_option().map(into_contiguous);
        let input = teachers::Input { logits, teachers, targets, weights, ignore_index };
        teachers::forward(input).loss
    }
}
