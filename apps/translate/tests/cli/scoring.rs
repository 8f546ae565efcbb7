use std::{collections::HashMap, fs, ops::Range};

use serde_json::Value;

use crate::{command, file, run, translate};

/// The first line has two substitutions and one deletion; the second is correct.
const HYPOTHESES: &str = "A dog runs over the green grass.\nTwo men are cooking.\n";
const REFERENCES: &str = "A dog is running across the green grass.\nTwo men are cooking.\n";

/// Splits a line of scores into name, value and details, without the signature.
fn parts(line: &str) -> (&str, f64, &str) {
    let (name, rest) = line.split_once('|').unwrap();
    let (_signature, rest) = rest.split_once(" = ").unwrap();
    let (value, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    (name, value.parse().unwrap(), rest)
}

/// Errors in 8 + 4 words: `runs over` for `is running across` is 2 substitutions and 1 deletion.
#[test]
fn all_metrics_are_printed_in_the_given_order() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    let arguments =
        ["score", "--reference", &reference, "--metrics", "wer,bleu,exact,cer,ter,chrf,chrf++"];
    let found = run(&arguments, HYPOTHESES).printed();
    let lines: Vec<_> = found.lines().map(parts).collect();
    let names: Vec<&str> = lines.iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["WER", "BLEU", "exact match", "CER", "TER", "chrF2", "chrF2++"]);
    assert_eq!((lines[0].1, lines[2].1, lines[4].1), (25.0, 50.0, 25.0), "{found}");
    // The values are aligned.
    let columns: Vec<_> = found.lines().map(|line| line.find(" = ")).collect();
    assert!(columns.iter().all(|column| *column == columns[0]), "{found}");
}

/// Name, whether the hypotheses are standard input, hypotheses, references, and scores by metric; none
/// if the program rejects the input.
type Recorded = (String, bool, String, String, Option<HashMap<String, f64>>);

/// Runs recorded by `fixtures/generate_scores.py`: byte order marks, carriage returns, white space at the
/// ends of lines, and a missing last line end, in files and on standard input.
#[test]
fn unusual_line_ends_and_byte_order_marks_are_scored_as_by_sacrebleu() {
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/scores.json"));
    let cases: Vec<Recorded> = serde_json::from_str(&text.unwrap()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, standard_input, hypotheses, references, expected) in cases {
        let reference = file(&folder, "references", references);
        let hypothesis = file(&folder, "hypotheses", &hypotheses);
        let mut arguments = vec!["score", "--reference", &reference];
        arguments.extend(["--metrics", "bleu,chrf,ter", "--width", "6", "--json"]);
        if !standard_input {
            arguments.extend(["--hypothesis", &hypothesis]);
        }
        let found = run(&arguments, if standard_input { hypotheses.as_str() } else { "" });
        let what = format!("{name}, standard input: {standard_input}");
        // Both programs reject different numbers of lines.
        let Some(expected) = expected else {
            found.failed(1, &["the hypotheses have"]);
            continue;
        };
        let found: Value = serde_json::from_str(&found.printed()).unwrap();
        for score in found.as_array().unwrap() {
            let metric = score["name"].as_str().unwrap();
            assert_eq!(score["score"].as_f64(), Some(expected[metric]), "{what}: {metric}");
        }
        assert_eq!(found.as_array().unwrap().len(), expected.len(), "{what}");
    }
}

#[test]
fn json_contains_the_printed_numbers() {
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
    let printed = run(&arguments, "").printed();
    let json = run(&[&arguments[..], &["--json"]].concat(), "").printed();
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
        let printed = line.split_once(" = ").unwrap().0;
        assert_eq!(printed.trim_end(), format!("{name}|{signature}"));
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
fn correct_translations_have_the_best_scores() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    let arguments = ["score", "--reference", &reference, "--metrics", "bleu,cer,wer,exact"];
    let found = run(&arguments, REFERENCES).printed();
    let values: Vec<f64> = found.lines().map(|line| parts(line).1).collect();
    assert_eq!(values, [100.0, 0.0, 0.0, 100.0]);
}

