//! The masked language model.

use std::sync::Arc;

use tx_model::{
    architecture::Architecture,
    config::{ConfigError, ModelConfig, Side, VocabSizes},
};

use crate::{
    Map, Sublayer, WeightSource, attention::ranges, embedding::PackedEmbedding,
    encoder::PackedEncoder, linear::Linear, probe::Probe, scratch::Scratch, source::Packer,
};

/// A `MaskedLanguageModel` for inference on a CPU. Clones share the embedding, not the other
/// weights.
///
/// ```
/// use std::collections::HashMap;
///
/// use tx_engine::PackedMaskedLanguageModel;
/// use tx_model::{Architecture, ModelConfig, VocabSizes};
///
/// let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
/// // Weights by name. A program reads them from a file; here they are all alike.
/// let weights: HashMap<String, Vec<f32>> = config
///     .weight_shapes_of(Architecture::MaskedLanguageModel, VocabSizes { source: 11, target: 11 })
///     .into_iter()
///     .map(|weight| (weight.name, vec![0.1; weight.shape.iter().product()]))
///     .collect();
/// let model = PackedMaskedLanguageModel::pack(&config, 11, &weights)?;
///
/// // Scores of eleven tokens at two positions of a text.
/// assert_eq!(model.logits(&[1, 5, 4, 4, 2], &[2, 3]).len(), 2 * 11);
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PackedMaskedLanguageModel {
    input: PackedEmbedding,
    encoder: PackedEncoder,
    /// `[d_model, vocabulary]`
    projection: Arc<Linear>,
}

impl PackedMaskedLanguageModel {
    /// Packs the weights of a model, matrix by matrix; large models on all cores.
    ///
    /// The caller has compared names and shapes with [`ModelConfig::weight_shapes_of`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config` or `vocabulary` breaks a rule.
    ///
    /// # Panics
    ///
    /// If a weight is missing or has another shape.
    pub fn pack(
        config: &ModelConfig,
        vocabulary: usize,
        weights: &dyn WeightSource,
    ) -> Result<Self, ConfigError> {
        let vocab = VocabSizes { source: vocabulary, target: vocabulary };
        config.check_architecture(Architecture::MaskedLanguageModel, vocab)?;
        Ok(Self::pack_checked(config, vocab, weights))
    }

    /// [`pack`](Self::pack) with a configuration that has been checked.
    pub(crate) fn pack_checked(
        config: &ModelConfig,
        vocab: VocabSizes,
        weights: &dyn WeightSource,
    ) -> Self {
        let packer = Packer::new(config, Architecture::MaskedLanguageModel, vocab, weights);
        let (input, projection) = PackedEmbedding::pack_with_projection(&packer, Side::Source);
        let encoder = PackedEncoder::pack(&packer, "encoder", config.encoder_layers);
        Self { input, encoder, projection }
    }

    /// Vocabulary size of the model.
    pub fn vocabulary(&self) -> usize {
        self.projection.outputs()
    }

    /// Scores the token at each of these positions of a text.
    ///
    /// `ids` are the whole text without padding, in which some tokens are replaced by a mask.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[positions, vocabulary]`
    ///
    /// # Panics
    ///
    /// If an id is not in the vocabulary, the text is longer than the model's `max_len`, or it has
    /// no such position.
    pub fn logits(&self, ids: &[u32], positions: &[usize]) -> Vec<f32> {
        let x = self.encode(ids, &mut Scratch::default());
        let d_model = self.projection.inputs();
        let mut chosen = Vec::with_capacity(positions.len() * d_model);
        for &position in positions {
            chosen.extend_from_slice(&x[position * d_model..(position + 1) * d_model]);
        }
        self.projection.apply(&chosen)
    }

    /// Computes the attention weights of one text, `[H, S, S]` for each layer.
    ///
    /// # Panics
    ///
    /// If an id is not in the vocabulary, or the text is longer than the model's `max_len`.
    pub fn attention_maps(&self, ids: &[u32]) -> Vec<Map> {
        let mut scratch = Scratch { probe: Probe::of_text(ids), ..Scratch::default() };
        self.encode(ids, &mut scratch);
        scratch.probe.into_trace().encoder.maps(Sublayer::SelfAttention)
    }

    /// `[S, d_model]`
    fn encode(&self, ids: &[u32], scratch: &mut Scratch) -> Vec<f32> {
        let mut x = self.input.embed(&[ids], &mut scratch.probe);
        let rows = ranges([ids.len()].into_iter());
        self.encoder.forward(&mut x, &rows, scratch);
        x
    }
}
