//! Decoder-only language model, as in GPT (Radford et al. 2018).

use burn::{
    module::Module,
    nn::Embedding,
    tensor::{Bool, Device, Int, Tensor},
};

use crate::{
    config::{ConfigError, ModelConfig, Side, VocabSizes},
    embedding::{OutputProjection, TokenEmbedding},
    encoder::Encoder,
    init::{self, initialize_weights},
};

/// Language model: scores each next token of a text.
///
/// Its layers are encoder layers with a causal mask, because a decoder layer without cross-attention is
/// an encoder layer. There are `decoder_layers` of them.
#[derive(Module, Debug)]
pub struct LanguageModel {
    embedding: Embedding,
    input: TokenEmbedding,
    layers: Encoder,
    projection: OutputProjection,
}

impl LanguageModel {
    /// Initializes the weights on `device`. The encoder's part of `config` is not used.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config` breaks a rule; it names all broken rules.
    pub fn new(
        config: &ModelConfig,
        vocabulary: usize,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        config.check(VocabSizes { source: vocabulary, target: vocabulary })?;
        let model = Self {
            embedding: init::embedding(config, vocabulary, device),
            input: TokenEmbedding::new(config, Side::Target, device),
            layers: Encoder::new(config, config.decoder_layers, device),
            projection: OutputProjection::new(config, vocabulary, device),
        };
        initialize_weights(&model);
        Ok(model)
    }

    /// Scores every next token.
    ///
    /// # Shapes
    ///
    /// - `ids`: `[B, T]`
    /// - `blocked`: broadcasts to `[B, H, T, T]`; `true` = must not be attended to. Blocks at least every
    ///   later token
    /// - returns the logits `[B, T, vocabulary]`
    pub fn forward(&self, ids: Tensor<2, Int>, blocked: Tensor<4, Bool>) -> Tensor<3> {
        let x = self.input.forward(self.embedding.weight.val(), ids, 0);
        let x = self.layers.forward(x, Some(blocked), None);
        self.projection.forward(x, || self.embedding.weight.val())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Tolerance;

    #[test]
    fn a_later_token_changes_nothing_before_it() {
        let device = Device::flex();
        let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 8, ..ModelConfig::default() };
        let model = LanguageModel::new(&config, 9, &device).unwrap();
        let causal = [[false, true, true], [false, false, true], [false, false, false]];

        let run = |ids: [[i32; 3]; 1]| {
            let blocked = Tensor::<4, Bool>::from_data([[causal]], &device);
            model.forward(Tensor::from_data(ids, &device), blocked)
        };
        let (a, b) = (run([[4, 5, 6]]), run([[4, 5, 7]]));

        assert_eq!(a.dims(), [1, 3, 9]);
        let before = |x: &Tensor<3>| x.clone().slice([0..1, 0..2]).into_data();
        before(&a).assert_eq(&before(&b), true);
        let tolerance = Tolerance::<f32>::default();
        assert!(
            std::panic::catch_unwind(|| a.into_data().assert_approx_eq(&b.into_data(), tolerance))
                .is_err(),
            "the last token must change its own scores"
        );
    }
}