#[test]
fn bleu_accepts_several_references_and_its_options_reach_the_signature() {
    let folder = tempfile::tempdir().unwrap();
    let first = file(&folder, "first.txt", REFERENCES);
    let second = file(&folder, "second.txt", HYPOTHESES.to_uppercase());
    let references = ["score", "--reference", &first, "--reference", &second];
    let one = run(&references, HYPOTHESES).printed();
    assert!(parts(&one).1 < 100.0, "{one}");
    let options = ["--lowercase", "--tokenize", "none", "--json"];
    let json = run(&[&references[..], &options].concat(), HYPOTHESES).printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["score"].as_f64(), Some(100.0));
    let signature = json[0]["signature"].as_str().unwrap();
    assert!(signature.starts_with("nrefs:2|case:lc|eff:no|tok:none|"), "{signature}");
}

#[test]
fn files_of_different_lengths_are_refused_with_both_numbers() {
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

/// Returns the signature of a metric with options.
fn signature(metric: &str, options: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    let arguments = ["score", "--json", "--reference", &reference, "--metrics", metric];
    let json = run(&[&arguments[..], options].concat(), HYPOTHESES).printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    json[0]["signature"].as_str().unwrap().to_owned()
}

#[test]
fn each_option_reaches_the_signature() {
    for (metric, options, part) in [
        ("bleu", "--tokenize intl", "|tok:intl|"),
        ("bleu", "--tokenize zh", "|tok:zh|"),
        ("bleu", "--tokenize char", "|tok:char|"),
        ("bleu", "--lowercase", "|case:lc|"),
        ("bleu", "--smooth-method none", "|smooth:none|"),
        ("bleu", "--smooth-method floor", "|smooth:floor[0.10]|"),
        ("bleu", "--smooth-method floor --smooth-value 0.25", "|smooth:floor[0.25]|"),
        ("bleu", "--smooth-method add-k", "|smooth:add-k[1.00]|"),
        ("bleu", "--effective-order", "|eff:yes|"),
        ("chrf", "--chrf-char-order 4", "|nc:4|"),
        ("chrf", "--chrf-word-order 1", "|nw:1|"),
        ("chrf++", "--chrf-whitespace", "|nw:2|space:yes|"),
        ("chrf", "--chrf-lowercase", "|case:lc|"),
        ("chrf", "--chrf-eps-smoothing", "|eff:no|"),
        ("ter", "--ter-normalized", "|norm:yes|"),
        ("ter", "--ter-no-punct", "|punct:no|"),
        ("ter", "--ter-asian-support", "|asian:yes|"),
        ("ter", "--ter-case-sensitive", "|case:mixed|"),
        ("cer", "--wer-lowercase", "|case:lc|"),
        ("wer", "--wer-no-punct", "|punct:no|"),
        ("ter", "--confidence --seed 7", "|bs:1000|seed:7|"),
        ("ter", "--confidence --confidence-n 50", "|bs:50|seed:12345|"),
    ] {
        let found = signature(metric, &options.split(' ').collect::<Vec<_>>());
        assert!(found.contains(part), "{metric} {options}: {found}");
    }
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", REFERENCES);
    let arguments = ["score", "--metrics", "chrf", "--chrf-beta", "3", "--reference", &reference];
    let found = run(&arguments, HYPOTHESES).printed();
    assert!(found.starts_with("chrF3|"), "{found}");
}

#[test]
fn contradictions_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let [reference, first, second] =
        ["reference", "first", "second"].map(|name| file(&folder, name, HYPOTHESES));
    for (options, words) in [
        (vec!["--metrics", "blue"], &["blue", "bleu"][..]),
        (vec!["--tokenize", "14a"], &["14a", "13a"]),
        (vec!["--paired", "bootstrap"], &["`--paired`", "at least 2 hypothesis files, found 1"]),
        (vec!["--paired", "bootstrap", "--hypothesis", &first], &["found 1"]),
        (vec!["--hypothesis", &first, &first], &["is given twice", &first]),
        (
            vec!["--sentence-level", "--hypothesis", &first, &second],
            &["`--sentence-level` conflicts with 2 hypothesis files"],
        ),
        (
            vec!["--sentence-level", "--confidence"],
            &["`--sentence-level` conflicts with `--confidence`"],
        ),
        (
            vec!["--hypothesis", &first, &second, "--paired", "bootstrap", "--confidence"],
            &["`--confidence` conflicts with `--paired bootstrap`"],
        ),
        (vec!["--seed", "1"], &["`--seed` has no effect without"]),
        (vec!["--confidence-n", "10"], &["--confidence"]),
        (vec!["--confidence", "--confidence-n", "0"], &["--confidence-n"]),
        (vec!["--smooth-value", "0.1"], &["`--smooth-value` has no effect without"]),
        (vec!["--ter-normalized"], &["`--ter-normalized` has no effect without `ter`"]),
        (
            vec!["--metrics", "chrf++", "--chrf-word-order", "1"],
            &["`--chrf-word-order` has no effect without `chrf` in"],
        ),
        (vec!["--metrics", "ter", "--lowercase"], &["`--lowercase` has no effect without `bleu`"]),
        (vec!["--source", &first], &["--model"]),
        (vec!["--model", "m"], &["--source"]),
        (vec!["--beam", "2"], &["--model"]),
        (vec!["--no-repeat-ngram", "2"], &["--model"]),
        (vec!["--ensemble", "m"], &["--model"]),
        (vec!["--threads", "2"], &["--model"]),
        (
            vec!["--hypothesis", &first, "--beam", "2"],
            &["`--hypothesis` conflicts with search options"],
        ),
        (vec!["--model", "m", "--source", &first, "--hypothesis", &first], &["--hypothesis"]),
    ] {
        let arguments = [&["score", "--reference", &reference][..], &options].concat();
        run(&arguments, HYPOTHESES).failed(2, words);
    }
    let arguments = ["score", "--reference", &reference, "--smooth-method", "floor"];
    let arguments = [&arguments[..], &["--smooth-value", "-1"]].concat();
    run(&arguments, HYPOTHESES).failed(2, &["smooth-value"]);
    let arguments =
        ["score", "--reference", &reference, "--metrics", "chrf", "--chrf-char-order", "0"];
    run(&arguments, HYPOTHESES).failed(1, &["expected at least one of them above 0"]);
}

