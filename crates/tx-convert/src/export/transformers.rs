//! Folder of `transformers`.
//!
//! | file | content |
//! |---|---|
//! | `config.json`, `generation_config.json` | architecture, sizes, search options |
//! | `model.safetensors` | weights in single precision |
//! | `source.spm`, `target.spm`, `vocab.json`, `target_vocab.json` | tokenizers of `MarianTokenizer`, if the bundle has SentencePiece models |
//! | `tokenizer.json`, `target_tokenizer.json` | otherwise: tokenizers of `PreTrainedTokenizerFast` |
//! | `tokenizer_config.json` | class of the tokenizers, special tokens |
//!
//! | architecture | model |
//! |---|---|
//! | `MarianMTModel` | post-norm, sinusoids of the paper's formula from position 0 |
//! | `PegasusForConditionalGeneration` | pre-norm with the same sinusoids |
//!
//! Both have the sines of a position in the first half of its features. A model with interleaved
//! sinusoids is converted by a permutation of its features.

use serde_json::{Value, json};
use tx_infer::{Bundle, EarlyStopping, LengthNorm, SearchOptions, TaskKind};
use tx_model::{
    Activation, Autoregression, DecoderStart, EmbeddingScale, ModelConfig, NormPlacement,
    Normalization, Positions, SinusoidFormula, Tying,
};
use tx_text::special::{BOS, EOS, PAD};

use super::{ExportFormat, new_folder::NewFolder};
use crate::error::ConvertError;

mod tensors;
mod tokenizers;

/// Epsilon of layer normalization in both architectures.
const NORM_EPSILON: f64 = 1e-5;

