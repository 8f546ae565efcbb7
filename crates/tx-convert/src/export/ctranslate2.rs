//! Folder of CTranslate2, with weights in single precision, or in int8 if those of the bundle are.
//!
//! | file | content |
//! |---|---|
//! | `model.bin` | variables of `TransformerSpec`, revision 7 |
//! | `config.json` | special tokens and the epsilon of layer normalization |
//! | `shared_vocabulary.json`, or `source_vocabulary.json` and `target_vocabulary.json` | tokens by id |
//! | `source.tokenizer.json`, `target.tokenizer.json` | tokenizers of the bundle, which CTranslate2 does not read |
//!
//! Differences in layout:
//!
//! - A linear layer is `[d_out, d_in]`, in a bundle `[d_in, d_out]`.
//! - Self-attention has one layer for queries, keys and values; cross-attention has one for keys and
//!   values.
//! - Positional encodings are stored as a table, because CTranslate2 computes sinusoids of one
//!   formula only.
//! - Ids that pad a vocabulary need names: `<unused0>` and so on.
//!
//! Sources are passed with `<eos>`, as the tokenizer of the source returns them.

use std::collections::HashSet;

use serde_json::json;
use tx_infer::Bundle;
use tx_model::{Autoregression, DecoderStart, NormPlacement, Positions};
use tx_text::{
    Tokenizer,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

use super::{ExportFormat, new_folder::NewFolder};
use crate::error::ConvertError;

mod model_bin;
mod variables;

use variables::Model;

/// Writes a bundle.
pub(super) fn write(bundle: &Bundle, folder: &NewFolder) -> Result<(), ConvertError> {
    let mut problems = problems(bundle);
    let Model { variables, aliases } = Model::new(bundle);
    for variable in &variables {
        let bytes = variable.value.bytes(bundle);
        if u32::try_from(bytes).is_err() {
            let name = &variable.name;
            problems.push(format!("`{name}` has {bytes} bytes, more than 2³² − 1"));
        }
    }
    if !problems.is_empty() {
        return Err(ConvertError::NotExpressible { format: ExportFormat::CTranslate2, problems });
    }
    folder.write_with("model.bin", |file| model_bin::write(bundle, &variables, &aliases, file))?;
    folder.write("config.json", format!("{:#}\n", config(bundle)).as_bytes())?;
    let sizes = bundle.config.padded(bundle.vocabulary());
    let source = tokens(&bundle.tokenizers.source, sizes.source);
    let target = tokens(&bundle.tokenizers.target, sizes.target);
    let vocabularies = if source == target {
        vec![("shared_vocabulary.json", source)]
    } else {
        vec![("source_vocabulary.json", source), ("target_vocabulary.json", target)]
    };
    for (name, tokens) in vocabularies {
        folder.write(name, format!("{:#}\n", json!(tokens)).as_bytes())?;
    }
    folder.write_tokenizers(bundle)
}

/// Properties of the model that CTranslate2 has not.
fn problems(bundle: &Bundle) -> Vec<String> {
    let mut problems = Vec::new();
    match bundle.config.norm {
        NormPlacement::Pre | NormPlacement::Post | NormPlacement::PostFinal => {}
        NormPlacement::SublayerOutput => problems
            .push("`norm` = \"sublayer-output\": CTranslate2 has \"pre\" and \"post\"".to_owned()),
    }
    match bundle.config.autoregression {
        Autoregression::SelfAttention => {}
        Autoregression::Ssru => problems
            .push("`autoregression` = \"ssru\": CTranslate2 has self-attention only".to_owned()),
    }
    match bundle.config.positions {
        Positions::Sinusoidal | Positions::Learned | Positions::Rotary | Positions::None => {}
        Positions::Relative => problems.push(
            "`positions` = \"relative\": CTranslate2 has one table of relative biases for all \
             layers of a stack, this model one for each"
                .to_owned(),
        ),
        Positions::Alibi => problems.push(
            "`positions` = \"alibi\": CTranslate2 has it in decoders, this model also in the encoder"
                .to_owned(),
        ),
    }
    let heads = bundle.config.n_heads;
    if i16::try_from(heads).is_err() {
        problems.push(format!("`n_heads` = {heads} is more than {}", i16::MAX));
    }
    problems
}

/// Content of `config.json`.
fn config(bundle: &Bundle) -> serde_json::Value {
    let token = |id: u32| SPECIAL_TOKENS[id as usize];
    let start = match bundle.config.decoder_start {
        // The embedding of the first token is replaced by zeros, whatever the token.
        DecoderStart::Bos | DecoderStart::Zero => BOS,
        DecoderStart::Eos => EOS,
        DecoderStart::Pad => PAD,
    };
    json!({
        "add_source_bos": false,
        "add_source_eos": false,
        "bos_token": token(BOS),
        "decoder_start_token": token(start),
        "eos_token": token(EOS),
        "layer_norm_epsilon": bundle.config.norm_epsilon,
        "multi_query_attention": false,
        "unk_token": token(UNK),
    })
}

/// Tokens of all ids of the model. Ids without a token get names that no token has.
fn tokens(tokenizer: &Tokenizer, size: usize) -> Vec<String> {
    let known: Vec<Option<String>> = (0..size as u32).map(|id| tokenizer.token(id)).collect();
    let names: HashSet<&String> = known.iter().flatten().collect();
    let mut unused = (0..).map(|i: usize| format!("<unused{i}>"));
    let mut unused = unused.by_ref().filter(|name| !names.contains(name));
    let mut next = || unused.next().unwrap_or_default();
    known.iter().map(|token| token.clone().unwrap_or_else(&mut next)).collect()
}

#[cfg(test)]
mod tests;
