//! Tokens of one side of a model of another toolkit, in the order of a bundle.

use std::{
    collections::{BTreeSet, HashSet},
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use tx_text::{
    Ends, SentencePieceVocabulary, TextError, Tokenizer,
    special::{EOS, SPECIAL_TOKENS, UNK},
};

use super::{
    merge_codes::{MARK, MergeCodes},
    transformers::languages::is_marian,
};
use crate::{error::ConvertError, rows::RowOrder, source_files::SourceFiles};

/// Vocabulary of a file.
pub(super) struct Listed {
    /// Tokens in the order of the rows of the embedding.
    pub(super) tokens: Vec<String>,
    /// Tokens that no text becomes.
    pub(super) special: Vec<String>,
    pub(super) division: Division,
}

/// Division of a text into tokens.
pub(super) enum Division {
    /// At spaces.
    Words,
    /// Into characters, spaces included.
    Characters,
    /// By a SentencePiece model.
    SentencePiece(Vec<u8>),
    /// At spaces, then words by merges of subword-nmt.
    Merges(MergeCodes),
}

/// Tokens of one side.
pub(super) struct SideTokens {
    /// Tokens in the order of the bundle.
    pub(super) tokens: Vec<String>,
    /// Tokens that no text becomes.
    special: Vec<String>,
    /// For each id of the bundle, the row of the embedding.
    pub(super) order: RowOrder,
    /// The same for logits, where no row means that the token is never generated.
    pub(super) logits: RowOrder,
    division: Division,
    /// Whether text is converted to lower case.
    lowercase: bool,
    /// File of the tokens.
    path: PathBuf,
}

impl SideTokens {
    /// Puts the special tokens of tx first, and all others behind them in their order. `names` are
    /// the names of the special tokens in the file, in the order of [`SPECIAL_TOKENS`]; a token that
    /// the file does not have gets no row. Rows without a token get one that no text becomes.
    ///
    /// # Errors
    ///
    /// If there are more tokens than rows, or one has the name of a special token of tx.
    pub(super) fn new(
        listed: Listed,
        rows: usize,
        names: [&str; SPECIAL_TOKENS.len()],
        path: &Path,
    ) -> Result<Self, String> {
        let Listed { tokens, mut special, division } = listed;
        if tokens.len() > rows {
            let count = tokens.len();
            return Err(format!("it has {count} tokens, and the embedding has {rows} rows"));
        }
        let place = |name: &str| tokens.iter().position(|token| token == name);
        let row = |name: &str| place(name).and_then(|row| u32::try_from(row).ok());
        let mut order: Vec<Option<u32>> = names.iter().map(|name| row(name)).collect();
        let taken: HashSet<u32> = order.iter().flatten().copied().collect();
        let mut ours: Vec<String> = SPECIAL_TOKENS.map(str::to_owned).to_vec();
        special.retain(|name| {
            !SPECIAL_TOKENS.contains(&name.as_str()) && !names.contains(&name.as_str())
        });
        let mut seen: HashSet<&str> = HashSet::new();
        for row in 0..u32::try_from(rows).map_err(|_| "the embedding is too large")? {
            if taken.contains(&row) {
                continue;
            }
            let token = tokens.get(row as usize).map(String::as_str);
            // Of equal tokens, text becomes the first.
            let name = match token.filter(|name| seen.insert(name)) {
                Some(name) if SPECIAL_TOKENS.contains(&name) => {
                    return Err(format!("its token `{name}` has another meaning than in tx"));
                }
                Some(name) => name.to_owned(),
                None => {
                    let name = format!("<row_{row}>");
                    special.push(name.clone());
                    name
                }
            };
            ours.push(name);
            order.push(Some(row));
        }
        let order: RowOrder = order.into();
        Ok(Self {
            logits: order.clone(),
            order,
            tokens: ours,
            special,
            division,
            lowercase: false,
            path: path.to_owned(),
        })
    }

    /// Divides words by merges. Tokens get the names of symbols. `symbols`, of both sides if they share a
    /// matrix, that are not in the vocabulary become tokens with the row of `<unk>`, because a merge needs
    /// its parts.
    ///
    /// # Errors
    ///
    /// If a symbol has the name of a special token.
    pub(super) fn with_merges(
        mut self,
        codes: MergeCodes,
        symbols: &BTreeSet<String>,
    ) -> Result<Self, String> {
        let first = SPECIAL_TOKENS.len();
        for token in self.tokens.iter_mut().skip(first) {
            if !self.special.contains(token) {
                *token = MergeCodes::name(token);
            }
        }
        let known: HashSet<&str> = self.tokens.iter().map(String::as_str).collect();
        let others = symbols.iter().filter(|symbol| !known.contains(symbol.as_str()));
        let others: Vec<String> = others.cloned().collect();
        let special = self.tokens.iter().take(first).chain(&self.special);
        if let Some(name) = special.into_iter().find(|name| symbols.contains(*name)) {
            return Err(format!("its symbol `{name}` is a special token"));
        }
        let unknown = self.order.get(UNK as usize).copied().flatten();
        let extended = |row| -> RowOrder {
            self.order.iter().copied().chain(others.iter().map(|_| row)).collect()
        };
        (self.order, self.logits) = (extended(unknown), extended(None));
        self.tokens.extend(others);
        self.division = Division::Merges(codes);
        Ok(self)
    }

    /// Converts text to lower case before it is divided. SentencePiece models convert it themselves.
    pub(super) fn with_lowercase(self, lowercase: bool) -> Self {
        Self { lowercase, ..self }
    }

    /// Returns `true` if text is divided at spaces.
    pub(super) fn has_words(&self) -> bool {
        match self.division {
            Division::Words | Division::Merges(_) => true,
            Division::Characters | Division::SentencePiece(_) => false,
        }
    }

    /// Whether the file has a special token of tx.
    pub(super) fn has(&self, id: u32) -> bool {
        self.order.get(id as usize).is_some_and(Option::is_some)
    }

    /// Returns `true` if the vocabulary has parts of words that subword-nmt marks, and text is divided at
    /// spaces only.
    fn has_marked_parts(&self) -> bool {
        let has_words = matches!(self.division, Division::Words);
        has_words && self.tokens.iter().any(|token| token.ends_with(MARK))
    }

    /// Returns the tokenizer, with special tokens around a text.
    ///
    /// # Errors
    ///
    /// If the library or a SentencePiece model rejects the vocabulary.
    pub(super) fn tokenizer(&self, ends: Ends) -> Result<Tokenizer, ConvertError> {
        let problem = |error: TextError| ConvertError::File {
            path: self.path.clone(),
            problem: error.to_string(),
        };
        let Self { tokens, special, .. } = self;
        match &self.division {
            Division::SentencePiece(model) => {
                // Text may start with the token of a language of OPUS-MT.
                let leading_code = special.iter().any(|token| is_marian(token));
                let vocabulary = SentencePieceVocabulary { tokens, special, leading_code, ends };
                Tokenizer::from_sentencepiece(model, vocabulary).map_err(problem)
            }
            Division::Words | Division::Characters | Division::Merges(_) => {
                let json = json(tokens, &self.division, self.lowercase).to_string();
                Tokenizer::from_json(json.as_bytes(), &self.path)
                    .and_then(|tokenizer| tokenizer.with_ends(ends))
                    .map_err(problem)
            }
        }
    }
}

/// Divides words of both sides by the codes of subword-nmt in these files, if their vocabularies have parts of
/// words with its mark.
///
/// # Errors
///
/// If a file is damaged.
pub(super) fn divided_by_codes(
    sides: [SideTokens; 2],
    paths: &[PathBuf; 2],
    files: &mut SourceFiles,
) -> Result<[SideTokens; 2], ConvertError> {
    if !sides.iter().any(SideTokens::has_marked_parts) {
        return Ok(sides);
    }
    let problem = |path: &PathBuf, problem| ConvertError::File { path: path.clone(), problem };
    let mut read =
        |path: &PathBuf| MergeCodes::parse(&files.bytes(path)?).map_err(|what| problem(path, what));
    let codes = [read(&paths[0])?, read(&paths[1])?];
    // Sides that share a matrix have the same tokens.
    let symbols = codes.iter().flat_map(MergeCodes::symbols).collect();
    let ([source, target], [ours, theirs]) = (sides, codes);
    Ok([
        source.with_merges(ours, &symbols).map_err(|what| problem(&paths[0], what))?,
        target.with_merges(theirs, &symbols).map_err(|what| problem(&paths[1], what))?,
    ])
}

/// Note on texts that must be divided before the bundle reads them: into words, or into parts of words with
/// the merges in the file `codes`.
pub(super) fn division_note(sides: [&SideTokens; 2], codes: Option<&str>) -> Option<String> {
    if sides.iter().any(|side| side.has_marked_parts()) {
        let codes = codes.unwrap_or("CODES");
        return Some(format!(
            "the vocabulary has parts of words with the mark `@@`, and the bundle reads and writes \
             them as they are: tokenize and divide texts as for the training of the model, then \
             join the parts, as in `subword-nmt apply-bpe -c {codes} < TOKENIZED | translate --model \
             BUNDLE | sed 's/@@ //g'`"
        ));
    }
    if sides.iter().any(|side| matches!(side.division, Division::Merges(_))) {
        return Some(
            "words are divided by the codes of subword-nmt in the folder: tokenize texts before, and \
             join the translations afterwards, as for the training of the model, for example with Moses"
                .to_owned(),
        );
    }
    sides.iter().any(|side| side.has_words()).then(|| {
        "there is no SentencePiece model, so texts are divided at spaces: divide them as for the \
         training of the model"
            .to_owned()
    })
}

/// A `tokenizer.json` that divides text at spaces, into characters or by merges.
fn json(tokens: &[String], division: &Division, lowercase: bool) -> Value {
    let normalizer = if lowercase { json!({ "type": "Lowercase" }) } else { Value::Null };
    let (pattern, decoder) = match division {
        Division::Characters => (json!({ "Regex": "(?s)." }), json!({ "type": "Fuse" })),
        // A word that looks like a special token is divided, so that it does not become the token.
        Division::Words | Division::Merges(_) | Division::SentencePiece(_) => {
            (json!({ "Regex": "<(?=(pad|bos|eos)>)" }), Value::Null)
        }
    };
    let split = json!({
        "type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false,
    });
    let pre_tokenizers = match division {
        Division::Characters => vec![split],
        Division::Words | Division::SentencePiece(_) => {
            vec![json!({ "type": "WhitespaceSplit" }), split]
        }
        Division::Merges(_) => vec![json!({ "type": "WhitespaceSplit" })],
    };
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
    let words = json!({
        "type": "WordLevel", "vocab": vocab, "unk_token": SPECIAL_TOKENS[UNK as usize],
    });
    let [model, decoder] = match division {
        Division::Merges(codes) => codes.json(tokens),
        Division::Words | Division::Characters | Division::SentencePiece(_) => [words, decoder],
    };
    let eos = SPECIAL_TOKENS[EOS as usize];
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": normalizer,
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": pre_tokenizers },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                { "Sequence": { "id": "A", "type_id": 0 } },
                { "SpecialToken": { "id": eos, "type_id": 0 } },
            ],
            "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
            "special_tokens": { eos: { "id": eos, "ids": [EOS], "tokens": [eos] } },
        },
        "decoder": decoder,
        "model": model,
    })
}

