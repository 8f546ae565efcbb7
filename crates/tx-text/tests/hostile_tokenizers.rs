//! Deliberately damaged tokenizer files, and texts of every kind: no panic, no hang, and decoding
//! returns the documented text.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{env, fs, io::Read, path::Path};

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::{Value, json};
use tx_text::{SentencePair, Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers, WordSplit};

/// Number of texts or files of each kind; `TX_CASES` overrides it.
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

/// Characters of the texts; all are in the vocabulary.
const ALPHABET: &str =
    "abcdefghijklmnopqrstuvwxyzABCXYZäöüéßñøæ0123456789.,;:!?'\"()[]{}<>-–—…/\\|@#$%&*+=~^`_«»¿¡€";

/// Kinds of tokenizers, with word boundaries and byte fallback.
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

/// Files that tx wrote: learned tokenizers and imported models, one of them with a table.
fn files() -> &'static [Value] {
    static FILES: std::sync::OnceLock<Vec<Value>> = std::sync::OnceLock::new();
    FILES.get_or_init(|| {
        let imported = ["unigram", "bpe-bytes"].map(|name| import(&model(name)).unwrap().source);
        let learned = tokenizers().iter().map(|(.., tokenizer)| tokenizer);
        let all = learned.chain(&imported);
        all.map(|tokenizer| serde_json::from_str(&tokenizer.to_json().unwrap()).unwrap()).collect()
    })
}

/// Opens a file as a bundle does. If it opens, encoding must return ids of the vocabulary, and
/// decoding must succeed.
fn open_and_use(json: &[u8]) -> Result<(), String> {
    let tokenizer =
        Tokenizer::from_json(json, Path::new("file")).map_err(|error| error.to_string())?;
    let size = tokenizer.vocab_size() as u32;
    for text in TEXTS {
        let Ok(ids) = tokenizer.encode(text) else { continue };
        assert!(ids.iter().all(|&id| id < size), "{ids:?} of {size}");
        drop(tokenizer.decode(&ids));
        drop(tokenizer.encode_with_words(text));
    }
    for id in [0, size - 1, size, u32::MAX] {
        drop(tokenizer.decode(&[id]));
    }
    Ok(())
}

/// Table whose root points beyond its only unit, so that looking up a text would read out of
/// bounds.
const LOST_TABLE: &str = "BAAAAAAEAAA=";

/// Malicious changes of a file written by tx, each with the expected error.
#[test]
fn hostile_files_are_rejected_with_an_explanation() {
    let nested = (0..9).fold(
        json!({ "type": "NFC" }),
        |inner, _| json!({ "type": "Sequence", "normalizers": [inner] }),
    );
    let doubled = json!({ "type": "Replace", "pattern": { "String": "a" }, "content": "aa" });
    let replace = |regex: &str| json!({ "pattern": { "Regex": regex }, "content": "" });
    let step = |kind: &str, mut fields: Value| {
        fields["type"] = kind.into();
        fields
    };
    let vocab = files()[6]["model"]["vocab"].as_object().unwrap();
    let longest = vocab.keys().max_by_key(|token| token.len()).unwrap();
    let cases = [
        ("/model/vocab/NEW", 4_000_000_000_u32.into(), "has 4000000000, expected"),
        ("/model/vocab/NEW", 9.into(), "has 9, expected 10"),
        ("/model/vocab/NEW", u64::MAX.into(), "not readable"),
        ("/model/continuing_subword_prefix", "é".into(), "gives no token"),
        ("/model/continuing_subword_prefix", "x".repeat(65).into(), "more than 64 bytes"),
        ("/model/merges", json!([[longest, "o"]]), "gives no token"),
        ("/model/dropout", 0.5.into(), "drops merges at random"),
        ("/normalizer", nested, "nests sequences more than 8 deep"),
        (
            "/normalizer",
            json!({ "type": "Sequence", "normalizers": vec![doubled; 20] }),
            "8388608 times",
        ),
        (
            "/normalizer",
            json!({ "type": "Sequence", "normalizers": vec![json!({ "type": "NFC" }); 65] }),
            "more than 64 steps",
        ),
        ("/normalizer", step("Precompiled", json!({})), "has no `precompiled_charsmap`"),
        ("/normalizer", step("Precompiled", json!({ "precompiled_charsmap": 1 })), "has no `pre"),
        (
            "/normalizer",
            step("Precompiled", json!({ "precompiled_charsmap": LOST_TABLE })),
            "is damaged: its trie leads out of bounds",
        ),
        ("/normalizer", json!({ "precompiled_charsmap": LOST_TABLE }), "has no type"),
        ("/normalizer", step("Replace", replace(&"a".repeat(4_097))), "more than 4096 bytes"),
        ("/normalizer", step("Replace", json!({ "content": "" })), "has no pattern"),
        ("/decoder", step("Replace", json!({ "content": "" })), "has no pattern"),
        ("/normalizer", step("Prepend", json!({ "prepend": "x".repeat(20_000) })), "160008 times"),
        ("/pre_tokenizer", step("FixedLength", json!({ "length": 0 })), "has length 0"),
        ("/decoder", step("Strip", json!({ "content": "a", "start": 0, "stop": 1 })), "strips"),
        ("/decoder", step("CTC", json!({ "pad_token": "a" })), "is not known"),
        (
            "/truncation",
            json!({ "max_length": 1, "stride": 0, "strategy": "LongestFirst" }),
            "trunc",
        ),
        (
            "/post_processor/single/2/SpecialToken/id",
            "<bos>".into(),
            "it must add at most `<eos>` after a text",
        ),
        ("/post_processor", Value::Null, "it must add at most `<eos>` after a text"),
    ];
    for (place, value, words) in cases {
        let mut file = files()[6].clone();
        assert_eq!(file["model"]["type"], "BPE");
        let (parent, key) = place.rsplit_once('/').unwrap();
        match file.pointer_mut(place) {
            Some(old) => *old = value,
            None => file.pointer_mut(parent).unwrap()[key] = value,
        }
        let error = open_and_use(file.to_string().as_bytes()).expect_err(place);
        assert!(error.contains(words), "{place}: no `{words}` in: {error}");
    }
}

