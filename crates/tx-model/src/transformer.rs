//! The encoder-decoder Transformer: figure 1 of the paper.
//!
//! Axis letters: `B` batch, `S` source tokens, `T` target tokens, `V` target vocabulary, `H` heads.
//! Masks say what must not be seen: `true` = blocked.

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param},
    nn::Embedding,
    tensor::{Bool, DType, Device, FloatDType, Int, Tensor},
};

use crate::{
    cache::DecoderCache,
    config::{ConfigError, ModelConfig, Side, VocabSizes},
    decoder::{Decoder, DecoderAttention, DecoderInput},
    embedding::{OutputProjection, TokenEmbedding},
    encoder::Encoder,
    init,
};

/// A model that reads a source sequence and scores each next token of a target sequence.
///
/// ```
/// use burn::tensor::{Bool, Device, Int, Tensor};
/// use tx_model::{ModelConfig, Transformer, TransformerInput, VocabSizes};
///
/// let device = Device::flex();
/// let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
/// let model = Transformer::new(&config, VocabSizes { source: 11, target: 11 }, &device)?;
///
/// let logits = model.forward(TransformerInput {
///     source: Tensor::<2, Int>::from_data([[4, 5, 6]], &device),
///     source_blocked: Tensor::<4, Bool>::from_data([[[[false, false, false]]]], &device),
///     target: Tensor::<2, Int>::from_data([[1, 7]], &device),
///     target_blocked: Tensor::<4, Bool>::from_data([[[[false, true], [false, false]]]], &device),
/// });
/// assert_eq!(logits.dims(), [1, 2, 11]);
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Transformer {
    /// `[source vocabulary, d_model]`; serves the target too when all weights are tied.
    source_embedding: Embedding,
    /// `[target vocabulary, d_model]`
    target_embedding: Option<Embedding>,
    source_input: TokenEmbedding,
    target_input: TokenEmbedding,
    encoder: Encoder,
    decoder: Decoder,
    projection: OutputProjection,
    #[module(skip)]
    config: ModelConfig,
}

/// A batch with known targets, as in training.
#[derive(Debug, Clone)]
pub struct TransformerInput {
    /// Source ids `[B, S]`.
    pub source: Tensor<2, Int>,
    /// `[B, 1, 1, S]`; `true` = padding.
    pub source_blocked: Tensor<4, Bool>,
    /// Target ids `[B, T]`, shifted right: the first is `<bos>`.
    pub target: Tensor<2, Int>,
    /// Broadcasts to `[B, H, T, T]`; `true` = must not be seen. Blocks at least every later token.
    pub target_blocked: Tensor<4, Bool>,
}

/// The attention weights of every layer and head; rows sum to 1.
#[derive(Debug, Clone, Default)]
pub struct AttentionMaps {
    /// Source to source, a layer each: `[B, H, S, S]`.
    pub encoder: Vec<Tensor<4>>,
    /// Target to target and target to source, a layer each.
    pub decoder: DecoderAttention,
}

/// Makes every weight another kind of number.
struct Cast(FloatDType);

impl ModuleMapper for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param.map(|weight| weight.cast(self.0))
    }
}

impl Transformer {
    /// The same weights as numbers of another kind, in which it then computes.
    pub fn cast(self, numbers: FloatDType) -> Self {
        self.map(&mut Cast(numbers))
    }

    /// The kind of numbers that the weights are.
    pub fn dtype(&self) -> DType {
        self.source_embedding.weight.val().dtype()
    }

    /// Draws the weights on `device`, in a fixed order from the device's generator.
    ///
    /// # Errors
    ///
    /// When `config` breaks a rule; all broken rules are named. The device is not touched then.
    pub fn new(
        config: &ModelConfig,
        vocab: VocabSizes,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        let model = Self::to_be_loaded(config, vocab, device)?;
        draw_weights(&model);
        Ok(model)
    }