/// Vocabularies of both sides in a folder: `source_vocabulary` and `target_vocabulary`, or
/// `shared_vocabulary`, with the extension `.json` or `.txt`.
///
/// # Errors
///
/// If one is missing.
pub(super) fn vocabulary_files(folder: &Path) -> Result<[PathBuf; 2], ConvertError> {
    let list = |name: &str| {
        let files = ["json", "txt"].map(|end| folder.join(format!("{name}_vocabulary.{end}")));
        files.into_iter().find(|path| path.is_file())
    };
    let one = ["vocabulary.json", "vocabulary.txt"].map(|name| folder.join(name));
    let one = one.into_iter().find(|path| path.is_file());
    if let Some(shared) = list("shared").or(one) {
        return Ok([shared.clone(), shared]);
    }
    let side = |name: &str| {
        list(name).ok_or_else(|| ConvertError::File {
            path: folder.to_owned(),
            problem: format!(
                "it has no `{name}_vocabulary.json`, `{name}_vocabulary.txt` or \
                 `shared_vocabulary.json`"
            ),
        })
    };
    Ok([side("source")?, side("target")?])
}

/// Tokens of a file: a JSON array, or one token a line. A carriage return belongs to a token, unless
/// all lines end with one.
pub(super) fn listed_tokens(
    path: &Path,
    files: &mut SourceFiles,
) -> Result<Vec<String>, ConvertError> {
    if path.extension().is_some_and(|end| end == "json") {
        return files.json(path);
    }
    let text = String::from_utf8(files.bytes(path)?).map_err(|_| ConvertError::File {
        path: path.to_owned(),
        problem: "it is not UTF-8".to_owned(),
    })?;
    let lines: Vec<&str> = text.split_terminator('\n').collect();
    let all = lines.iter().all(|line| line.ends_with('\r'));
    let end = if all { "\r" } else { "" };
    Ok(lines.iter().map(|line| line.strip_suffix(end).unwrap_or(line).to_owned()).collect())
}
