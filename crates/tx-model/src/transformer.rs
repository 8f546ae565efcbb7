//! The encoder-decoder Transformer: figure 1 of the paper.
//!
//! Axis letters: `B` batch, `S` source tokens, `T` target tokens, `V` target vocabulary, `H` heads.
//! In masks, `true` means that a key must not be attended to.

use burn::{
    module::Module,
    nn::Embedding,
    tensor::{Bool, DType, Device, FloatDType, Int, Tensor},
};

use crate::{
    cache::DecoderCache,
    cast::cast,
    config::{ConfigError, ModelConfig, Side, VocabSizes},
    decoder::{AttentionRequest, Decoder, DecoderAttention, DecoderInput},
    embedding::{OutputProjection, TokenEmbedding},
    encoder::Encoder,
    init::{self, initialize_weights},
    kernels::{CrossEntropy, CrossEntropyConfig, Targets},
    product_precision::ProductPrecision,
};

/// Encoder-decoder Transformer: scores each next token of a target sequence, given a source
/// sequence.
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
///
/// // Decoding token by token: two sources, the second with one token of padding, are encoded once …
/// let source = Tensor::<2, Int>::from_data([[4, 5, 2], [6, 2, 0]], &device);
/// let padding = source.clone().equal_elem(0).unsqueeze_dims(&[1, 1]);
/// let memory = model.encode(source, padding.clone());
/// // … and each gets scores of its first target token, after `<bos>`.
/// let mut cache = model.start_decoding(memory, padding);
/// let logits = model.decode_step(Tensor::from_data([1, 1], &device), &mut cache);
/// assert_eq!(logits.dims(), [2, 11]);
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct Transformer {
    /// `[source vocabulary, d_model]`; also used by the target if all weights are tied.
    source_embedding: Embedding,
    /// `[target vocabulary, d_model]`
    target_embedding: Option<Embedding>,
    source_input: TokenEmbedding,
    pub(crate) target_input: TokenEmbedding,
    encoder: Encoder,
    pub(crate) decoder: Decoder,
    pub(crate) projection: OutputProjection,
    #[module(skip)]
    config: ModelConfig,
}

/// Batch with known targets, as in training.
#[derive(Debug, Clone)]
pub struct TransformerInput {
    /// Source ids `[B, S]`.
    pub source: Tensor<2, Int>,
    /// `[B, 1, 1, S]`; `true` = padding.
    pub source_blocked: Tensor<4, Bool>,
    /// Target ids `[B, T]`, shifted right: the first is that of
    /// [`decoder_start`](ModelConfig::decoder_start).
    pub target: Tensor<2, Int>,
    /// Broadcasts to `[B, H, T, T]`; `true` = must not be attended to. Blocks at least every later
    /// token.
    pub target_blocked: Tensor<4, Bool>,
}

/// Attention weights of every layer and head; rows sum to 1.
#[derive(Debug, Clone, Default)]
pub struct AttentionMaps {
    /// Self-attention of each encoder layer, `[B, H, S, S]`.
    pub encoder: Vec<Tensor<4>>,
    /// Self-attention and cross-attention of each decoder layer.
    pub decoder: DecoderAttention,
}

impl Transformer {
    /// Casts all parameters to `dtype`, in which the model then computes.
    pub fn cast(self, dtype: FloatDType) -> Self {
        cast(self, dtype)
    }

    /// Sets the precision of matrix products in training, on a device with autodiff and fused
    /// kernels; elsewhere the model computes in the dtype of its parameters.
    pub fn with_product_precision(mut self, precision: ProductPrecision) -> Self {
        self.encoder.set_product_precision(precision);
        self.decoder.set_product_precision(precision);
        self.projection.set_product_precision(precision);
        self
    }

    /// Returns the dtype of the parameters.
    pub fn dtype(&self) -> DType {
        self.source_embedding.weight.val().dtype()
    }

    /// Initializes the weights on `device`, in a fixed order from the device's random numbers.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if `config` breaks a rule; it names all broken rules. The device is not used
    /// then.
    pub fn new(
        config: &ModelConfig,
        vocab: VocabSizes,
        device: &Device,
    ) -> Result<Self, ConfigError> {
        let model = Self::uninitialized(config, vocab, device)?;
        initialize_weights(&model);
        Ok(model)
    }

