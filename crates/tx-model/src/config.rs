//! Model configuration: sizes and variants, without anything about training.

use std::{ops::RangeInclusive, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use crate::activation::Activation;
pub use sinusoids::{SinusoidFormula, SinusoidLayout, Sinusoids};

mod sinusoids;

/// Largest `d_model`.
const MOST_FEATURES: usize = 1 << 16;
/// Largest `d_ff`.
const MOST_INNER_FEATURES: usize = 1 << 20;
/// Maximum number of layers of the encoder, and of the decoder.
const MOST_LAYERS: usize = 1_000;
/// Largest `max_len`.
const LONGEST_SEQUENCE: usize = 1 << 16;
/// Maximum number of elements of the table of sinusoids, `max_len` · `d_model`: 64 MiB. The table
/// is not stored in a file, so a small configuration file must not be able to make it large.
const MOST_SINUSOIDS: usize = 1 << 24;
/// Largest `vocab_multiple`.
const LARGEST_VOCAB_MULTIPLE: usize = 1 << 16;
/// Smallest and largest `norm_epsilon`.
const NORM_EPSILONS: RangeInclusive<f64> = 1e-12..=0.1;
/// Maximum number of ids of one side.
const MOST_IDS: usize = 1 << 28;

/// Sizes and variants of a Transformer, with the paper's letters.
///
/// The paper is "Attention Is All You Need" (Vaswani et al. 2017). [`Default`] is its base model.
/// Every constructor of a model calls [`check`](Self::check), so no model has invalid sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Features per token, `d_model` (section 3.1). Base model: 512.
    pub d_model: usize,
    /// Attention heads, `h` (section 3.2.2); must divide `d_model`. Base model: 8.
    pub n_heads: usize,
    /// Inner features of the feed-forward layer, `d_ff` (section 3.3). Base model: 2048.
    pub d_ff: usize,
    /// Layers in the encoder, `N` (section 3.1). Base model: 6.
    pub encoder_layers: usize,
    /// Layers in the decoder, `N` (section 3.1). Base model: 6.
    pub decoder_layers: usize,
    /// Maximum sequence length in tokens, `<bos>` and `<eos>` included.
    pub max_len: usize,
    /// Order of layer normalization and residual sum. Base model: `post`.
    pub norm: NormPlacement,
    /// Normalization of the features of a token. Base model: `layer`.
    #[serde(skip_serializing_if = "Normalization::has_shift")]
    pub normalization: Normalization,
    /// Added to the variance, or to the mean of the squares, in a normalization (ε of Ba et al. 2016).
    pub norm_epsilon: f64,
    /// First sub-layer of a decoder layer. Base model: `self-attention`.
    #[serde(skip_serializing_if = "Autoregression::is_attention")]
    pub autoregression: Autoregression,
    /// Positional encoding (section 3.5). Base model: `sinusoidal`.
    pub positions: Positions,
    /// Variant of the sinusoidal positional encoding.
    pub sinusoids: Sinusoids,
    /// Activation function of the feed-forward layer (section 3.3). Base model: `relu`.
    pub activation: Activation,
    /// Vocabulary sizes are rounded up to a multiple of this, because some devices are faster with
    /// multiples of 8 or 64. No token has the added ids. Paper: not rounded.
    pub vocab_multiple: usize,
    /// Sharing of embedding and projection matrices (section 3.4). Base model: `all`.
    pub tying: Tying,
    /// Embeddings that are multiplied by √d_model (section 3.4). Base model: `both`.
    pub embedding_scale: EmbeddingScale,
    /// First input of the decoder of an encoder-decoder model.
    pub decoder_start: DecoderStart,
    /// Adds biases to the four projections of attention.
    pub attention_bias: bool,
    /// Adds biases to the linear layers of the feed-forward block, as in equation 2.
    pub feed_forward_bias: bool,
    /// Adds a bias to the projection to the vocabulary.
    pub output_bias: bool,
    /// Initialization of all weight matrices except the embeddings.
    pub init: Init,
    /// Initialization of the embeddings.
    pub embedding_init: EmbeddingInit,
    /// Dropout probabilities in training.
    pub dropout: DropoutConfig,
    /// Folder of a bundle with an encoder, from which a training run takes its tokenizer and the
    /// [corresponding](crate::architecture::corresponding_weight) weights of the same shape. The
    /// configuration of a bundle does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoder_from: Option<PathBuf>,
}

