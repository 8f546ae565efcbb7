//! The whole model, and a batch of unfinished translations.

use std::sync::Arc;

use tx_model::{
    architecture::Architecture,
    config::{ConfigError, ModelConfig, VocabSizes},
};

use crate::{
    Ablation, Stack, WeightSource,
    attention::ranges,
    decoder::{PackedCache, PackedDecoder},
    embedding::{PackedEmbedding, Vocabularies},
    encoder::PackedEncoder,
    linear::Linear,
    probe::Probe,
    restriction::Restriction,
    scratch::Scratch,
    source::Packer,
    top_tokens::likeliest,
    trace::Trace,
};

/// Minimum number of weights of the output projection of a model whose products are shared with other
/// threads.
const HELPED: usize = 1 << 20;

/// A `Transformer` for inference on a CPU. Clones share the embeddings, not the other weights.
///
/// ```
/// use std::collections::HashMap;
///
/// use tx_engine::PackedTransformer;
/// use tx_model::{ModelConfig, VocabSizes};
///
/// let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
/// let vocab = VocabSizes { source: 11, target: 11 };
/// // Weights by name. A program reads them from a file; here they are all equal.
/// let weights: HashMap<String, Vec<f32>> = config
///     .weight_shapes(vocab)
///     .into_iter()
///     .map(|weight| (weight.name, vec![0.1; weight.shape.iter().product()]))
///     .collect();
/// let model = PackedTransformer::pack(&config, vocab, &weights)?;
///
/// // For each of two sources, the two likeliest first tokens after `<bos>`.
/// let mut decoding = model.start(&[&[4, 5, 2], &[6, 2]]);
/// let best = decoding.step(&[1, 1], &[], 2);
/// assert_eq!((best.len(), best[0].len()), (2, 2));
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PackedTransformer {
    source_input: PackedEmbedding,
    target_input: PackedEmbedding,
    encoder: PackedEncoder,
    pub(crate) decoder: PackedDecoder,
    /// `[d_model, target vocabulary]`
    projection: Arc<Linear>,
}

/// A batch of unfinished translations. Each row is a hypothesis.
#[derive(Debug)]
pub struct Decoding<'a> {
    model: &'a PackedTransformer,
    cache: PackedCache,
    scratch: Scratch,
    /// `[rows, d_model]`
    x: Vec<f32>,
    restriction: Option<Restriction>,
}

