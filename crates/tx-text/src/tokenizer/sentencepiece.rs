//! SentencePiece models, `.model` and `.spm`: protocol-buffers messages
//! (`sentencepiece_model.proto`).
//!
//! A model is either converted to a `tokenizer.json` of the `tokenizers` library, or [applied as
//! SentencePiece does](Processor), with a vocabulary of its own.

use std::collections::HashMap;

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::charsmap;

mod normalizer;
mod processor;
mod segmenter;
mod sorted_pieces;

pub(super) use processor::{Processor, Token, Use};

/// Maximum bytes of a piece that is split into merges. SentencePiece learns no piece over 64.
const LONGEST_PIECE: usize = 512;

/// Kinds of pieces, numbered as in the format.
const NORMAL: u64 = 1;
const UNKNOWN: u64 = 2;
const CONTROL: u64 = 3;
const USER_DEFINED: u64 = 4;
const UNUSED: u64 = 5;
const BYTE: u64 = 6;

/// Problem of a file that is not a model.
const NO_PIECES: &str = "it is not a SentencePiece model: it has no pieces";

/// Kinds of models, numbered as in the format.
const UNIGRAM: u64 = 1;
const BPE: u64 = 2;

/// Model as stored in the file.
struct Model {
    pieces: Vec<Piece>,
    kind: u64,
    byte_fallback: bool,
    splits_words: bool,
    space_is_suffix: bool,
    escapes_spaces: bool,
    has_denormalizer: bool,
    charsmap: Vec<u8>,
    adds_space: bool,
    trims: bool,
}

#[derive(Debug)]
struct Piece {
    text: String,
    score: f32,
    kind: u64,
}

/// Converts a model to the content of a `tokenizer.json`, with its own special tokens and ids.
///
/// # Errors
///
/// If it is not a model, is damaged, or has an option that tx does not support.
pub(super) fn to_json(bytes: &[u8]) -> Result<Value, String> {
    let mut model = Model::parse(bytes)?;
    model.check()?;
    // An unused piece is never encoded, so its id is available.
    model.pieces.retain(|piece| piece.kind != UNUSED);
    if model.pieces.is_empty() {
        return Err(NO_PIECES.into());
    }
    Ok(json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": model.added_tokens(),
        "normalizer": { "type": "Sequence", "normalizers": model.normalizers() },
        // The library adds a space where there is none; SentencePiece adds one to any text.
        "pre_tokenizer": model.metaspace(model.adds_space && model.trims), "post_processor": null,
        "decoder": {
            "type": "Sequence",
            "decoders": [{ "type": "ByteFallback" }, model.metaspace(model.adds_space)],
        },
        "model": model.core()?,
    }))
}

/// Pieces of a model in the order of their ids.
///
/// # Errors
///
/// If it is not a model, or is damaged.
pub(super) fn pieces(bytes: &[u8]) -> Result<Vec<String>, String> {
    Ok(Model::parse(bytes)?.pieces.into_iter().map(|piece| piece.text).collect())
}

impl Default for Model {
    /// A model without pieces, with the defaults of the format.
    fn default() -> Self {
        Self {
            pieces: Vec::new(),
            kind: UNIGRAM,
            byte_fallback: false,
            splits_words: true,
            space_is_suffix: false,
            escapes_spaces: true,
            has_denormalizer: false,
            charsmap: Vec::new(),
            adds_space: true,
            trims: true,
        }
    }
}

impl Model {
    /// Rejects options that the library cannot express, and damaged tables.
    fn check(&self) -> Result<(), String> {
        if self.space_is_suffix {
            return Err("it puts spaces after words (`treat_whitespace_as_suffix`)".into());
        }
        if !self.charsmap.is_empty() {
            charsmap::check(&self.charsmap)
                .map_err(|problem| format!("its normalization table is damaged: {problem}"))?;
        }
        Ok(())
    }