/// Dropout probabilities in training, each in `0.0..1.0`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DropoutConfig {
    /// On the sum of embedding and position (section 5.4, `P_drop`). Base model: 0.1.
    pub embedding: f64,
    /// On the output of each sub-layer (section 5.4, `P_drop`). Base model: 0.1.
    pub residual: f64,
    /// On the attention weights. Not in the paper's text; 0.1 in its published code.
    pub attention: f64,
    /// After the activation of the feed-forward layer. Not in the paper's text.
    pub activation: f64,
    /// On whole tokens: all features of the embedding of a token become 0, and others are not scaled
    /// (token cutoff, Shen et al. 2020).
    #[serde(skip_serializing_if = "is_zero")]
    pub token: f64,
    /// On whole layers of encoder and decoder, which are skipped for a batch (LayerDrop, Fan et al. 2020).
    #[serde(skip_serializing_if = "is_zero")]
    pub layer: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "signature required by serde")]
fn is_zero(rate: &f64) -> bool {
    *rate == 0.0
}

impl Default for DropoutConfig {
    fn default() -> Self {
        Self::paper(0.1)
    }
}

impl DropoutConfig {
    /// Returns the rates of the paper: `rate` on embeddings and sub-layer outputs, 0 elsewhere.
    pub fn paper(rate: f64) -> Self {
        Self {
            embedding: rate,
            residual: rate,
            attention: 0.0,
            activation: 0.0,
            token: 0.0,
            layer: 0.0,
        }
    }

    /// Disables dropout: all probabilities are 0.
    pub fn none() -> Self {
        Self::paper(0.0)
    }
}

/// Order of layer normalization, dropout and residual sum around a sub-layer `f`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormPlacement {
    /// `x + dropout(f(norm(x)))`, with another norm after each stack (Xiong et al. 2020).
    Pre,
    /// `norm(x + dropout(f(x)))`: the paper, section 3.1.
    Post,
    /// As `Post`, with another norm after each stack: the default of PyTorch's `nn.Transformer`.
    PostFinal,
    /// `x + norm(f(x))`, as in a tutorial on word reversal; in the encoder's self-attention
    /// `x + dropout(norm(f(x)))`.
    SublayerOutput,
}

/// Normalization of the features of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalization {
    /// Layer normalization: to mean 0 and variance 1, then a scale γ and a shift β (Ba et al. 2016).
    Layer,
    /// Division by the root mean square, then a scale γ (RMSNorm, Zhang and Sennrich 2019).
    Rms,
}

/// Sub-layer in which a decoder layer reads the target tokens so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Autoregression {
    /// Masked self-attention (section 3.2.3).
    SelfAttention,
    /// Simpler simple recurrent unit (Kim et al. 2019), as in the small models of Marian and Firefox: a
    /// state of `d_model` features in place of the keys and values of all earlier tokens. In models
    /// for translation.
    Ssru,
}

/// Positional encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// Sines and cosines of geometric wavelengths, added to the embedding (section 3.5).
    Sinusoidal,
    /// A learned vector per position, added to the embedding (section 3.5, table 3 row E).
    Learned,
    /// Queries and keys of self-attention, rotated by their position (Su et al. 2021).
    Rotary,
    /// A learned bias per head and clipped distance, added to the scores of self-attention
    /// (Shaw et al. 2018 clip the distance; Raffel et al. 2020 make it a bias).
    Relative,
    /// A constant bias `−m |query − key|` with a slope `m` for each head, added to the scores of
    /// self-attention: ALiBi (Press et al. 2022).
    Alibi,
    /// No positional encoding: without a causal mask, the input is a bag of tokens.
    None,
}

/// Sharing of one matrix among source embedding, target embedding and output projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tying {
    /// Three matrices.
    None,
    /// Target embedding and output projection share one matrix (Press and Wolf 2017).
    Decoder,
    /// All three share one matrix (section 3.4), which needs one vocabulary for both sides.
    All,
}

/// Embeddings that are multiplied by √d_model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingScale {
    /// Source and target (section 3.4).
    Both,
    /// The source only, as in a tutorial on word reversal.
    Source,
    /// No embedding.
    None,
}

/// First input of the decoder, before the first target token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DecoderStart {
    /// The token `<bos>`.
    Bos,
    /// The token `<eos>`, as in fairseq.
    Eos,
    /// The token `<pad>`, as in Marian models in transformers.
    Pad,
    /// The zero vector in place of the embedding of a token, as in Marian. The positional encoding
    /// is added to it. The id is `<bos>`, but no weight depends on it.
    Zero,
}

/// Initialization of weight matrices; biases start at 0, layer norms at γ = 1 and β = 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// Uniform in ±√(6 / (fan in + fan out)) (Glorot and Bengio 2010).
    XavierUniform,
    /// Uniform in ±√(1 / fan in): PyTorch's initialization of a linear layer.
    KaimingUniform,
    /// Normal with standard deviation 0.02, as in BERT and GPT-2.
    Normal,
}

