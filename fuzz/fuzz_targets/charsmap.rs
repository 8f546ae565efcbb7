//! Table of the normalization in a SentencePiece model: it is rejected, or texts are encoded within
//! bounded time.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tx_text::{SentencePieceVocabulary, Tokenizer};

/// Pieces of the model, with their kinds: 2 unknown, 3 control, 1 normal.
const PIECES: [(&str, u8); 6] =
    [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("\u{2581}", 1), ("a", 1), ("b", 1)];

/// Field of a message with a length.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        bytes.push(length as u8 | 0x80);
        length >>= 7;
    }
    bytes.push(length as u8);
    bytes.extend(content);
    bytes
}

/// Model whose normalization has this table.
fn model(table: &[u8]) -> Vec<u8> {
    let pieces = PIECES.iter().flat_map(|(text, kind)| {
        // Piece, score 0, kind.
        let piece = [&field(1, text.as_bytes())[..], &[0x15, 0, 0, 0, 0, 0x18, *kind]].concat();
        field(1, &piece)
    });
    pieces.chain(field(3, &field(2, table))).collect()
}

fuzz_target!(|table: &[u8]| {
    let tokens = ["<pad>", "<bos>", "<eos>", "<unk>", "\u{2581}", "a", "b"].map(str::to_owned);
    let vocabulary = SentencePieceVocabulary {
        tokens: &tokens,
        special: &[],
        leading_code: false,
        adds_bos: false,
    };
    if let Ok(tokenizer) = Tokenizer::from_sentencepiece(&model(table), vocabulary) {
        let text = "a b ab \u{fb01}\u{301} \u{1100}\u{1161} ①".repeat(8) + &"a".repeat(2_000);
        let ids = tokenizer.encode(&text).unwrap_or_default();
        drop(tokenizer.decode(&ids));
    }
});
