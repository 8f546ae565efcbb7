//! Imported tokenizers: segmentation as in the original programs, and error messages.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};
use tx_text::{
    BpeDropout, NormalForm, Normalization, SentencePair, Tokenizer, TokenizerConfig, TokenizerKind,
    Tokenizers, UnigramSampling,
    special::{BOS, EOS, MASK, SPECIAL_TOKENS, SpecialTokens, UNK},
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sentencepiece").join(name)
}

fn model(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = fs::File::open(fixture(&format!("{name}.model.gz"))).unwrap();
    GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn import(bytes: &[u8]) -> Result<Tokenizers, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer");
    fs::write(&path, bytes).unwrap();
    let config = TokenizerConfig { file: Some(path), ..TokenizerConfig::default() };
    let problem = |error: tx_text::TextError| {
        error.to_string().replace(&*folder.path().to_string_lossy(), "DIR")
    };
    Tokenizers::train(&config, &[]).map_err(problem)
}

/// Tokens without the added special tokens.
fn tokens(tokenizer: &Tokenizer, text: &str) -> (Vec<u32>, Vec<String>) {
    let ids = tokenizer.encode(text).unwrap();
    let inside = &ids[1..ids.len() - 1];
    assert_eq!((ids[0], ids[ids.len() - 1]), (BOS, EOS));
    (inside.to_vec(), inside.iter().map(|&id| tokenizer.token(id).unwrap()).collect())
}

/// Pieces of SentencePiece for the same texts (`fixtures/sentencepiece/make.py`). SentencePiece
/// prints the text of an unknown piece, tx prints `<unk>`.
#[test]
fn sentencepiece_models_give_the_pieces_of_sentencepiece() {
    let expected: Value =
        serde_json::from_slice(&fs::read(fixture("expected.json")).unwrap()).unwrap();
    for (name, first_ordinary) in [
        ("unigram", 3),
        ("bpe", 3),
        ("bpe-bytes", 4),
        ("unigram-plain", 4),
        ("unigram-bytes", 4),
        ("bpe-digits", 3),
        ("bpe-symbols", 3),
        ("unigram-symbols", 3),
        ("unigram-spaces", 3),
        ("bpe-crossing", 3),
    ] {
        let tokenizer = import(&model(name)).unwrap().target;
        let size = expected[name]["size"].as_u64().unwrap() as usize;
        assert_eq!(tokenizer.vocab_size(), size + 4 - first_ordinary, "{name}");
        for case in expected[name]["texts"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            let (ids, pieces) = tokens(&tokenizer, text);
            // If a model has no padding, its ids from 3 on are one lower.
            let moved = |id: &Value| {
                let id = id.as_u64().unwrap() as usize;
                let unknown = if first_ordinary == 3 { 0 } else { 3 };
                if id == unknown { UNK } else { (id + 4 - first_ordinary) as u32 }
            };
            let expected_ids: Vec<u32> =
                case["ids"].as_array().unwrap().iter().map(moved).collect();
            assert_eq!(ids, expected_ids, "{name}: {text:?}: {pieces:?}, {}", case["pieces"]);
            for (piece, theirs) in pieces.iter().zip(case["pieces"].as_array().unwrap()) {
                assert!(piece == "<unk>" || piece == theirs.as_str().unwrap(), "{name}: {text:?}");
            }
            if !ids.contains(&UNK) {
                let back = tokenizer.decode(&ids).unwrap();
                assert_eq!(back, case["decoded"].as_str().unwrap(), "{name}: {text:?}");
            }
        }
    }
}

