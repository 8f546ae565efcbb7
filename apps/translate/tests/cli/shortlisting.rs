use std::fs;

use tempfile::TempDir;

use super::tasks::path;
use crate::{bundle, command, file, gzip, model, run, translate};

const LINES: &str = "one two three\nseven\n\nsix five four three two one\n";

/// Writes a shortlist with options for the test bundle.
fn shortlist(folder: &TempDir, arguments: &[&str]) -> String {
    let source = file(folder, "source.gz", gzip(LINES.as_bytes()));
    let target = file(folder, "target", LINES.to_uppercase().to_lowercase());
    let output = folder.path().join("lex").to_str().unwrap().to_owned();
    let pairs = ["--source", &source, "--target", &target, "--output", &output];
    assert_eq!(command("shortlist", &[&pairs, arguments].concat()).printed(), "");
    output
}

/// All words of the vocabulary are frequent, so the candidates are all tokens that can be generated.
#[test]
fn a_shortlist_of_all_tokens_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let all = shortlist(&folder, &[]);
    for arguments in [
        &["--beam", "1"][..],
        &["--beam", "3", "--n-best", "3", "--json"],
        &["--sample", "--samples", "2", "--seed", "3"],
        &["--prefix", "two"],
        &["--min-len", "2", "--renormalize"],
        &["--precision", "int8"],
    ] {
        let free = translate(arguments, LINES);
        let listed = translate(&[arguments, &["--shortlist", &all]].concat(), LINES);
        assert_eq!((listed.code, &listed.stdout), (Some(0), &free.stdout), "{}", listed.stderr);
    }
    let measured = command(
        "bench",
        &[
            "--device",
            "cpu",
            "--rounds",
            "1",
            "--sentences",
            "2",
            "--source-len",
            "4",
            "--target-len",
            "4",
            "--shortlist",
            &all,
        ],
    );
    assert_eq!(measured.code, Some(0), "{}", measured.stderr);
}

#[test]
fn a_short_list_restricts_the_output_for_any_threads() {
    let folder = tempfile::tempdir().unwrap();
    let few = shortlist(&folder, &["--candidates", "1", "--frequent", "1"]);
    let options = ["--beam", "3", "--shortlist", &few];
    let found = translate(&options, LINES).printed();
    assert_eq!(found.lines().count(), LINES.lines().count());
    for threads in ["1", "2", "3"] {
        let threads = ["--threads", threads, "--batch-size", "1"];
        assert_eq!(translate(&[&options, &threads[..]].concat(), LINES).printed(), found);
    }
    let first = fs::read(&few).unwrap();
    shortlist(&folder, &["--candidates", "1", "--frequent", "1"]);
    assert_eq!(fs::read(&few).unwrap(), first, "the same text gives the same file");
}

#[test]
fn a_shortlist_of_another_model_and_damaged_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = shortlist(&folder, &[]);
    let other = folder.path().join("other");
    bundle("eight nine").save(&other).unwrap();
    let wrong = run(&["--model", other.to_str().unwrap(), "--shortlist", &good], "eight\n");
    wrong.failed(1, &["other vocabularies", "hint: `translate shortlist` writes a shortlist"]);
    let bytes = fs::read(&good).unwrap();
    for (name, content) in [("half", &bytes[..bytes.len() / 2]), ("empty", &[]), ("text", b"a b")] {
        let path = file(&folder, name, content);
        let damaged = translate(&["--shortlist", &path], "one\n");
        damaged.failed(1, &[name, "is not a vocabulary shortlist", "hint: "]);
    }
    translate(&["--shortlist", "no/lex"], "one\n").failed(1, &["cannot read `no/lex`"]);
}

#[test]
fn contradictions_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let good = shortlist(&folder, &[]);
    let ensemble = translate(&["--shortlist", &good, "--ensemble", model()], "one\n");
    ensemble.failed(2, &["--shortlist", "--ensemble"]);
    for task in ["classify", "generate", "fill-mask"] {
        let wrong = run(&["--model", &path(task), "--shortlist", &good], "one\n");
        wrong.failed(2, &["`--shortlist` conflicts with the task of the bundle"]);
    }
    let bench = run(&["bench", "--model", &path("generate"), "--shortlist", &good], "");
    bench.failed(2, &["`--shortlist` conflicts with the task"]);
    let half = translate(&["--shortlist", &good, "--precision", "bf16"], "one\n");
    assert!([Some(1), Some(2)].contains(&half.code), "{}", half.stderr);
}

#[test]
fn bad_input_of_a_shortlist_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (file(&folder, "one", "one\n"), file(&folder, "two", "one\ntwo\n"));
    let output = folder.path().join("lex").to_str().unwrap().to_owned();
    let shortlist = |source: &str, target: &str, more: &[&str]| {
        let pairs = ["--source", source, "--target", target, "--output", &output];
        command("shortlist", &[&pairs, more].concat())
    };
    shortlist(&one, &two, &[]).failed(1, &["1", "2", "one", "two"]);
    shortlist("no/such", &two, &[]).failed(1, &["cannot read `no/such`"]);
    shortlist(&one, &one, &["--candidates", "0"]).failed(2, &["--candidates"]);
    shortlist(&one, &one, &["--alignment-layer", "9"]).failed(2, &["`--alignment-layer` = 9"]);
    let wrong = run(
        &[
            "shortlist",
            "--model",
            &path("generate"),
            "--source",
            &one,
            "--target",
            &one,
            "--output",
            &output,
        ],
        "",
    );
    wrong.failed(1, &["is a model for the task `generate`"]);
    assert!(!folder.path().join("lex").exists());
    let pairs = ["--source", &*one, "--target", &one];
    let there = folder.path().to_str().unwrap();
    command("shortlist", &[&pairs[..], &["--output", there]].concat()).failed(2, &["is a folder"]);
    let no_folder = [&pairs[..], &["--output", "no/such/lex"]].concat();
    command("shortlist", &no_folder).failed(1, &["cannot write `no/such/lex`"]);
}
