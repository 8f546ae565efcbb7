use std::fs;

use serde_json::Value;
use tempfile::TempDir;
use tx_infer::{Device, ModuleBundle, Translator};
use tx_text::{Tokenizers, context::SEPARATOR};

use crate::{bundle, model, run, with_tokenizers};

/// A bundle that reads two sentences before each text.
fn with_context() -> TempDir {
    let Tokenizers { source, target } = bundle("one two three four five six seven").tokenizers;
    let source = source.with_special_tokens(&[SEPARATOR.into()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let plain = with_tokenizers(Tokenizers { source, target });
    ModuleBundle { context: 2, ..plain }.save(folder.path()).unwrap();
    folder
}

fn path(folder: &TempDir) -> &str {
    folder.path().to_str().unwrap()
}

/// Log-probability of the best hypothesis of each line of JSON.
fn log_probabilities(output: &str) -> Vec<f64> {
    let line = |line: &str| {
        let object: Value = serde_json::from_str(line).unwrap();
        object["translations"][0]["log_probability"].as_f64()
    };
    output.lines().filter_map(line).collect()
}

#[test]
fn lines_are_translated_with_those_before_them() {
    let folder = with_context();
    let translator = Translator::open(folder.path(), &Device::Cpu).unwrap();
    let lines = ["one two", "three", "four one", "", "five", "one six"].map(str::to_owned);
    let expected = translator.translate_document(&lines).unwrap();
    let expected: Vec<f64> = expected
        .iter()
        .filter_map(|found| found.hypotheses.first())
        .map(|best| f64::from(best.hypothesis.log_probability))
        .collect();
    let input = lines.join("\n");
    let printed = |options: &[&str]| {
        let all = [&["--model", path(&folder), "--json"], options].concat();
        log_probabilities(&run(&all, &input).printed())
    };
    // Groups of lines change no context.
    for size in ["1", "2", "1000"] {
        let found = printed(&["--batch-size", size]);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-4, "{size}: {found} {expected}");
        }
    }
    // A line is a sentence.
    assert_eq!(printed(&["--split", "sentences"]), printed(&[]));
    let alone = printed(&["--context", "0"]);
    assert_eq!((alone[0], alone[3]), (printed(&[])[0], printed(&[])[3]));
    assert_ne!(alone[1], printed(&[])[1]);
    assert_ne!(printed(&["--context", "1"])[2], printed(&[])[2]);
}

#[test]
fn a_bundle_refuses_more_context_than_it_was_trained_with() {
    let folder = with_context();
    let refused = run(&["--model", path(&folder), "--context", "3"], "one\n");
    refused.failed(1, &["a context of 3 sentences, but the model was trained with at most 2"]);
    let refused = run(&["--model", model(), "--context", "1"], "one\n");
    refused.failed(
        1,
        &["a context of 1 sentence, but the model was trained with none", "hint: ", "context"],
    );
    assert_eq!(
        run(&["--model", model(), "--context", "0"], "one\n").printed(),
        run(&["--model", model()], "one\n").printed()
    );
}

/// Other toolkits would translate each text alone.
#[test]
fn a_bundle_with_context_is_not_exported() {
    let folder = with_context();
    let output = folder.path().join("exported");
    for format in ["ctranslate2", "transformers", "marian"] {
        let to = ["--format", format, "--output", output.to_str().unwrap()];
        let refused = run(&[&["export", "--model", path(&folder)][..], &to].concat(), "");
        refused.failed(1, &["`context` = 2: the toolkit translates each text alone"]);
        assert!(!output.exists());
    }
}

/// Sentences of a file are read with those before them, also of other cues and paragraphs.
#[test]
fn files_with_markup_have_context() {
    let folder = with_context();
    let translator = Translator::open(folder.path(), &Device::Cpu).unwrap();
    // Words whose translation depends on the context.
    let words = ["one", "two", "three", "four", "five", "six", "seven"];
    let pairs = words.iter().flat_map(|first| words.map(|second| [*first, second]));
    let (lines, found) = pairs
        .map(|pair| pair.map(str::to_owned))
        .find_map(|lines| {
            let found = translator.translate_document(&lines).unwrap();
            let alone = translator.translate(&lines[1]).unwrap();
            (found[1].text != alone.text).then_some((lines, found))
        })
        .unwrap();
    let [first, second] = &lines;
    let html = format!("<p>{first}</p><p><b>{second}</b></p>");
    let times = ["00:00:01,000 --> 00:00:02,000", "00:00:03,000 --> 00:00:04,000"];
    let cues = format!("1\n{}\n{first}\n\n2\n{}\n{second}\n", times[0], times[1]);
    for (format, content) in [("html", html), ("srt", cues)] {
        let file = folder.path().join(format!("in.{format}"));
        fs::write(&file, content).unwrap();
        let output =
            run(&["--model", path(&folder), "--input", file.to_str().unwrap()], "").printed();
        let text = output.replace("<b>", "").replace("</b>", "");
        for translation in &found {
            assert!(text.contains(&translation.text), "{format}: {output} {}", translation.text);
        }
    }
}

#[test]
fn contrastive_accuracy_counts_the_lines_with_wrong_translations() {
    let folder = with_context();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let source = write("source", "one two\nthree\n\nfour\n");
    let target = write("target", "one two\nthree\n\nfour\n");
    let first = write("first", "\nfive five five six\n\nfour\n");
    let second = write("second", "\nseven\n\n\n");
    let force = |options: &[&str]| {
        let files = ["force", "--model", path(&folder), "--source", &source, "--target", &target];
        run(&[&files[..], options].concat(), "")
    };
    let wrong = ["--contrastive", &first, "--contrastive", &second];
    let plain = force(&[]);
    let found = force(&wrong);
    // Two lines have wrong translations; one of them equals the right one, which is not better.
    assert!(found.stderr.contains("of 2 lines)\n"), "{}", found.stderr);
    // The end of the document is no line of the text.
    assert!(found.stderr.contains("(3 lines, "), "{}", found.stderr);
    let (plain, found) = (plain.stdout, found.stdout);
    assert_eq!((plain.lines().count(), found.lines().count()), (5, 5));
    let column = |line: &str| line.split('\t').nth(3).unwrap().to_owned();
    let columns: Vec<String> = found.lines().map(column).collect();
    assert_eq!((&*columns[0], &*columns[1], &*columns[3]), ("contrastive", "", ""));
    let scores = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split('\t').take(3).collect::<Vec<_>>().join(" ")).collect()
    };
    assert_eq!(scores(&plain), scores(&found));
    let json = force(&[&wrong[..], &["--json"]].concat()).stdout;
    let objects: Vec<Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let counts: Vec<usize> =
        objects.iter().map(|it| it["contrastive"].as_array().unwrap().len()).collect();
    assert_eq!(counts, [0, 2, 0, 1]);
    assert_eq!(objects[3]["contrastive"][0], objects[3]["log_probability"]);
    let alone = force(&["--context", "0"]).stdout;
    assert_eq!(alone.lines().nth(1), plain.lines().nth(1));
    assert_ne!(alone.lines().nth(2), plain.lines().nth(2));
    let short = write("short", "\n\n");
    force(&["--contrastive", &short]).failed(1, &["`", "has 2 lines, fewer than the source"]);
    let long = write("long", "\n\n\n\n\n");
    let refused = force(&["--contrastive", &long]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("has more lines than the source, which has 4"));
}
