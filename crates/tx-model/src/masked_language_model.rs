//! Encoder-only masked language model, as in the pre-training of BERT (Devlin et al. 2019, section
//! 3.1).
//!
//! Axis letters: `B` batch, `S` tokens, `V` vocabulary, `H` heads.

use burn::{
    module::Module,
    nn::Embedding,
    tensor::{Bool, DType, Device, FloatDType, Int, Tensor},
};

use crate::{
    architecture::Architecture,
    cast::cast,
    config::{ConfigError, ModelConfig, Side, VocabSizes},
    embedding::{OutputProjection, TokenEmbedding},
    encoder::Encoder,
    init::{self, initialize_weights},
    product_precision::ProductPrecision,
};

/// Masked language model: scores the token at each position of a text, in which some tokens are
/// replaced by a mask.
///
/// Its output layer is the projection of the `Transformer`. BERT has another linear layer and a
/// normalization before it.
#[derive(Module, Debug)]
pub struct MaskedLanguageModel {
    embedding: Embedding,
    input: TokenEmbedding,
    encoder: Encoder,
    projection: OutputProjection,
    #[module(skip)]
    config: ModelConfig,
}

impl MaskedLanguageModel {
    /// Initializes the weights on `device`. The decoder's part of `config` is not used.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config` or `vocabulary` breaks a rule; it names all broken rules.
    pub fn new(
        config: &ModelConfig,
        vocabulary: usize,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        let model = Self::uninitialized(config, vocabulary, device)?;
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
        device: &Device,
    ) -> Result<Self, ConfigError> {
        let vocab = VocabSizes { source: vocabulary, target: vocabulary };
        config.check_architecture(Architecture::MaskedLanguageModel, vocab)?;
        Ok(Self {
            embedding: init::embedding(config, vocabulary, device),
            input: TokenEmbedding::new(config, Side::Source, device),
            encoder: Encoder::new(config, config.encoder_layers, device),
            projection: OutputProjection::new(config, vocabulary, device),
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
        self.projection.set_product_precision(precision);
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

    /// Architecture of the model.
    pub fn architecture(&self) -> Architecture {
        Architecture::MaskedLanguageModel
    }

    /// Vocabulary size of the model, for both sides.
    pub fn vocab(&self) -> VocabSizes {
        let [vocabulary, _] = self.embedding.weight.val().dims();
        VocabSizes { source: vocabulary, target: vocabulary }
    }

    /// Scores the token at every position.
    ///
    /// # Shapes
    ///
    /// - `ids`: `[B, S]`; `blocked`: `[B, 1, 1, S]`, `true` = padding
    /// - returns the logits `[B, S, V]`
    pub fn forward(&self, ids: Tensor<2, Int>, blocked: Tensor<4, Bool>) -> Tensor<3> {
        self.run(ids, blocked, None)
    }

    /// [`forward`](Self::forward), and the attention weights `[B, H, S, S]` of each layer.
    pub fn forward_with_attention(
        &self,
        ids: Tensor<2, Int>,
        blocked: Tensor<4, Bool>,
    ) -> (Tensor<3>, Vec<Tensor<4>>) {
        let mut maps = Vec::new();
        let logits = self.run(ids, blocked, Some(&mut maps));
        (logits, maps)
    }

    /// Scores the tokens at some positions only, as training does: the projection to the vocabulary
    /// is most of the work.
    ///
    /// # Shapes
    ///
    /// - `ids`: `[B, S]`; `blocked`: `[B, 1, 1, S]`, `true` = padding
    /// - `positions`: `[P]`, in the flattened `ids`
    /// - returns the logits `[P, V]`
    pub fn forward_at(
        &self,
        ids: Tensor<2, Int>,
        blocked: Tensor<4, Bool>,
        positions: Tensor<1, Int>,
    ) -> Tensor<2> {
        let x = self.encode(ids, blocked, None);
        let [batch, len, features] = x.dims();
        let x = x.reshape([batch * len, features]).select(0, positions);
        let logits = self.projection.forward(x.unsqueeze(), || self.embedding.weight.val());
        logits.squeeze_dim(0)
    }

    fn run(
        &self,
        ids: Tensor<2, Int>,
        blocked: Tensor<4, Bool>,
        maps: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let x = self.encode(ids, blocked, maps);
        self.projection.forward(x, || self.embedding.weight.val())
    }

    /// Output of the encoder, `[B, S, d_model]`.
    fn encode(
        &self,
        ids: Tensor<2, Int>,
        blocked: Tensor<4, Bool>,
        maps: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<3> {
        let x = self.input.forward(self.embedding.weight.val(), ids, 0);
        self.encoder.forward(x, Some(blocked), maps)
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tolerance;

    use super::*;

    #[test]
    fn scores_at_positions_are_those_of_all_positions() {
        let device = Device::flex();
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 12,
            encoder_layers: 1,
            max_len: 8,
            ..ModelConfig::default()
        };
        let model = MaskedLanguageModel::new(&config, 11, &device).unwrap();
        let ids = Tensor::<2, Int>::from_data([[1, 5, 2, 0], [1, 7, 8, 2]], &device);
        let blocked = ids.clone().equal_elem(0).reshape([2, 1, 1, 4]);
        let all = model.forward(ids.clone(), blocked.clone()).reshape([8, 11]);
        let positions = Tensor::<1, Int>::from_data([1, 6, 5], &device);
        let expected = all.select(0, positions.clone()).into_data();
        let found = model.forward_at(ids, blocked, positions).into_data();
        found.assert_approx_eq::<f32>(&expected, Tolerance::absolute(1e-6));
    }

    /// Unlike in a language model, every token affects the scores at every position.
    #[test]
    fn later_tokens_count() {
        let device = Device::flex();
        let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 8, ..ModelConfig::default() };
        let model = MaskedLanguageModel::new(&config, 9, &device).unwrap();
        let run = |last: i32| {
            let blocked = Tensor::<4, Bool>::from_data([[[[false, false, false]]]], &device);
            model.forward(Tensor::from_data([[4, 5, last]], &device), blocked)
        };
        let (a, b) = (run(6), run(7));
        assert_eq!(a.dims(), [1, 3, 9]);
        for position in 0..3 {
            let gap = (a.clone() - b.clone()).narrow(1, position, 1).abs().max();
            assert!(gap.into_scalar::<f32>() > 1e-6, "position {position}");
        }
    }
}
