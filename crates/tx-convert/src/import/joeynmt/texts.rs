//! Vocabularies and tokenizers of both sides.

use std::{collections::HashSet, path::Path};

use tx_text::{
    sentencepiece_pieces,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

use super::{
    CONFIG,
    options::{Data, Level, Side, SpecialSymbols, TokenizerType},
};
use crate::{
    error::ConvertError,
    import::side_tokens::{Division, Listed, SideTokens},
    source_files::SourceFiles,
};

/// Space in a vocabulary of characters.
const SPACE: &str = "▁";

/// Tokens of both sides, and notes on texts that tx does not prepare.
pub(super) struct Texts {
    pub(super) sides: [SideTokens; 2],
    pub(super) notes: Vec<String>,
}

impl Texts {
    /// Reads the vocabularies and SentencePiece models in a folder. `rows` are those of the embeddings.
    ///
    /// # Errors
    ///
    /// If a file is missing or damaged, or does not fit the embeddings.
    pub(super) fn read(
        folder: &Path,
        data: &Data,
        rows: [usize; 2],
        files: &mut SourceFiles,
    ) -> Result<Self, ConvertError> {
        let mut notes = Vec::new();
        let mut read = |name: &str, side: &Side, rows| {
            let tokens = side_tokens(folder, name, side, &data.special_symbols, rows, files)?;
            notes.extend(side.notes(name));
            Ok::<_, ConvertError>(tokens)
        };
        let sides = [read("src", &data.src, rows[0])?, read("trg", &data.trg, rows[1])?];
        Ok(Self { sides, notes })
    }
}

impl Side {
    /// Steps of the preparation of texts that a bundle does not have.
    fn notes(&self, name: &str) -> Vec<String> {
        let is_divided =
            self.level == Level::Bpe && self.tokenizer_type() == TokenizerType::SubwordNmt;
        let pretokenizer = self.tokenizer_cfg.pretokenizer.as_deref().filter(|it| *it != "none");
        let steps = [
            self.normalize.then(|| "normalized (`normalize`)".to_owned()),
            pretokenizer.map(|it| format!("tokenized by `{it}` (`pretokenizer`)")),
            (self.lowercase && self.level == Level::Bpe)
                .then(|| "in lower case (`lowercase`)".to_owned()),
            is_divided.then(|| "divided by `subword-nmt apply-bpe` with the mark `@@`".to_owned()),
        ];
        let steps: Vec<String> = steps.into_iter().flatten().collect();
        match steps.is_empty() {
            true => Vec::new(),
            false => vec![format!("texts of `data.{name}` must be {}", steps.join(", "))],
        }
    }

    fn tokenizer_type(&self) -> TokenizerType {
        self.tokenizer_type.unwrap_or(TokenizerType::Sentencepiece)
    }
}

/// Tokens of one side, whose name in files is `name`.
fn side_tokens(
    folder: &Path,
    name: &str,
    side: &Side,
    special: &SpecialSymbols,
    rows: usize,
    files: &mut SourceFiles,
) -> Result<SideTokens, ConvertError> {
    let in_folder = |file: &str| folder.join(Path::new(file).file_name().unwrap_or_default());
    let listed = format!("{name}_vocab.txt");
    let path = match (folder.join(&listed), &side.voc_file) {
        (path, Some(file)) if !path.is_file() => in_folder(file),
        (path, _) => path,
    };
    let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
    let text = String::from_utf8(files.bytes(&path)?)
        .map_err(|_| problem("it is not UTF-8".to_owned()))?;
    let tokens = vocabulary(&text, special, side.level);
    let division = match (side.level, side.tokenizer_type()) {
        (Level::Char, _) => Division::Characters,
        (Level::Word, _) | (Level::Bpe, TokenizerType::SubwordNmt) => Division::Words,
        (Level::Bpe, TokenizerType::Sentencepiece) => {
            let model = side.tokenizer_cfg.model_file.as_deref().ok_or_else(|| {
                let problem = format!("`tokenizer_cfg` of `data.{name}` has no `model_file`");
                ConvertError::Unsupported { path: folder.join(CONFIG), problems: vec![problem] }
            })?;
            let model_path = in_folder(model);
            let model = files.bytes(&model_path)?;
            sentencepiece_pieces(&model).map_err(|error| ConvertError::File {
                path: model_path,
                problem: error.to_string(),
            })?;
            Division::SentencePiece(model)
        }
    };
    let mut names = [""; SPECIAL_TOKENS.len()];
    for (id, name) in [
        (PAD, &special.pad_token),
        (BOS, &special.bos_token),
        (EOS, &special.eos_token),
        (UNK, &special.unk_token),
    ] {
        names[id as usize] = name;
    }
    let others = special.sep_token.iter().chain(&special.lang_tags).cloned();
    let listed = names.map(str::to_owned).into_iter().chain(others).collect();
    let lowercase = side.lowercase && side.level != Level::Bpe;
    let listed = Listed { tokens, special: listed, division };
    let tokens = SideTokens::new(listed, rows, names, &path).map_err(problem)?;
    Ok(tokens.with_lowercase(lowercase))
}

/// Tokens in the order of the ids: the special tokens, then the lines of a file that are new.
fn vocabulary(text: &str, special: &SpecialSymbols, level: Level) -> Vec<String> {
    let SpecialSymbols { unk_token, pad_token, bos_token, eos_token, sep_token, lang_tags } =
        special;
    let first = [unk_token, pad_token, bos_token, eos_token].into_iter().chain(sep_token);
    let first = first.chain(lang_tags).map(String::as_str);
    let mut seen = HashSet::new();
    let tokens = first.chain(python_lines(text)).filter(|token| seen.insert(*token));
    let name = |token: &str| match level {
        Level::Char if token == SPACE => " ".to_owned(),
        Level::Char | Level::Word | Level::Bpe => token.to_owned(),
    };
    tokens.map(name).collect()
}

/// Lines of a text, divided as by `str.splitlines` of Python.
fn python_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_end = |letter: char| {
            matches!(
                letter,
                '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'
                    ..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
            )
        };
        let (line, after) = match rest.find(is_end) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let mut letters = after.chars();
        letters.next();
        rest = after.strip_prefix("\r\n").unwrap_or(letters.as_str());
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_in_python() {
        let found: Vec<&str> = python_lines("a\r\nb\rc\n\nd\u{2028}e\x0bf\n").collect();
        assert_eq!(found, ["a", "b", "c", "", "d", "e", "f"]);
        assert_eq!(python_lines("").count(), 0);
        assert_eq!(python_lines("a").collect::<Vec<_>>(), ["a"]);
    }

    /// A file that repeats special tokens or a word has fewer ids than lines.
    #[test]
    fn a_token_has_the_id_of_its_first_place() {
        let special = SpecialSymbols::default();
        let found = vocabulary("<unk>\n▁\nb\nb\n</s>\na\n", &special, Level::Char);
        assert_eq!(found, ["<unk>", "<pad>", "<s>", "</s>", " ", "b", "a"]);
        let found = vocabulary("▁\n", &special, Level::Word);
        assert_eq!(found[4], "▁");
    }
}
