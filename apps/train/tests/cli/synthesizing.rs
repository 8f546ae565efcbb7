use std::fs;

use serde_json::Value;
use tx_infer::{Translator, device::DeviceName};

use crate::{Workshop, cli::corpora::lines};

/// Folder with a bundle `model`, and some of its sources in `texts.txt`, one of them twice.
fn workshop() -> (Workshop, Vec<String>) {
    let workshop = Workshop::new();
    workshop.train_tiny("model", &[]).trained();
    let source = fs::read_to_string(workshop.path("source.txt")).unwrap();
    let mut texts: Vec<String> = source.lines().take(12).map(str::to_owned).collect();
    texts.push(texts[0].clone());
    workshop.write("texts.txt", texts.join("\n") + "\n");
    (workshop, texts)
}

fn translated(workshop: &Workshop, texts: &[String]) -> Vec<String> {
    let (_, device) = "cpu".parse::<DeviceName>().unwrap().open().unwrap();
    let translator = Translator::open(workshop.path("model"), &device).unwrap();
    let options = translator.options().clone().with_beam(5);
    let translator = translator.with_options(options).unwrap();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    translator.translate_batch(&texts).unwrap().into_iter().map(|one| one.text).collect()
}

#[test]
fn text_is_translated_back_and_an_interrupted_command_continues() {
    let (workshop, texts) = workshop();
    let arguments = ["--model", "model", "--input", "texts.txt", "--device", "cpu"];
    let run = |output: &str| {
        workshop.train(&[&["back-translate", "--output", output], &arguments[..]].concat())
    };
    let first = run("pairs.tsv");
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let pairs = fs::read_to_string(workshop.path("pairs.tsv")).unwrap();
    let mut expected: Vec<String> = Vec::new();
    for (text, translation) in texts.iter().zip(translated(&workshop, &texts)) {
        let line = format!("{translation}\t{text}");
        if !translation.is_empty() && !expected.contains(&line) {
            expected.push(line);
        }
    }
    assert_eq!(pairs.lines().collect::<Vec<_>>(), expected);
    let record = fs::read_to_string(workshop.path("pairs.tsv.json")).unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["pairs"], expected.len());
    assert!(record["models"][0]["sha256"]["model.safetensors"].is_string(), "{record}");
    run("pairs.tsv").failed(2, &["`pairs.tsv` exists"]);

    // What a killed process leaves: some translations, the last incomplete.
    let raw = workshop.path("again.tsv.back-translation");
    let stop = |content: &str| {
        workshop.train(&[&["back-translate", "--output", "again.tsv"], &arguments[..]].concat());
        fs::remove_file(workshop.path("again.tsv")).unwrap();
        fs::write(&raw, content).unwrap();
    };
    stop("a\nb\nc");
    // Without the identity of model and texts, the file is not continued.
    assert_eq!(run("again.tsv").code, Some(0));
    assert_eq!(fs::read_to_string(workshop.path("again.tsv")).unwrap(), pairs);
    assert!(!raw.exists());
}

#[test]
fn samples_depend_on_the_seed() {
    let (workshop, texts) = workshop();
    let sample = |seed: &str, output: &str| {
        let run = workshop.train(&[
            "back-translate",
            "--model",
            "model",
            "--input",
            "texts.txt",
            "--output",
            output,
            "--samples",
            "3",
            "--seed",
            seed,
        ]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        fs::read_to_string(workshop.path(output)).unwrap()
    };
    let [one, again, other] =
        [("1", "a"), ("1", "b"), ("2", "c")].map(|(seed, name)| sample(seed, name));
    assert!(one == again && one != other);
    assert!(one.lines().count() > texts.len());
}

/// The original pairs, then translations of both sides by one model.
#[test]
fn a_corpus_is_diversified() {
    let (workshop, _) = workshop();
    workshop.write("pairs.tsv", lines(["one", "two", "three"], "uno", 6));
    let models = ["--forward", "model", "--backward", "model"];
    let run = workshop.train(
        &[&["diversify", "--file", "pairs.tsv", "--output", "all.tsv"], &models[..]].concat(),
    );
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let original = fs::read_to_string(workshop.path("pairs.tsv")).unwrap();
    let (sources, targets): (Vec<String>, Vec<String>) = original
        .lines()
        .map(|line| line.split_once('\t').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap())
        .unzip();
    let mut expected: Vec<String> = original.lines().map(str::to_owned).collect();
    let forward = translated(&workshop, &sources);
    expected.extend(sources.iter().zip(&forward).map(|(a, b)| format!("{a}\t{b}")));
    let backward = translated(&workshop, &targets);
    expected.extend(backward.iter().zip(&targets).map(|(a, b)| format!("{a}\t{b}")));
    let mut seen = std::collections::HashSet::new();
    let is_new = |line: &String| {
        let is_empty = line.starts_with('\t') || line.ends_with('\t');
        !is_empty && seen.insert(line.clone())
    };
    let expected: Vec<String> = expected.into_iter().filter(is_new).collect();
    let found = fs::read_to_string(workshop.path("all.tsv")).unwrap();
    assert_eq!(found.lines().collect::<Vec<_>>(), expected);

    let run = workshop.train(&["diversify", "--file", "pairs.tsv", "--output", "x.tsv"]);
    run.failed(2, &["no model is given", "`--forward` and `--backward`"]);
}
