//! The kernels as operations of Burn: an extension of its CubeCL backend.

use burn::backend::{
    Backend, Cube, backend_extension,
    tensor::{FloatTensor, IntTensor},
};
use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};

use super::{activation, attention, cross_entropy, dropout::KeyedMask, layer_norm, linear};
use crate::{
    config::Activation,
    kernels::{
        CrossEntropyConfig,
        optional::{OptionalMask, OptionalTensor},
    },
};

/// Kernels with a backward pass; each is described in its file. Rates are those of dropout, of which
/// `None` means none.
#[backend_extension(Cube, Autodiff: cfg(feature = "autodiff"))]
pub trait CubeKernels: Backend {
    /// See [`mod@linear`].
    fn linear_on_cube(
        x: FloatTensor<Self>,
        w: FloatTensor<Self>,
        #[extension_type] b: OptionalTensor<Self>,
    ) -> FloatTensor<Self>;

    /// See [`mod@attention`].
    fn attention_on_cube(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        #[extension_type] blocked: OptionalMask<Self>,
        rate: Option<f64>,
    ) -> FloatTensor<Self>;

    /// See [`mod@layer_norm`].
    fn layer_norm_on_cube(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        #[extension_type] beta: OptionalTensor<Self>,
        epsilon: f32,
    ) -> FloatTensor<Self>;

    /// See [`mod@dropout`].
    fn residual_on_cube(x: FloatTensor<Self>, y: FloatTensor<Self>, rate: f64)
    -> FloatTensor<Self>;

    /// See [`mod@activation`].
    fn activation_on_cube(
        x: FloatTensor<Self>,
        activation: Activation,
        rate: Option<f64>,
    ) -> FloatTensor<Self>;

    /// See [`mod@dropout`].
    fn dropout_on_cube(x: FloatTensor<Self>, rate: f64) -> FloatTensor<Self>;

    /// See [`mod@cross_entropy`]; returns the loss, the negative log-likelihood and the number of
    /// correct tokens.
    fn cross_entropy_on_cube(
        logits: FloatTensor<Self>,
        targets: IntTensor<Self>,
        #[extension_type] weights: OptionalTensor<Self>,
        config: CrossEntropyConfig,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, IntTensor<Self>);
}

impl CubeKernels for Cube {
    fn linear_on_cube(x: CubeTensor, w: CubeTensor, b: OptionalTensor<Self>) -> CubeTensor {
        linear::forward(x, w, b.into_option())
    }

    fn attention_on_cube(
        q: CubeTensor,
        k: CubeTensor,
        v: CubeTensor,
        blocked: OptionalMask<Self>,
        rate: Option<f64>,
    ) -> CubeTensor {
        attention::forward(&attention::Input::new([q, k, v], blocked.into_option(), rate))
    }

    fn layer_norm_on_cube(
        x: CubeTensor,
        gamma: CubeTensor,
        beta: OptionalTensor<Self>,
        epsilon: f32,
    ) -> CubeTensor {
        let [x, gamma] = [x, gamma].map(into_contiguous);
        layer_norm::forward(x, gamma, beta.into_option().map(into_contiguous), epsilon)
    }

    fn residual_on_cube(x: CubeTensor, y: CubeTensor, rate: f64) -> CubeTensor {
        KeyedMask::sample(&x, rate).add(x, y)
    }

    fn activation_on_cube(x: CubeTensor, activation: Activation, rate: Option<f64>) -> CubeTensor {
        let mask = rate.map(|rate| KeyedMask::sample(&x, rate));
        activation::forward(x, activation, mask.as_ref())
    }

    fn dropout_on_cube(x: CubeTensor, rate: f64) -> CubeTensor {
        KeyedMask::sample(&x, rate).apply(x)
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
}