    /// The model itself: vocabulary with scores or merges.
    fn core(&self) -> Result<Value, String> {
        let unknown = self.pieces.iter().position(|piece| piece.kind == UNKNOWN);
        let unknown = unknown.ok_or("it has no unknown token")?;
        let ids = self.ids()?;
        match self.kind {
            UNIGRAM => {
                let vocab: Vec<Value> = self
                    .pieces
                    .iter()
                    .map(|piece| json!([piece.text, f64::from(piece.score)]))
                    .collect();
                Ok(json!({
                    "type": "Unigram", "unk_id": unknown, "vocab": vocab,
                    "byte_fallback": self.byte_fallback,
                }))
            }
            BPE => Ok(json!({
                "type": "BPE", "dropout": null, "unk_token": self.pieces[unknown].text,
                "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true,
                "byte_fallback": self.byte_fallback, "ignore_merges": false,
                "vocab": ids, "merges": self.merges(&ids),
            })),
            other => {
                let name = match other {
                    3 => "word",
                    4 => "char",
                    _ => "unknown",
                };
                Err(format!(
                    "it is a SentencePiece model of type `{name}`; tx reads `unigram` and `bpe`"
                ))
            }
        }
    }

    /// Id of each piece.
    fn ids(&self) -> Result<HashMap<&str, usize>, String> {
        let mut ids = HashMap::new();
        for (id, piece) in self.pieces.iter().enumerate() {
            if ids.insert(piece.text.as_str(), id).is_some() {
                return Err(format!("it has the piece `{}` twice", piece.text));
            }
        }
        Ok(ids)
    }

    /// Tokens that are matched before segmentation. A user-defined symbol is never segmented: in a
    /// Unigram model its score ensures that, but a byte-pair encoding has no merges for it.
    fn added_tokens(&self) -> Vec<Value> {
        let is_added = |piece: &Piece| match piece.kind {
            UNKNOWN | CONTROL => true,
            USER_DEFINED => self.kind == BPE,
            _ => false,
        };
        self.pieces
            .iter()
            .enumerate()
            .filter(|(_, piece)| is_added(piece))
            .map(|(id, piece)| {
                json!({
                    "id": id, "content": piece.text, "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": piece.kind != USER_DEFINED,
                })
            })
            .collect()
    }

    /// Replaces spaces by `▁`, and adds one before the text if `adds_space` is set.
    fn metaspace(&self, adds_space: bool) -> Value {
        json!({
            "type": "Metaspace", "replacement": "▁", "split": self.splits_words,
            "prepend_scheme": if adds_space { "always" } else { "never" },
        })
    }

    fn normalizers(&self) -> Vec<Value> {
        let mut steps = Vec::new();
        if !self.charsmap.is_empty() {
            let table = BASE64.encode(&self.charsmap);
            steps.push(json!({ "type": "Precompiled", "precompiled_charsmap": table }));
        }
        if self.trims {
            steps.push(json!({ "type": "Strip", "strip_left": true, "strip_right": true }));
            let spaces = json!({ "Regex": " {2,}" });
            steps.push(json!({ "type": "Replace", "pattern": spaces, "content": " " }));
        } else if self.adds_space {
            steps.push(json!({ "type": "Prepend", "prepend": " " }));
        }
        steps
    }

