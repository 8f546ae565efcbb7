//! A SentencePiece model applied as SentencePiece does, with the ids of another vocabulary.
//!
//! Models of Marian, M2M-100 and NLLB take the pieces of a SentencePiece model, but the ids of a
//! vocabulary. A piece, or a run of unknown text, that is not in the vocabulary is unknown. The
//! vocabulary of a tokenizer file has the pieces of its model, with the special tokens of tx.

use std::ops::Range;

use super::{
    BYTE, Model, USER_DEFINED,
    normalizer::{Normalized, Normalizer, SPACE, Scope},
    piece_trie::PieceTrie,
    segmenter::{Segment, Segmenter},
};
use crate::{
    special::{EOS, UNK},
    tokenizer::charsmap,
};

/// Maximum length of a piece in bytes. The time of the segmentation is in proportion to it.
const LONGEST_PIECE: usize = 1_024;
/// Maximum number of bytes that the normalization may write for one byte. NFKC writes up to 11.
const MAX_GROWTH: u64 = 64;

/// Token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tokenizer) struct Token {
    /// Id in the vocabulary.
    pub(in crate::tokenizer) id: u32,
    /// Bytes of the text; empty if they are not requested.
    pub(in crate::tokenizer) bytes: Range<usize>,
    /// Whether a word starts with the token.
    pub(in crate::tokenizer) starts_word: bool,
}

/// A model with the ids of a vocabulary.
#[derive(Debug)]
pub(in crate::tokenizer) struct Processor {
    /// The file of SentencePiece.
    file: Vec<u8>,
    leading_code: bool,
    normalizer: Normalizer,
    segmenter: Segmenter,
    /// User-defined symbols, which are neither normalized nor divided.
    kept: PieceTrie,
    /// Id of each piece.
    ids: Vec<u32>,
    /// Id of each byte; `None` if unknown text is not divided into bytes.
    bytes: Option<Vec<u32>>,
    decoding: Decoding,
}

/// Handling of spaces in decoded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tokenizer) enum Decoding {
    /// The text is trimmed, as by the tokenizers of Marian, M2M-100 and NLLB.
    Trimmed,
    /// The spaces that the model adds are removed, as by SentencePiece: all at the start of the text
    /// if it trims text, one if it does not and adds one, none otherwise.
    Exact,
}

/// Part of a text that is divided.
#[derive(Debug, Clone, Copy)]
pub(in crate::tokenizer) struct Extent {
    /// Number of bytes of normalized text after which the rest of the text is left out.
    pub(in crate::tokenizer) max_bytes: usize,
    /// Whether the tokens have their bytes of the text.
    pub(in crate::tokenizer) is_aligned: bool,
}

impl Processor {
    /// Reads a model. `id` returns the id of a token of the vocabulary that is not special.
    ///
    /// # Errors
    ///
    /// If it is not a model, is damaged, or has an option that is not supported.
    pub(in crate::tokenizer) fn new(
        file: Vec<u8>,
        leading_code: bool,
        decoding: Decoding,
        id: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, String> {
        let model = Model::parse(&file)?;
        model.check()?;
        if !model.charsmap.is_empty() {
            let growth = charsmap::check(&model.charsmap)
                .map_err(|problem| format!("its normalization table is damaged: {problem}"))?;
            if growth > MAX_GROWTH {
                return Err(format!(
                    "its normalization may make a text {growth} times as long, expected at most \
                     {MAX_GROWTH} times"
                ));
            }
        }
        if let Some(piece) = model.pieces.iter().find(|piece| piece.text.len() > LONGEST_PIECE) {
            let length = piece.text.len();
            return Err(format!("it has a piece of {length} bytes, more than {LONGEST_PIECE}"));
        }
        let kept = model.pieces.iter().zip(0..).filter(|(piece, _)| piece.kind == USER_DEFINED);
        let kept = PieceTrie::new(kept.map(|(piece, number)| (&*piece.text, number)))?;
        let ids = model.pieces.iter().map(|piece| id(&piece.text).unwrap_or(UNK)).collect();
        let bytes = model.byte_fallback.then(|| model.byte_ids(&id));
        Ok(Self {
            normalizer: Normalizer::new(&model),
            segmenter: Segmenter::new(&model)?,
            kept,
            ids,
            bytes: bytes.transpose()?,
            file,
            leading_code,
            decoding,
        })
    }

    /// Handling of spaces in decoded text.
    pub(in crate::tokenizer) fn decoding(&self) -> Decoding {
        self.decoding
    }

    /// Reads the model again, for its pieces and scores.
    pub(super) fn model(&self) -> Option<Model> {
        Model::parse(&self.file).ok()
    }

    /// The file of SentencePiece.
    pub(in crate::tokenizer) fn file(&self) -> &[u8] {
        &self.file
    }

    /// Whether a text may start with a code, `>>…<<`, which is one token.
    pub(in crate::tokenizer) fn has_leading_code(&self) -> bool {
        self.leading_code
    }

    /// Divides a text into tokens. `id` returns the id of any token of the vocabulary for a code,
    /// and of a token that is not special for other text.
    pub(in crate::tokenizer) fn encode(
        &self,
        text: &str,
        Extent { max_bytes, is_aligned }: Extent,
        id: impl Fn(&str, Use) -> Option<u32>,
    ) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut start = 0;
        if self.leading_code
            && text.starts_with(">>")
            && let Some(length) = text.find("<<").map(|at| at + 2)
            && let Some(code) = text.get(..length)
        {
            let code = id(code, Use::Code).unwrap_or(UNK);
            tokens.push(Token { id: code, bytes: 0..length, starts_word: true });
            start = length;
        }
        let rest = text.get(start..).unwrap_or_default();
        let scope = Scope { max_bytes, is_aligned };
        let normalized = self.normalizer.normalize(rest, &self.kept, scope);
        self.divide(&normalized, start, id, &mut tokens);
        tokens
    }