/// A piece whose length is the depth of the tree of pieces; and a duplicate part, which the library
/// would read, too.
#[test]
fn long_pieces_and_doubled_parts_are_refused() {
    let mut file = files()[10].clone();
    assert_eq!(file["model"]["type"], "Unigram");
    let text = file.to_string();
    let pieces = file["model"]["vocab"].as_array_mut().unwrap();
    pieces.push(json!(["x".repeat(1_000_000), -1.0]));
    let error = open_and_use(file.to_string().as_bytes()).unwrap_err();
    assert!(error.contains("its pieces have more than 1024 bytes"), "{error}");

    let table = format!(r#"{{"type": "Precompiled", "precompiled_charsmap": "{LOST_TABLE}"}}"#);
    let doubled = format!(r#"{{"normalizer": {table}, {}"#, &text[1..]);
    let error = open_and_use(doubled.as_bytes()).unwrap_err();
    assert!(error.contains("duplicate field `normalizer`"), "{error}");
    open_and_use(text.as_bytes()).unwrap();
}

/// An added token that the model lacks is numbered by the library, after the model's own.
#[test]
fn added_tokens_between_others_are_imported() {
    let mut file = files()[6].clone();
    let vocab = file["model"]["vocab"].as_object_mut().unwrap();
    let last = vocab.values().filter_map(Value::as_u64).max().unwrap();
    for id in vocab.values_mut().filter(|id| **id == last) {
        *id = (last + 1).into();
    }
    file["added_tokens"].as_array_mut().unwrap().push(json!({
        "id": last, "content": "@@", "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": false,
    }));
    let imported = import(file.to_string().as_bytes()).unwrap().target;
    assert_eq!(imported.id("@@"), Some(last as u32 + 1));
    open_and_use(imported.to_json().unwrap().as_bytes()).unwrap();
}

/// Replaces the scalar, list or object with number `place`, counted in depth-first order.
fn replace(value: &mut Value, place: &mut usize, by: &Value) -> bool {
    if *place == 0 {
        *value = by.clone();
        return true;
    }
    *place -= 1;
    match value {
        Value::Array(values) => values.iter_mut().any(|value| replace(value, place, by)),
        Value::Object(values) => values.values_mut().any(|value| replace(value, place, by)),
        _ => false,
    }
}

/// Parts of a file in which values are replaced; the large parts are listed separately.
const PARTS: [&str; 19] = [
    "/normalizer",
    "/pre_tokenizer",
    "/post_processor",
    "/decoder",
    "/added_tokens",
    "/truncation",
    "/padding",
    "/version",
    "/model",
    "/model/type",
    "/model/vocab",
    "/model/merges",
    "/model/unk_token",
    "/model/unk_id",
    "/model/byte_fallback",
    "/model/continuing_subword_prefix",
    "/model/end_of_word_suffix",
    "/model/max_input_chars_per_word",
    "/model/dropout",
];

fn hostile_values() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        Value::Null,
        true.into(),
        0.into(),
        1.into(),
        (-1).into(),
        4_000_000_000_u32.into(),
        u64::MAX.into(),
        1e300.into(),
        "".into(),
        "a".into(),
        " ".into(),
        "é".into(),
        "(a*)*".into(),
        "<eos>".into(),
        "Precompiled".into(),
        "Sequence".into(),
        "Replace".into(),
        "Strip".into(),
        "FixedLength".into(),
        "Unigram".into(),
        "WordPiece".into(),
        LOST_TABLE.into(),
        "long ".repeat(1_000).into(),
        json!([]),
        json!({}),
        json!([["a", "b"]]),
        json!({ "Regex": "" }),
        json!({ "String": "" }),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// Words of known characters with any white space between them: decoding returns the text with
    /// single spaces.
    #[test]
    fn known_text_round_trips(
        words in prop::collection::vec(
            prop::collection::vec(prop::sample::select(ALPHABET.chars().collect::<Vec<_>>()), 1..8),
            0..8,
        ),
        space in prop::sample::select(vec![" ", "  ", "\t", "\u{a0}", " \n "]),
    ) {
        let words: Vec<String> = words.into_iter().map(String::from_iter).collect();
        let (text, expected) = (words.join(space), words.join(" "));
        for (kind, split, bytes, tokenizer) in tokenizers() {
            // A whole word is unknown unless it was learned. If text is split at spaces only, `##`
            // at the start of a word is taken for the mark of a continuing piece.
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

    /// Any text: byte tokenizers round-trip it, the others encode and decode it.
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
                // The library composes by an older version of Unicode, which has fewer marks.
                let back: String = back.nfc().collect();
                prop_assert_eq!(&back, &expected, "{:?} {:?}", kind, split);
            }
        }
    }

    /// Changes, truncates or duplicates bytes of a model.
    #[test]
    fn a_damaged_model_is_refused_or_works(
        which in 0_usize..5,
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..6),
        cut in prop::option::of(0.0..1.0_f64),
        head in any::<bool>(),
    ) {
        let name = ["unigram", "bpe", "bpe-bytes", "unigram-plain", "unigram-bytes"][which];
        let mut bytes = model(name);
        // The pieces precede the large table.
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

    /// Changes bytes of a `tokenizer.json`, truncates it, or replaces a number.
    #[test]
    fn a_damaged_json_is_refused_or_works(
        which in 0_usize..16,
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..3),
        digits in prop::option::of((0.0..1.0_f64, 0_u64..100_000)),
        cut in prop::option::weighted(0.2, 0.0..1.0_f64),
    ) {
        let mut json = tokenizers()[which].3.to_json().unwrap().into_bytes();
        if let Some((at, number)) = digits {
            // The next digit after some position becomes a number.
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

    /// Replaces one or two values of a file written by tx, which is then rejected or usable.
    #[test]
    fn a_file_with_other_values_is_refused_or_works(
        which in 0_usize..18,
        changes in prop::collection::vec(
            (prop::sample::select(PARTS.to_vec()), 0_usize..40, hostile_values()),
            1..3,
        ),
    ) {
        let mut file = files()[which].clone();
        for (part, mut place, value) in changes {
            if let Some(part) = file.pointer_mut(part) {
                replace(part, &mut place, &value);
            }
        }
        drop(open_and_use(file.to_string().as_bytes()));
    }

    /// Changes or truncates the bytes of a file written by tx, which is then rejected or usable.
    #[test]
    fn a_file_with_other_bytes_is_refused_or_works(
        which in 0_usize..18,
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 0..3),
        cut in prop::option::weighted(0.2, 0.0..1.0_f64),
    ) {
        let mut json = files()[which].to_string().into_bytes();
        for (at, byte) in changes {
            let place = (at * json.len() as f64) as usize;
            json[place] = byte;
        }
        if let Some(cut) = cut {
            json.truncate((cut * json.len() as f64) as usize);
        }
        drop(open_and_use(&json));
    }
}
