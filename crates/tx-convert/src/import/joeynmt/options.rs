//! Options in `config.yaml`.

use std::path::Path;

use serde::Deserialize;
use tx_infer::{LengthNorm, SearchOptions};
use tx_model::Activation;
use tx_text::special::UNK;

use crate::{error::ConvertError, source_files::SourceFiles};

/// Options of a model, without those of training.
#[derive(Debug, Deserialize)]
pub(super) struct Options {
    pub(super) data: Data,
    pub(super) model: Model,
    #[serde(default)]
    pub(super) testing: Testing,
}

#[derive(Debug, Deserialize)]
pub(super) struct Data {
    pub(super) src: Side,
    pub(super) trg: Side,
    #[serde(default)]
    pub(super) special_symbols: SpecialSymbols,
}

/// Texts of one side.
#[derive(Debug, Deserialize)]
pub(super) struct Side {
    pub(super) lang: String,
    pub(super) level: Level,
    #[serde(default)]
    pub(super) lowercase: bool,
    #[serde(default)]
    pub(super) normalize: bool,
    #[serde(alias = "bpe_type")]
    pub(super) tokenizer_type: Option<TokenizerType>,
    #[serde(default)]
    pub(super) tokenizer_cfg: TokenizerOptions,
    pub(super) voc_file: Option<String>,
}

/// Division of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Word,
    Bpe,
    Char,
}

/// Program that divides words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TokenizerType {
    Sentencepiece,
    SubwordNmt,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TokenizerOptions {
    pub(super) model_file: Option<String>,
    pub(super) pretokenizer: Option<String>,
}

/// Names of the special tokens.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct SpecialSymbols {
    pub(super) unk_token: String,
    pub(super) pad_token: String,
    pub(super) bos_token: String,
    pub(super) eos_token: String,
    pub(super) sep_token: Option<String>,
    pub(super) lang_tags: Vec<String>,
}

