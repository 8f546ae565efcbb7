use std::fs;

use serde_json::Value;
use tx_infer::{Bundle, ModuleBundle};
use tx_text::Tokenizer;

use crate::{BUNDLE, bundle, command, file, run};

/// Counts by hand for d 8, d_ff 8, one layer each, 11 ids per side, no tying, post-norm and all biases:
///
/// ```text
/// embeddings   2 · 11·8 = 176      attention      4 · (8·8 + 8) = 288, three of them
/// projection   8·11     = 88       feed-forward   2 · (8·8 + 8) = 144, two of them
///                                  norms          2·8 = 16, five of them
/// ```
#[test]
fn sizes_equal_those_counted_by_hand() {
    let json = command("inspect", &["--json"]).printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    let bias = json["parameters"]["parts"]["projection"].as_u64().unwrap() - 88;
    assert!(bias == 0 || bias == 11, "{json:#}");
    assert_eq!(json["parameters"]["total"], 176 + 88 + bias + 3 * 288 + 2 * 144 + 5 * 16);
    assert_eq!(json["parameters"]["parts"]["decoder_cross_attention"], 288);
    assert_eq!(json["vocabulary"], serde_json::json!({ "source": 11, "target": 11 }));
    let file = &json["files"][0];
    let size = fs::metadata(BUNDLE.path().join("model.safetensors")).unwrap().len();
    assert_eq!(
        (file["name"].as_str(), file["bytes"].as_u64()),
        (Some("model.safetensors"), Some(size))
    );
    let shape = |name: &str| {
        let weights = json["weights"].as_array().unwrap();
        weights.iter().find(|weight| weight["name"] == name).unwrap()["shape"].clone()
    };
    assert_eq!(shape("source_embedding.weight"), serde_json::json!([11, 8]));
}

#[test]
fn the_speed_of_search_is_measured_on_sentences_of_one_length() {
    let lengths = ["--source-len", "5", "--target-len", "6", "--rounds", "2", "--sentences", "4"];
    let measured = command("bench", &[&lengths[..], &["--device", "ndarray"]].concat());
    assert_eq!(measured.code, Some(0), "{}", measured.stderr);
    let rows: Vec<&str> = measured.stdout.lines().skip(2).collect();
    assert_eq!(rows.len(), 2, "{}", measured.stdout);
    let work = "ndarray | 4 sentences of 5 to 6 tokens, 32 together, beam 5, 1 thread, f32 |";
    assert!(rows[1].contains(work), "{}", rows[1]);
    let measured = command("bench", &[&lengths[..], &["--beam", "2", "--json"]].concat());
    let report: Value = serde_json::from_str(&measured.stdout).unwrap();
    assert_eq!(report["timing"]["tokens"], 24);
    let too_long = command("bench", &["--target-len", "1000"]);
    too_long.failed(2, &["20 source tokens or 1000 target tokens are too many"]);
}

#[test]
fn text_output_has_parts_shape_vocabulary_memory_and_files() {
    let text = command("inspect", &["--weights"]).printed();
    for word in [
        "decoder cross-attention",
        "d_model                    8",
        "11 tokens: five four",
        "<pad> 0, <bos> 1, <eos> 2, <unk> 3",
        "a batch of 1,024 tokens",
        "target.tokenizer.json",
        "source_embedding.weight",
    ] {
        assert!(text.contains(word), "no `{word}` in:\n{text}");
    }
    run(&["inspect", "--model", "no/such"], "").failed(1, &["is not a bundle", "hint: "]);
}

#[test]
fn a_valid_bundle_passes_all_checks_on_both_cpu_backends() {
    // The packed engine has no padding, which is the eleventh invariant.
    for (device, count) in [("cpu", 10), ("ndarray", 11)] {
        let text = command("check", &["--device", device]).printed();
        assert_eq!(text.lines().filter(|line| line.starts_with("pass ")).count(), count, "{text}");
    }
    let json = command("check", &["--json"]).printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(
        json.as_array().unwrap().iter().all(|verdict| verdict["outcome"] == "pass"),
        "{json:#}"
    );
    command("check", &["--limit", "nan"]).failed(2, &["`--limit` = NaN"]);
}

/// The model has random weights; its translations of the lines are those that `translate` prints.
#[test]
fn problems_of_the_translations_of_a_text_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = &file(&folder, "text", "one two 27\n\nseven {name}\nunknown words here\n");
    let json = command("check", &["--text", path, "--json"]).printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["lines"], &json["without_words"]), (&4.into(), &1.into()));
    assert_eq!((&json["with_numbers"], &json["with_placeholders"]), (&1.into(), &1.into()));
    let lines = |problem: &str| json["problems"][problem].as_array().unwrap().clone();
    assert_eq!(lines("number"), [1]);
    assert_eq!(lines("placeholder"), [3]);
    assert!(lines("unknown").contains(&4.into()), "{json:#}");
    let table = command("check", &["--text", path]).printed();
    assert!(table.contains("changed number                       1 100.00 %  1\n"), "{table}");
    assert!(table.contains("4 lines, 1 without words"), "{table}");
    command("check", &["--text", "no/such"]).failed(1, &["no/such"]);
    command("check", &["--text", path, "--limit", "1"]).failed(2, &["--limit"]);
}

/// Without the decoder of its tokenizer, punctuation is not detokenized.
#[test]
fn a_bundle_whose_tokenizer_loses_text_fails_with_code_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut broken: ModuleBundle = bundle("one, two, three.");
    let json = broken.tokenizers.target.to_json().unwrap();
    let mut json: Value = serde_json::from_str(&json).unwrap();
    json["decoder"] = Value::Null;
    let json = json.to_string();
    broken.tokenizers.target = Tokenizer::from_json(json.as_bytes(), "test".as_ref()).unwrap();
    broken.save(folder.path()).unwrap();
    Bundle::open(folder.path()).unwrap();

    let found = run(&["check", "--model", folder.path().to_str().unwrap()], "");
    assert_eq!(found.code, Some(1), "{}", found.stdout);
    assert_eq!(found.stderr, "error: 1 of 10 invariants are violated\n");
    let failed: Vec<&str> = found.stdout.lines().filter(|line| line.starts_with("FAIL")).collect();
    assert_eq!(failed.len(), 1);
    assert!(failed[0].contains("target texts round-trip"), "{}", found.stdout);
    assert!(found.stdout.contains("is decoded as"), "{}", found.stdout);
}