/// Texts without unknown tokens, whose tokens BPE dropout and sampling divide differently.
#[test]
fn words_of_sentencepiece_models_are_segmented_at_random() {
    let text = "der alte Mann sieht 2016 den <sep> Garten";
    for name in ["bpe", "bpe-digits", "bpe-symbols", "unigram", "unigram-symbols", "unigram-plain"]
    {
        let tokenizers = import(&model(name)).unwrap();
        let text = if name == "unigram" || name == "bpe" {
            "der alte Mann sieht den Garten"
        } else {
            text
        };
        let ids = tokenizers.target.encode(text).unwrap();
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut divided = (ids.clone(), ids.clone());
        if name.starts_with("bpe") {
            let mut same = divided.clone();
            BpeDropout::new(&tokenizers, 0.0, 500).unwrap().apply(
                &mut same.0,
                &mut same.1,
                &mut random,
            );
            assert_eq!(same, divided, "{name}");
            let dropout = BpeDropout::new(&tokenizers, 0.5, 500).unwrap();
            dropout.apply(&mut divided.0, &mut divided.1, &mut random);
            assert!(UnigramSampling::new(&tokenizers, 0.5, 500).is_err());
        } else {
            let sampling = UnigramSampling::new(&tokenizers, 0.1, 500).unwrap();
            sampling.apply(&mut divided.0, &mut divided.1, &mut random);
            assert!(BpeDropout::new(&tokenizers, 0.5, 500).is_err());
        }
        for side in [&divided.0, &divided.1] {
            assert!(*side != ids, "{name}");
            let decoded = |ids: &[u32]| tokenizers.target.decode(ids).unwrap();
            assert_eq!(decoded(side), decoded(&ids), "{name}");
            if let Some(symbol) = tokenizers.target.id("<sep>") {
                assert!(side.contains(&symbol), "{name}");
            }
        }
    }
}

/// The mask takes the place of a word with its space, or of a part of a word.
#[test]
fn masks_stand_in_texts_of_sentencepiece_models() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["unigram", "bpe-digits", "unigram-plain"] {
        let path = folder.path().join(name);
        fs::write(&path, model(name)).unwrap();
        let config = TokenizerConfig { file: Some(path), ..TokenizerConfig::default() };
        let texts: [&str; 0] = [];
        let tokenizer = Tokenizer::train(&config, SpecialTokens::WithMask, &texts).unwrap();
        assert_eq!(tokenizer.mask_id(), Some(MASK));
        let text = "der alte Mann sieht";
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(tokenizer.encode_with_masks(text).unwrap(), ids);
        let masked = tokenizer.encode_with_masks("der <mask> Mann <mask>").unwrap();
        let [before, after] = ["der", "Mann"].map(|word| tokenizer.encode(word).unwrap());
        let inside = |ids: &[u32]| ids[1..ids.len() - 1].to_vec();
        let expected =
            [vec![BOS], inside(&before), vec![MASK], inside(&after), vec![MASK, EOS]].concat();
        assert_eq!(masked, expected, "{name}");
        assert_eq!(tokenizer.decode(&masked).unwrap(), "der<mask> Mann<mask>", "{name}");
        assert!(!tokenizer.encode("<mask>").unwrap().contains(&MASK));
        let file = tokenizer.to_json().unwrap();
        let again = Tokenizer::from_json(file.as_bytes(), Path::new("again")).unwrap();
        assert_eq!(
            again.encode_with_masks("der <mask>").unwrap(),
            tokenizer.encode_with_masks("der <mask>").unwrap()
        );
    }
}

