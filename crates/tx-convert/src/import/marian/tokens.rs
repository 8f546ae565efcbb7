//! Tokenizers of a model of Marian, and the rows of its vocabularies in the order of a bundle.
//!
//! | vocabulary | text |
//! |---|---|
//! | SentencePiece model | divided by the model, whose pieces are the vocabulary |
//! | list of tokens, and SentencePiece models | divided by the model of the side |
//! | list of tokens | divided at spaces: the text must be tokenized already |

use std::path::Path;

use serde_json::{Map, Value, json};
use tx_text::{
    SentencePieceVocabulary, Tokenizer, Tokenizers, sentencepiece_pieces,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

use super::files::{ModelFiles, is_sentencepiece};
use crate::{
    error::ConvertError,
    import::weight_map::RowOrder,
    marian::vocabulary::{self, Vocabulary},
    source_files::SourceFiles,
};

/// End of a part of a word that another part follows, in vocabularies of subword-nmt.
const MARK: &str = "@@";

/// Tokens of one side.
pub(super) struct SideTokens {
    /// Tokens in the order of the bundle.
    tokens: Vec<String>,
    /// Tokens that text does not become.
    special: Vec<String>,
    /// For each id of the bundle, the id of Marian.
    pub(super) order: RowOrder,
    /// Ids of the bundle that Marian does not generate.
    pub(super) suppressed: Vec<u32>,
    /// SentencePiece model, and its path.
    model: Option<Vec<u8>>,
    path: std::path::PathBuf,
}

/// Vocabulary of a file.
struct Listed {
    tokens: Vec<String>,
    special: Vec<String>,
    model: Option<Vec<u8>>,
}

/// Reads the vocabularies of both sides, which have `rows` rows of the embeddings.
///
/// # Errors
///
/// If a file is damaged, or has more tokens than the embeddings have rows.
pub(super) fn read(
    found: &ModelFiles,
    files: &mut SourceFiles,
    rows: [usize; 2],
) -> Result<[SideTokens; 2], ConvertError> {
    let mut side = |side: usize| {
        let path = &found.vocabularies[side];
        let model = match &found.pieces[side] {
            Some(path) => Some(files.bytes(path)?),
            None => None,
        };
        let bytes = files.bytes(path)?;
        let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
        let listed = listed(path, bytes, model).map_err(problem)?;
        SideTokens::new(listed, rows[side], path).map_err(problem)
    };
    Ok([side(0)?, side(1)?])
}

fn listed(path: &Path, bytes: Vec<u8>, model: Option<Vec<u8>>) -> Result<Listed, String> {
    if is_sentencepiece(path) {
        let pieces = sentencepiece_pieces(&bytes).map_err(|error| error.to_string())?;
        // The usual control symbol besides `</s>`. No text is divided into it.
        let special = pieces.iter().filter(|piece| *piece == "<s>").cloned().collect();
        return Ok(Listed { special, tokens: pieces, model: Some(bytes) });
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let is_mapping =
        path.extension().is_some_and(|end| end == "yml" || end == "yaml" || end == "json");
    let vocabulary = match is_mapping {
        true => Vocabulary::parse_yaml(&text)?,
        false => Vocabulary::parse_lines(&text)?,
    };
    Ok(Listed { tokens: vocabulary.tokens, special: Vec::new(), model })
}

impl SideTokens {
    /// Puts the special tokens of tx first, and all others behind them in their order. Rows without
    /// a token get one that no text becomes.
    fn new(listed: Listed, rows: usize, path: &Path) -> Result<Self, String> {
        let Listed { tokens, mut special, model } = listed;
        if tokens.len() > rows {
            let count = tokens.len();
            return Err(format!("it has {count} tokens, and the embedding has {rows} rows"));
        }
        let place = |name: &str| tokens.iter().position(|token| token == name);
        let mut order: Vec<Option<u32>> = vec![None; SPECIAL_TOKENS.len()];
        for (id, name) in
            [(PAD, "<pad>"), (BOS, "<bos>"), (EOS, vocabulary::END), (UNK, vocabulary::UNKNOWN)]
        {
            order[id as usize] = place(name).and_then(|row| u32::try_from(row).ok());
        }
        for id in [EOS, UNK] {
            if order[id as usize].is_none() {
                return Err(format!(
                    "it has no token `{}`, as models of Marian have",
                    if id == EOS { vocabulary::END } else { vocabulary::UNKNOWN }
                ));
            }
        }
        let taken = order.clone();
        let mut names: Vec<String> = SPECIAL_TOKENS.map(str::to_owned).to_vec();
        special.retain(|name| !SPECIAL_TOKENS.contains(&name.as_str()) && name != vocabulary::END);
        for row in 0..u32::try_from(rows).map_err(|_| "the embedding is too large")? {
            if taken.contains(&Some(row)) {
                continue;
            }
            let name = match tokens.get(row as usize) {
                Some(name) if SPECIAL_TOKENS.contains(&name.as_str()) => {
                    return Err(format!("its token `{name}` has another meaning than in tx"));
                }
                Some(name) => name.clone(),
                None => {
                    let name = format!("<row_{row}>");
                    special.push(name.clone());
                    name
                }
            };
            names.push(name);
            order.push(Some(row));
        }
        let suppressed = [UNK].into_iter().chain(
            names.iter().zip(0..).filter(|(name, _)| is_control_byte(name)).map(|(_, id)| id),
        );
        Ok(Self {
            suppressed: suppressed.collect(),
            order: order.into(),
            tokens: names,
            special,
            model,
            path: path.to_owned(),
        })
    }

    /// Returns `true` if text is divided at spaces into parts of words that subword-nmt marks.
    pub(super) fn has_marked_parts(&self) -> bool {
        self.model.is_none() && self.tokens.iter().any(|token| token.ends_with(MARK))
    }

    /// Tokenizers of both sides.
    ///
    /// # Errors
    ///
    /// If the library or a SentencePiece model rejects a vocabulary.
    pub(super) fn tokenizers(source: Self, target: Self) -> Result<Tokenizers, ConvertError> {
        Ok(Tokenizers { source: source.tokenizer(false)?, target: target.tokenizer(true)? })
    }

    fn tokenizer(&self, adds_bos: bool) -> Result<Tokenizer, ConvertError> {
        let problem = |error: tx_text::TextError| ConvertError::File {
            path: self.path.clone(),
            problem: error.to_string(),
        };
        let Self { tokens, special, .. } = self;
        match &self.model {
            Some(model) => {
                let vocabulary =
                    SentencePieceVocabulary { tokens, special, leading_code: false, adds_bos };
                Tokenizer::from_sentencepiece(model, vocabulary).map_err(problem)
            }
            None => {
                let json = words(tokens).to_string();
                let tokenizer =
                    Tokenizer::from_json(json.as_bytes(), &self.path).map_err(problem)?;
                match adds_bos {
                    true => tokenizer.with_bos().map_err(problem),
                    false => Ok(tokenizer),
                }
            }
        }
    }
}

/// Returns `true` for the pieces of the first 32 bytes, which Marian does not generate.
fn is_control_byte(token: &str) -> bool {
    let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| {
        digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok_and(|byte| byte < 32)
    })
}

/// A `tokenizer.json` that divides text at spaces.
fn words(tokens: &[String]) -> Value {
    let added: Vec<Value> = SPECIAL_TOKENS
        .iter()
        .enumerate()
        .map(|(id, token)| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true,
            })
        })
        .collect();
    let vocab: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let eos = SPECIAL_TOKENS[EOS as usize];
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": null,
        // A word that looks like a special token is divided, so that it does not become the token.
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": [
            { "type": "WhitespaceSplit" },
            {
                "type": "Split", "pattern": { "Regex": "<(?=(pad|bos|eos)>)" },
                "behavior": "Isolated", "invert": false,
            },
        ] },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                { "Sequence": { "id": "A", "type_id": 0 } },
                { "SpecialToken": { "id": eos, "type_id": 0 } },
            ],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { eos: { "id": eos, "ids": [EOS], "tokens": [eos] } },
        },
        "decoder": null,
        "model": {
            "type": "WordLevel", "vocab": vocab, "unk_token": SPECIAL_TOKENS[UNK as usize],
        },
    })
}