    /// Merges in order. SentencePiece merges the pair that yields the piece with the highest score,
    /// so every split of a piece into two pieces is a merge, ordered by the score of the piece.
    fn merges(&self, ids: &HashMap<&str, usize>) -> Vec<[String; 2]> {
        let is_plain = |id: usize| matches!(self.pieces[id].kind, 0 | 1);
        let mut order: Vec<usize> = (0..self.pieces.len()).filter(|&id| is_plain(id)).collect();
        order.sort_by(|&a, &b| self.pieces[b].score.total_cmp(&self.pieces[a].score));
        let mut merges = Vec::new();
        for id in order {
            let text = &self.pieces[id].text;
            if text.len() > LONGEST_PIECE {
                continue;
            }
            for (at, _) in text.char_indices().skip(1) {
                let (left, right) = text.split_at(at);
                let known = |part| ids.get(part).is_some_and(|&id| is_plain(id));
                if known(left) && known(right) {
                    merges.push([left.to_owned(), right.to_owned()]);
                }
            }
        }
        merges
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut model = Self::default();
        let mut message = Fields(bytes);
        while let Some((number, value)) = message.next()? {
            match (number, value) {
                (1, Field::Bytes(bytes)) => {
                    model.pieces.push(Piece::parse(bytes)?);
                }
                // TrainerSpec
                (2, Field::Bytes(bytes)) => {
                    let mut fields = Fields(bytes);
                    while let Some(field) = fields.next()? {
                        match field {
                            (3, Field::Number(kind)) => model.kind = kind,
                            (22, Field::Number(on)) => model.splits_words &= on != 0,
                            (24, Field::Number(on)) => model.space_is_suffix = on != 0,
                            // `allow_whitespace_only_pieces`: several spaces may be one piece.
                            (26, Field::Number(on)) => model.splits_words &= on == 0,
                            (35, Field::Number(on)) => model.byte_fallback = on != 0,
                            _ => {}
                        }
                    }
                }
                // NormalizerSpec
                (3, Field::Bytes(bytes)) => {
                    let mut fields = Fields(bytes);
                    while let Some(field) = fields.next()? {
                        match field {
                            (2, Field::Bytes(table)) => model.charsmap = table.to_vec(),
                            (3, Field::Number(on)) => model.adds_space = on != 0,
                            (4, Field::Number(on)) => model.trims = on != 0,
                            (5, Field::Number(on)) => model.escapes_spaces = on != 0,
                            _ => {}
                        }
                    }
                }
                // NormalizerSpec of decoded text
                (5, Field::Bytes(bytes)) => {
                    let mut fields = Fields(bytes);
                    while let Some(field) = fields.next()? {
                        if let (2, Field::Bytes(table)) = field {
                            model.has_denormalizer = !table.is_empty();
                        }
                    }
                }
                _ => {}
            }
        }
        if model.pieces.is_empty() {
            return Err(NO_PIECES.into());
        }
        Ok(model)
    }
}

impl Piece {
    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut piece = Self { text: String::new(), score: 0.0, kind: 1 };
        let mut fields = Fields(bytes);
        while let Some(field) = fields.next()? {
            match field {
                (1, Field::Bytes(text)) => {
                    let text = str::from_utf8(text).map_err(|_| "a piece is not UTF-8")?;
                    piece.text = text.to_owned();
                }
                (2, Field::Fixed32(bits)) => piece.score = f32::from_bits(bits),
                (3, Field::Number(kind)) => piece.kind = kind,
                _ => {}
            }
        }
        if !piece.score.is_finite() {
            return Err(format!("the score of the piece `{}` is {}", piece.text, piece.score));
        }
        if piece.text.is_empty() {
            return Err("it has an empty piece".into());
        }
        Ok(piece)
    }
}

/// Iterator over the fields of a message (protocol buffers, "Encoding").
struct Fields<'a>(&'a [u8]);

enum Field<'a> {
    Number(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
    /// Number of 64 bits, not used by tx.
    Fixed64,
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Field<'a>)>, String> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let truncated = || "it is not a SentencePiece model, or it is truncated".to_owned();
        let tag = self.varint().ok_or_else(truncated)?;
        let field = match tag & 7 {
            0 => Field::Number(self.varint().ok_or_else(truncated)?),
            1 => {
                self.take(8).ok_or_else(truncated)?;
                Field::Fixed64
            }
            2 => {
                let length = self.varint().ok_or_else(truncated)?;
                let length = usize::try_from(length).map_err(|_| truncated())?;
                Field::Bytes(self.take(length).ok_or_else(truncated)?)
            }
            5 => {
                let bytes = self.take(4).and_then(|bytes| bytes.first_chunk::<4>());
                Field::Fixed32(u32::from_le_bytes(*bytes.ok_or_else(truncated)?))
            }
            _ => return Err(truncated()),
        };
        Ok(Some((tag >> 3, field)))
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Reads a variable-length integer: seven bits a byte, least significant first.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Field 1 with the number 150 is 08 96 01: the example of the encoding's description.
    #[test]
    fn a_number_of_two_bytes() {
        let mut fields = Fields(&[0x08, 0x96, 0x01]);
        assert!(matches!(fields.next(), Ok(Some((1, Field::Number(150))))));
        assert!(matches!(fields.next(), Ok(None)));
    }
}
