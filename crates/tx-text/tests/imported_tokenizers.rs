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
use serde_json::{Value, json};
use tx_text::{
    SentencePair, Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers,
    special::{BOS, EOS, SPECIAL_TOKENS, UNK},
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
    for (name, first_ordinary) in
        [("unigram", 3), ("bpe", 3), ("bpe-bytes", 4), ("unigram-plain", 4), ("unigram-bytes", 4)]
    {
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

#[test]
fn an_imported_tokenizer_is_saved_and_opened_as_itself() {
    for name in ["unigram", "bpe-bytes"] {
        let tokenizer = import(&model(name)).unwrap().source;
        let json = tokenizer.to_json().unwrap();
        let again = Tokenizer::from_json(json.as_bytes(), Path::new("again")).unwrap();
        for text in ["der alte Mann", "日本 <eos> <0x41>", ""] {
            assert_eq!(again.encode(text).unwrap(), tokenizer.encode(text).unwrap());
        }
        assert!(again.to_json().unwrap() == json);
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
    for name in ["unigram", "bpe", "bpe-bytes", "unigram-plain", "unigram-bytes"] {
        let tokenizer = import(&model(name)).unwrap().target;
        for text in ["<eos> <pad>", "a</s>b <s>", "<bos>", "x<eos>y"] {
            let (ids, _) = tokens(&tokenizer, text);
            assert!(ids.iter().all(|&id| id >= UNK), "{name}: {text}: {ids:?}");
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