    /// Divides a text around masks, each the character `letter`, and returns the ids, with `mask` for
    /// each mask and the space before it.
    pub(in crate::tokenizer) fn encode_around(
        &self,
        text: &str,
        letter: &str,
        mask: u32,
        id: impl Fn(&str, Use) -> Option<u32>,
    ) -> Vec<u32> {
        let scope = Scope { max_bytes: usize::MAX, is_aligned: false };
        let normalized = self.normalizer.normalize(text, &self.kept, scope).text;
        let mut ids = Vec::new();
        let mut parts = normalized.split(letter).peekable();
        while let Some(part) = parts.next() {
            let is_before_mask = parts.peek().is_some();
            let text = if is_before_mask { part.strip_suffix(SPACE) } else { None };
            let part = Normalized::part(text.unwrap_or(part));
            let mut tokens = Vec::new();
            self.divide(&part, 0, &id, &mut tokens);
            ids.extend(tokens.iter().map(|token| token.id));
            ids.extend(is_before_mask.then_some(mask));
        }
        ids
    }

    /// Appends the tokens of a normalized text, which is at the byte `start` of the original.
    fn divide(
        &self,
        normalized: &Normalized,
        start: usize,
        id: impl Fn(&str, Use) -> Option<u32>,
        tokens: &mut Vec<Token>,
    ) {
        let segments = self.segmenter.segment(&normalized.text, &self.kept);
        tokens.reserve(segments.len());
        let first = tokens.len();
        let origin = |range: Range<usize>| {
            start + normalized.origin(range.start)..start + normalized.origin(range.end)
        };
        let mut segments = segments.into_iter().peekable();
        while let Some(Segment { bytes, piece }) = segments.next() {
            let part = normalized.text.get(bytes.clone()).unwrap_or_default();
            let starts_word = tokens.len() == first || part.starts_with(SPACE);
            if let Some(piece) = piece {
                let id = self.ids.get(piece).copied().unwrap_or(UNK);
                tokens.push(Token { id, bytes: origin(bytes), starts_word });
                continue;
            }
            if let Some(ids) = &self.bytes {
                for (index, byte) in part.bytes().enumerate() {
                    let id = ids.get(usize::from(byte)).copied().unwrap_or(UNK);
                    let bytes = origin(bytes.clone());
                    tokens.push(Token { id, bytes, starts_word: starts_word && index == 0 });
                }
                continue;
            }
            // A run of unknown characters is one token.
            let mut end = bytes.end;
            while let Some(next) = segments.next_if(|next| next.piece.is_none()) {
                end = next.bytes.end;
            }
            let run = normalized.text.get(bytes.start..end).unwrap_or_default();
            let id = match self.decoding {
                Decoding::Trimmed => id(run, Use::Text).unwrap_or(UNK),
                // No unknown text is a piece.
                Decoding::Exact => UNK,
            };
            tokens.push(Token { id, bytes: origin(bytes.start..end), starts_word });
        }
    }

    /// Joins tokens to a text: `▁` becomes a space, and bytes become characters.
    pub(in crate::tokenizer) fn decode<'a>(&self, tokens: impl Iterator<Item = &'a str>) -> String {
        let mut text = String::new();
        let mut bytes = Vec::new();
        // Spaces at the start of the text that are still to be removed.
        let mut removed = match self.decoding {
            Decoding::Trimmed => 0,
            Decoding::Exact => self.normalizer.spaces_before_text(),
        };
        for token in tokens {
            match self.bytes.is_some().then(|| byte_of(token)).flatten() {
                Some(byte) => bytes.push(byte),
                None => {
                    push_bytes(&mut text, &mut bytes);
                    let mut token = token;
                    if removed > 0
                        && text.is_empty()
                        && let Some(rest) = token.strip_prefix(SPACE)
                    {
                        removed -= 1;
                        token = rest;
                    }
                    text.push_str(&token.replace(SPACE, " "));
                }
            }
        }
        push_bytes(&mut text, &mut bytes);
        match self.decoding {
            Decoding::Trimmed => text.trim().to_owned(),
            Decoding::Exact => text,
        }
    }
}

/// Use of a token in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::tokenizer) enum Use {
    /// Code at the start of a text.
    Code,
    /// Any other text.
    Text,
}

impl Model {
    /// Ids of the 256 bytes.
    fn byte_ids(&self, id: impl Fn(&str) -> Option<u32>) -> Result<Vec<u32>, String> {
        let mut ids = vec![EOS; 256];
        let mut found = 0;
        for piece in self.pieces.iter().filter(|piece| piece.kind == BYTE) {
            let byte = byte_of(&piece.text);
            let slot = byte.and_then(|byte| ids.get_mut(usize::from(byte)));
            let slot = slot.ok_or_else(|| format!("its piece `{}` is not a byte", piece.text))?;
            *slot = id(&piece.text).unwrap_or(UNK);
            found += 1;
        }
        if found == 256 { Ok(ids) } else { Err(format!("it has {found} bytes, expected 256")) }
    }
}

/// Byte of a token `<0x…>`.
fn byte_of(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// Appends bytes as characters, each byte that is not UTF-8 as U+FFFD.
fn push_bytes(text: &mut String, bytes: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    bytes.clear();
}
