//! Decoder-only language model, as in GPT (Radford et al. 2018).
//!
//! Axis letters: `B` batch, `T` tokens, `V` vocabulary, `H` heads.

use burn::{
    module::Module,
    nn::Embedding,
    tensor::{Bool, DType, Device, FloatDType, Int, Tensor},
};

use crate::{
    architecture::Architecture,
    cache::LanguageModelCache,
    cast::cast,
    config::{ConfigError, ModelConfig, Side, VocabSizes},
    embedding::{OutputProjection, TokenEmbedding},
    encoder::Encoder,
    init::{self, initialize_weights},
    kernels::{CrossEntropy, CrossEntropyConfig, Targets},
    product_precision::ProductPrecision,
};

/// Language model: scores each next token of a text.
///
/// Its layers are encoder layers with a causal mask, because a decoder layer without
/// cross-attention is an encoder layer. There are `decoder_layers` of them.
///
/// ```
/// use burn::tensor::{Bool, Device, Int, Tensor};
/// use tx_model::{LanguageModel, LanguageModelInput, ModelConfig};
///
/// let device = Device::flex();
/// let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
/// let model = LanguageModel::new(&config, 11, &device)?;
///
/// // Two documents in one row: the second attends to itself, and its positions restart at 0.
/// let blocked = [
///     [false, true, true, true],
///     [false, false, true, true],
///     [true, true, false, true],
///     [true, true, false, false],
/// ];
/// let logits = model.forward(LanguageModelInput {
///     ids: Tensor::<2, Int>::from_data([[1, 7, 1, 8]], &device),
///     positions: Some(Tensor::<2, Int>::from_data([[0, 1, 0, 1]], &device)),
///     blocked: Tensor::<4, Bool>::from_data([[blocked]], &device),
/// });
/// assert_eq!(logits.dims(), [1, 4, 11]);
///
/// // Decoding token by token: the scores of the next token of two texts.
/// let mut cache = model.start_decoding(2);
/// let logits = model.decode_step(Tensor::from_data([1, 1], &device), &mut cache);
/// assert_eq!(logits.dims(), [2, 11]);
/// # Ok::<(), tx_model::ConfigError>(())
/// ```
#[derive(Module, Debug)]
pub struct LanguageModel {
    embedding: Embedding,
    pub(crate) input: TokenEmbedding,
    pub(crate) layers: Encoder,
    pub(crate) projection: OutputProjection,
    #[module(skip)]
    config: ModelConfig,
}

/// Batch of rows, each with one or several documents.
#[derive(Debug, Clone)]
pub struct LanguageModelInput {
    /// Token ids `[B, T]`.
    pub ids: Tensor<2, Int>,
    /// Position of each token in its document, `[B, T]`, below `max_len`; by default `0..T` in every
    /// row. Only encodings that are added to the embeddings use it: rotary and relative encodings
    /// depend on the distance of two tokens, which is the same in the row as in the document.
    pub positions: Option<Tensor<2, Int>>,
    /// Broadcasts to `[B, H, T, T]`; `true` = must not be attended to. Blocks at least every later
    /// token, and all tokens of other documents.
    pub blocked: Tensor<4, Bool>,
}