impl PackedTransformer {
    /// Packs the weights of a model, matrix by matrix; large models on all cores.
    ///
    /// The caller has compared names and shapes with [`ModelConfig::weight_shapes`].
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config` breaks a rule.
    ///
    /// # Panics
    ///
    /// If a weight is missing or has another shape.
    pub fn pack(
        config: &ModelConfig,
        vocab: VocabSizes,
        weights: &dyn WeightSource,
    ) -> Result<Self, ConfigError> {
        config.check(vocab)?;
        Ok(Self::pack_checked(config, vocab, weights))
    }

    /// [`pack`](Self::pack) with a configuration that has been checked.
    pub(crate) fn pack_checked(
        config: &ModelConfig,
        vocab: VocabSizes,
        weights: &dyn WeightSource,
    ) -> Self {
        let packer = Packer::new(config, Architecture::EncoderDecoder, vocab, weights);
        // Before the layers, because the tables are the largest weights: their source can leave
        // memory while little else is packed.
        let Vocabularies { source_input, target_input, projection } = Vocabularies::pack(&packer);
        let (encoder, decoder) = packer.both(
            || PackedEncoder::pack(&packer, "encoder", config.encoder_layers),
            || PackedDecoder::pack(&packer),
        );
        Self { source_input, target_input, encoder, decoder, projection }
    }

    /// Returns the number of target tokens, padding of the vocabulary included.
    pub fn target_vocabulary(&self) -> usize {
        self.projection.outputs()
    }

    /// Returns the number of decoder layers.
    pub fn decoder_layers(&self) -> usize {
        self.decoder.n_layers()
    }

    /// Returns a message for each of `ablations` that the model does not have.
    pub fn ablation_problems(&self, ablations: &[Ablation]) -> Vec<String> {
        let problem = |ablation: &&Ablation| {
            let has_head = |attention: Option<usize>, head| attention.is_some_and(|n| head < n);
            !match **ablation {
                Ablation::Layer { stack: Stack::Encoder, layer } => layer < self.encoder.n_layers(),
                Ablation::Layer { stack: Stack::Decoder, layer } => layer < self.decoder.n_layers(),
                Ablation::Head { stack: Stack::Encoder, layer, sublayer, head } => {
                    has_head(self.encoder.n_heads(layer, sublayer), head)
                }
                Ablation::Head { stack: Stack::Decoder, layer, sublayer, head } => {
                    has_head(self.decoder.n_heads(layer, sublayer), head)
                }
            }
        };
        let missing = ablations.iter().filter(problem);
        missing.map(|ablation| format!("the model has no {ablation}")).collect()
    }

    /// Returns `true` if decoding few rows is faster when other threads of a pool take parts of the products.
    /// A thread of its own decodes small models faster, because their products end before others wake.
    pub fn gains_from_helpers(&self) -> bool {
        self.projection.inputs() * self.projection.outputs() >= HELPED
    }

    /// Encodes the sources, and prepares a row of decoding for each.
    ///
    /// `sources` are ids without padding; a source may be empty.
    ///
    /// # Panics
    ///
    /// If an id is not in the vocabulary, or a source is longer than the model's `max_len`.
    pub fn start(&self, sources: &[&[u32]]) -> Decoding<'_> {
        self.start_with(sources, Probe::default())
    }

    /// [`start`](Self::start) with parts of the model turned off.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start), or if an attention has no such head.
    pub fn start_ablated(&self, sources: &[&[u32]], ablations: &[Ablation]) -> Decoding<'_> {
        self.start_with(sources, Probe::ablating(ablations))
    }

    /// [`start`](Self::start) with a probe. One that records needs one source.
    pub(crate) fn start_with(&self, sources: &[&[u32]], probe: Probe) -> Decoding<'_> {
        let mut scratch = Scratch { probe, ..Scratch::default() };
        scratch.probe.enter_stack(Stack::Encoder);
        let mut x = self.source_input.embed(sources, &mut scratch.probe);
        let sentences = ranges(sources.iter().map(|source| source.len()));
        self.encoder.forward(&mut x, &sentences, &mut scratch);
        scratch.probe.enter_stack(Stack::Decoder);
        let cache = self.decoder.start(&x, sentences);
        Decoding { model: self, cache, scratch, x, restriction: None }
    }
}

impl Decoding<'_> {
    /// Returns the number of tokens decoded so far, `<bos>` included.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Returns `true` if no token has been decoded yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one target token to each row, and returns each row's `count` likeliest next tokens with
    /// their log-probabilities, best first; on a tie, the token with the lower id first.
    ///
    /// `tokens` has one id per row; in the first step, that of
    /// [`decoder_start`](ModelConfig::decoder_start) for all. The tokens `suppressed` are
    /// not listed, but keep their probability. For a row whose scores are not finite, one token
    /// with the log-probability NaN is returned.
    ///
    /// # Panics
    ///
    /// If the number of `tokens` is not that of the rows, or in a step beyond `max_len`.
    pub fn step(
        &mut self,
        tokens: &[u32],
        suppressed: &[u32],
        count: usize,
    ) -> Vec<Vec<(u32, f32)>> {
        self.read(tokens);
        match &mut self.restriction {
            Some(restriction) => {
                restriction.likeliest(&self.x, self.cache.sentence_of(), suppressed, count)
            }
            None => likeliest(&self.model.projection, &self.x, suppressed, count),
        }
    }

    /// Adds one target token to each row, and returns the scores of all next tokens; see
    /// [`step`](Self::step).
    ///
    /// # Shapes
    ///
    /// - returns the logits `[rows, target vocabulary]`
    pub fn step_logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.read(tokens);
        match &mut self.restriction {
            Some(restriction) => restriction.logits(&self.x, self.cache.sentence_of()),
            None => self.model.projection.apply(&self.x),
        }
    }

    /// Adds one target token to each row, without computing the scores of next tokens.
    ///
    /// # Panics
    ///
    /// Same as [`step`](Self::step).
    pub fn read(&mut self, tokens: &[u32]) {
        assert_eq!(tokens.len(), self.cache.rows(), "one token for each row");
        self.x.clear();
        for &token in tokens {
            let position = self.cache.len();
            self.model.target_input.push(&mut self.x, token, position, &mut self.scratch.probe);
        }
        self.model.decoder.step(&mut self.x, &mut self.cache, &mut self.scratch);
    }

    /// Restricts the next tokens of each source to its `candidates`, which are in ascending order: from
    /// now on, other tokens have probability 0, and the output projection computes the candidates
    /// only. A source whose candidates are all tokens has the results that it has without a
    /// restriction, bit for bit.
    ///
    /// # Panics
    ///
    /// If the number of lists is not that of the sources, a list is not in ascending order, or the
    /// vocabulary has no such token.
    pub fn restrict(&mut self, candidates: Vec<Vec<u32>>) {
        assert_eq!(candidates.len(), self.cache.sentences(), "candidates of each source");
        self.restriction = Restriction::new(&self.model.projection, candidates);
    }

    /// Records the attention of decoder layer `layer`, counted from 0, to the source from now on.
    pub fn watch(&mut self, layer: usize) {
        self.cache.watch(layer);
    }

    /// Attention weights of row `row` for each token of its source in the last step: the mean over
    /// the heads of the [watched](Self::watch) layer, which sums to 1. Empty if no layer is
    /// watched.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn attention(&self, row: usize) -> &[f32] {
        self.cache.attention(row)
    }

    /// Replaces row `i` by row `rows[i]` for each `i`; rows may repeat and be omitted.
    ///
    /// # Panics
    ///
    /// If there is no such row.
    pub fn select(&mut self, rows: &[usize]) {
        self.cache.select(rows);
    }

    /// Returns what the probe has recorded.
    pub(crate) fn into_trace(self) -> Trace {
        self.scratch.probe.into_trace()
    }
}