    /// Like [`new`](Self::new), but a weight is drawn only if it is read before it is loaded.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn to_be_loaded(
        config: &ModelConfig,
        vocab: VocabSizes,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        config.check(vocab)?;
        Ok(Self {
            source_embedding: init::embedding(config, vocab.source, device),
            target_embedding: (!config.tying.ties_source())
                .then(|| init::embedding(config, vocab.target, device)),
            source_input: TokenEmbedding::new(config, Side::Source, device),
            target_input: TokenEmbedding::new(config, Side::Target, device),
            encoder: Encoder::new(config, config.encoder_layers, device),
            decoder: Decoder::new(config, device),
            projection: OutputProjection::new(config, vocab.target, device),
            config: config.clone(),
        })
    }

    /// Configuration of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Vocabulary sizes of the model.
    pub fn vocab(&self) -> VocabSizes {
        let [[source, _], [target, _]] =
            [self.source_table(), self.target_table()].map(|table| table.dims());
        VocabSizes { source, target }
    }

    /// Number of decoder layers.
    pub fn decoder_layers(&self) -> usize {
        self.decoder.n_layers()
    }

    /// Scores every next target token.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[B, T, V]`
    pub fn forward(&self, input: TransformerInput) -> Tensor<3> {
        self.run(input, None)
    }

    /// [`forward`](Self::forward), and where every token looked.
    pub fn forward_with_attention(&self, input: TransformerInput) -> (Tensor<3>, AttentionMaps) {
        let mut maps = AttentionMaps::default();
        let logits = self.run(input, Some(&mut maps));
        (logits, maps)
    }

    fn run(&self, input: TransformerInput, maps: Option<&mut AttentionMaps>) -> Tensor<3> {
        let (encoder_maps, decoder_maps) = match maps {
            Some(maps) => (Some(&mut maps.encoder), Some(&mut maps.decoder)),
            None => (None, None),
        };
        let source = self.source_input.forward(self.source_table(), input.source, 0);
        let memory = self.encoder.forward(source, Some(input.source_blocked.clone()), encoder_maps);
        let decoder_input = DecoderInput {
            target: self.target_input.forward(self.target_table(), input.target, 0),
            target_blocked: input.target_blocked,
            memory,
            memory_blocked: input.source_blocked,
        };
        self.project(self.decoder.forward(decoder_input, decoder_maps))
    }

    /// Reads the source.
    ///
    /// # Shapes
    ///
    /// - `source`: ids `[B, S]`; `blocked`: `[B, 1, 1, S]`, `true` = padding
    /// - returns the memory `[B, S, d_model]`
    pub fn encode(&self, source: Tensor<2, Int>, blocked: Tensor<4, Bool>) -> Tensor<3> {
        let source = self.source_input.forward(self.source_table(), source, 0);
        self.encoder.forward(source, Some(blocked), None)
    }

    /// Prepares decoding step by step; see [`decode_step`](Self::decode_step).
    ///
    /// # Shapes
    ///
    /// - `memory`: `[B, S, d_model]` from [`encode`](Self::encode)
    /// - `blocked`: `[B, 1, 1, S]`, `true` = padding of the source
    pub fn start_decoding(&self, memory: Tensor<3>, blocked: Tensor<4, Bool>) -> DecoderCache {
        self.decoder.start(memory, blocked)
    }

    /// Adds one target token to each row of `cache` and scores the next.
    ///
    /// # Shapes
    ///
    /// - `tokens`: ids `[B]`; in the first step, `<bos>` for all
    /// - returns the logits `[B, V]`
    ///
    /// # Panics
    ///
    /// When more than `max_len` steps are made.
    pub fn decode_step(&self, tokens: Tensor<1, Int>, cache: &mut DecoderCache) -> Tensor<2> {
        self.step(tokens, cache, None)
    }

    /// [`decode_step`](Self::decode_step), and where the new token looked: `[B, H, 1, …]` a layer.
    pub fn decode_step_with_attention(
        &self,
        tokens: Tensor<1, Int>,
        cache: &mut DecoderCache,
    ) -> (Tensor<2>, DecoderAttention) {
        let mut maps = DecoderAttention::default();
        let logits = self.step(tokens, cache, Some(&mut maps));
        (logits, maps)
    }

    fn step(
        &self,
        tokens: Tensor<1, Int>,
        cache: &mut DecoderCache,
        maps: Option<&mut DecoderAttention>,
    ) -> Tensor<2> {
        let ids = tokens.unsqueeze_dim(1);
        let x = self.target_input.forward(self.target_table(), ids, cache.len());
        self.project(self.decoder.step(x, cache, maps)).squeeze_dim(1)
    }

    fn project(&self, x: Tensor<3>) -> Tensor<3> {
        self.projection.forward(x, || self.target_table())
    }

    /// `[source vocabulary, d_model]`
    fn source_table(&self) -> Tensor<2> {
        self.source_embedding.weight.val()
    }

    /// `[target vocabulary, d_model]`
    fn target_table(&self) -> Tensor<2> {
        match &self.target_embedding {
            Some(embedding) => embedding.weight.val(),
            None => self.source_table(),
        }
    }
}

/// Parameters are drawn when first read; reading them all here, in the order in which they stand
/// in the model, makes the draw a function of the device's seed alone.
pub(crate) fn draw_weights(model: &impl Module) {
    struct Draw;
    impl ModuleVisitor for Draw {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let _ = param.val();
        }
    }
    model.visit(&mut Draw);
}
