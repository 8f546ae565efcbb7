use serde_json::Value;
use tx_infer::{Attention, AttentionKind, Bundle, Device, Tokens, alignment::Alignment};

use crate::{BUNDLE, Run, command, file, translate};

/// Aligns a pair with the library, by one head of the last layer or their mean.
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

fn align(arguments: &[&str]) -> Run {
    align_texts(SOURCES, TARGETS, arguments)
}

fn align_texts(source: &str, target: &str, arguments: &[&str]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let source = file(&folder, "source.txt", source);
    let target = file(&folder, "target.txt", target);
    let files = ["--source", &source, "--target", &target];
    command("align", &[&files[..], arguments].concat())
}

#[test]
fn each_pair_gives_a_line_of_links_and_an_empty_pair_an_empty_line() {
    let lines: Vec<String> = align(&[]).printed().lines().map(str::to_owned).collect();
    let first = expected("one two three", "three two", None);
    assert_eq!(first.links().len(), 2);
    assert_eq!(
        lines,
        [first.pharaoh(), String::new(), expected("seven, six", "one", None).pharaoh()]
    );
    // Words are separated by spaces: the comma is part of the first.
    assert!(["0-0", "1-0"].contains(&lines[2].as_str()), "{lines:?}");
}

#[test]
fn json_contains_words_links_and_weights_of_the_chosen_head() {
    let found = align(&["--format", "json", "--alignment-layer", "1", "--alignment-head", "2"]);
    let found = found.printed();
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
fn translations_are_printed_with_their_alignment() {
    let plain = translate(&[], SOURCES).printed();
    let aligned = translate(&["--alignment", "pharaoh"], SOURCES).printed();
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
    let json = translate(&["--alignment", "json"], SOURCES).printed();
    for (line, translation) in json.lines().zip(plain.lines()) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["translation"], translation);
    }
}

#[test]
fn unknown_layers_and_heads_are_wrong_usage() {
    for (option, value, most) in [("--alignment-layer", "2", "1"), ("--alignment-head", "0", "2")] {
        let wrong = align(&[option, value]);
        wrong.failed(2, &[&format!("`{option}` = {value} must be at least 1 and at most {most}")]);
        translate(&["--alignment", "json", option, value], "one\n").failed(2, &[option]);
    }
    let alone = translate(&["--alignment-head", "1"], "one\n");
    alone.failed(
        2,
        &["`--alignment-layer` and `--alignment-head` have no effect without `--alignment`"],
    );
}

#[test]
fn files_of_different_lengths_are_refused_with_both_numbers() {
    let wrong = align_texts(SOURCES, "one\n", &[]);
    wrong.failed(1, &["3", "1", "source.txt", "target.txt"]);
}
