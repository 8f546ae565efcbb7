//! Tokenizers of a model of Marian, and the rows of its vocabularies in the order of a bundle.
//!
//! | vocabulary | text |
//! |---|---|
//! | SentencePiece model | divided by the model, whose pieces are the vocabulary |
//! | list of tokens, and SentencePiece models | divided by the model of the side |
//! | list of tokens with `@@`, and codes of subword-nmt | divided at spaces, then by the codes |
//! | list of tokens | divided at spaces: the text must be tokenized already |

use std::path::Path;

use tx_text::{
    sentencepiece_pieces,
    special::{EOS, UNK},
};

use super::files::{ModelFiles, is_sentencepiece};
use crate::{
    error::ConvertError,
    import::side_tokens::{Division, Listed, SideTokens, divided_by_codes},
    marian::vocabulary::{self, Vocabulary},
    source_files::SourceFiles,
};

/// Names of the special tokens of tx.
const NAMES: [&str; 4] = ["<pad>", "<bos>", vocabulary::END, vocabulary::UNKNOWN];

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
        let tokens = SideTokens::new(listed, rows[side], NAMES, path).map_err(problem)?;
        match [EOS, UNK].into_iter().find(|&id| !tokens.has(id)) {
            None => Ok(tokens),
            Some(id) => {
                let name = NAMES[id as usize];
                Err(problem(format!("it has no token `{name}`, as models of Marian have")))
            }
        }
    };
    let sides = [side(0)?, side(1)?];
    match &found.codes {
        Some(codes) => divided_by_codes(sides, codes, files),
        None => Ok(sides),
    }
}

fn listed(path: &Path, bytes: Vec<u8>, model: Option<Vec<u8>>) -> Result<Listed, String> {
    if is_sentencepiece(path) {
        let pieces = sentencepiece_pieces(&bytes).map_err(|error| error.to_string())?;
        // The usual control symbol besides `</s>`. No text is divided into it.
        let special = pieces.iter().filter(|piece| *piece == "<s>").cloned().collect();
        let division = Division::SentencePiece(bytes);
        return Ok(Listed { special, tokens: pieces, division });
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let is_mapping =
        path.extension().is_some_and(|end| end == "yml" || end == "yaml" || end == "json");
    let vocabulary = match is_mapping {
        true => Vocabulary::parse_yaml(&text)?,
        false => Vocabulary::parse_lines(&text)?,
    };
    let division = model.map_or(Division::Words, Division::SentencePiece);
    Ok(Listed { tokens: vocabulary.tokens, special: Vec::new(), division })
}

/// Ids of the bundle that Marian does not generate.
pub(super) fn suppressed(side: &SideTokens) -> Vec<u32> {
    let control = side.tokens.iter().zip(0..).filter(|(name, _)| is_control_byte(name));
    [UNK].into_iter().chain(control.map(|(_, id)| id)).collect()
}

/// Returns `true` for the pieces of the first 32 bytes, which Marian does not generate.
fn is_control_byte(token: &str) -> bool {
    let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    digits.is_some_and(|digits| {
        digits.len() == 2 && u8::from_str_radix(digits, 16).is_ok_and(|byte| byte < 32)
    })
}
