//! Encoder-only classifier: one class per text, as in BERT (Devlin et al. 2019).
//!
//! Axis letters: `B` batch, `S` tokens, `H` heads.

use burn::{
    module::Module,
    nn::{Embedding, Linear},
    tensor::{Bool, DType, Device, FloatDType, Int, Tensor},
};

use crate::{
    architecture::{Architecture, Pooling},
    cast::cast,
    config::{ConfigError, ModelConfig, Side, VocabSizes},
    embedding::TokenEmbedding,
    encoder::Encoder,
    init::{self, initialize_weights},
    product_precision::ProductPrecision,
};

/// Classifier of texts: the encoder, [`Pooling`] of its output to one vector, and a linear layer.
#[derive(Module, Debug)]
pub struct Classifier {
    embedding: Embedding,
    input: TokenEmbedding,
    encoder: Encoder,
    /// `[d_model, classes]`
    output: Linear,
    #[module(skip)]
    pooling: Pooling,
    #[module(skip)]
    config: ModelConfig,
}

impl Classifier {
    /// Initializes the weights on `device`. The decoder's part of `config` is not used.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config`, `vocabulary` or `classes` breaks a rule; it names all broken
    /// rules.
    pub fn new(
        config: &ModelConfig,
        vocabulary: usize,
        classes: usize,
        pooling: Pooling,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        let model = Self::uninitialized(config, vocabulary, classes, pooling, device)?;
        initialize_weights(&model);
        Ok(model)
    }

    /// Creates a model for weights that are loaded later. A weight that is read before is
    /// initialized then.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn uninitialized(
        config: &ModelConfig,
        vocabulary: usize,
        classes: usize,
        pooling: Pooling,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        let vocab = VocabSizes { source: vocabulary, target: vocabulary };
        config.check_architecture(Architecture::Classifier { classes, pooling }, vocab)?;
        Ok(Self {
            embedding: init::embedding(config, vocabulary, device),
            input: TokenEmbedding::new(config, Side::Source, device),
            encoder: Encoder::new(config, config.encoder_layers, device),
            output: init::linear(config, config.d_model, classes, config.output_bias, device),
            pooling,
            config: config.clone(),
        })
    }

    /// Casts all parameters to `dtype`, in which the model then computes.
    pub fn cast(self, dtype: FloatDType) -> Self {
        cast(self, dtype)
    }

    /// Sets the precision of matrix products in training, on a device with autodiff and fused
    /// kernels; elsewhere the model computes in the dtype of its parameters.
    pub fn with_product_precision(mut self, precision: ProductPrecision) -> Self {
        self.encoder.set_product_precision(precision);
        self
    }

    /// Dtype of the parameters.
    pub fn dtype(&self) -> DType {
        self.embedding.weight.val().dtype()
    }

    /// Configuration of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Architecture of the model, with its classes and pooling.
    pub fn architecture(&self) -> Architecture {
        Architecture::Classifier { classes: self.classes(), pooling: self.pooling }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        let [_, classes] = self.output.weight.val().dims();
        classes
    }

    /// Reduction of the encoder's output to one vector.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// Vocabulary size of the model, for both sides.
    pub fn vocab(&self) -> VocabSizes {
        let [vocabulary, _] = self.embedding.weight.val().dims();
        VocabSizes { source: vocabulary, target: vocabulary }
    }

    /// Scores the classes.
    ///
    /// # Shapes
    ///
    /// - `ids`: `[B, S]`; `blocked`: `[B, 1, 1, S]`, `true` = padding
    /// - returns the logits `[B, classes]`; those of a row of padding alone are the bias
    pub fn forward(&self, ids: Tensor<2, Int>, blocked: Tensor<4, Bool>) -> Tensor<2> {
        self.run(ids, blocked, None)
    }

    /// [`forward`](Self::forward), and the attention weights `[B, H, S, S]` of each layer.
    pub fn forward_with_attention(
        &self,
        ids: Tensor<2, Int>,
        blocked: Tensor<4, Bool>,
    ) -> (Tensor<2>, Vec<Tensor<4>>) {
        let mut maps = Vec::new();
        let logits = self.run(ids, blocked, Some(&mut maps));
        (logits, maps)
    }

    fn run(
        &self,
        ids: Tensor<2, Int>,
        blocked: Tensor<4, Bool>,
        maps: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<2> {
        let x = self.input.forward(self.embedding.weight.val(), ids, 0);
        let x = self.encoder.forward(x, Some(blocked.clone()), maps);
        self.output.forward(self.pool(x, blocked))
    }

    /// Reduces each text to one vector; that of a text of padding alone is zero.
    ///
    /// # Shapes
    ///
    /// - `x`: `[B, S, d_model]`; `blocked`: `[B, 1, 1, S]`, `true` = padding
    /// - returns `[B, d_model]`
    fn pool(&self, x: Tensor<3>, blocked: Tensor<4, Bool>) -> Tensor<2> {
        let [batch, len, _] = x.dims();
        let real = blocked.bool_not().float().cast(x.dtype()).reshape([batch, len, 1]);
        let pooled = match self.pooling {
            Pooling::First => x.narrow(1, 0, 1) * real.narrow(1, 0, 1),
            Pooling::Mean => {
                let count = real.clone().sum_dim(1).clamp_min(1.0);
                (x * real).sum_dim(1) / count
            }
        };
        pooled.squeeze_dim(1)
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
        for pooling in [Pooling::First, Pooling::Mean] {
            let model = Classifier::new(&config, 9, 3, pooling, &device).unwrap();
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

    /// Two texts, `d_model` 2; the third token of the first text is padding.
    ///
    /// ```text
    /// first   (1, 2)                      (5, 6)
    /// mean    ((1 + 3) / 2, (2 + 4) / 2)  ((5 + 7 + 3) / 3, (6 + 8 + 1) / 3)
    /// ```
    #[test]
    fn each_pooling_by_hand() {
        let device = Device::flex();
        let config = ModelConfig { d_model: 2, n_heads: 1, d_ff: 2, ..ModelConfig::default() };
        let x = Tensor::<3>::from_data(
            [[[1.0, 2.0], [3.0, 4.0], [9.0, 9.0]], [[5.0, 6.0], [7.0, 8.0], [3.0, 1.0]]],
            &device,
        );
        let blocked = Tensor::<4, Bool>::from_data(
            [[[[false, false, true]]], [[[false, false, false]]]],
            &device,
        );
        for (pooling, expected) in [
            (Pooling::First, [[1.0_f32, 2.0], [5.0, 6.0]]),
            (Pooling::Mean, [[2.0, 3.0], [5.0, 5.0]]),
        ] {
            let model = Classifier::new(&config, 9, 3, pooling, &device).unwrap();
            let found = model.pool(x.clone(), blocked.clone());
            let expected = burn::tensor::TensorData::from(expected);
            found.into_data().assert_approx_eq::<f32>(&expected, Tolerance::default());
        }
    }
}
