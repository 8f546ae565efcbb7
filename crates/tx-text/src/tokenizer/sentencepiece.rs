//! SentencePiece models, `.model` and `.spm`: protocol-buffers messages
//! (`sentencepiece_model.proto`), [applied as SentencePiece does](Processor).

use std::collections::HashMap;

mod normalizer;
mod piece_trie;
mod processor;
mod segmenter;

pub(super) use processor::{Decoding, Extent, Processor, Token, Use};

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

/// Numbers of the fields of `ModelProto`.
mod model_field {
    pub(super) const PIECES: u64 = 1;
    pub(super) const TRAINER_SPEC: u64 = 2;
    pub(super) const NORMALIZER_SPEC: u64 = 3;
    pub(super) const DENORMALIZER_SPEC: u64 = 5;
}

/// Numbers of the fields of `ModelProto.SentencePiece`.
mod piece_field {
    pub(super) const PIECE: u64 = 1;
    pub(super) const SCORE: u64 = 2;
    pub(super) const TYPE: u64 = 3;
}

/// Numbers of the fields of `TrainerSpec`.
mod trainer_field {
    pub(super) const MODEL_TYPE: u64 = 3;
    pub(super) const TREAT_WHITESPACE_AS_SUFFIX: u64 = 24;
    pub(super) const BYTE_FALLBACK: u64 = 35;
}

/// Numbers of the fields of `NormalizerSpec`.
mod normalizer_field {
    pub(super) const PRECOMPILED_CHARSMAP: u64 = 2;
    pub(super) const ADD_DUMMY_PREFIX: u64 = 3;
    pub(super) const REMOVE_EXTRA_WHITESPACES: u64 = 4;
    pub(super) const ESCAPE_WHITESPACES: u64 = 5;
}

/// Model as stored in the file.
struct Model {
    pieces: Vec<Piece>,
    kind: u64,
    byte_fallback: bool,
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

/// Tokens of the vocabulary of a model.
#[derive(Debug)]
pub(super) struct ModelTokens {
    /// Pieces in the order of their ids, without unused pieces, which are never encoded.
    pub(super) pieces: Vec<String>,
    /// Pieces that no text becomes.
    pub(super) control: Vec<String>,
    /// The unknown token.
    pub(super) unknown: String,
}

/// Tokens of the vocabulary of a model.
///
/// # Errors
///
/// If it is not a model, is damaged, or has no unknown token.
pub(super) fn tokens(bytes: &[u8]) -> Result<ModelTokens, String> {
    let mut model = Model::parse(bytes)?;
    model.pieces.retain(|piece| piece.kind != UNUSED);
    let unknown = model.pieces.iter().find(|piece| piece.kind == UNKNOWN);
    let unknown = unknown.ok_or("it has no unknown token")?.text.clone();
    let control = model.pieces.iter().filter(|piece| piece.kind == CONTROL);
    let control = control.map(|piece| piece.text.clone()).collect();
    let pieces = model.pieces.into_iter().map(|piece| piece.text).collect();
    Ok(ModelTokens { pieces, control, unknown })
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
            space_is_suffix: false,
            escapes_spaces: true,
            has_denormalizer: false,
            charsmap: Vec::new(),
            adds_space: true,
            trims: true,
        }
    }
}

/// Pieces of a unigram model with their log-probabilities, and the symbols that are not divided.
#[derive(Debug)]
pub(super) struct ScoredPieces {
    pub(super) scores: HashMap<String, f64>,
    pub(super) kept: Vec<String>,
}

impl Processor {
    /// Merges of a byte-pair encoding in order; `None` for other models.
    pub(super) fn merges(&self) -> Option<Vec<(String, String)>> {
        self.model().filter(|model| model.kind == BPE).map(|model| model.merges())
    }

    /// Pieces of a unigram model; `None` for other models.
    pub(super) fn scored_pieces(&self) -> Option<ScoredPieces> {
        let model = self.model().filter(|model| model.kind == UNIGRAM)?;
        let kept = model.pieces.iter().filter(|piece| piece.kind == USER_DEFINED);
        let kept = kept.map(|piece| piece.text.clone()).collect();
        let pieces = model.pieces.into_iter().filter(|piece| matches!(piece.kind, 0 | NORMAL));
        let scores = pieces.map(|piece| (piece.text, f64::from(piece.score))).collect();
        Some(ScoredPieces { scores, kept })
    }
}