    /// Creates a model for weights that are loaded later. A weight that is read before it is loaded
    /// is initialized at that point.
    ///
    /// # Errors
    ///
    /// Same as [`new`](Self::new).
    pub fn uninitialized(
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
            target_input: TokenEmbedding::of_decoder(config, device),
            encoder: Encoder::new(config, config.encoder_layers, device),
            decoder: Decoder::new(config, device),
            projection: OutputProjection::new(config, vocab.target, device),
            config: config.clone(),
        })
    }

    /// Returns the configuration of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Returns the vocabulary sizes of the model.
    pub fn vocab(&self) -> VocabSizes {
        let [[source, _], [target, _]] =
            [self.source_table(), self.target_table()].map(|table| table.dims());
        VocabSizes { source, target }
    }

    /// Returns the number of decoder layers.
    pub fn decoder_layers(&self) -> usize {
        self.decoder.n_layers()
    }

    /// Scores every next target token.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[B, T, V]`
    pub fn forward(&self, input: TransformerInput) -> Tensor<3> {
        self.project(self.hidden_states(input))
    }

    /// Same as [`forward`](Self::forward), but also returns the attention weights.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[B, T, V]` and the attention weights before dropout
    pub fn forward_with_attention(&self, input: TransformerInput) -> (Tensor<3>, AttentionMaps) {
        let mut maps = AttentionMaps::default();
        let request = AttentionRequest::All(&mut maps.decoder);
        let hidden = self.run(input, Some(&mut maps.encoder), request);
        (self.project(hidden), maps)
    }

    /// Computes the output of the decoder, from which [`project`](Self::project) computes the logits.
    ///
    /// # Shapes
    ///
    /// - returns `[B, T, d_model]`
    pub fn hidden_states(&self, input: TransformerInput) -> Tensor<3> {
        self.run(input, None, AttentionRequest::None)
    }

    /// Same as [`hidden_states`](Self::hidden_states), but also returns the weights of the
    /// cross-attention of a decoder layer, from 0, with their gradients.
    ///
    /// # Shapes
    ///
    /// - returns `[B, T, d_model]` and the attention weights before dropout, `[B, H, T, S]`; `None` if
    ///   LayerDrop skips the layer or the model does not have it
    pub fn hidden_states_with_cross_attention(
        &self,
        input: TransformerInput,
        layer: usize,
    ) -> (Tensor<3>, Option<Tensor<4>>) {
        let mut weights = None;
        let request = AttentionRequest::Cross { layer, weights: &mut weights };
        let hidden = self.run(input, None, request);
        (hidden, weights)
    }

    fn run(
        &self,
        input: TransformerInput,
        encoder_maps: Option<&mut Vec<Tensor<4>>>,
        request: AttentionRequest<'_>,
    ) -> Tensor<3> {
        let source = self.source_input.forward(self.source_table(), input.source, 0);
        let memory = self.encoder.forward(source, Some(input.source_blocked.clone()), encoder_maps);
        let decoder_input = DecoderInput {
            target: self.target_input.forward(self.target_table(), input.target, 0),
            target_blocked: input.target_blocked,
            memory,
            memory_blocked: input.source_blocked,
        };
        self.decoder.forward(decoder_input, request)
    }

    /// Computes the logits of hidden states.
    ///
    /// # Shapes
    ///
    /// - `hidden`: `[B, T, d_model]`; returns `[B, T, V]`
    pub fn project(&self, hidden: Tensor<3>) -> Tensor<3> {
        self.projection.forward(hidden, || self.target_table())
    }

    /// Computes the label-smoothed cross-entropy of the logits of hidden states.
    ///
    /// # Shapes
    ///
    /// - `hidden`: `[B, T, d_model]`; `targets`: `[B · T]`
    pub fn cross_entropy(
        &self,
        hidden: Tensor<3>,
        targets: Targets,
        config: CrossEntropyConfig,
    ) -> CrossEntropy {
        self.projection.cross_entropy(hidden, || self.target_table(), targets, config)
    }

    /// Computes the loss of R-Drop of the logits of hidden states.
    /// [`r_drop`](crate::kernels::r_drop()) gives the formula.
    ///
    /// # Shapes
    ///
    /// - `hidden`: `[2 B, T, d_model]`, the second pass after the first; `targets`: `[B · T]`
    pub fn r_drop(
        &self,
        hidden: Tensor<3>,
        targets: Targets,
        config: CrossEntropyConfig,
        alpha: f64,
    ) -> CrossEntropy {
        self.projection.r_drop(hidden, || self.target_table(), targets, config, alpha)
    }

    /// Encodes the source.
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

    /// Adds one target token to each row of `cache`, and scores the next.
    ///
    /// # Shapes
    ///
    /// - `tokens`: ids `[B]`; in the first step, that of
    ///   [`decoder_start`](ModelConfig::decoder_start) for all
    /// - returns the logits `[B, V]`
    ///
    /// # Panics
    ///
    /// In a step beyond the `max_len` of the configuration.
    pub fn decode_step(&self, tokens: Tensor<1, Int>, cache: &mut DecoderCache) -> Tensor<2> {
        self.step(tokens, cache, None)
    }

    /// Same as [`decode_step`](Self::decode_step), but also returns the attention weights of the
    /// new token.
    ///
    /// # Shapes
    ///
    /// - `tokens`: ids `[B]`
    /// - returns the logits `[B, V]` and, for each layer, the attention weights `[B, H, 1, …]`
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

    /// `[source vocabulary, d_model]`
    fn source_table(&self) -> Tensor<2> {
        self.source_embedding.weight.val()
    }

    /// `[target vocabulary, d_model]`
    pub(crate) fn target_table(&self) -> Tensor<2> {
        match &self.target_embedding {
            Some(embedding) => embedding.weight.val(),
            None => self.source_table(),
        }
    }
}
