use serde_json::Value;

use crate::{file, run};

/// Of the first line one word of eight is left out and one put in; the second is right.
const HYPOTHESES: &str = "A dog runs over the green grass.\nTwo men are cooking.\n";
const REFERENCES: &str = "A dog is running across the green grass.\nTwo men are cooking.\n";

/// Name, value as printed, and the rest of a line of scores; the signature is between.
fn parts(line: &str) -> (&str, f64, &str) {
    let (name, rest) = line.split_once('|').unwrap();
    let (_signature, rest) = rest.split_once(" = ").unwrap();
    let (value, rest) = rest.split_once(' ').unwrap();
    (name, value.parse().unwrap(), rest)
}

/// Errors against 8 + 4 words: `runs over` for `is running across`, so 2 replaced and 1 left out.
#[test]
fn all_metrics_are_printed_in_the_order_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    let arguments = ["score", "--reference", &reference, "--metrics", "wer,bleu,exact,cer"];
    let found = run(&arguments, HYPOTHESES).said();
    let lines: Vec<_> = found.lines().map(parts).collect();
    let names: Vec<&str> = lines.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["WER", "BLEU", "exact match", "CER"]);
    assert_eq!((lines[0].1, lines[2].1), (25.0, 50.0), "{found}");
}

#[test]
fn json_holds_the_numbers_that_are_printed() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    let hypothesis = file(&folder, "hypothesis.txt", HYPOTHESES);
    let arguments = [
        "score",
        "--reference",
        &reference,
        "--hypothesis",
        &hypothesis,
        "--metrics",
        "bleu,cer,wer,exact",
    ];
    let printed = run(&arguments, "").said();
    let json = run(&[&arguments[..], &["--json"]].concat(), "").said();
    let json: Value = serde_json::from_str(&json).unwrap();
    let list = json.as_array().unwrap();
    assert_eq!(list.len(), 4);
    for (object, line) in list.iter().zip(printed.lines()) {
        let (name, value, verbose) = parts(line);
        assert_eq!(object["name"], name);
        assert_eq!(object["score"].as_f64(), Some(value), "{line}");
        assert_eq!(object["verbose_score"], verbose);
        let signature = object["signature"].as_str().unwrap();
        assert!(signature.contains("version:"), "{object}");
        assert!(line.starts_with(&format!("{name}|{signature} = ")), "{line}");
    }
    assert_eq!(
        list[0]["signature"],
        format!("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{}", version(&list[0]))
    );
}

fn version(object: &Value) -> &str {
    object["version"].as_str().unwrap()
}

#[test]
fn right_translations_have_the_best_scores() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    let arguments = ["score", "--reference", &reference, "--metrics", "bleu,cer,wer,exact"];
    let found = run(&arguments, REFERENCES).said();
    let values: Vec<f64> = found.lines().map(|line| parts(line).1).collect();
    assert_eq!(values, [100.0, 0.0, 0.0, 100.0]);
}

#[test]
fn bleu_takes_several_references_and_its_options_reach_the_signature() {
    let folder = tempfile::tempdir().unwrap();
    let first = file(&folder, "first.txt", REFERENCES);
    let second = file(&folder, "second.txt", HYPOTHESES.to_uppercase());
    let references = ["score", "--reference", &first, "--reference", &second];
    let one = run(&references, HYPOTHESES).said();
    assert!(parts(&one).1 < 100.0, "{one}");
    let options = ["--lowercase", "--tokenize", "none", "--json"];
    let json = run(&[&references[..], &options].concat(), HYPOTHESES).said();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["score"].as_f64(), Some(100.0));
    let signature = json[0]["signature"].as_str().unwrap();
    assert!(signature.starts_with("nrefs:2|case:lc|eff:no|tok:none|"), "{signature}");
}

#[test]
fn files_that_do_not_fit_are_refused_with_both_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    for metric in ["bleu", "cer", "wer", "exact"] {
        let arguments = ["score", "--reference", &reference, "--metrics", metric];
        let wrong = run(&arguments, "one line\n");
        wrong.failed(1, &["the hypotheses have 1 lines, but the references have 2"]);
        run(&arguments, "").failed(1, &["error: "]);
    }
    let other = file(&folder, "other.txt", "one line\n");
    let arguments = ["score", "--reference", &reference, "--reference", &other];
    run(&arguments, HYPOTHESES).failed(1, &["reference 1 has 2 lines, but reference 2 has 1"]);
    let missing = run(&["score", "--reference", "no/such.txt"], HYPOTHESES);
    missing.failed(1, &["cannot read `no/such.txt`"]);
}