/// Initialization of embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingInit {
    /// Normal with standard deviation 1/√d_model, so that a scaled embedding has unit variance.
    Normal,
    /// Normal with standard deviation 1: PyTorch's initialization of an embedding.
    StandardNormal,
    /// Uniform in ±√(6 / (vocabulary + d_model)): [`Init::XavierUniform`] of the table.
    XavierUniform,
}

/// Vocabulary sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VocabSizes {
    /// Ids on the source side, special tokens included.
    pub source: usize,
    /// Ids on the target side, special tokens included.
    pub target: usize,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            d_model: 512,
            n_heads: 8,
            d_ff: 2048,
            encoder_layers: 6,
            decoder_layers: 6,
            max_len: 512,
            norm: NormPlacement::Post,
            normalization: Normalization::Layer,
            norm_epsilon: 1e-5,
            autoregression: Autoregression::SelfAttention,
            positions: Positions::Sinusoidal,
            sinusoids: Sinusoids::default(),
            activation: Activation::Relu,
            vocab_multiple: 1,
            tying: Tying::All,
            embedding_scale: EmbeddingScale::Both,
            decoder_start: DecoderStart::Bos,
            attention_bias: true,
            feed_forward_bias: true,
            output_bias: true,
            init: Init::XavierUniform,
            embedding_init: EmbeddingInit::Normal,
            dropout: DropoutConfig::default(),
            encoder_from: None,
        }
    }
}

impl ModelConfig {
    /// Features per head, `d_k = d_v = d_model / h` (section 3.2.2).
    pub fn d_head(&self) -> usize {
        self.d_model / self.n_heads
    }

    /// Returns the vocabulary sizes of the model for tokenizers of these sizes: each rounded up to
    /// [`vocab_multiple`](Self::vocab_multiple). Sizes that [`check`](Self::check) rejects do not
    /// overflow, but may not be rounded.
    pub fn padded(&self, vocab: VocabSizes) -> VocabSizes {
        let multiple = self.vocab_multiple.max(1);
        let pad = |size: usize| size.checked_next_multiple_of(multiple).unwrap_or(size);
        VocabSizes { source: pad(vocab.source), target: pad(vocab.target) }
    }

    /// Checks all rules for an encoder-decoder model, and reports every violation at once.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with one line per violated rule.
    pub fn check(&self, vocab: VocabSizes) -> Result<(), ConfigError> {
        let mut problems = self.problems();
        problems.extend(vocabulary_problem("source vocabulary", vocab.source));
        problems.extend(vocabulary_problem("target vocabulary", vocab.target));
        match self.tying {
            Tying::All if vocab.source != vocab.target => problems.push(format!(
                "`tying` = \"all\" needs one vocabulary for both sides, found {} source and {} \
                 target ids",
                vocab.source, vocab.target
            )),
            Tying::All | Tying::Decoder | Tying::None => {}
        }
        ConfigError::from_problems(problems)
    }

