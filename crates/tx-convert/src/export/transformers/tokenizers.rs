//! Tokenizer files.

use serde_json::{Map, Value, json};
use tx_infer::{Bundle, InferError};
use tx_text::{
    Ends, Tokenizer, Tokenizers,
    special::{BOS, EOS, SPECIAL_TOKENS},
};

use super::{NewFolder, pretty};
use crate::error::ConvertError;

/// Returns a property of the tokenizers that the files cannot express.
pub(super) fn problem(bundle: &Bundle) -> Option<String> {
    let Tokenizers { source, target } = &bundle.tokenizers;
    match (source.sentencepiece_model(), target.sentencepiece_model()) {
        (None, None) => None,
        (Some(_), Some(_)) if source.has_leading_code() => None,
        (Some(_), Some(_)) if source.has_own_pieces() && target.has_own_pieces() => {
            (source.ends() != Ends::EOS).then(|| {
                "the source has other special tokens than `<eos>`, which the tokenizer of SentencePiece \
                 models adds"
                    .into()
            })
        }
        (Some(_), Some(_)) => {
            Some("the tokenizers are those of M2M-100 or NLLB, and the architecture is not".into())
        }
        _ => Some("one of the tokenizers is a SentencePiece model, and the other is not".into()),
    }
}

/// Writes the files.
pub(super) fn write(bundle: &Bundle, folder: &NewFolder) -> Result<(), ConvertError> {
    let Tokenizers { source, target } = &bundle.tokenizers;
    let mut config = json!({
        "model_max_length": bundle.config.max_len, "clean_up_tokenization_spaces": false,
        "split_special_tokens": true, "pad_token": "<pad>", "unk_token": "<unk>",
    });
    match (source.sentencepiece_model(), target.sentencepiece_model()) {
        (Some(source_model), Some(target_model)) => {
            folder.write("source.spm", source_model)?;
            folder.write("target.spm", target_model)?;
            let sizes = bundle.config.padded(bundle.vocabulary());
            let (source, target) =
                (vocabulary(source, sizes.source), vocabulary(target, sizes.target));
            let is_shared = source == target;
            folder.write("vocab.json", pretty(&source).as_bytes())?;
            if !is_shared {
                folder.write("target_vocab.json", pretty(&target).as_bytes())?;
            }
            config["tokenizer_class"] = "MarianTokenizer".into();
            config["separate_vocabs"] = (!is_shared).into();
            config["eos_token"] = "</s>".into();
        }
        _ => {
            for (name, tokenizer) in [("tokenizer.json", source), ("target_tokenizer.json", target)]
            {
                let json = tokenizer.to_json().map_err(InferError::from)?;
                folder.write(name, json.as_bytes())?;
            }
            config["tokenizer_class"] = "PreTrainedTokenizerFast".into();
            config["bos_token"] = "<bos>".into();
            config["eos_token"] = "<eos>".into();
            // By default, this class returns token types, which the models do not accept.
            config["model_input_names"] = json!(["input_ids", "attention_mask"]);
        }
    }
    folder.write("tokenizer_config.json", pretty(&config).as_bytes())
}

/// Ids by token, with `</s>` for `<eos>`. Ids that pad a vocabulary have names.
fn vocabulary(tokenizer: &Tokenizer, size: usize) -> Value {
    let token = |id: u32| match (id, SPECIAL_TOKENS.get(id as usize)) {
        (EOS, _) => "</s>".to_owned(),
        (BOS, Some(token)) => (*token).to_owned(),
        _ => tokenizer.token(id).unwrap_or_else(|| format!("<unused {id}>")),
    };
    let ids: Map<String, Value> = (0..size as u32).map(|id| (token(id), id.into())).collect();
    ids.into()
}