/// Twenty lines, of which those of `correct` equal the reference.
fn lines(correct: Range<usize>) -> String {
    (0..20)
        .map(|n| if correct.contains(&n) { format!("line {n}\n") } else { "wrong\n".into() })
        .collect()
}

#[test]
fn the_confidence_interval_is_printed_beside_the_score() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", lines(0..20));
    let arguments = ["score", "--reference", &reference, "--metrics", "exact", "--confidence"];
    let found = run(&arguments, lines(0..10)).printed();
    assert!(found.contains(" = 50.00 (μ = "), "{found}");
    assert!(found.contains(" ± "), "{found}");
    let json = run(&[&arguments[..], &["--json"]].concat(), lines(0..10)).printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    // About two standard deviations of 20 tosses of a coin, √(0.25 / 20) = 11 %.
    let width = json[0]["confidence_var"].as_f64().unwrap();
    assert!((15.0..=30.0).contains(&width), "{width}");
    assert!((json[0]["confidence_mean"].as_f64().unwrap() - 50.0).abs() < 2.0);
    assert_eq!(json[0]["bs"], "1000");
}

#[test]
fn systems_are_compared_with_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", lines(0..20));
    let [base, better, like] = [("base", 0..5), ("better", 1..20), ("like", 2..8)]
        .map(|(name, right)| file(&folder, name, lines(right)));
    let arguments = ["score", "--reference", &reference, "--metrics", "exact,chrf"];
    let systems = ["--hypothesis", &base, &better, &like];
    let plain = run(&[&arguments[..], &systems].concat(), "").printed();
    let rows: Vec<&str> = plain.lines().collect();
    assert!(rows[0].starts_with("system ") && rows[0].contains("exact match"), "{plain}");
    assert!(rows[1].starts_with(&base) && rows[1].contains("25.00"), "{plain}");
    assert!(rows[2].starts_with(&better) && rows[2].contains("95.00"), "{plain}");
    assert!(plain.contains("\nchrF2         nrefs:1|case:mixed|"), "{plain}");

    for (test, key) in [("bootstrap", "bs:1000"), ("randomization", "ar:10000")] {
        let arguments = [&arguments[..], &systems, &["--paired", test]].concat();
        let text = run(&arguments, "").printed();
        assert!(text.lines().nth(2).unwrap().contains('*'), "{text}");
        assert!(!text.lines().nth(3).unwrap().contains('*'), "{text}");
        assert!(text.contains(&format!("nrefs:1|{key}|seed:12345|")), "{text}");
        let json = run(&[&arguments[..], &["--json"]].concat(), "").printed();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json[0]["system"], base.as_str());
        assert_eq!(json[0]["exact match"]["p_value"], Value::Null);
        assert!(json[1]["exact match"]["p_value"].as_f64().unwrap() < 0.05);
        assert!(json[2]["chrF2"]["p_value"].as_f64().unwrap() > 0.05);
        assert_eq!(json[1]["chrF2"]["ci"].is_null(), test == "randomization");
    }
    let arguments = [&arguments[..], &systems, &["--paired", "randomization"]].concat();
    let arguments = [&arguments[..], &["--paired-n", "20", "--confidence"]].concat();
    let text = run(&arguments, "").printed();
    assert!(text.contains("nrefs:1|bs:1000|ar:20|seed:12345|") && text.contains("μ"), "{text}");
}

