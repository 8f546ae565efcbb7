//! Tokenizer files that are damaged on purpose, and texts of every kind: no panic, no hang, and the
//! text that comes back is the one that the documentation promises.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes only the test functions for tests, not what they call"
)]

use std::{env, fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use proptest::prelude::*;
use tx_data::{SentencePair, Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers, WordSplit};

/// Texts or files of each kind; `TX_CASES` asks for more.
fn cases() -> u32 {
    env::var("TX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

fn model(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sentencepiece");
    let mut bytes = Vec::new();
    let file = fs::File::open(folder.join(format!("{name}.model.gz"))).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn import(bytes: &[u8]) -> Option<Tokenizers> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer");
    fs::write(&path, bytes).unwrap();
    let config = TokenizerConfig { file: Some(path), ..TokenizerConfig::default() };
    Tokenizers::train(&config, &[]).ok()
}

const TEXTS: [&str; 4] =
    ["der alte Mann (läuft)", "ﬁ １ 日本 😀 \u{feff}", "<eos>▁▁ #", "e\u{301}"];

fn use_it(tokenizers: &Tokenizers) {
    for text in TEXTS {
        if let Ok(ids) = tokenizers.source.encode(text) {
            drop(tokenizers.source.decode(&ids));
        }
    }
}

fn learned(kind: TokenizerKind, split: WordSplit, byte_fallback: bool) -> Tokenizer {
    let config = TokenizerConfig {
        kind,
        split,
        byte_fallback,
        vocab_size: if byte_fallback { 420 } else { 160 },
        ..TokenizerConfig::default()
    };
    let pairs: Vec<SentencePair> = ALPHABET
        .chars()
        .zip(ALPHABET.chars().rev())
        .map(|(a, b)| SentencePair::new(format!("{a}{b} {a}"), format!("{b}{b}a, the {a}nd.")))
        .chain([SentencePair::new(
            "the hand and the land, and then: \"the end\"!",
            "an end (the band)",
        )])
        .collect();
    Tokenizers::train(&config, &pairs).unwrap().target
}

/// What texts are made of, so that nothing is unknown.
const ALPHABET: &str =
    "abcdefghijklmnopqrstuvwxyzABCXYZäöüéßñøæ0123456789.,;:!?'\"()[]{}<>-–—…/\\|@#$%&*+=~^`_«»¿¡€";

/// The kinds, how words are split, and whether there are bytes to fall back on.
fn kinds() -> impl Iterator<Item = (TokenizerKind, WordSplit, bool)> {
    use TokenizerKind::{Bpe, Byte, Character, Unigram, Word, Wordpiece};
    let splits = [WordSplit::Whitespace, WordSplit::Punctuation];
    [
        (Word, false),
        (Character, false),
        (Byte, false),
        (Bpe, false),
        (Bpe, true),
        (Unigram, false),
        (Unigram, true),
        (Wordpiece, false),
    ]
    .into_iter()
    .flat_map(move |(kind, bytes)| splits.map(|split| (kind, split, bytes)))
}

fn tokenizers() -> &'static [(TokenizerKind, WordSplit, bool, Tokenizer)] {
    static ALL: std::sync::OnceLock<Vec<(TokenizerKind, WordSplit, bool, Tokenizer)>> =
        std::sync::OnceLock::new();
    ALL.get_or_init(|| {
        kinds()
            .map(|(kind, split, bytes)| (kind, split, bytes, learned(kind, split, bytes)))
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Words of known characters, any spaces between them: the text comes back with single spaces.
    #[test]
    fn known_text_comes_back(
        words in prop::collection::vec(
            prop::collection::vec(prop::sample::select(ALPHABET.chars().collect::<Vec<_>>()), 1..8),
            0..8,
        ),
        space in prop::sample::select(vec![" ", "  ", "\t", "\u{a0}", " \n "]),
    ) {
        let words: Vec<String> = words.into_iter().map(String::from_iter).collect();
        let (text, expected) = (words.join(space), words.join(" "));
        for (kind, split, bytes, tokenizer) in tokenizers() {
            // A whole word is unknown unless it was learned; and `##` at the start of a word of a
            // text that is split at spaces alone reads as the mark of a piece that continues one.
            let is_known = match (kind, split) {
                (TokenizerKind::Word, _) => continue,
                (TokenizerKind::Wordpiece, WordSplit::Whitespace) => !text.contains("##"),
                _ => true,
            };
            let ids = tokenizer.encode(&text).unwrap();
            if is_known && !ids.contains(&3) {
                let back = tokenizer.decode(&ids).unwrap();
                prop_assert_eq!(&back, &expected, "{:?} {:?} {}", kind, split, bytes);
            }
            let may_be_unknown = *kind == TokenizerKind::Wordpiece;
            prop_assert!(may_be_unknown || !ids.contains(&3), "{:?} {:?} {}", kind, split, text);
        }
    }

    /// Any text at all: bytes give it back, the others tokenize and decode it.
    #[test]
    fn any_text_is_tokenized(text in "\\PC{0,40}") {
        use unicode_normalization::UnicodeNormalization;
        let expected = text.nfc().collect::<String>();
        let expected = expected.split_whitespace().collect::<Vec<_>>().join(" ");
        for (kind, split, bytes, tokenizer) in tokenizers() {
            let ids = tokenizer.encode(&text).unwrap();
            let back = tokenizer.decode(&ids).unwrap();
            let is_whole = *kind == TokenizerKind::Byte || *bytes && !text.contains('▁');
            if is_whole {
                // The library composes by an older Unicode, which knows fewer marks.
                let back: String = back.nfc().collect();
                prop_assert_eq!(&back, &expected, "{:?} {:?}", kind, split);
            }
        }
    }

    /// Bytes of a model changed, cut or doubled.
    #[test]
    fn a_damaged_model_is_refused_or_works(
        which in 0_usize..5,
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..6),
        cut in prop::option::of(0.0..1.0_f64),
        head in any::<bool>(),
    ) {
        let name = ["unigram", "bpe", "bpe-bytes", "unigram-plain", "unigram-bytes"][which];
        let mut bytes = model(name);
        // The pieces stand before the large table.
        let span = if head { bytes.len().min(6_000) } else { bytes.len() };
        for (at, byte) in changes {
            let place = (at * span as f64) as usize;
            bytes[place] = byte;
        }
        if let Some(cut) = cut {
            let length = (cut * bytes.len() as f64) as usize;
            bytes.truncate(length);
        }
        if let Some(tokenizers) = import(&bytes) {
            use_it(&tokenizers);
        }
    }

    /// A `tokenizer.json` with bytes changed, cut, or with a number or a name replaced.
    #[test]
    fn a_damaged_json_is_refused_or_works(
        which in 0_usize..16,
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..3),
        digits in prop::option::of((0.0..1.0_f64, 0_u64..100_000)),
        cut in prop::option::weighted(0.2, 0.0..1.0_f64),
    ) {
        let mut json = tokenizers()[which].3.to_json().unwrap().into_bytes();
        if let Some((at, number)) = digits {
            // The next digit after some place becomes a number.
            let from = (at * json.len() as f64) as usize;
            if let Some(place) = json[from..].iter().position(u8::is_ascii_digit) {
                let place = from + place;
                json.splice(place..=place, number.to_string().into_bytes());
            }
        }
        for (at, byte) in changes {
            let place = (at * json.len() as f64) as usize;
            json[place] = byte;
        }
        if let Some(cut) = cut {
            json.truncate((cut * json.len() as f64) as usize);
        }
        if let Some(tokenizers) = import(&json) {
            use_it(&tokenizers);
        }
    }
}
