use std::fs;

use serde_json::Value;

use super::resuming::assert_same;
use crate::{FILES, Workshop, set};

/// Creates a corpus with unusual spaces in one pair, an empty pair and a duplicate.
fn untidy() -> Workshop {
    let workshop = Workshop::new();
    let mut tsv = String::from("two\u{a0} words \tdue parole\nempty\t\ntwice\tdue volte\n");
    for word in ["one", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twice"] {
        tsv += &format!("{word}\tdue volte{}\n", if word == "twice" { "" } else { word });
    }
    workshop.write("untidy.tsv", tsv);
    workshop
}

#[test]
fn cleaning_is_reported_and_recorded() {
    let workshop = untidy();
    let drop = ["--set", "data.clean.duplicates=drop", "--set", "data.valid_share=0.2"];
    let run = workshop.train_tiny_on(&["--file", "untidy.tsv"], "run", &drop).trained();
    run.logged(&[
        "cleaning: 13 pairs in, 11 out\n",
        "  irregular white space                     1 changed (first: pair 1)\n",
        "  empty side                                1 dropped (first: pair 2)\n",
        "  duplicate of an earlier pair              1 dropped (first: pair 13)\n",
        "  off: markup, min_script_share\n",
        "waiting for data: ",
    ]);
    let provenance = fs::read_to_string(workshop.path("run/provenance.toml")).unwrap();
    assert!(provenance.contains("step = \"duplicates\""), "{provenance}");
    let metrics = fs::read_to_string(workshop.path("run/metrics.jsonl")).unwrap();
    assert!(metrics.contains("\"validation\""), "{metrics}");

    let off = set(&[
        "data.clean.unicode=none",
        "data.clean.spaces=false",
        "data.clean.max_chars=0",
        "data.clean.max_ratio=0",
    ]);
    let run = workshop.train_tiny_on(&["--file", "untidy.tsv"], "off", &off).trained();
    run.logged(&["  off: unicode, markup, spaces, max_chars, max_ratio, min_script_share\n"]);
    let wrong = ["--set", "data.clean.spaces=maybe"];
    workshop.train_tiny_on(&["--file", "untidy.tsv"], "wrong", &wrong).failed(2, &["spaces"]);
}

/// Updates from memory and from disk are equal, and so is a run that was interrupted.
#[test]
fn a_run_from_prepared_data_equals_one_from_memory_and_resumes() {
    let workshop = Workshop::new();
    let more = ["--set", "train.epochs=3", "--set", "train.word_dropout=0.1"];
    workshop.train_tiny("memory", &more).trained();
    let disk = [&more[..], &["--set", "data.prepared=corpus"]].concat();
    let run = workshop.train_tiny("disk", &disk).trained();
    run.logged(&["prepared data: corpus (created)\n", "training: 32 pairs"]);
    assert!(workshop.weights("memory") == workshop.weights("disk"), "the weights differ");

    let part = [&disk[..], &["--set", "train.max_steps=5"]].concat();
    let run = workshop.train_tiny("parts", &part).trained();
    run.logged(&["prepared data: corpus (reused)\n"]);
    let run = workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    run.logged(&["resuming after epoch 1 and 1 batches (update 5)"]);
    assert_same(&workshop, "disk", "parts");

    // The files are not needed any more, but other settings and other content are refused.
    fs::rename(workshop.path("source.txt"), workshop.path("away.txt")).unwrap();
    workshop.train_tiny("alone", &disk).trained();
    fs::rename(workshop.path("away.txt"), workshop.path("source.txt")).unwrap();
    let other = [&disk[..], &["--set", "tokenizer.min_frequency=2"]].concat();
    workshop.train_tiny("other", &other).failed(
        1,
        &[
            "the prepared data in `corpus` is stale: `tokenizer.min_frequency` is 2 now, was 1",
            "hint: delete the folder",
        ],
    );
    workshop.append("source.txt", "more\n");
    workshop.train_tiny("changed", &disk).failed(1, &["`source.txt` has changed: "]);

    let ids = workshop.path("corpus/train.ids");
    let mut bytes = fs::read(&ids).unwrap();
    bytes[10] ^= 1;
    fs::write(&ids, bytes).unwrap();
    workshop.train_tiny("damaged", &disk).failed(1, &["`train.ids` is damaged: its SHA-256 is "]);
}

