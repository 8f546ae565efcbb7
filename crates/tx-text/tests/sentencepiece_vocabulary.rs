//! SentencePiece models with a vocabulary of their own: pieces as SentencePiece gives them, ids of
//! the vocabulary.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use serde_json::Value;
use tx_text::{
    Ends, SentencePieceVocabulary, Tokenizer, sentencepiece_pieces,
    special::{BOS, EOS, SPECIAL_TOKENS, UNK},
};

const MODELS: [&str; 10] = [
    "unigram",
    "bpe",
    "bpe-bytes",
    "unigram-plain",
    "unigram-bytes",
    "bpe-digits",
    "bpe-symbols",
    "unigram-symbols",
    "unigram-spaces",
    "bpe-crossing",
];

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sentencepiece");
    fs::read(folder.join(name)).unwrap()
}

fn model(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fixture(&format!("{name}.model.gz"));
    GzDecoder::new(&file[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Texts with the pieces that SentencePiece gives (`fixtures/sentencepiece/make.py`).
fn expected(name: &str) -> Vec<(String, Vec<String>)> {
    let expected: Value = serde_json::from_slice(&fixture("expected.json")).unwrap();
    let cases = expected[name]["texts"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    cases
        .iter()
        .map(|case| (text(&case["text"]), case["pieces"].as_array().unwrap()))
        .map(|(string, pieces)| (string, pieces.iter().map(text).collect()))
        .collect()
}

fn vocabulary(pieces: impl IntoIterator<Item = String>) -> Vec<String> {
    SPECIAL_TOKENS.iter().map(|&token| token.to_owned()).chain(pieces).collect()
}

fn tokenizer(model: &[u8], tokens: &[String]) -> Tokenizer {
    let vocabulary =
        SentencePieceVocabulary { tokens, special: &[], leading_code: true, ends: Ends::BOTH };
    Tokenizer::from_sentencepiece(model, vocabulary).unwrap()
}

/// All pieces of the expected results are tokens, except every fifth one. The pieces of unknown
/// text are among them, so that their text is found in the vocabulary as that of any piece.
#[test]
fn pieces_are_those_of_sentencepiece() {
    for name in MODELS {
        let expected = expected(name);
        let mut pieces: Vec<String> =
            expected.iter().flat_map(|(_, pieces)| pieces.clone()).collect();
        pieces.sort();
        pieces.dedup();
        let is_known = |index: usize| name.ends_with("bytes") || !index.is_multiple_of(5);
        let known = pieces.into_iter().enumerate().filter(|(index, _)| is_known(*index));
        let mut tokens = vocabulary(known.map(|(_, piece)| piece));
        if name.ends_with("bytes") {
            let bytes = (0..256).map(|byte| format!("<0x{byte:02X}>"));
            let new: Vec<String> = bytes.filter(|byte| !tokens.contains(byte)).collect();
            tokens.extend(new);
        }
        let tokenizer = tokenizer(&model(name), &tokens);
        let json = tokenizer.to_json().unwrap();
        let opened = Tokenizer::from_json(json.as_bytes(), "tokenizer.json".as_ref()).unwrap();
        assert_eq!(opened.to_json().unwrap(), json);
        for (text, pieces) in expected {
            let ids = tokenizer.encode(&text).unwrap();
            assert_eq!(opened.encode(&text).unwrap(), ids);
            let ordinary = pieces.iter().map(|piece| {
                tokens.iter().position(|token| token == piece).map_or(UNK, |id| id as u32)
            });
            let expected: Vec<u32> = [BOS].into_iter().chain(ordinary).chain([EOS]).collect();
            assert_eq!(ids, expected, "{name}: {text:?}: {pieces:?}");
            let spans = tokenizer.encode_with_spans(&text).unwrap();
            assert_eq!(spans.iter().map(|(id, _)| *id).collect::<Vec<_>>(), ids);
            let words = tokenizer.encode_with_words(&text).unwrap();
            assert_eq!(words.iter().map(|token| token.id).collect::<Vec<_>>(), ids);
            for range in words.into_iter().filter_map(|token| token.word) {
                assert!(text.get(range.clone()).is_some(), "{name}: {text:?}: {range:?}");
            }
        }
    }
}

#[test]
fn words_are_positions_in_the_text() {
    let file = model("unigram");
    let tokens = vocabulary(sentencepiece_pieces(&file).unwrap().into_iter().skip(3));
    let tokenizer = tokenizer(&file, &tokens);
    let text = "  der  ａlte Mann.";
    let words = tokenizer.encode_with_words(text).unwrap();
    let mut words: Vec<&str> =
        words.iter().filter_map(|token| token.word.clone()).map(|word| &text[word]).collect();
    words.dedup();
    assert_eq!(words, ["der", "ａlte", "Mann."]);
}

/// A code at the start of a text is one token; anywhere else it is text.
#[test]
fn a_leading_code_is_one_token() {
    let file = model("unigram");
    let pieces = sentencepiece_pieces(&file).unwrap().into_iter().skip(3);
    let tokens = vocabulary([">>deu<<".to_owned()].into_iter().chain(pieces));
    let special = [">>deu<<".to_owned()];
    let make = |leading_code| {
        let vocabulary = SentencePieceVocabulary {
            tokens: &tokens,
            special: &special,
            leading_code,
            ends: Ends::EOS,
        };
        Tokenizer::from_sentencepiece(&file, vocabulary).unwrap()
    };
    let tokenizer = make(true);
    assert!(tokenizer.has_leading_code());
    let text = tokenizer.encode("der Hund").unwrap();
    for (code, id) in [(">>deu<<", 4), (">>fra<<", UNK), (">> a b <<", UNK)] {
        let with_code: Vec<u32> = [id].iter().chain(&text).copied().collect();
        assert_eq!(tokenizer.encode(&format!("{code} der Hund")).unwrap(), with_code);
        assert_eq!(tokenizer.encode(&format!("{code}der Hund")).unwrap(), with_code);
    }
    assert!(!tokenizer.encode("der >>deu<<").unwrap().contains(&4));
    assert!(!make(false).encode(">>deu<< der").unwrap().contains(&4));
    let ids: Vec<u32> = [BOS, 4].iter().chain(&text).chain(&[99_999]).copied().collect();
    assert_eq!(tokenizer.decode(&ids).unwrap(), "der Hund");
}

#[test]
fn special_tokens_are_never_text() {
    let mut tokens = vocabulary(["▁der", "<", "p", "a", "d", ">"].map(str::to_owned));
    tokens.push("__de__".to_owned());
    let special = ["__de__".to_owned()];
    let vocabulary = SentencePieceVocabulary {
        tokens: &tokens,
        special: &special,
        leading_code: false,
        ends: Ends::BOTH,
    };
    let tokenizer = Tokenizer::from_sentencepiece(&model("unigram"), vocabulary).unwrap();
    for text in ["<pad>", "</s>", "<unk>", "__de__", "<eos> <bos>"] {
        let ids = tokenizer.encode(text).unwrap();
        let inside = &ids[1..ids.len() - 1];
        assert!(inside.iter().all(|&id| id == UNK || (4..10).contains(&id)), "{text}: {ids:?}");
    }
}

#[test]
fn problems_are_named() {
    let make = |model: &[u8], tokens: &[String]| {
        let vocabulary =
            SentencePieceVocabulary { tokens, special: &[], leading_code: false, ends: Ends::BOTH };
        Tokenizer::from_sentencepiece(model, vocabulary).unwrap_err().to_string()
    };
    let file = model("unigram");
    let error = make(&file, &["a".to_owned()]);
    assert!(error.contains("must start with"), "{error}");
    let error = make(&file, &vocabulary(["a", "b", "a"].map(str::to_owned)));
    assert!(error.contains("`a` twice"), "{error}");
    let error = make(&file[..1000], &vocabulary(["a".to_owned()]));
    assert!(error.contains("not a SentencePiece model"), "{error}");
}
