//! The model's shape: what must be known to build the weights, and nothing about training.

use serde::{Deserialize, Serialize};

/// Largest `d_model`.
const MOST_FEATURES: usize = 1 << 16;
/// Largest `d_ff`.
const MOST_INNER_FEATURES: usize = 1 << 20;
/// Most layers of the encoder, and of the decoder.
const MOST_LAYERS: usize = 1_000;
/// Largest `max_len`.
const LONGEST_SEQUENCE: usize = 1 << 16;
/// Most numbers of a table of sinusoids, `max_len` · `d_model`: 64 MiB for each side. No file holds
/// that table, so a few bytes of a configuration must not make it large.
const MOST_SINUSOIDS: usize = 1 << 24;
/// Largest `vocab_multiple`.
const LARGEST_VOCAB_MULTIPLE: usize = 1 << 16;
/// Most ids of one side.
const MOST_IDS: usize = 1 << 28;

/// Sizes and variants of a Transformer, with the paper's letters.
///
/// The paper is "Attention Is All You Need" (Vaswani et al. 2017). The fields are public because
/// any program may read them; every constructor of a model calls [`check`](Self::check), so a
/// module with impossible sizes cannot exist. [`Default`] is the paper's base model.
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
    /// Longest sequence in tokens, `<bos>` and `<eos>` included.
    pub max_len: usize,
    /// Where layer normalisation stands in a layer. Base model: `post`.
    pub norm: NormPlacement,
    /// How a token's place is told (section 3.5). Base model: `sinusoidal`.
    pub positions: Positions,
    /// The function inside the feed-forward layer (section 3.3). Base model: `relu`.
    pub activation: Activation,
    /// The numbers of ids are rounded up to a multiple of this: some devices are faster with 8 or 64.
    /// The ids added are never read nor right. Paper: not rounded.
    pub vocab_multiple: usize,
    /// Which embeddings and projections are one matrix (section 3.4). Base model: `all`.
    pub tying: Tying,
    /// Which embeddings are multiplied by √d_model (section 3.4). Base model: `both`.
    pub embedding_scale: EmbeddingScale,
    /// Whether the four projections of attention have biases.
    pub attention_bias: bool,
    /// Whether the two layers of the feed-forward block have biases (equation 2 has them).
    pub feed_forward_bias: bool,
    /// Whether the projection to the vocabulary has a bias.
    pub output_bias: bool,
    /// First values of every weight matrix but the embeddings.
    pub init: Init,
    /// First values of the embeddings.
    pub embedding_init: EmbeddingInit,
    /// Shares dropped in training.
    pub dropout: DropoutConfig,
}

/// Shares of activations dropped in training, each in `0.0..1.0`.
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
}

impl Default for DropoutConfig {
    fn default() -> Self {
        Self { embedding: 0.1, residual: 0.1, attention: 0.0, activation: 0.0 }
    }
}

impl DropoutConfig {
    /// The same share at the two places the paper names, none elsewhere.
    pub fn paper(share: f64) -> Self {
        Self { embedding: share, residual: share, attention: 0.0, activation: 0.0 }
    }

    /// No dropout at all.
    pub fn none() -> Self {
        Self::paper(0.0)
    }
}

/// Where layer normalisation stands around a sub-layer `f`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormPlacement {
    /// `x + dropout(f(norm(x)))`, with one more norm after each stack (Xiong et al. 2020).
    Pre,
    /// `norm(x + dropout(f(x)))`: the paper, section 3.1.
    Post,
    /// `x + norm(f(x))`, as a tutorial on word reversal has it. Its dropout stands on the encoder's
    /// self-attention only: `x + dropout(norm(f(x)))`.
    SublayerOutput,
}

/// How the model is told where a token stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// Sines and cosines of geometric wavelengths, added to the embedding (section 3.5).
    Sinusoidal,
    /// A learned vector per place, added to the embedding (section 3.5, table 3 row E).
    Learned,
    /// Queries and keys of self-attention turned by their place (Su et al. 2021).
    Rotary,
    /// A learned bias per head and clipped distance, added to the scores of self-attention
    /// (Shaw et al. 2018 clip the distance; Raffel et al. 2020 make it a bias).
    Relative,
    /// Nothing: without a causal mask the model sees a bag of tokens.
    None,
}

