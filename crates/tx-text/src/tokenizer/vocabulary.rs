//! Tokenizers of a SentencePiece model and a vocabulary, as Marian, M2M-100 and NLLB have them.

use std::collections::HashSet;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use tokenizers::{AddedToken, Tokenizer as Inner, models::wordlevel::WordLevel};

use super::{
    ends::Ends,
    one_side::Tokenizer,
    sentencepiece::{self, Decoding, Processor},
};
use crate::{
    error::TextError,
    normalization::Normalization,
    special::{SPECIAL_TOKENS, UNK},
};

/// Start of the file of such a tokenizer.
const START: &[u8] = br#"{"sentencepiece":"#;

/// Vocabulary for the pieces of a SentencePiece model.
#[derive(Debug, Clone, Copy)]
pub struct SentencePieceVocabulary<'a> {
    /// Token of each id: the special tokens of tx, then all others.
    pub tokens: &'a [String],
    /// Further special tokens, such as language tokens: no text is encoded to them.
    pub special: &'a [String],
    /// Whether a text may start with a code, `>>…<<`, which is encoded to one token, or to `<unk>`
    /// if the vocabulary does not have it.
    pub leading_code: bool,
    /// Special tokens that are added to a text.
    pub ends: Ends,
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
        Self::of_model(model, vocabulary, Decoding::Trimmed)
            .map_err(|problem| TextError::TokenizerConfig { problem })
    }

    /// Creates a tokenizer of a model and a vocabulary.
    pub(super) fn of_model(
        model: &[u8],
        vocabulary: SentencePieceVocabulary<'_>,
        decoding: Decoding,
    ) -> Result<Self, String> {
        let SentencePieceVocabulary { tokens, special, leading_code, ends } = vocabulary;
        if !tokens.iter().take(SPECIAL_TOKENS.len()).eq(SPECIAL_TOKENS) {
            return Err(format!("the vocabulary must start with {SPECIAL_TOKENS:?}"));
        }
        let inner = library(tokens).map_err(|error| error.to_string())?;
        // A map has a token that occurs twice once; the others have the ids of their places.
        if inner.get_vocab_size(false) != tokens.len() {
            let mut seen = HashSet::new();
            let twice = tokens.iter().find(|token| !seen.insert(token.as_str()));
            let token = twice.map_or("", String::as_str);
            return Err(format!("the vocabulary has the token `{token}` twice"));
        }
        if let Some(token) = special.iter().find(|token| inner.token_to_id(token).is_none()) {
            return Err(format!("the vocabulary has no special token `{token}`"));
        }
        let inner = with_special(inner, special).map_err(|error| error.to_string())?;
        let tokenizer = Self::finish(inner, ends).map_err(|error| error.to_string())?;
        let id = |token: &str| tokenizer.text_id(token);
        let processor = Processor::new(model.to_vec(), leading_code, decoding, id)?;
        Ok(tokenizer.with_sentencepiece(processor))
    }
}

/// Returns the pieces of a SentencePiece model, the content of a `.spm` or `.model` file, in the order
/// of their ids.
///
/// # Errors
///
/// If it is not a model, or is damaged.
pub fn sentencepiece_pieces(model: &[u8]) -> Result<Vec<String>, TextError> {
    sentencepiece::pieces(model).map_err(|problem| TextError::TokenizerConfig { problem })
}

/// Vocabulary in the form of the library, which encodes no text with it.
fn library(tokens: &[String]) -> tokenizers::Result<Inner> {
    let vocab = tokens.iter().cloned().zip(0..).collect();
    let unknown = SPECIAL_TOKENS.get(UNK as usize).copied().unwrap_or_default();
    let model = WordLevel::builder().vocab(vocab).unk_token(unknown.to_owned()).build()?;
    Ok(Inner::new(model))
}

/// Adds the special tokens, all of which are in the vocabulary.
fn with_special(mut inner: Inner, special: &[String]) -> tokenizers::Result<Inner> {
    let special = SPECIAL_TOKENS.into_iter().chain(special.iter().map(String::as_str));
    inner.add_special_tokens(special.map(|token| AddedToken::from(token, true)))?;
    Ok(inner)
}

/// Content of the file of a tokenizer.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SentencePieceFile {
    sentencepiece: Content,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    leading_code: bool,
    adds_bos: bool,
    /// Whether `<eos>` is added after a text.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    adds_eos: bool,
    /// Whether spaces are decoded as by SentencePiece instead of trimmed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    exact_spaces: bool,
    /// Normalization before that of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    normalization: Option<Normalization>,
    /// Special tokens other than those of tx.
    special: Vec<String>,
    /// Token of each id.
    tokens: Vec<String>,
    /// The file of SentencePiece, in base64.
    model: String,
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

impl SentencePieceFile {
    /// Describes a tokenizer.
    pub(super) fn of(tokenizer: &Tokenizer, processor: &Processor) -> Self {
        let ids = 0..tokenizer.vocab_size() as u32;
        let ours = SPECIAL_TOKENS.len();
        let special = ids.clone().skip(ours).filter(|&id| tokenizer.is_special(id));
        let token = |id| tokenizer.token(id).unwrap_or_default();
        Self {
            sentencepiece: Content {
                leading_code: processor.has_leading_code(),
                adds_bos: tokenizer.ends.bos,
                adds_eos: tokenizer.ends.eos,
                exact_spaces: processor.decoding() == Decoding::Exact,
                normalization: tokenizer.normalization(),
                special: special.map(token).collect(),
                tokens: ids.map(token).collect(),
                model: BASE64.encode(processor.file()),
            },
        }
    }

    /// Reads a file; `None` if it is one of the library.
    pub(super) fn read(json: &[u8]) -> Option<Result<Self, String>> {
        json.starts_with(START)
            .then(|| serde_json::from_slice(json).map_err(|error| format!("not readable: {error}")))
    }

    /// Sets the special tokens that are added to a text.
    pub(super) fn with_ends(mut self, ends: Ends) -> Self {
        self.sentencepiece.adds_bos = ends.bos;
        self.sentencepiece.adds_eos = ends.eos;
        self
    }

    /// Creates the tokenizer.
    pub(super) fn tokenizer(self) -> Result<Tokenizer, String> {
        let Content {
            leading_code,
            adds_bos,
            adds_eos,
            exact_spaces,
            normalization,
            special,
            tokens,
            model,
        } = self.sentencepiece;
        let ends = Ends { bos: adds_bos, eos: adds_eos };
        let decoding = if exact_spaces { Decoding::Exact } else { Decoding::Trimmed };
        let model = BASE64.decode(model.as_bytes()).map_err(|_| "its `model` is not base64")?;
        let vocabulary =
            SentencePieceVocabulary { tokens: &tokens, special: &special, leading_code, ends };
        let tokenizer = Tokenizer::of_model(&model, vocabulary, decoding)?;
        Ok(match normalization {
            Some(normalization) => tokenizer.with_normalization(normalization),
            None => tokenizer,
        })
    }

    /// Returns the content of the file.
    pub(super) fn to_json(&self) -> Result<String, TextError> {
        serde_json::to_string(self).map_err(|error| TextError::Tokenizer(error.into()))
    }
}