impl LanguageModel {
    /// Initializes the weights on `device`. The encoder's part of `config` is not used.
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
        config.check_architecture(Architecture::LanguageModel, vocab)?;
        Ok(Self {
            embedding: init::embedding(config, vocabulary, device),
            input: TokenEmbedding::new(config, Side::Target, device),
            layers: Encoder::new(config, config.decoder_layers, device),
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
        self.layers.set_product_precision(precision);
        self.projection.set_product_precision(precision);
        self
    }

    /// Dtype of the parameters.
    pub fn dtype(&self) -> DType {
        self.table().dtype()
    }

    /// Configuration of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Architecture of the model.
    pub fn architecture(&self) -> Architecture {
        Architecture::LanguageModel
    }

    /// Vocabulary size of the model, for both sides.
    pub fn vocab(&self) -> VocabSizes {
        let [vocabulary, _] = self.table().dims();
        VocabSizes { source: vocabulary, target: vocabulary }
    }

    /// Scores every next token.
    ///
    /// # Shapes
    ///
    /// - returns the logits `[B, T, V]`
    ///
    /// # Panics
    ///
    /// If rows are longer than `max_len` and have no explicit positions, with an encoding that is
    /// added to the embeddings.
    pub fn forward(&self, input: LanguageModelInput) -> Tensor<3> {
        self.project(self.run(input, None))
    }

    /// Computes the label-smoothed cross-entropy of every next token.
    ///
    /// # Shapes
    ///
    /// - `targets`: `[B · T]`
    ///
    /// # Panics
    ///
    /// Same as [`forward`](Self::forward).
    pub fn cross_entropy(
        &self,
        input: LanguageModelInput,
        targets: Targets,
        config: CrossEntropyConfig,
    ) -> CrossEntropy {
        let hidden = self.run(input, None);
        self.projection.cross_entropy(hidden, || self.table(), targets, config)
    }

    /// [`forward`](Self::forward), and the attention weights `[B, H, T, T]` of each layer.
    pub fn forward_with_attention(&self, input: LanguageModelInput) -> (Tensor<3>, Vec<Tensor<4>>) {
        let mut maps = Vec::new();
        let hidden = self.run(input, Some(&mut maps));
        (self.project(hidden), maps)
    }

    /// Computes the output of the last layer, `[B, T, d_model]`.
    fn run(&self, input: LanguageModelInput, maps: Option<&mut Vec<Tensor<4>>>) -> Tensor<3> {
        let LanguageModelInput { ids, positions, blocked } = input;
        let x = match positions {
            Some(positions) => self.input.forward_at(self.table(), ids, positions),
            None => self.input.forward(self.table(), ids, 0),
        };
        self.layers.forward(x, Some(blocked), maps)
    }

    /// Prepares decoding of `batch` texts step by step; see [`decode_step`](Self::decode_step).
    pub fn start_decoding(&self, batch: usize) -> LanguageModelCache {
        self.layers.start(batch)
    }

    /// Adds one token to each row of `cache`, and scores the next.
    ///
    /// # Shapes
    ///
    /// - `tokens`: ids `[B]`; in the first step, `<bos>` for all
    /// - returns the logits `[B, V]`
    ///
    /// # Panics
    ///
    /// If the number of tokens is not that of the rows, or after more than `max_len` steps.
    pub fn decode_step(&self, tokens: Tensor<1, Int>, cache: &mut LanguageModelCache) -> Tensor<2> {
        self.step(tokens, cache, None)
    }

    /// [`decode_step`](Self::decode_step), and the attention weights of the new token, `[B, H, 1,
    /// …]` for each layer.
    pub fn decode_step_with_attention(
        &self,
        tokens: Tensor<1, Int>,
        cache: &mut LanguageModelCache,
    ) -> (Tensor<2>, Vec<Tensor<4>>) {
        let mut maps = Vec::new();
        let logits = self.step(tokens, cache, Some(&mut maps));
        (logits, maps)
    }

    fn step(
        &self,
        tokens: Tensor<1, Int>,
        cache: &mut LanguageModelCache,
        maps: Option<&mut Vec<Tensor<4>>>,
    ) -> Tensor<2> {
        assert_eq!(tokens.dims(), [cache.rows], "one token for each row");
        let x = self.input.forward(self.table(), tokens.unsqueeze_dim(1), cache.len());
        self.project(self.layers.step(x, cache, maps)).squeeze_dim(1)
    }

    fn project(&self, x: Tensor<3>) -> Tensor<3> {
        self.projection.forward(x, || self.table())
    }

    /// `[vocabulary, d_model]`
    pub(crate) fn table(&self) -> Tensor<2> {
        self.embedding.weight.val()
    }
}
