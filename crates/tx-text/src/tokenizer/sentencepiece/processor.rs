//! A SentencePiece model applied as SentencePiece does, with the ids of another vocabulary.
//!
//! Models of Marian, M2M-100 and NLLB take the pieces of a SentencePiece model, but the ids of a
//! vocabulary. A piece, or a run of unknown text, that is not in the vocabulary is unknown.

use std::ops::Range;

use super::{
    BYTE, Model, USER_DEFINED,
    normalizer::{Normalizer, SPACE},
    segmenter::{Segment, Segmenter},
    sorted_pieces::SortedPieces,
};
use crate::{
    special::{EOS, UNK},
    tokenizer::charsmap,
};

/// Maximum length of a piece in bytes. The time of the segmentation is in proportion to it.
const LONGEST_PIECE: usize = 1_024;
/// Maximum number of bytes that the normalization may write for one byte.
const MAX_GROWTH: u64 = 10_000;

/// Token of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tokenizer) struct Token {
    /// Id in the vocabulary.
    pub(in crate::tokenizer) id: u32,
    /// Bytes of the text.
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
    kept: SortedPieces,
    /// Id of each piece.
    ids: Vec<u32>,
    /// Id of each byte; `None` if unknown text is not divided into bytes.
    bytes: Option<Vec<u32>>,
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
        id: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, String> {
        let model = Model::parse(&file)?;
        model.check()?;
        if !model.escapes_spaces {
            return Err("it does not mark spaces (`escape_whitespaces`)".into());
        }
        if model.has_denormalizer {
            return Err("it normalizes decoded text (`denormalizer_spec`)".into());
        }
        if !model.charsmap.is_empty() && charsmap::check(&model.charsmap)? > MAX_GROWTH {
            return Err(format!("its normalization makes a text {MAX_GROWTH} times as long"));
        }
        if let Some(piece) = model.pieces.iter().find(|piece| piece.text.len() > LONGEST_PIECE) {
            let length = piece.text.len();
            return Err(format!("it has a piece of {length} bytes, more than {LONGEST_PIECE}"));
        }
        let kept = model.pieces.iter().zip(0..).filter(|(piece, _)| piece.kind == USER_DEFINED);
        let kept = SortedPieces::new(kept.map(|(piece, number)| (&*piece.text, number)));
        let ids = model.pieces.iter().map(|piece| id(&piece.text).unwrap_or(UNK)).collect();
        let bytes = model.byte_fallback.then(|| model.byte_ids(&id));
        Ok(Self {
            normalizer: Normalizer::new(&model),
            segmenter: Segmenter::new(&model)?,
            kept: kept.ok_or("it has a piece twice")?,
            ids,
            bytes: bytes.transpose()?,
            file,
            leading_code,
        })
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
        let normalized = self.normalizer.normalize(rest, &self.kept);
        let segments = self.segmenter.segment(&normalized.text, &self.kept);
        let mut segments = segments.into_iter().peekable();
        while let Some(Segment { bytes, piece }) = segments.next() {
            let mut end = bytes.end;
            let part = normalized.text.get(bytes.clone()).unwrap_or_default();
            let starts_word = tokens.len() == usize::from(start > 0) || part.starts_with(SPACE);
            let origin = |at: usize| start + normalized.origin(at);
            if let Some(piece) = piece {
                let id = self.ids.get(piece).copied().unwrap_or(UNK);
                tokens.push(Token { id, bytes: origin(bytes.start)..origin(end), starts_word });
                continue;
            }
            if let Some(ids) = &self.bytes {
                for (index, byte) in part.bytes().enumerate() {
                    let id = ids.get(usize::from(byte)).copied().unwrap_or(UNK);
                    let bytes = origin(bytes.start)..origin(end);
                    tokens.push(Token { id, bytes, starts_word: starts_word && index == 0 });
                }
                continue;
            }
            // A run of unknown characters is one token.
            while let Some(next) = segments.next_if(|next| next.piece.is_none()) {
                end = next.bytes.end;
            }
            let run = normalized.text.get(bytes.start..end).unwrap_or_default();
            let id = id(run, Use::Text).unwrap_or(UNK);
            tokens.push(Token { id, bytes: origin(bytes.start)..origin(end), starts_word });
        }
        tokens
    }

    /// Joins tokens to a text: `▁` becomes a space, bytes become characters, and the text is
    /// trimmed.
    pub(in crate::tokenizer) fn decode<'a>(&self, tokens: impl Iterator<Item = &'a str>) -> String {
        let mut text = String::new();
        let mut bytes = Vec::new();
        for token in tokens {
            match self.bytes.is_some().then(|| byte_of(token)).flatten() {
                Some(byte) => bytes.push(byte),
                None => {
                    push_bytes(&mut text, &mut bytes);
                    text.push_str(&token.replace(SPACE, " "));
                }
            }
        }
        push_bytes(&mut text, &mut bytes);
        text.trim().to_owned()
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