    /// Returns the violations of the rules that do not depend on the vocabularies; empty if there
    /// are none.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (key, value, most) in [
            ("d_model", self.d_model, MOST_FEATURES),
            ("n_heads", self.n_heads, MOST_FEATURES),
            ("d_ff", self.d_ff, MOST_INNER_FEATURES),
            ("encoder_layers", self.encoder_layers, MOST_LAYERS),
            ("decoder_layers", self.decoder_layers, MOST_LAYERS),
            ("vocab_multiple", self.vocab_multiple, LARGEST_VOCAB_MULTIPLE),
        ] {
            if value == 0 {
                problems.push(format!("`{key}` must be at least 1"));
            } else if value > most {
                problems.push(format!("`{key}` = {value} must be at most {most}"));
            }
        }
        if self.n_heads != 0 && !self.d_model.is_multiple_of(self.n_heads) {
            problems.push(format!(
                "`n_heads` = {} must divide `d_model` = {} (remainder {})",
                self.n_heads,
                self.d_model,
                self.d_model % self.n_heads
            ));
        }
        if self.max_len < 3 {
            problems.push(format!(
                "`max_len` = {} leaves no room between `<bos>` and `<eos>`",
                self.max_len
            ));
        } else if self.max_len > LONGEST_SEQUENCE {
            problems
                .push(format!("`max_len` = {} must be at most {LONGEST_SEQUENCE}", self.max_len));
        }
        // Not `<` and `>`, which NaN would pass.
        if !NORM_EPSILONS.contains(&self.norm_epsilon) {
            problems.push(format!(
                "`norm_epsilon` = {} must be in {:e}..={}",
                self.norm_epsilon,
                NORM_EPSILONS.start(),
                NORM_EPSILONS.end()
            ));
        }
        problems.extend(self.position_problems());
        for (key, rate) in [
            ("dropout.embedding", self.dropout.embedding),
            ("dropout.residual", self.dropout.residual),
            ("dropout.attention", self.dropout.attention),
            ("dropout.activation", self.dropout.activation),
            ("dropout.token", self.dropout.token),
            ("dropout.layer", self.dropout.layer),
        ] {
            if !(0.0..1.0).contains(&rate) {
                problems.push(format!("`{key}` = {rate} must be at least 0 and below 1"));
            }
        }
        problems
    }

    /// Violations of the rules of the positional encoding.
    fn position_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        match self.positions {
            Positions::Sinusoidal => {
                if !self.d_model.is_multiple_of(2) {
                    problems.push(format!(
                        "`d_model` = {} must be even: sines and cosines are paired",
                        self.d_model
                    ));
                }
                problems.extend(self.sinusoids.problems(self.d_model));
                if (3..=LONGEST_SEQUENCE).contains(&self.max_len)
                    && self.max_len.saturating_mul(self.d_model) > MOST_SINUSOIDS
                {
                    problems.push(format!(
                        "`max_len` = {} times `d_model` = {} must be at most {MOST_SINUSOIDS} with \
                         `positions` = \"sinusoidal\"",
                        self.max_len, self.d_model
                    ));
                }
            }
            Positions::Rotary => {
                if self.n_heads != 0
                    && self.d_model.is_multiple_of(self.n_heads)
                    && !self.d_head().is_multiple_of(2)
                {
                    problems.push(format!(
                        "`positions` = \"rotary\" rotates pairs of features: `d_model` / `n_heads` = \
                         {} must be even",
                        self.d_head()
                    ));
                }
            }
            Positions::Learned | Positions::Relative | Positions::Alibi | Positions::None => {}
        }
        problems
    }

    /// Factor of the embeddings on one side.
    pub fn embedding_factor(&self, side: Side) -> f32 {
        let scaled = match (self.embedding_scale, side) {
            (EmbeddingScale::Both, Side::Source | Side::Target) => true,
            (EmbeddingScale::Source, Side::Source) => true,
            (EmbeddingScale::Source, Side::Target) => false,
            (EmbeddingScale::None, Side::Source | Side::Target) => false,
        };
        if scaled { (self.d_model as f32).sqrt() } else { 1.0 }
    }
}

/// Side of the translation that an embedding belongs to. The embedding of an encoder alone is that
/// of a source, the embedding of a decoder alone that of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The source.
    Source,
    /// The target.
    Target,
}

impl NormPlacement {
    /// Returns `true` if another norm follows each stack. Pre-norm needs it, because the sum of its
    /// residuals is not normalized.
    pub fn has_final_norm(self) -> bool {
        match self {
            Self::Pre | Self::PostFinal => true,
            Self::Post | Self::SublayerOutput => false,
        }
    }
}

impl Normalization {
    /// Returns `true` if the normalization has a shift β.
    pub fn has_shift(&self) -> bool {
        match self {
            Self::Layer => true,
            Self::Rms => false,
        }
    }
}

impl Autoregression {
    /// Returns `true` for self-attention.
    pub fn is_attention(&self) -> bool {
        match self {
            Self::SelfAttention => true,
            Self::Ssru => false,
        }
    }
}

impl DecoderStart {
    /// Returns `true` if the first embedding of the decoder is the zero vector.
    pub fn is_zero(self) -> bool {
        match self {
            Self::Zero => true,
            Self::Bos | Self::Eos | Self::Pad => false,
        }
    }
}

impl Tying {
    /// Returns `true` if the output projection uses the table of an embedding.
    pub fn ties_projection(self) -> bool {
        match self {
            Self::Decoder | Self::All => true,
            Self::None => false,
        }
    }

    /// Returns `true` if source and target use the same table.
    pub fn ties_source(self) -> bool {
        match self {
            Self::All => true,
            Self::None | Self::Decoder => false,
        }
    }
}

/// Violated rule of a vocabulary of `size` ids, if any.
pub(crate) fn vocabulary_problem(name: &str, size: usize) -> Option<String> {
    if size == 0 {
        Some(format!("the {name} is empty"))
    } else if size > MOST_IDS {
        Some(format!("the {name} has {size} ids, more than {MOST_IDS}"))
    } else {
        None
    }
}

/// Violated rules of a [`ModelConfig`]; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model configuration cannot be used:\n  - {}", problems.join("\n  - "))]
pub struct ConfigError {
    /// One line per violated rule: key, value, rule.
    pub problems: Vec<String>,
}

impl ConfigError {
    pub(crate) fn from_problems(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

#[cfg(test)]
mod tests;
