//! Tokenizers of a SentencePiece model and a vocabulary, as Marian, M2M-100 and NLLB have them.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::{check, one_side::Tokenizer, sentencepiece::Processor};
use crate::{
    error::TextError,
    special::{SPECIAL_TOKENS, UNK},
};

/// Vocabulary for the pieces of a SentencePiece model.
#[derive(Debug, Clone, Copy)]
pub struct SentencePieceVocabulary<'a> {
    /// Token of each id: [`SPECIAL_TOKENS`], then all others.
    pub tokens: &'a [String],
    /// Further special tokens, such as language tokens: no text is encoded to them.
    pub special: &'a [String],
    /// Whether a text may start with a code, `>>…<<`, which is encoded to one token, or to `<unk>`
    /// if the vocabulary does not have it.
    pub leading_code: bool,
    /// Whether `<bos>` is added before a text.
    pub adds_bos: bool,
}

impl Tokenizer {
    /// Creates a tokenizer that divides text as SentencePiece does with a model, the content of a
    /// `.spm` or `.model` file. A piece, or a run of unknown characters, that is not in the
    /// vocabulary is `<unk>`.
    ///
    /// # Errors
    ///
    /// [`TextError::TokenizerConfig`] if the model is damaged or has an option that is not
    /// supported, or the vocabulary does not start with the special tokens or has a token twice.
    pub fn from_sentencepiece(
        model: &[u8],
        vocabulary: SentencePieceVocabulary<'_>,
    ) -> Result<Self, TextError> {
        let problem = |problem| TextError::TokenizerConfig { problem };
        let SentencePieceVocabulary { tokens, special, leading_code, adds_bos } = vocabulary;
        if !tokens.iter().take(SPECIAL_TOKENS.len()).eq(SPECIAL_TOKENS) {
            return Err(problem(format!("the vocabulary must start with {SPECIAL_TOKENS:?}")));
        }
        let mut seen = HashSet::new();
        if let Some(token) = tokens.iter().find(|token| !seen.insert(token.as_str())) {
            return Err(problem(format!("the vocabulary has the token `{token}` twice")));
        }
        if let Some(token) = special.iter().find(|token| !seen.contains(token.as_str())) {
            return Err(problem(format!("the vocabulary has no special token `{token}`")));
        }
        let json = library_json(tokens, special).to_string();
        let inner = check::open(json.as_bytes()).map_err(problem)?;
        check::ids(&inner).map_err(problem)?;
        let tokenizer = Self::finish(inner, adds_bos)?;
        let id = |token: &str| tokenizer.text_id(token);
        let processor = Processor::new(model.to_vec(), leading_code, id).map_err(problem)?;
        Ok(tokenizer.with_sentencepiece(processor))
    }
}

/// A `tokenizer.json` with the vocabulary and a decoder, for programs that do not read the model.
fn library_json(tokens: &[String], special: &[String]) -> Value {
    let special: HashSet<&str> =
        SPECIAL_TOKENS.into_iter().chain(special.iter().map(String::as_str)).collect();
    let is_special = |token: &&String| special.contains(token.as_str());
    let added: Vec<Value> = tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| is_special(token))
        .map(|(id, token)| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            })
        })
        .collect();
    let vocab: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let unknown = SPECIAL_TOKENS.get(UNK as usize);
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null, "pre_tokenizer": null, "post_processor": null,
        "decoder": {
            "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true,
        },
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": unknown },
    })
}
