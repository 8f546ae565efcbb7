use std::fs;

use serde_json::Value;
use tx_infer::{Bundle, Cancellation, Device};

use super::*;

/// Folder of the checkpoints, written by its `generate.py`.
fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tutorial")
}

fn options() -> ImportOptions {
    ImportOptions { heads: Some(3), ..ImportOptions::default() }
}

fn read(folder: &str) -> Import {
    import(&fixtures().join(folder), &options()).unwrap()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// Copies a checkpoint and the tokenizers into one folder.
fn copied(checkpoint: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in [checkpoint, "tokenizer_en.json", "tokenizer_it.json"] {
        let to = folder.path().join(Path::new(name).file_name().unwrap());
        fs::copy(fixtures().join(name), to).unwrap();
    }
    folder
}

fn message(from: &Path, options: &ImportOptions) -> String {
    import(from, options).unwrap_err().to_string()
}

/// Ids of the tutorial's special tokens [UNK] [PAD] [SOS] [EOS] in tx; other ids are the same.
fn new_id(old: u32) -> u32 {
    [3, 0, 1, 2].get(old as usize).copied().unwrap_or(old)
}

#[test]
fn translations_equal_those_of_pytorch() {
    let cases: Value =
        serde_json::from_str(&fs::read_to_string(fixtures().join("cases.json")).unwrap()).unwrap();
    for folder in ["first", "last"] {
        let output = tempfile::tempdir().unwrap();
        read(folder).save(output.path()).unwrap();
        let bundle = Bundle::open(output.path()).unwrap();
        let engine = bundle.engine(&Device::Cpu).unwrap();
        let search = bundle.search.clone().unwrap();
        let cases = cases["cases"][folder].as_array().unwrap();
        assert!(cases.len() > 80);
        for case in cases {
            let text = case["source"].as_str().unwrap();
            let source = bundle.tokenizers.source.encode(text).unwrap();
            let expected: Vec<u32> = ids(&case["source_ids"]).into_iter().map(new_id).collect();
            assert_eq!(source, expected, "{text}");
            let target: Vec<u32> = ids(&case["ids"]).into_iter().map(new_id).collect();
            let found = engine.search(&[&source], &search).unwrap();
            assert_eq!(found[0][0].ids, target, "{folder}: {text}");
            let pairs = [(source.as_slice(), target.as_slice())];
            let scores = engine.log_probabilities(&pairs, &Cancellation::new()).unwrap();
            let expected = case["log_probabilities"].as_array().unwrap();
            assert_eq!(scores[0].len(), expected.len());
            for (score, expected) in scores[0].iter().zip(expected) {
                let difference = f64::from(*score) - expected.as_f64().unwrap();
                assert!(difference.abs() < 1e-4, "{folder}: {text}: {difference}");
            }
        }
    }
}

#[test]
fn sizes_come_from_the_tensors() {
    let Import { config, notes, .. } = read("last");
    assert_eq!((config.d_model, config.d_ff, config.max_len), (12, 24, 24));
    assert_eq!((config.encoder_layers, config.decoder_layers), (2, 2));
    assert!(!config.attention_bias);
    assert_eq!(notes, Vec::<String>::new());
    assert!(read("first").config.attention_bias);
}

/// The tutorial's 8 heads do not divide 12 features.
#[test]
fn the_number_of_heads_is_the_caller_s() {
    let error = message(&fixtures().join("last"), &ImportOptions::default());
    assert!(error.contains("`n_heads` = 8 must divide `d_model` = 12"), "{error}");
}

#[test]
fn a_pickle_that_calls_a_function_is_refused_by_its_name() {
    let folder = copied("evil.pt");
    let error = message(&folder.path().join("evil.pt"), &options());
    assert!(error.contains("evil.pt") && error.contains("system"), "{error}");
    assert!(!Path::new("a-pickle-was-executed").exists());
}

#[test]
fn tokenizers_are_chosen_by_size_or_by_language() {
    let folder = copied("last/tmodel_02.pt");
    let path = |name: &str| folder.path().join(name);
    let checkpoint = path("tmodel_02.pt");
    // Both files have the size of the source.
    fs::copy(path("tokenizer_en.json"), path("tokenizer_sc.json")).unwrap();
    let error = message(&checkpoint, &options());
    assert!(error.contains("2 tokenizers fit the"), "{error}");
    let named = |source: &str, target: &str| ImportOptions {
        source_language: Some(source.to_owned()),
        target_language: Some(target.to_owned()),
        ..options()
    };
    let import = import(&checkpoint, &named("sc", "it")).unwrap();
    assert!(import.files().iter().any(|file| file.name == "tokenizer_sc.json"));
    let error = message(&checkpoint, &named("it", "en"));
    assert!(error.contains("0 tokenizers for `it` fit the"), "{error}");
    for name in ["tokenizer_en.json", "tokenizer_sc.json", "tokenizer_it.json"] {
        fs::remove_file(path(name)).unwrap();
    }
    let error = message(&checkpoint, &options());
    assert!(error.contains("no `tokenizer_LANGUAGE.json`"), "{error}");
}
