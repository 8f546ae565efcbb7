//! Folder of Marian.
//!
//! | file | content |
//! |---|---|
//! | `model.npz` | weights in single precision, and the options of the network |
//! | `decoder.yml` | options of the decoder, with the names of the other files |
//! | `vocab.spm`, or `source.spm` and `target.spm` | SentencePiece models, if their pieces are the vocabularies |
//! | `vocab.yml`, or `source.vocab.yml` and `target.vocab.yml` | otherwise: tokens and ids |
//! | `source.spm`, `target.spm` | models that divide text into the tokens of a `.vocab.yml` |
//! | `source.tokenizer.json`, `target.tokenizer.json` | tokenizers that do, if there are no models |
//!
//! With a `.spm`, Marian divides text itself. With a `.yml`, it divides text at spaces, so the text
//! must consist of tokens, as OPUS-MT's models expect it.
//!
//! Marian has two implementations of the Transformer, with different epsilons of layer normalization:
//! `transformer` has 1e-6, `transformer-new` 1e-5. Models with post-norm are written for the first. Its
//! decoder attends to states of earlier positions that are not normalized if norms are in front of the
//! sub-layers, other than in training, so models with pre-norm are written for the second. That one
//! mixes up the sentences of a batch when some of them end, so its `decoder.yml` has batches of one.

use tx_infer::{Bundle, LanguagePlacement, LengthNorm};
use tx_model::{
    Activation, Autoregression, DecoderStart, EmbeddingScale, ModelConfig, NormPlacement,
    Normalization, Positions, SinusoidFormula, SinusoidLayout, Tying,
};
use tx_text::Ends;

use super::{ExportFormat, new_folder::NewFolder};
use crate::{
    error::ConvertError,
    marian::{
        archive::ArchiveWriter,
        array_names::{ArrayNames, EMBEDDING, EMBEDDINGS, LOGIT_BIAS, PROJECTION_ROWS},
        options::{Layers, ModelOptions, Tied},
    },
};

mod arrays;
mod vocabularies;

use arrays::Arrays;
use vocabularies::Vocabularies;

/// Name of the archive.
const MODEL: &str = "model.npz";

/// Writes a bundle.
pub(super) fn write(bundle: &Bundle, folder: &NewFolder) -> Result<(), ConvertError> {
    let mut problems = problems(bundle);
    let layers = layers(bundle, &mut problems);
    let vocabularies = Vocabularies::new(bundle, &mut problems);
    let [source, target] = &vocabularies.orders;
    let config = &bundle.config;
    let options = ModelOptions {
        layers,
        d_model: config.d_model,
        n_heads: config.n_heads,
        d_ff: config.d_ff,
        depths: [config.encoder_layers, config.decoder_layers],
        vocabularies: [source.len(), target.len()],
        activation: config.activation,
        norm: config.norm,
        normalization: config.normalization,
        autoregression: config.autoregression,
        tying: match config.tying {
            Tying::All => Tied::All,
            Tying::Decoder => Tied::Decoder,
            Tying::None => Tied::None,
        },
        output_bias: config.output_bias,
    };
    let decoder = decoder(bundle, layers, &vocabularies.names, &mut problems);
    if !problems.is_empty() {
        return Err(ConvertError::NotExpressible { format: ExportFormat::Marian, problems });
    }
    let arrays = Arrays {
        bundle,
        names: ArrayNames {
            layers,
            activation: config.activation,
            pre_norm: config.norm == NormPlacement::Pre,
            normalization: config.normalization,
        },
        orders: &vocabularies.orders,
    };
    folder.write_file(MODEL, |file| {
        let mut archive = ArchiveWriter::new(file);
        arrays.write(&mut archive)?;
        archive.finish(&options.to_yaml())
    })?;
    folder.write("decoder.yml", decoder.as_bytes())?;
    vocabularies.write(bundle, folder)
}