impl Default for SpecialSymbols {
    fn default() -> Self {
        Self {
            unk_token: "<unk>".to_owned(),
            pad_token: "<pad>".to_owned(),
            bos_token: "<s>".to_owned(),
            eos_token: "</s>".to_owned(),
            sep_token: None,
            lang_tags: Vec::new(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Model {
    #[serde(default)]
    pub(super) tied_embeddings: bool,
    #[serde(default)]
    pub(super) tied_softmax: bool,
    pub(super) encoder: Stack,
    pub(super) decoder: Stack,
}

/// Encoder or decoder.
#[derive(Debug, Deserialize)]
pub(super) struct Stack {
    /// `transformer` or `recurrent`.
    #[serde(rename = "type", default)]
    kind: Option<String>,
    pub(super) num_layers: usize,
    num_heads: Option<usize>,
    pub(super) embeddings: Embeddings,
    pub(super) hidden_size: usize,
    #[serde(default)]
    pub(super) ff_size: usize,
    #[serde(default)]
    pub(super) dropout: f64,
    pub(super) layer_norm: Option<NormPosition>,
    #[serde(default)]
    pub(super) activation: StackActivation,
    /// Factor of the residual connection.
    #[serde(default = "one")]
    alpha: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct Embeddings {
    embedding_dim: usize,
    #[serde(default)]
    pub(super) scale: bool,
    pub(super) dropout: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum NormPosition {
    Pre,
    Post,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum StackActivation {
    #[default]
    Relu,
    Gelu,
    Swish,
    Tanh,
}

/// Options of the search.
#[derive(Debug, Deserialize)]
#[serde(default)]
pub(super) struct Testing {
    beam_size: usize,
    #[serde(alias = "alpha")]
    beam_alpha: f32,
    /// Maximum number of tokens, or a negative number.
    max_output_length: i64,
    min_output_length: usize,
    generate_unk: bool,
    repetition_penalty: f32,
    no_repeat_ngram_size: i64,
}

impl Default for Testing {
    fn default() -> Self {
        Self {
            beam_size: 1,
            beam_alpha: -1.0,
            max_output_length: -1,
            min_output_length: 1,
            generate_unk: true,
            repetition_penalty: -1.0,
            no_repeat_ngram_size: -1,
        }
    }
}

fn one() -> f64 {
    1.0
}

impl Options {
    /// Reads `config.yaml`.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is no YAML, or lacks an option.
    pub(super) fn read(path: &Path, files: &mut SourceFiles) -> Result<Self, ConvertError> {
        let content = files.bytes(path)?;
        let problem = |problem: String| ConvertError::File { path: path.to_owned(), problem };
        let text = str::from_utf8(&content).map_err(|_| problem("it is not UTF-8".to_owned()))?;
        let options = serde_saphyr::options! { with_snippet: false };
        serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| problem(error.to_string()))
    }

    /// Options that tx does not support, one line each.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let (encoder, decoder) = (&self.model.encoder, &self.model.decoder);
        for (name, stack, default) in
            [("encoder", encoder, "recurrent"), ("decoder", decoder, "transformer")]
        {
            let kind = stack.kind.as_deref().unwrap_or(default);
            if kind != "transformer" {
                problems
                    .push(format!("`type` of the {name} is `{kind}`, supported is `transformer`"));
            }
            if stack.alpha != 1.0 {
                let alpha = stack.alpha;
                problems.push(format!("`alpha` of the {name} is {alpha}, supported is 1"));
            }
            if stack.embeddings.embedding_dim != stack.hidden_size {
                problems.push(format!(
                    "`embedding_dim` of the {name} is {}, and `hidden_size` is {}",
                    stack.embeddings.embedding_dim, stack.hidden_size
                ));
            }
        }
        let heads = [encoder.heads(Stack::ENCODER_HEADS), decoder.heads(Stack::DECODER_HEADS)];
        for (option, [of_encoder, of_decoder]) in [
            ("hidden_size", [encoder.hidden_size, decoder.hidden_size]),
            ("ff_size", [encoder.ff_size, decoder.ff_size]),
            ("num_heads", heads),
        ] {
            if of_encoder != of_decoder {
                problems.push(format!(
                    "`{option}` is {of_encoder} in the encoder and {of_decoder} in the decoder"
                ));
            }
        }
        if encoder.activation != decoder.activation {
            problems.push("`activation` differs between encoder and decoder".to_owned());
        }
        if !encoder.embeddings.scale && decoder.embeddings.scale {
            problems.push("`scale` is true for the embeddings of the decoder only".to_owned());
        }
        problems
    }
}

impl Stack {
    /// Heads of an encoder without `num_heads`.
    pub(super) const ENCODER_HEADS: usize = 4;
    /// Heads of a decoder without `num_heads`.
    const DECODER_HEADS: usize = 8;

    pub(super) fn heads(&self, default: usize) -> usize {
        self.num_heads.unwrap_or(default)
    }
}

impl StackActivation {
    /// Activation of a bundle.
    ///
    /// # Errors
    ///
    /// If tx does not have it.
    pub(super) fn of_tx(self) -> Result<Activation, String> {
        match self {
            Self::Relu => Ok(Activation::Relu),
            Self::Gelu => Ok(Activation::Gelu),
            Self::Swish => Ok(Activation::Swish),
            Self::Tanh => {
                Err("`activation` is `tanh`, supported are `relu`, `gelu` and `swish`".to_owned())
            }
        }
    }
}

impl Testing {
    /// Search options of the bundle. Scores are divided by the penalty of Wu et al. 2016.
    pub(super) fn search(&self) -> SearchOptions {
        let (ratio, extra) = match usize::try_from(self.max_output_length) {
            Ok(length) => (0.0, length),
            Err(_) => (1.5, 0),
        };
        let (norm, penalty) = match self.beam_size > 1 && self.beam_alpha > 0.0 {
            true => (LengthNorm::Wu, self.beam_alpha),
            false => (LengthNorm::None, 1.0),
        };
        SearchOptions {
            beam: self.beam_size.max(1),
            length_norm: norm,
            length_penalty: penalty,
            max_len_ratio: ratio,
            max_len_extra: extra,
            min_len: self.min_output_length,
            max_repeats: 0,
            suppress: if self.generate_unk { Vec::new() } else { vec![UNK] },
            no_repeat_ngram: usize::try_from(self.no_repeat_ngram_size).unwrap_or(0),
            ..SearchOptions::default()
        }
    }

    /// Options of the search that the bundle does not have.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.repetition_penalty > 1.0 {
            notes.push(
                "`repetition_penalty` of the configuration also concerns tokens of the source; it is \
                 ignored"
                    .to_owned(),
            );
        }
        if self.no_repeat_ngram_size > 0 {
            notes.push(
                "`no_repeat_ngram_size` of the configuration also concerns n-grams of the source; \
                 that of the bundle does not"
                    .to_owned(),
            );
        }
        notes
    }
}
