//! Encoder-only classifier: one class per sequence, as with BERT (Devlin et al. 2019).

use burn::{
    module::Module,
    nn::{Embedding, Linear},
    tensor::{Bool, Device, Int, Tensor},
};

use crate::{
    config::{ConfigError, ModelConfig, Side, VocabSizes},
    embedding::TokenEmbedding,
    encoder::Encoder,
    init::{self, initialize_weights},
};

/// Classifier of sequences, from the mean of the encoder's output over the tokens that are not padding.
#[derive(Module, Debug)]
pub struct Classifier {
    embedding: Embedding,
    input: TokenEmbedding,
    encoder: Encoder,
    output: Linear,
}

impl Classifier {
    /// Initializes the weights on `device`. The decoder's part of `config` is not used.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config` breaks a rule, or `classes` is 0.
    pub fn new(
        config: &ModelConfig,
        vocabulary: usize,
        classes: usize,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        config.check(VocabSizes { source: vocabulary, target: vocabulary })?;
        if classes == 0 {
            return Err(ConfigError { problems: vec!["`classes` must be at least 1".into()] });
        }
        let model = Self {
            embedding: init::embedding(config, vocabulary, device),
            input: TokenEmbedding::new(config, Side::Source, device),
            encoder: Encoder::new(config, config.encoder_layers, device),
            output: init::linear(config, config.d_model, classes, config.output_bias, device),
        };
        initialize_weights(&model);
        Ok(model)
    }

    /// Scores the classes.
    ///
    /// # Shapes
    ///
    /// - `ids`: `[B, S]`; `blocked`: `[B, 1, 1, S]`, `true` = padding
    /// - returns the logits `[B, classes]`; those of a row of padding alone are the bias
    pub fn forward(&self, ids: Tensor<2, Int>, blocked: Tensor<4, Bool>) -> Tensor<2> {
        let [batch, len] = ids.dims();
        let x = self.input.forward(self.embedding.weight.val(), ids, 0);
        let x = self.encoder.forward(x, Some(blocked.clone()), None);

        let real = blocked.bool_not().float().reshape([batch, len, 1]);
        let count = real.clone().sum_dim(1).clamp_min(1.0);
        let mean: Tensor<2> = ((x * real).sum_dim(1) / count).squeeze_dim(1);
        self.output.forward(mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Tolerance;

    #[test]
    fn padding_changes_no_class() {
        let device = Device::flex();
        let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 8, ..ModelConfig::default() };
        let model = Classifier::new(&config, 9, 3, &device).unwrap();

        let short = model.forward(
            Tensor::from_data([[5, 6]], &device),
            Tensor::from_data([[[[false, false]]]], &device),
        );
        let padded = model.forward(
            Tensor::from_data([[5, 6, 0], [0, 0, 0]], &device),
            Tensor::from_data([[[[false, false, true]]], [[[true, true, true]]]], &device),
        );

        assert_eq!(padded.dims(), [2, 3]);
        let first = padded.clone().narrow(0, 0, 1);
        first.into_data().assert_approx_eq::<f32>(&short.into_data(), Tolerance::default());
        // The bias, which is initialized to zero.
        let second = padded.narrow(0, 1, 1).abs().max().into_scalar::<f32>();
        assert_eq!(second, 0.0);
    }
}
