//! The language model, and a batch of unfinished texts.

use std::sync::Arc;

use tx_model::{
    architecture::Architecture,
    config::{ConfigError, ModelConfig, Side, VocabSizes},
};

use crate::{
    Map, Stack, Sublayer, WeightSource,
    embedding::PackedEmbedding,
    encoder::{PackedEncoder, PackedPast},
    linear::Linear,
    probe::Probe,
    scratch::Scratch,
    source::Packer,
    top_tokens::likeliest,
};

/// A `LanguageModel` for inference on a CPU. Clones share the embedding, not the other weights.
///
/// ```
/// use std::collections::HashMap;
///
/// use tx_engine::PackedLanguageModel;
/// use tx_model::{Architecture, ModelConfig, VocabSizes};
///
/// let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
/// // Weights by name. A program reads them from a file; here they are all alike.
/// let weights: HashMap<String, Vec<f32>> = config
///     .weight_shapes_of(Architecture::LanguageModel, VocabSizes { source: 11, target: 11 })
///     .into_iter()
///     .map(|weight| (weight.name, vec![0.1; weight.shape.iter().product()]))
///     .collect();
/// let model = PackedLanguageModel::pack(&config, 11, &weights)?;
///
/// // For each of two texts, the two likeliest first tokens after `<bos>`.
/// let mut decoding = model.start(2);
/// let best = decoding.step(&[1, 1], &[], 2);
/// assert_eq!((best.len(), best[0].len()), (2, 2));
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PackedLanguageModel {
    input: PackedEmbedding,
    layers: PackedEncoder,
    /// `[d_model, vocabulary]`
    projection: Arc<Linear>,
}

/// A batch of unfinished texts. Each row is a hypothesis.
#[derive(Debug)]
pub struct LanguageModelDecoding<'a> {
    model: &'a PackedLanguageModel,
    past: PackedPast,
    scratch: Scratch,
    /// `[rows, d_model]`
    x: Vec<f32>,
}

impl PackedLanguageModel {
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
        config.check_architecture(Architecture::LanguageModel, vocab)?;
        Ok(Self::pack_checked(config, vocab, weights))
    }

    /// [`pack`](Self::pack) with a configuration that has been checked.
    pub(crate) fn pack_checked(
        config: &ModelConfig,
        vocab: VocabSizes,
        weights: &dyn WeightSource,
    ) -> Self {
        let packer = Packer::new(config, Architecture::LanguageModel, vocab, weights);
        let (input, projection) = PackedEmbedding::pack_with_projection(&packer, Side::Target);
        let layers = PackedEncoder::pack(&packer, "layers", config.decoder_layers);
        Self { input, layers, projection }
    }

    /// Vocabulary size of the model.
    pub fn vocabulary(&self) -> usize {
        self.projection.outputs()
    }

    /// Starts `rows` empty texts.
    pub fn start(&self, rows: usize) -> LanguageModelDecoding<'_> {
        let past = self.layers.start(rows);
        LanguageModelDecoding { model: self, past, scratch: Scratch::default(), x: Vec::new() }
    }

    /// Computes the attention weights of one text, `[H, T, T]` for each layer; 0 for later tokens.
    ///
    /// # Panics
    ///
    /// If an id is not in the vocabulary, or the text is longer than the model's `max_len`.
    pub fn attention_maps(&self, ids: &[u32]) -> Vec<Map> {
        let mut decoding = self.start(1);
        decoding.scratch.probe = Probe::of_text(ids);
        decoding.scratch.probe.enter_stack(Stack::Decoder);
        for &token in ids {
            decoding.advance(&[token]);
        }
        decoding.scratch.probe.into_trace().decoder.maps(Sublayer::SelfAttention)
    }
}

impl LanguageModelDecoding<'_> {
    /// Tokens decoded so far.
    pub fn len(&self) -> usize {
        self.past.len()
    }

    /// Whether no token has been decoded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one token to each row, and returns each row's `count` likeliest next tokens with their
    /// log-probabilities; see [`Decoding::step`](super::Decoding::step).
    ///
    /// # Panics
    ///
    /// If the number of `tokens` is not that of the rows, or after more than `max_len` steps.
    pub fn step(
        &mut self,
        tokens: &[u32],
        suppressed: &[u32],
        count: usize,
    ) -> Vec<Vec<(u32, f32)>> {
        self.advance(tokens);
        likeliest(&self.model.projection, &self.x, suppressed, count)
    }

    /// Adds one token to each row, and returns the scores of all next tokens.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[rows, vocabulary]`
    ///
    /// # Panics
    ///
    /// As [`step`](Self::step).
    pub fn step_logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.advance(tokens);
        self.model.projection.apply(&self.x)
    }

    /// Replaces row `i` by row `rows[i]` for each `i`; rows may repeat and be omitted.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn select(&mut self, rows: &[usize]) {
        self.past.select(rows);
    }

    fn advance(&mut self, tokens: &[u32]) {
        assert_eq!(tokens.len(), self.past.rows(), "one token for each row");
        self.x.clear();
        for &token in tokens {
            let position = self.past.len();
            self.model.input.push(&mut self.x, token, position, &mut self.scratch.probe);
        }
        self.model.layers.step(&mut self.x, &mut self.past, &mut self.scratch);
    }
}
