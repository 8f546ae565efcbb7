//! SentencePiece model: it is rejected, or texts are encoded with its pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tx_text::{SentencePieceVocabulary, Tokenizer, sentencepiece_pieces, special::SPECIAL_TOKENS};

fuzz_target!(|model: &[u8]| {
    let Ok(pieces) = sentencepiece_pieces(model) else { return };
    let special = SPECIAL_TOKENS.iter().map(|&token| token.to_owned());
    let pieces = pieces.into_iter().filter(|piece| !SPECIAL_TOKENS.contains(&piece.as_str()));
    let tokens: Vec<String> = special.chain(pieces).collect();
    let vocabulary = SentencePieceVocabulary {
        tokens: &tokens,
        special: &[],
        leading_code: true,
        adds_bos: true,
    };
    if let Ok(tokenizer) = Tokenizer::from_sentencepiece(model, vocabulary) {
        let text = ">>deu<< The cat sees 12 dogs. \u{fb01}\u{301} 日本 😀".repeat(4);
        let ids = tokenizer.encode(&text).unwrap_or_default();
        drop(tokenizer.decode(&ids));
    }
});