impl Model {
    /// Rejects options that are not supported.
    fn check(&self) -> Result<(), String> {
        if self.space_is_suffix {
            return Err("it puts spaces after words (`treat_whitespace_as_suffix`)".into());
        }
        if !self.escapes_spaces {
            return Err("it does not mark spaces (`escape_whitespaces`)".into());
        }
        if self.has_denormalizer {
            return Err("it normalizes decoded text (`denormalizer_spec`)".into());
        }
        Ok(())
    }

    /// Merges in order. SentencePiece merges the pair that yields the piece with the highest score,
    /// so every split of a piece into two pieces is a merge, ordered by the score of the piece.
    fn merges(&self) -> Vec<(String, String)> {
        let ids: HashMap<&str, usize> =
            self.pieces.iter().map(|piece| piece.text.as_str()).zip(0..).collect();
        let is_plain = |id: usize| matches!(self.pieces[id].kind, 0 | NORMAL);
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
                    merges.push((left.to_owned(), right.to_owned()));
                }
            }
        }
        merges
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let mut model = Self::default();
        let mut message = Fields(bytes);
        while let Some(field) = message.next()? {
            match field {
                (model_field::PIECES, Field::Bytes(bytes)) => {
                    model.pieces.push(Piece::parse(bytes)?);
                }
                (model_field::TRAINER_SPEC, Field::Bytes(bytes)) => {
                    use trainer_field::{BYTE_FALLBACK, MODEL_TYPE, TREAT_WHITESPACE_AS_SUFFIX};
                    let mut fields = Fields(bytes);
                    while let Some(field) = fields.next()? {
                        match field {
                            (MODEL_TYPE, Field::Number(kind)) => model.kind = kind,
                            (TREAT_WHITESPACE_AS_SUFFIX, Field::Number(on)) => {
                                model.space_is_suffix = on != 0;
                            }
                            (BYTE_FALLBACK, Field::Number(on)) => model.byte_fallback = on != 0,
                            _ => {}
                        }
                    }
                }
                (model_field::NORMALIZER_SPEC, Field::Bytes(bytes)) => {
                    use normalizer_field::{
                        ADD_DUMMY_PREFIX, ESCAPE_WHITESPACES, PRECOMPILED_CHARSMAP,
                        REMOVE_EXTRA_WHITESPACES,
                    };
                    let mut fields = Fields(bytes);
                    while let Some(field) = fields.next()? {
                        match field {
                            (PRECOMPILED_CHARSMAP, Field::Bytes(table)) => {
                                model.charsmap = table.to_vec();
                            }
                            (ADD_DUMMY_PREFIX, Field::Number(on)) => model.adds_space = on != 0,
                            (REMOVE_EXTRA_WHITESPACES, Field::Number(on)) => model.trims = on != 0,
                            (ESCAPE_WHITESPACES, Field::Number(on)) => {
                                model.escapes_spaces = on != 0;
                            }
                            _ => {}
                        }
                    }
                }
                (model_field::DENORMALIZER_SPEC, Field::Bytes(bytes)) => {
                    let mut fields = Fields(bytes);
                    while let Some(field) = fields.next()? {
                        if let (normalizer_field::PRECOMPILED_CHARSMAP, Field::Bytes(table)) = field
                        {
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
        let mut piece = Self { text: String::new(), score: 0.0, kind: NORMAL };
        let mut fields = Fields(bytes);
        while let Some(field) = fields.next()? {
            match field {
                (piece_field::PIECE, Field::Bytes(text)) => {
                    let text = str::from_utf8(text).map_err(|_| "a piece is not UTF-8")?;
                    piece.text = text.to_owned();
                }
                (piece_field::SCORE, Field::Fixed32(bits)) => piece.score = f32::from_bits(bits),
                (piece_field::TYPE, Field::Number(kind)) => piece.kind = kind,
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
