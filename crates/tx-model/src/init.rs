//! Building Burn's layers with the first values that a [`ModelConfig`] asks for.

use burn::{
    nn::{Embedding, EmbeddingConfig, Initializer, Linear, LinearConfig},
    tensor::Device,
};

use crate::config::{EmbeddingInit, Init, ModelConfig};

/// A linear layer `[.., d_in]` → `[.., d_out]`; its bias, if any, starts at zero.
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

/// A table `[vocabulary, d_model]`.
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