/// Writes a bundle.
pub(super) fn write(bundle: &Bundle, folder: &NewFolder) -> Result<(), ConvertError> {
    bundle.expect(TaskKind::Translate)?;
    let problems = problems(bundle);
    if !problems.is_empty() {
        return Err(ConvertError::NotExpressible { format: ExportFormat::Transformers, problems });
    }
    folder.write("config.json", pretty(&config(bundle)).as_bytes())?;
    folder.write("generation_config.json", pretty(&generation(bundle)).as_bytes())?;
    tensors::write(bundle, folder)?;
    tokenizers::write(bundle, folder)
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Properties of the model that the architectures do not have.
fn problems(bundle: &Bundle) -> Vec<String> {
    let ModelConfig { norm, norm_epsilon, positions, sinusoids, activation, .. } = bundle.config;
    let ModelConfig { tying, embedding_scale, decoder_start, .. } = bundle.config;
    let ModelConfig { autoregression, normalization, .. } = bundle.config;
    let mut problems = Vec::new();
    match (norm, tying) {
        (NormPlacement::Post, Tying::None | Tying::Decoder | Tying::All)
        | (NormPlacement::Pre, Tying::All) => {}
        (NormPlacement::Pre, Tying::None | Tying::Decoder) => problems.push(
            "`norm` = \"pre\" needs `tying` = \"all\", because the architecture has one embedding"
                .to_owned(),
        ),
        (NormPlacement::PostFinal, _) => {
            problems.push("`norm` = \"post-final\", supported are \"pre\" and \"post\"".into());
        }
        (NormPlacement::SublayerOutput, _) => {
            problems
                .push("`norm` = \"sublayer-output\", supported are \"pre\" and \"post\"".into());
        }
    }
    if norm_epsilon != NORM_EPSILON {
        problems.push(format!("`norm_epsilon` = {norm_epsilon}, supported is {NORM_EPSILON}"));
    }
    match autoregression {
        Autoregression::SelfAttention => {}
        Autoregression::Ssru => problems.push("`autoregression` = \"ssru\"".to_owned()),
    }
    match normalization {
        Normalization::Layer => {}
        Normalization::Rms => problems.push("`normalization` = \"rms\"".to_owned()),
    }
    match positions {
        Positions::Sinusoidal => {}
        Positions::Learned
        | Positions::Rotary
        | Positions::Relative
        | Positions::Alibi
        | Positions::None => {
            problems.push("`positions` other than \"sinusoidal\"".to_owned());
        }
    }
    match sinusoids.formula {
        SinusoidFormula::Paper => {}
        SinusoidFormula::Tensor2tensor => {
            problems.push("`sinusoids.formula` = \"tensor2tensor\", supported is \"paper\"".into());
        }
    }
    if sinusoids.first != 0 {
        problems.push(format!("`sinusoids.first` = {}, supported is 0", sinusoids.first));
    }
    match activation {
        Activation::Relu | Activation::Gelu | Activation::Swish => {}
        Activation::Gated => problems.push("`activation` = \"gated\"".to_owned()),
    }
    match embedding_scale {
        EmbeddingScale::Both | EmbeddingScale::None => {}
        EmbeddingScale::Source => problems.push("`embedding_scale` = \"source\"".to_owned()),
    }
    match decoder_start {
        DecoderStart::Bos | DecoderStart::Eos | DecoderStart::Pad => {}
        DecoderStart::Zero => problems.push("`decoder_start` = \"zero\"".to_owned()),
    }
    let sizes = bundle.config.padded(bundle.vocabulary());
    if sizes.source != sizes.target {
        problems.push(format!(
            "the vocabularies have {} and {} ids; transformers loads equal numbers only",
            sizes.source, sizes.target
        ));
    }
    problems.extend(tokenizers::problem(bundle));
    problems
}

/// Content of `config.json`.
fn config(bundle: &Bundle) -> Value {
    let config = &bundle.config;
    let (model_type, architecture) = match config.norm {
        NormPlacement::Pre => ("pegasus", "PegasusForConditionalGeneration"),
        NormPlacement::Post | NormPlacement::PostFinal | NormPlacement::SublayerOutput => {
            ("marian", "MarianMTModel")
        }
    };
    let activation = match config.activation {
        Activation::Relu => "relu",
        Activation::Gelu => "gelu",
        Activation::Swish | Activation::Gated => "swish",
    };
    let size = config.padded(bundle.vocabulary()).target;
    json!({
        "architectures": [architecture], "model_type": model_type, "dtype": "float32",
        "d_model": config.d_model,
        "encoder_layers": config.encoder_layers, "decoder_layers": config.decoder_layers,
        "num_hidden_layers": config.encoder_layers,
        "encoder_attention_heads": config.n_heads, "decoder_attention_heads": config.n_heads,
        "encoder_ffn_dim": config.d_ff, "decoder_ffn_dim": config.d_ff,
        "max_position_embeddings": config.max_len,
        "activation_function": activation,
        "scale_embedding": config.embedding_scale == EmbeddingScale::Both,
        "share_encoder_decoder_embeddings": config.tying == Tying::All,
        "tie_word_embeddings": config.tying != Tying::None,
        "vocab_size": size, "decoder_vocab_size": size,
        "is_encoder_decoder": true, "static_position_embeddings": true,
        "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS,
        "decoder_start_token_id": start_id(config.decoder_start),
        "dropout": config.dropout.residual, "attention_dropout": config.dropout.attention,
        "activation_dropout": config.dropout.activation,
    })
}

fn start_id(start: DecoderStart) -> u32 {
    match start {
        DecoderStart::Pad => PAD,
        DecoderStart::Eos => EOS,
        DecoderStart::Bos | DecoderStart::Zero => BOS,
    }
}

/// Content of `generation_config.json`: the search options that `generate()` has.
fn generation(bundle: &Bundle) -> Value {
    let options = bundle.search.clone().unwrap_or_default();
    let SearchOptions { beam, early_stopping, no_repeat_ngram, repetition_penalty, .. } = options;
    let early_stopping = match early_stopping {
        EarlyStopping::Finished | EarlyStopping::First => json!(true),
        EarlyStopping::Never => json!("never"),
        _ => json!(false),
    };
    let length_penalty = match options.length_norm {
        LengthNorm::None => 0.0,
        _ => f64::from(options.length_penalty),
    };
    let vocabulary = bundle.vocabulary().target as u32;
    let padded = bundle.config.padded(bundle.vocabulary()).target as u32;
    let mut suppressed = vec![PAD, BOS];
    suppressed.extend(&options.suppress);
    suppressed.extend(vocabulary..padded);
    // The length of transformers includes the first input of the decoder.
    let max_len = options.max_len.map_or(bundle.config.max_len, |length| length + 1);
    let mut generation = json!({
        "num_beams": beam, "length_penalty": length_penalty, "early_stopping": early_stopping,
        "max_length": max_len.min(bundle.config.max_len),
        "no_repeat_ngram_size": no_repeat_ngram,
        "repetition_penalty": f64::from(repetition_penalty),
        "renormalize_logits": options.renormalize, "suppress_tokens": suppressed,
        "pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS,
        "decoder_start_token_id": start_id(bundle.config.decoder_start),
    });
    if options.force_eos {
        generation["forced_eos_token_id"] = EOS.into();
    }
    generation
}
