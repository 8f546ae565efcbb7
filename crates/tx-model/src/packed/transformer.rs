//! The whole model, and a batch of translations under way.

use super::{
    PackedDecoder, PackedEmbedding, PackedEncoder, PackedMatrix, Scratch, attention::ranges,
    decoder::PackedCache, top_tokens::TopTokens,
};
use crate::transformer::Transformer;

/// Weights of the projection to the vocabulary that are used before the scores they make are looked
/// at: few enough, with those scores, to stay in a core's own cache.
const BLOCK: usize = 1 << 17;

/// A [`Transformer`] for translating on a processor.
///
/// ```
/// use burn::tensor::Device;
/// use tx_model::{ModelConfig, Transformer, VocabSizes, packed::PackedTransformer};
///
/// let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
/// let vocab = VocabSizes { source: 11, target: 11 };
/// let model = PackedTransformer::new(Transformer::new(&config, vocab, &Device::flex())?);
///
/// // Two sources are read, and each gets its two likeliest first tokens, after `<bos>`.
/// let mut decoding = model.start(&[&[4, 5, 2], &[6, 2]]);
/// let best = decoding.step(&[1, 1], &[], 2);
/// assert_eq!((best.len(), best[0].len()), (2, 2));
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PackedTransformer {
    pub(crate) source_input: PackedEmbedding,
    pub(crate) target_input: PackedEmbedding,
    pub(crate) encoder: PackedEncoder,
    pub(crate) decoder: PackedDecoder,
    /// `[d_model, target vocabulary]`
    pub(crate) projection: PackedMatrix,
}

/// A batch of half-finished translations. A hypothesis is one row.
#[derive(Debug)]
pub struct Decoding<'a> {
    model: &'a PackedTransformer,
    cache: PackedCache,
    scratch: Scratch,
    /// `[rows, d_model]`
    x: Vec<f32>,
}

impl PackedTransformer {
    /// Takes the weights of `model` from its device.
    pub fn new(model: Transformer) -> Self {
        model.packed()
    }

    /// Layers of the decoder.
    pub fn decoder_layers(&self) -> usize {
        self.decoder.layers.len()
    }

    /// Reads the sources, and prepares a row of decoding for each.
    ///
    /// `sources` are ids without padding. One without ids is nothing to look at.
    ///
    /// # Panics
    ///
    /// When an id is not in the vocabulary, or a source is longer than the model's `max_len`.
    pub fn start(&self, sources: &[&[u32]]) -> Decoding<'_> {
        let mut scratch = Scratch::default();
        let mut x = Vec::new();
        for source in sources {
            for (place, &token) in source.iter().enumerate() {
                self.source_input.push(&mut x, token, place);
            }
        }
        let sentences = ranges(sources.iter().map(|source| source.len()));
        self.encoder.forward(&mut x, &sentences, &mut scratch);
        let cache = self.decoder.start(&x, sentences);
        Decoding { model: self, cache, scratch, x }
    }
}

impl Decoding<'_> {
    /// Tokens decoded so far, `<bos>` included.
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether no step has been made yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one target token to each row, and gives each row's `count` likeliest next tokens with
    /// their log-probabilities, best first; among equals the earlier one.
    ///
    /// `tokens` has one id per row; in the first step, `<bos>` for all. Those of `never` are not
    /// listed, but are as likely as they are. A row whose scores are not finite has one token, whose
    /// log-probability is NaN.
    ///
    /// # Panics
    ///
    /// When `tokens` are not as many as rows, or more than `max_len` steps are made.
    pub fn step(&mut self, tokens: &[u32], never: &[u32], count: usize) -> Vec<Vec<(u32, f32)>> {
        self.advance(tokens);
        // Whatever the number of rows, so that no score depends on who shares the batch.
        let projection = &self.model.projection;
        let blocks: Vec<_> = projection.blocks(BLOCK / projection.inputs()).collect();
        let top = TopTokens::of(&self.x, &blocks, never, count);
        top.into_iter().map(TopTokens::finish).collect()
    }

    /// As [`step`](Self::step), with the scores of all tokens.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[rows, target vocabulary]`
    pub fn step_logits(&mut self, tokens: &[u32]) -> Vec<f32> {
        self.advance(tokens);
        let projection = &self.model.projection;
        let mut logits = vec![0.0; tokens.len() * projection.outputs()];
        projection.product(&self.x, &mut logits);
        logits
    }

    /// Takes note from now on of where rows look in the source in decoder layer `layer`, from 0.
    pub fn watch(&mut self, layer: usize) {
        self.cache.watch(layer);
    }

    /// What row `row` took from each token of its source in the last step: the mean of the heads of
    /// the layer [watched](Self::watch); nothing where none is. It sums to 1.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    pub fn attention(&self, row: usize) -> &[f32] {
        self.cache.attention(row)
    }

    /// Row `i` becomes what row `rows[i]` was; rows may repeat and be left out.
    ///
    /// # Panics
    ///
    /// When there is no such row.
    pub fn select(&mut self, rows: &[usize]) {
        self.cache.select(rows);
    }

    fn advance(&mut self, tokens: &[u32]) {
        assert_eq!(tokens.len(), self.cache.rows(), "one token for each row");
        self.x.clear();
        for &token in tokens {
            self.model.target_input.push(&mut self.x, token, self.cache.len());
        }
        self.model.decoder.step(&mut self.x, &mut self.cache, &mut self.scratch);
    }
}