/// "yes" is correct although it has no bigrams.
#[test]
fn each_line_can_be_scored_on_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", "yes\nno\n");
    let arguments =
        ["score", "--reference", &reference, "--sentence-level", "--metrics", "bleu,ter"];
    let found = run(&arguments, "yes\nyes\n").printed();
    let rows: Vec<&str> = found.lines().collect();
    assert!(rows[0].starts_with("BLEU|nrefs:1|case:mixed|eff:yes|"), "{found}");
    assert_eq!(rows[1..], ["100.00\t0.00", "0.00\t100.00"]);
    let json = run(&[&arguments[..], &["--json"]].concat(), "yes\nyes\n").printed();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[1]["name"], "TER");
    assert_eq!(json[1]["scores"], serde_json::json!([0.0, 100.0]));
}

#[test]
fn trailing_white_space_is_not_scored() {
    let folder = tempfile::tempdir().unwrap();
    let reference = file(&folder, "reference.txt", "one two\r\n\r\nthree \t\r\n");
    let arguments = ["score", "--reference", &reference, "--metrics", "chrf,ter,exact"];
    let arguments = [&arguments[..], &["--chrf-whitespace", "--width", "1"]].concat();
    let found = run(&arguments, "one two\n \nthree\n").printed();
    let values: Vec<f64> = found.lines().map(|line| parts(line).1).collect();
    assert_eq!(values, [100.0, 0.0, 100.0], "{found}");
}