/// A model of three pieces and the table of a rule, as protocol buffers.
fn model_with_table(table: &[u8]) -> Vec<u8> {
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        let mut length = content.len();
        let mut bytes = vec![number << 3 | 2];
        while length >= 0x80 {
            bytes.push(length as u8 | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend(content);
        bytes
    }
    let piece =
        |text: &str, kind: u8| field(1, &[field(1, text.as_bytes()), vec![3 << 3, kind]].concat());
    [piece("<unk>", 2), piece("a", 1), piece("▁", 1), field(3, &field(2, table))].concat()
}

/// Table that replaces `a` by `text`: the root at 0 leads from 256 with `a` (0x61) and a value (bit 8) to
/// 512, where the unit points at the text.
fn table(text: &str) -> Vec<u8> {
    let mut trie = vec![0_u32; 1024];
    trie[0] = 256 << 10;
    trie[256 ^ 0x61] = 0x61 | 1 << 8 | (256 ^ 0x61 ^ 512) << 10;
    trie[512] = 1 << 31;
    let trie = trie.iter().flat_map(|unit| unit.to_le_bytes());
    4096_u32.to_le_bytes().into_iter().chain(trie).chain(text.bytes()).chain([0]).collect()
}

#[test]
fn tables_that_make_texts_long_are_refused_or_limited() {
    let error = import(&model_with_table(&table(&"b".repeat(9_999)))).unwrap_err();
    assert!(error.ends_with("9999 times as long, expected at most 64 times"), "{error}");
    // The root leads from 256 with `a` back to 256.
    let mut cyclic = table("b");
    cyclic[4 + 4 * (256 ^ 0x61)..][..4].copy_from_slice(&(0x61_u32 | 0x61 << 10).to_le_bytes());
    let error = import(&model_with_table(&cyclic)).unwrap_err();
    assert!(error.ends_with("its normalization table is damaged: its trie has a cycle"), "{error}");

    let tokenizer = import(&model_with_table(&table(&"a".repeat(64)))).unwrap().source;
    // Of each text, `▁` and 64 letters for each.
    assert_eq!(tokenizer.encode("aa").unwrap().len(), 1 + 128 + 1);
    let long = "a".repeat(1 << 20);
    let limited = tokenizer.clone().with_max_bytes(10_000);
    // The normalization ends with the rule that reaches the limit.
    let count = limited.encode(&long).unwrap().len();
    assert!((9_900..10_100).contains(&count), "{count}");
    assert_eq!(limited.encode_with_spans(&long).unwrap().len(), count);
}

#[test]
fn an_imported_tokenizer_is_saved_and_opened_as_itself() {
    let clean = Normalization { form: NormalForm::Nfc, spaces: true, markup: true };
    for (name, normalization) in [
        ("unigram", None),
        ("bpe-bytes", None),
        ("unigram", Some(clean)),
        ("bpe-digits", Some(clean)),
    ] {
        let tokenizer = import(&model(name)).unwrap().source;
        let tokenizer = normalization.map_or(tokenizer.clone(), |it| tokenizer.with_steps_of(it));
        assert_eq!(tokenizer.normalization(), normalization);
        let json = tokenizer.to_json().unwrap();
        let again = Tokenizer::from_json(json.as_bytes(), Path::new("again")).unwrap();
        for text in ["der alte Mann", "日本 <eos> <0x41>", ""] {
            assert_eq!(again.encode(text).unwrap(), tokenizer.encode(text).unwrap());
        }
        assert!(again.to_json().unwrap() == json && again.is_same(&tokenizer).unwrap());
        let marked = "<b>der</b> al\u{ad}te\u{200b} Mann";
        let ids = |text| again.encode(text).unwrap();
        assert_eq!(ids(marked) == ids("der alte Mann"), normalization.is_some(), "{name}");
        // A file written by tx can be imported.
        let imported = import(json.as_bytes()).unwrap().source;
        assert_eq!(
            imported.encode("der alte Mann").unwrap(),
            tokenizer.encode("der alte Mann").unwrap()
        );
    }
}

#[test]
fn a_text_cannot_forge_special_tokens() {
    for name in ["unigram", "bpe", "bpe-bytes", "unigram-plain", "unigram-bytes", "bpe-symbols"] {
        let tokenizer = import(&model(name)).unwrap().target;
        for text in ["<eos> <pad>", "a</s>b <s>", "<bos>", "x<eos>y", "<ctl>"] {
            let (ids, _) = tokens(&tokenizer, text);
            let control = tokenizer.id("<ctl>");
            assert!(
                ids.iter().all(|&id| id >= UNK && Some(id) != control),
                "{name}: {text}: {ids:?}"
            );
        }
    }
}

fn word_level() -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null,
        "pre_tokenizer": { "type": "WhitespaceSplit" }, "post_processor": null, "decoder": null,
        "added_tokens": [
            { "id": 7, "content": "[SEP]", "special": true, "single_word": false, "lstrip": false,
              "rstrip": false, "normalized": false },
        ],
        "model": {
            "type": "WordLevel", "unk_token": "[UNK]",
            "vocab": { "hund": 0, "katze": 1, "[UNK]": 2, "[CLS]": 3, "maus": 5, "[SEP]": 7 },
        },
    })
}