#[test]
fn data_is_prepared_without_training() {
    let workshop = Workshop::new();
    let arguments =
        [&["data", "prepare", "--output", "corpus"], &FILES[..], &set(&["tokenizer.kind=word"])];
    let run = workshop.train(&arguments.concat()).trained();
    run.logged(&["cleaning: 36 pairs in, 36 out\n", "32 training and 4 validation pairs, "]);
    assert!(workshop.path("corpus/corpus.json").is_file());
    let again = workshop.train(&arguments.concat()).trained();
    again.logged(&["prepared data: corpus (reused)\n"]);
}

#[test]
fn statistics_are_shown_as_text_and_as_json() {
    let workshop = Workshop::new();
    let word = set(&["tokenizer.kind=word"]);
    let arguments = [&["data", "stats"], &FILES[..], &word].concat();
    let run = workshop.train(&arguments);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for line in ["training source ", "█", "rarest target tokens: ", "near duplicates of either: 0"]
    {
        assert!(run.stdout.contains(line), "no `{line}` in:\n{}", run.stdout);
    }
    let run = workshop.train(&[&arguments[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    // Six words on each side and four special tokens, in one vocabulary.
    assert_eq!(json["training"]["source"]["vocabulary"]["size"], 16);
    assert_eq!(json["training"]["pairs"], 32);
    assert_eq!(json["overlap"]["validation"], 4);
    assert_eq!(json["overlap"]["near"], 0);
}

/// Pairs that differ in a number from a validation pair are reported or removed.
#[test]
fn near_duplicates_of_validation_pairs_are_reported_or_removed() {
    let workshop = Workshop::new();
    workshop.write("valid.tsv", "page 7\tpagina 7\nsomething new\tqualcosa di nuovo\n");
    workshop.append("source.txt", "page 1\npage 2\n");
    let (_, target) = crate::corpus();
    workshop.write("target.txt.gz", crate::gzip((target + "pagina 1\npagina 2\n").as_bytes()));
    let valid = ["--valid-file", "valid.tsv"];
    let run = workshop.train_tiny("reported", &valid).trained();
    run.logged(&["validation: 1 of 2 pairs have a near duplicate in training (first: 1); `data."]);
    let drop = [&valid[..], &["--set", "data.overlap=drop"]].concat();
    let run = workshop.train_tiny("left-out", &drop).trained();
    run.logged(&["2 training pairs dropped for that reason\n", "training: 36 pairs"]);
}

#[test]
fn bpe_dropout_resumes_exactly_and_needs_bpe() {
    let workshop = Workshop::new();
    let settings = [
        "tokenizer.kind=bpe",
        "tokenizer.vocab_size=60",
        "train.bpe_dropout=0.2",
        "train.epochs=3",
    ];
    let train = |run: &str, more: &[&str]| {
        workshop.train_tiny(run, &[&set(&settings)[..], more].concat()).trained();
    };
    train("whole", &[]);
    train("parts", &["--set", "train.max_steps=6"]);
    workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    assert_same(&workshop, "whole", "parts");
    train("without", &["--set", "train.bpe_dropout=0"]);
    assert!(workshop.weights("whole") != workshop.weights("without"));
    let words = workshop.train_tiny("words", &["--set", "train.bpe_dropout=0.1"]);
    words.failed(2, &["[train] `bpe_dropout` needs `tokenizer.kind` = \"bpe\""]);
}

/// A new run uses the tokenizer of an earlier one.
#[test]
fn a_tokenizer_is_reused() {
    let workshop = Workshop::new();
    workshop.train_tiny("first", &[]).trained();
    let file = ["--set", "tokenizer.file=first/target.tokenizer.json"];
    workshop.train_tiny("second", &file).trained().logged(&["vocabulary: 16 source and 16 target"]);
    let file = ["--set", "tokenizer.file=source.txt"];
    let run = workshop.train_tiny("third", &file);
    run.failed(1, &["`source.txt` is not a usable tokenizer: it is not a SentencePiece model"]);
}