/// The function between the two linear maps of the feed-forward layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `max(0, x)` (equation 2).
    Relu,
    /// `x · Φ(x)` (Hendrycks and Gimpel 2016).
    Gelu,
    /// `x · sigmoid(x)`, also called SiLU (Ramachandran et al. 2017).
    Swish,
    /// `swish(x W_g) ⊙ (x W_1)`, SwiGLU (Shazeer 2020): a third matrix.
    Gated,
}

/// Which of source embedding, target embedding and output projection are one matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tying {
    /// Three matrices.
    None,
    /// Target embedding and output projection are one (Press and Wolf 2017).
    Decoder,
    /// All three are one (section 3.4); needs one vocabulary for both sides.
    All,
}

/// Which embeddings are multiplied by √d_model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingScale {
    /// Source and target (section 3.4).
    Both,
    /// The source only, as a tutorial on word reversal has it.
    Source,
    /// Neither.
    None,
}

/// First values of weight matrices; biases start at zero, norms at one and zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Init {
    /// Uniform in ±√(6 / (fan in + fan out)) (Glorot and Bengio 2010).
    XavierUniform,
    /// Uniform in ±√(1 / fan in): what PyTorch gives a linear layer.
    KaimingUniform,
    /// Normal with standard deviation 0.02, as in BERT and GPT-2.
    Normal,
}

/// First values of embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddingInit {
    /// Normal with standard deviation 1/√d_model, so that a scaled embedding has unit variance.
    Normal,
    /// Normal with standard deviation 1: what PyTorch gives an embedding.
    StandardNormal,
    /// Uniform in ±√(6 / (vocabulary + d_model)), as when every matrix is set by Xavier's rule.
    XavierUniform,
}

/// How many token ids each side has.
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
            positions: Positions::Sinusoidal,
            activation: Activation::Relu,
            vocab_multiple: 1,
            tying: Tying::All,
            embedding_scale: EmbeddingScale::Both,
            attention_bias: true,
            feed_forward_bias: true,
            output_bias: true,
            init: Init::XavierUniform,
            embedding_init: EmbeddingInit::Normal,
            dropout: DropoutConfig::default(),
        }
    }
}

impl ModelConfig {
    /// Features per head, `d_k = d_v = d_model / h` (section 3.2.2).
    pub fn d_head(&self) -> usize {
        self.d_model / self.n_heads
    }

    /// Ids a model needs for tokenizers of these sizes: each rounded up to
    /// [`vocab_multiple`](Self::vocab_multiple). Sizes that [`check`](Self::check) refuses do not
    /// overflow, but may not be rounded.
    pub fn padded(&self, vocab: VocabSizes) -> VocabSizes {
        let multiple = self.vocab_multiple.max(1);
        let pad = |size: usize| size.checked_next_multiple_of(multiple).unwrap_or(size);
        VocabSizes { source: pad(vocab.source), target: pad(vocab.target) }
    }

    /// Reports every broken rule at once, so that one run is enough to mend the file.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] with one line per broken rule.
    pub fn check(&self, vocab: VocabSizes) -> Result<(), ConfigError> {
        let mut problems = self.problems();
        for (side, size) in [("source", vocab.source), ("target", vocab.target)] {
            if size == 0 {
                problems.push(format!("the {side} vocabulary is empty"));
            } else if size > MOST_IDS {
                problems
                    .push(format!("the {side} vocabulary has {size} ids, more than {MOST_IDS}"));
            }
        }
        if self.tying == Tying::All && vocab.source != vocab.target {
            problems.push(format!(
                "`tying` = \"all\" needs one vocabulary for both sides, found {} source and {} \
                 target ids",
                vocab.source, vocab.target
            ));
        }
        ConfigError::from_problems(problems)
    }

    /// The rules that hold whatever the vocabularies are; empty when all is well.
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
        } else if self.positions == Positions::Rotary
            && self.n_heads != 0
            && !self.d_head().is_multiple_of(2)
        {
            problems.push(format!(
                "`positions` = \"rotary\" turns features in pairs: `d_model` / `n_heads` = {} must \
                 be even",
                self.d_head()
            ));
        }
        if self.positions == Positions::Sinusoidal && !self.d_model.is_multiple_of(2) {
            problems.push(format!(
                "`d_model` = {} must be even: sines and cosines pair up",
                self.d_model
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
        } else if self.positions == Positions::Sinusoidal
            && self.max_len.saturating_mul(self.d_model) > MOST_SINUSOIDS
        {
            problems.push(format!(
                "`max_len` = {} times `d_model` = {} must be at most {MOST_SINUSOIDS} with \
                 `positions` = \"sinusoidal\"",
                self.max_len, self.d_model
            ));
        }
        for (key, share) in [
            ("dropout.embedding", self.dropout.embedding),
            ("dropout.residual", self.dropout.residual),
            ("dropout.attention", self.dropout.attention),
            ("dropout.activation", self.dropout.activation),
        ] {
            if !(0.0..1.0).contains(&share) {
                problems.push(format!("`{key}` = {share} must be at least 0 and below 1"));
            }
        }
        problems
    }
}