/// Properties of the model that Marian has not.
fn problems(bundle: &Bundle) -> Vec<String> {
    let config = &bundle.config;
    let mut problems = Vec::new();
    let mut refuse = |key: &str, value: &str, supported: &str| {
        problems.push(format!("`{key}` = {value}: Marian has {supported}"));
    };
    let Ends { bos, eos } = bundle.tokenizers.source.ends();
    if bos {
        refuse("tokenizer.source_bos", "true", "sources without `<bos>`");
    }
    if !eos {
        refuse("tokenizer.source_eos", "false", "sources with `<eos>`");
    }
    match config.norm {
        NormPlacement::Pre | NormPlacement::Post => {}
        NormPlacement::PostFinal => refuse("norm", "\"post-final\"", "\"pre\" and \"post\""),
        NormPlacement::SublayerOutput => {
            refuse("norm", "\"sublayer-output\"", "\"pre\" and \"post\"");
        }
    }
    match config.activation {
        Activation::Relu | Activation::Gelu | Activation::Swish => {}
        Activation::Gated => refuse("activation", "\"gated\"", "\"relu\", \"swish\" and \"gelu\""),
    }
    match config.embedding_scale {
        EmbeddingScale::Both => {}
        EmbeddingScale::Source => refuse("embedding_scale", "\"source\"", "\"both\""),
        EmbeddingScale::None => refuse("embedding_scale", "\"none\"", "\"both\""),
    }
    match config.decoder_start {
        DecoderStart::Zero => {}
        DecoderStart::Bos => refuse("decoder_start", "\"bos\"", "\"zero\""),
        DecoderStart::Eos => refuse("decoder_start", "\"eos\"", "\"zero\""),
        DecoderStart::Pad => refuse("decoder_start", "\"pad\"", "\"zero\""),
    }
    match config.positions {
        Positions::Sinusoidal => {
            match config.sinusoids.layout {
                SinusoidLayout::Halves => {}
                SinusoidLayout::Interleaved => {
                    refuse("sinusoids.layout", "\"interleaved\"", "\"halves\"");
                }
            }
            match config.sinusoids.formula {
                SinusoidFormula::Tensor2tensor => {}
                SinusoidFormula::Paper => {
                    refuse("sinusoids.formula", "\"paper\"", "\"tensor2tensor\"");
                }
            }
            if config.sinusoids.first != 0 {
                refuse("sinusoids.first", &config.sinusoids.first.to_string(), "0");
            }
        }
        Positions::Learned => refuse("positions", "\"learned\"", "\"sinusoidal\""),
        Positions::Rotary => refuse("positions", "\"rotary\"", "\"sinusoidal\""),
        Positions::Relative => refuse("positions", "\"relative\"", "\"sinusoidal\""),
        Positions::Alibi => refuse("positions", "\"alibi\"", "\"sinusoidal\""),
        Positions::None => refuse("positions", "\"none\"", "\"sinusoidal\""),
    }
    if let Some(languages) = &bundle.languages {
        match languages.placement {
            LanguagePlacement::TargetInSource => {}
            LanguagePlacement::BothSides => {
                refuse("languages.placement", "\"both-sides\"", "no forced first token");
            }
        }
    }
    problems
}

/// The implementation that computes the model.
fn layers(bundle: &Bundle, problems: &mut Vec<String>) -> Layers {
    let ModelConfig { norm, norm_epsilon, activation, .. } = bundle.config;
    let ModelConfig { autoregression, normalization, .. } = bundle.config;
    // The difference of the two epsilons is far below the variances of the features.
    if ![Layers::Legacy, Layers::New].map(Layers::norm_epsilon).contains(&norm_epsilon) {
        problems.push(format!("`norm_epsilon` = {norm_epsilon}: Marian has 1e-6 and 1e-5"));
    }
    let layers = match (norm, activation) {
        (NormPlacement::Pre, _) | (_, Activation::Gelu) => Layers::New,
        (
            NormPlacement::Post | NormPlacement::PostFinal | NormPlacement::SublayerOutput,
            Activation::Relu | Activation::Swish | Activation::Gated,
        ) => Layers::Legacy,
    };
    let has = "Marian has it with `norm` = \"post\" and `activation` \"relu\" or \"swish\"";
    match (layers, autoregression) {
        (Layers::Legacy, _) | (_, Autoregression::SelfAttention) => {}
        (Layers::New, Autoregression::Ssru) => {
            problems.push(format!("`autoregression` = \"ssru\": {has}"));
        }
    }
    match (layers, normalization) {
        (Layers::Legacy, _) | (_, Normalization::Layer) => {}
        (Layers::New, Normalization::Rms) => {
            problems.push(format!("`normalization` = \"rms\": {has}"));
        }
    }
    layers
}

/// Content of `decoder.yml`.
fn decoder(
    bundle: &Bundle,
    layers: Layers,
    vocabularies: &[String; 2],
    problems: &mut Vec<String>,
) -> String {
    let [source, target] = vocabularies;
    let search = bundle.search.clone().unwrap_or_default();
    let normalize = match search.length_norm {
        LengthNorm::None => 0.0,
        LengthNorm::Power => search.length_penalty,
        // `Wu`, and those that are added to the search later.
        other => {
            problems.push(format!(
                "`search.length_norm` = {other:?}: Marian divides scores by a power of the length"
            ));
            0.0
        }
    };
    let mut text = format!(
        "relative-paths: true\nmodels:\n  - {MODEL}\nvocabs:\n  - {source}\n  - {target}\n\
         beam-size: {}\nnormalize: {normalize}\nword-penalty: {}\n",
        search.beam, search.word_penalty
    );
    if search.max_len_ratio > 0.0 && search.max_len_extra == 0 {
        text.push_str(&format!("max-length-factor: {}\n", search.max_len_ratio));
    }
    match layers {
        Layers::Legacy => {}
        Layers::New => text.push_str("mini-batch: 1\n"),
    }
    text
}