/// `[UNK]`, `[CLS]` and `[SEP]` become `<unk>`, `<bos>` and `<eos>`; the words follow in their
/// order.
#[test]
fn special_tokens_of_other_names_are_mapped_and_ids_made_dense() {
    let tokenizer = import(word_level().to_string().as_bytes()).unwrap().target;
    assert_eq!(tokenizer.vocab_size(), 4 + 3);
    for (id, token) in SPECIAL_TOKENS.iter().enumerate() {
        assert_eq!(tokenizer.token(id as u32).as_deref(), Some(*token));
    }
    let (ids, _) = tokens(&tokenizer, "katze hund maus elch [SEP] <eos>");
    assert_eq!(ids[..4], [5, 4, 6, UNK]);
    assert!(ids[4..].iter().all(|&id| id == UNK), "{ids:?}");
}

#[test]
fn unusable_files_are_rejected_with_an_explanation() {
    let refused = |bytes: &[u8]| import(bytes).unwrap_err();
    assert!(refused(b"{").starts_with("`DIR/tokenizer` is not a usable tokenizer: not readable: "));
    assert_eq!(
        refused(b"no tokenizer at all"),
        "`DIR/tokenizer` is not a usable tokenizer: it is not a SentencePiece model, or it is truncated"
    );
    assert!(refused(b"").contains("not a SentencePiece model"));
    assert!(
        refused(&model("word"))
            .ends_with("it is a SentencePiece model of type `word`; tx reads `unigram` and `bpe`")
    );
    let mut only_special = word_level();
    only_special["model"]["vocab"] = json!({ "[UNK]": 0, "[CLS]": 1, "[SEP]": 7 });
    assert!(refused(only_special.to_string().as_bytes()).ends_with("holds special tokens only"));
    let mut taken = word_level();
    taken["model"]["vocab"]["<unk>"] = 9.into();
    assert!(
        refused(taken.to_string().as_bytes())
            .ends_with("its token `<unk>` has another meaning than in tx")
    );
}

#[test]
fn two_files_are_two_vocabularies() {
    let folder = tempfile::tempdir().unwrap();
    let [source, target] = ["unigram", "bpe"].map(|name| {
        let path = folder.path().join(name);
        fs::write(&path, model(name)).unwrap();
        path
    });
    let config = TokenizerConfig {
        source_file: Some(source),
        target_file: Some(target),
        joint: false,
        ..TokenizerConfig::default()
    };
    let tokenizers = Tokenizers::train(&config, &[]).unwrap();
    assert_ne!(tokenizers.source.vocab_size(), tokenizers.target.vocab_size());
    let joint = TokenizerConfig { joint: true, ..config.clone() };
    assert!(joint.problems()[0].contains("are two vocabularies"));
    let half = TokenizerConfig { target_file: None, ..config };
    assert_eq!(half.problems(), ["`source_file` and `target_file` go together"]);
}

#[test]
fn learning_does_not_depend_on_hash_seeds() {
    // Hash seeds differ between tables even within a process, so that three runs must agree.
    let pairs: Vec<SentencePair> = (0..300)
        .map(|i| {
            SentencePair::new(
                format!("wort {} haus {}", i % 37, i % 11),
                format!("x{i} y{}", i % 7),
            )
        })
        .collect();
    for kind in [TokenizerKind::Bpe, TokenizerKind::Unigram, TokenizerKind::Wordpiece] {
        let learn = || {
            let config = TokenizerConfig { kind, vocab_size: 60, ..TokenizerConfig::default() };
            Tokenizers::train(&config, &pairs).unwrap().source.to_json().unwrap()
        };
        let first = learn();
        assert!(learn() == first && learn() == first, "{kind:?}");
    }
}