/// Equals `translate` followed by `translate score`, with any search options.
#[test]
fn a_model_is_scored_in_one_command() {
    let folder = tempfile::tempdir().unwrap();
    let source = file(&folder, "source.txt", "one two\n\nthree four five\n");
    let reference = file(&folder, "reference.txt", "two one\n\nfive\n");
    let metrics = ["--reference", &reference, "--metrics", "chrf,ter"];
    let output = folder.path().join("output.txt");
    let options: [&[&str]; 4] = [
        &[],
        &["--beam", "2", "--min-len", "5", "--no-repeat-ngram", "1", "--batch-tokens", "1"],
        &["--sample", "--top-k", "3"],
        &["--sample", "--seed", "7"],
    ];
    for options in options {
        let input = [&["--input", &source][..], options].concat();
        let translations = translate(&input, "").printed();
        let hypothesis = file(&folder, "hypothesis.txt", &translations);
        let expected =
            run(&[&["score", "--hypothesis", &hypothesis], &metrics[..]].concat(), "").printed();
        let files = ["--source", &source, "--output", output.to_str().unwrap()];
        let found = command("score", &[&files[..], &metrics, options].concat());
        assert_eq!(found.printed(), expected, "{options:?}");
        assert_eq!(fs::read_to_string(&output).unwrap(), translations, "{options:?}");
    }

    let short = file(&folder, "short.txt", "two one\n");
    let found = command("score", &["--source", &source, "--reference", &short]);
    found.failed(1, &["has 3 lines, but", "has 1"]);
}

/// The p-value is that of sacreBLEU, without the mark of significance.
#[test]
fn equal_outputs_are_not_significant() {
    let folder = tempfile::tempdir().unwrap();
    let lines = "the cat sleeps on the table .\nthe dog eats .\n".repeat(3);
    let reference =
        file(&folder, "reference", b"the cat sleeps on a table\na dog eats\n".repeat(3).as_slice());
    let [first, copy] = ["first", "copy"].map(|name| file(&folder, name, lines.as_bytes()));
    for test in ["bootstrap", "randomization"] {
        let systems = ["--hypothesis", &first, &copy, "--paired", test];
        let metrics = ["--metrics", "bleu,chrf,ter"];
        let arguments = [&["score", "--reference", &reference][..], &systems, &metrics].concat();
        let printed = run(&arguments, "").printed();
        assert_eq!(printed.matches("(the outputs are equal)").count(), 3, "{printed}");
        assert!(!printed.contains('*'), "{printed}");
    }
}

/// As sacreBLEU, from 100 lines.
#[test]
fn tokenized_text_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let lines = |count: usize, line: &str| format!("{line}\n").repeat(count);
    let reference = file(&folder, "reference", lines(100, "It is.").as_bytes());
    let score = |hypothesis: &str, options: &[&str]| {
        let path = file(&folder, "hypothesis", hypothesis.as_bytes());
        let arguments = ["score", "--reference", &reference, "--hypothesis", &path];
        run(&[&arguments[..], options].concat(), "").stderr
    };
    let tokenized = lines(100, "It is .");
    assert!(score(&tokenized, &[]).contains("has 100 lines that end in a tokenized period"));
    assert_eq!(score(&tokenized, &["--tokenize", "none"]), "");
    assert_eq!(score(&tokenized, &["--metrics", "chrf"]), "");
    let fewer = lines(99, "It is .") + &lines(1, "It is.");
    assert_eq!(score(&fewer, &[]), "");
}

#[test]
fn tokenizers_that_need_a_model_name_a_substitute() {
    for name in ["ja-mecab", "ko-mecab", "flores200", "spm"] {
        let wrong = run(&["score", "--reference", "a", "--tokenize", name], "");
        let needs = format!("hint: `{name}` needs");
        wrong.failed(2, &[&needs, "`--tokenize char`", "`--metrics chrf`"]);
    }
    let wrong = run(&["score", "--reference", "a", "--tokenize", "other"], "");
    assert_eq!(wrong.code, Some(2));
    assert!(!wrong.stderr.contains("hint: "), "{}", wrong.stderr);
}
