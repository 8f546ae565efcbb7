//! Layers of Burn with the initialization that a [`ModelConfig`] specifies.

use burn::{
    module::{Module, ModuleVisitor, Param},
    nn::{Embedding, EmbeddingConfig, Initializer, Linear, LinearConfig},
    tensor::{Device, Tensor},
};

use crate::{
    config::{EmbeddingInit, Init, ModelConfig},
    kernels::{self, LinearWeights},
    product_precision::ProductPrecision,
};

/// Creates a linear layer `[.., d_in]` → `[.., d_out]`; its bias, if any, is initialized to zero.
pub(crate) fn linear(
    config: &ModelConfig,
    d_in: usize,
    d_out: usize,
    bias: bool,
    device: &Device,
) -> Linear {
    let initializer = match config.init {
        Init::XavierUniform => Initializer::XavierUniform { gain: 1.0 },
        // Burn's bound is gain · √(3 / fan in).
        Init::KaimingUniform => {
            Initializer::KaimingUniform { gain: 1.0 / 3.0_f64.sqrt(), fan_out_only: false }
        }
        Init::Normal => Initializer::Normal { mean: 0.0, std: 0.02 },
    };
    let mut layer =
        LinearConfig::new(d_in, d_out).with_bias(bias).with_initializer(initializer).init(device);
    layer.bias = bias.then(|| Initializer::Zeros.init([d_out], device));
    layer
}

/// Creates an embedding with a table `[vocabulary, d_model]`.
pub(crate) fn embedding(config: &ModelConfig, vocabulary: usize, device: &Device) -> Embedding {
    let d_model = config.d_model;
    let initializer = match config.embedding_init {
        EmbeddingInit::Normal => {
            Initializer::Normal { mean: 0.0, std: (d_model as f64).sqrt().recip() }
        }
        EmbeddingInit::StandardNormal => Initializer::Normal { mean: 0.0, std: 1.0 },
        EmbeddingInit::XavierUniform => {
            let bound = (6.0 / (vocabulary + d_model) as f64).sqrt();
            Initializer::Uniform { min: -bound, max: bound }
        }
    };
    EmbeddingConfig::new(vocabulary, d_model).with_initializer(initializer).init(device)
}

/// Applies a linear layer: `x W + b`, in training with products of `precision`.
pub(crate) fn project(layer: &Linear, x: Tensor<3>, precision: ProductPrecision) -> Tensor<3> {
    kernels::linear(x, weights(layer), precision)
}

/// Returns the weights of a linear layer.
pub(crate) fn weights(layer: &Linear) -> LinearWeights {
    LinearWeights { w: layer.weight.val(), b: layer.bias.as_ref().map(Param::val) }
}

/// Initializes all weights of `module` in the order of its fields, so that they depend only on the
/// device's seed. Burn would initialize each parameter when it is first read.
pub(crate) fn initialize_weights(module: &impl Module) {
    struct Initialize;
    impl ModuleVisitor for Initialize {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let _ = param.val();
        }
    }
    module.visit(&mut Initialize);
}