/// The rules a [`ModelConfig`] breaks; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the model configuration cannot be used:\n  - {}", problems.join("\n  - "))]
pub struct ConfigError {
    /// One line per broken rule: key, value, rule.
    pub problems: Vec<String>,
}

impl ConfigError {
    fn from_problems(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOCAB: VocabSizes = VocabSizes { source: 10, target: 10 };

    #[test]
    fn the_base_model_is_usable() {
        assert_eq!(ModelConfig::default().check(VOCAB), Ok(()));
        assert_eq!(ModelConfig::default().d_head(), 64);
    }

    #[test]
    fn vocabularies_are_rounded_up() {
        let config = ModelConfig { vocab_multiple: 8, ..ModelConfig::default() };
        let padded = config.padded(VocabSizes { source: 17, target: 8 });
        assert_eq!(padded, VocabSizes { source: 24, target: 8 });
        assert_eq!(ModelConfig::default().padded(VOCAB), VOCAB);
    }

    #[test]
    fn every_broken_rule_is_listed_at_once() {
        let config = ModelConfig {
            d_model: 511,
            d_ff: 0,
            max_len: 2,
            dropout: DropoutConfig { embedding: 1.0, ..DropoutConfig::none() },
            ..ModelConfig::default()
        };
        let error = config.check(VocabSizes { source: 7, target: 0 }).unwrap_err();
        assert_eq!(
            error.problems,
            [
                "`d_ff` must be at least 1",
                "`n_heads` = 8 must divide `d_model` = 511 (remainder 7)",
                "`d_model` = 511 must be even: sines and cosines pair up",
                "`max_len` = 2 leaves no room between `<bos>` and `<eos>`",
                "`dropout.embedding` = 1 must be at least 0 and below 1",
                "the target vocabulary is empty",
                "`tying` = \"all\" needs one vocabulary for both sides, found 7 source and 0 target ids",
            ]
        );
    }

    #[test]
    fn sizes_that_no_machine_could_hold_are_refused() {
        let vocab = VocabSizes { source: usize::MAX, target: usize::MAX };
        let config = ModelConfig {
            d_model: 1 << 40,
            n_heads: 1 << 40,
            d_ff: usize::MAX,
            encoder_layers: usize::MAX,
            decoder_layers: 1_001,
            max_len: 1_000_000_000,
            vocab_multiple: usize::MAX,
            ..ModelConfig::default()
        };
        let problems = config.check(vocab).unwrap_err().problems;
        assert_eq!(problems.len(), 9, "{problems:?}");
        assert!(problems.contains(&"`max_len` = 1000000000 must be at most 65536".to_owned()));

        // 32,768 · 512 is the limit of the table.
        let long = ModelConfig { max_len: 32_768, ..ModelConfig::default() };
        assert_eq!(long.check(VOCAB), Ok(()));
        let wide = ModelConfig { d_model: 1_024, ..long };
        assert_eq!(
            wide.problems(),
            ["`max_len` = 32768 times `d_model` = 1024 must be at most 16777216 with \
              `positions` = \"sinusoidal\""]
        );
        let rotary = ModelConfig { positions: Positions::Rotary, ..wide };
        assert_eq!(rotary.problems(), [""; 0]);
    }

    #[test]
    fn not_a_number_is_no_share() {
        let dropout = DropoutConfig { residual: f64::NAN, ..DropoutConfig::none() };
        let config = ModelConfig { dropout, ..ModelConfig::default() };
        assert_eq!(config.problems().len(), 1);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let error = serde_json::from_str::<ModelConfig>(r#"{"d_modell": 4}"#).unwrap_err();
        assert!(error.to_string().contains("d_modell"), "{error}");
    }
}
