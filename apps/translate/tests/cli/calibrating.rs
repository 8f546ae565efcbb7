use std::fs;

use serde_json::Value;

use crate::{bundle, file, run};

/// Half of the references are the translations, so that some words are right and others are not.
#[test]
fn a_calibrated_bundle_has_confidence() {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three four five six seven").save(folder.path()).unwrap();
    let model = folder.path().to_str().unwrap();
    let sources = "one two\nthree four\nfive six seven\ntwo\n";
    let translate = |more: &[&str]| run(&[&["--model", model][..], more].concat(), sources);
    translate(&["--confidence"]).failed(1, &["not calibrated", "translate calibrate"]);

    let translations = translate(&[]).printed();
    let references: String = translations
        .lines()
        .enumerate()
        .map(|(index, line)| format!("{}\n", if index % 2 == 0 { line } else { "none" }))
        .collect();
    let source = file(&folder, "valid.source", sources);
    let reference = file(&folder, "valid.reference", &references);
    let files = ["--model", model, "--source", &source, "--reference", &reference];
    let calibrate = |more: &[&str]| run(&[&["calibrate"], &files[..], more].concat(), "");
    calibrate(&["--check"]).failed(1, &["not calibrated"]);
    let weights = fs::read(folder.path().join("model.safetensors")).unwrap();
    let fitted = calibrate(&["--json"]);
    assert_eq!(fitted.code, Some(0), "{}", fitted.stderr);
    let fitted: Value = serde_json::from_str(&fitted.stdout).unwrap();
    assert_eq!(fs::read(folder.path().join("model.safetensors")).unwrap(), weights);
    let checked: Value =
        serde_json::from_str(&calibrate(&["--check", "--json"]).printed()).unwrap();
    assert_eq!(checked, fitted);
    let words = translations.split_whitespace().count() as u64;
    assert_eq!(fitted["words"].as_u64(), Some(words));

    // The translations are the same, and the mean over all words is the share of right words, which
    // logistic regression with a constant term keeps.
    let printed = translate(&["--confidence", "--json"]).printed();
    let (mut sum, mut text) = (0.0, String::new());
    for line in printed.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        text += &format!("{}\n", line["text"].as_str().unwrap());
        let words = line["confidence"]["words"].as_array().unwrap();
        sum += words.iter().map(|word| word["probability"].as_f64().unwrap()).sum::<f64>();
        let joined: Vec<&str> = words.iter().map(|word| word["word"].as_str().unwrap()).collect();
        assert_eq!(joined.join(" "), line["text"].as_str().unwrap());
    }
    assert_eq!(text, translations);
    let right = fitted["right"].as_f64().unwrap();
    assert!((sum - right).abs() < 0.05, "{sum} and {right}");
    let plain = translate(&["--confidence"]).printed();
    for (line, translation) in plain.lines().zip(translations.lines()) {
        let (text, probability) = line.split_once('\t').unwrap();
        assert_eq!(text, translation);
        assert!((0.0..=1.0).contains(&probability.parse::<f64>().unwrap()), "{line}");
    }

    let short = file(&folder, "short", "one\n");
    let lines = ["calibrate", "--model", model, "--source", &source, "--reference", &short];
    run(&lines, "").failed(2, &["has 1 lines, but", "has 4"]);
}
