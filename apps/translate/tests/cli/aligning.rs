use serde_json::Value;
use tx_infer::{Attention, AttentionKind, Bundle, Device, Tokens, alignment::Alignment};

use crate::{BUNDLE, file, run, translate};

/// What the library makes of a pair: the last layer, and one head or the mean.
fn expected(source: &str, target: &str, head: Option<usize>) -> Alignment {
    let bundle = Bundle::open(BUNDLE.path()).unwrap();
    let engine = bundle.engine(&Device::Cpu).unwrap();
    let max_len = bundle.config.max_len;
    let source = Tokens::of_source(&bundle.tokenizers.source, source, max_len).unwrap();
    let target = Tokens::of_target(&bundle.tokenizers.target, target, max_len).unwrap();
    let attention = Attention::of(&engine, source.clone(), target.clone());
    let map = attention.map(AttentionKind::Cross, 0, head).unwrap();
    Alignment::new(&source, &target, &map)
}

const SOURCES: &str = "one two three\n\nseven, six\n";
const TARGETS: &str = "three two\n\none\n";

fn align(arguments: &[&str]) -> crate::Run {
    let folder = tempfile::tempdir().unwrap();
    let source = file(&folder, "source.txt", SOURCES);
    let target = file(&folder, "target.txt", TARGETS);
    let model = BUNDLE.path().to_str().unwrap();
    let all = ["align", "--model", model, "--source", &source, "--target", &target];
    run(&[&all[..], arguments].concat(), "")
}

#[test]
fn each_pair_gives_a_line_of_links_and_an_empty_one_an_empty_line() {
    let lines: Vec<String> = align(&[]).said().lines().map(str::to_owned).collect();
    let first = expected("one two three", "three two", None);
    assert_eq!(first.links().len(), 2);
    assert_eq!(
        lines,
        [first.pharaoh(), String::new(), expected("seven, six", "one", None).pharaoh()]
    );
    // Words are those between spaces: the comma is part of the first.
    assert!(["0-0", "1-0"].contains(&lines[2].as_str()), "{lines:?}");
}

#[test]
fn json_has_words_links_and_weights_of_the_head_asked_for() {
    let found = align(&["--format", "json", "--alignment-layer", "1", "--alignment-head", "2"]);
    let found = found.said();
    let first: Value = serde_json::from_str(found.lines().next().unwrap()).unwrap();
    let expected = expected("one two three", "three two", Some(1));
    assert_eq!(first["source"], serde_json::json!(["one", "two", "three"]));
    assert_eq!(first["target"], serde_json::json!(["three", "two"]));
    for (target, row) in expected.weights.iter().enumerate() {
        for (source, weight) in row.iter().enumerate() {
            let found = first["weights"][target][source].as_f64().unwrap();
            assert!((found - f64::from(*weight)).abs() < 1e-5);
        }
    }
    let links = first["alignment"].as_array().unwrap();
    assert_eq!(links.len(), expected.links().len());
}

#[test]
fn translations_carry_their_alignment_when_asked() {
    let plain = translate(&[], SOURCES).said();
    let aligned = translate(&["--alignment", "pharaoh"], SOURCES).said();
    assert_eq!(aligned.lines().count(), 3);
    for ((aligned, translation), source) in aligned.lines().zip(plain.lines()).zip(SOURCES.lines())
    {
        let (text, links) = aligned.split_once(" ||| ").unwrap();
        assert_eq!(text, translation);
        if source.is_empty() {
            assert_eq!((text, links), ("", ""));
            continue;
        }
        for link in links.split(' ') {
            let (from, to) = link.split_once('-').unwrap();
            let below = |index: &str, text: &str| {
                index.parse::<usize>().unwrap() < text.split_whitespace().count()
            };
            assert!(below(from, source) && below(to, translation), "{aligned}");
        }
    }
    let json = translate(&["--alignment", "json"], SOURCES).said();
    for (line, translation) in json.lines().zip(plain.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["translation"], translation);
    }
}

#[test]
fn layers_and_heads_that_are_not_there_are_wrong_usage() {
    for (option, value, most) in [("--alignment-layer", "2", "1"), ("--alignment-head", "0", "2")] {
        let wrong = align(&[option, value]);
        wrong.failed(2, &[&format!("`{option}` = {value} must be at least 1 and at most {most}")]);
        translate(&["--alignment", "json", option, value], "one\n").failed(2, &[option]);
    }
    let alone = translate(&["--alignment-head", "1"], "one\n");
    alone.failed(2, &["`--alignment-layer` and `--alignment-head` need `--alignment`"]);
}

#[test]
fn files_of_different_lengths_are_refused_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(&folder, "source.txt", SOURCES);
    let target = file(&folder, "target.txt", "one\n");
    let model = BUNDLE.path().to_str().unwrap();
    let all = ["align", "--model", model, "--source", &source, "--target", &target];
    run(&all, "").failed(1, &["3", "1", "source.txt", "target.txt"]);
}
