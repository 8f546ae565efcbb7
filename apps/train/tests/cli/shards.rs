//! Prepared corpora of several files.

use std::fs;

use super::{corpora::lines, resuming::assert_same};
use crate::{Run, Workshop, set};

/// Three files with sources and targets in `part-N.tsv`, and all their pairs in `all.tsv`.
fn workshop() -> Workshop {
    let workshop = Workshop::new();
    let parts = [
        lines(["one", "two", "three"], "uno", 12),
        lines(["ten", "two", "three"], "dieci", 9),
        lines(["four", "five", "six"], "quattro", 15),
    ];
    workshop.write("all.tsv", parts.concat());
    for (number, part) in parts.into_iter().enumerate() {
        workshop.write(&format!("part-{number}.tsv"), part);
    }
    workshop.write("valid.tsv", "one six\tuno sei\ntwo five\tdue cinque\n");
    workshop
}

const PARTS: [&str; 4] = ["--file", "part-*.tsv", "--valid-file", "valid.tsv"];
const ALL: [&str; 4] = ["--file", "all.tsv", "--valid-file", "valid.tsv"];

fn prepare(workshop: &Workshop, folder: &str, files: &[&str], more: &[&str]) -> Run {
    let start = ["data", "prepare", "--output", folder];
    let settings = set(&["tokenizer.kind=word", "data.clean.max_ratio=0", "model.max_len=16"]);
    workshop.train(&[&start[..], files, &settings, more].concat())
}

/// Shards and one folder with the same pairs give the same updates; a run on shards resumes exactly, and
/// does not need their input files.
#[test]
fn a_run_on_shards_equals_one_on_a_single_corpus_and_resumes() {
    let workshop = workshop();
    let more = set(&["train.epochs=3", "train.word_dropout=0.1", "data.clean.max_ratio=0"]);
    let train = |run: &str, files: &[&str], more: &[&str]| workshop.train_tiny_on(files, run, more);
    let single = [&more[..], &["--set", "data.prepared=single"]].concat();
    train("single-run", &ALL, &single).trained();
    let shards = [&more[..], &["--set", "data.prepared=shards"]].concat();
    let run = train("whole", &PARTS, &shards).trained();
    run.logged(&[
        "shard 1 of 3: 12 training pairs (part-0.tsv)\n",
        "cleaning: 36 pairs in, 36 out\n",
        "prepared data: shards (created)\n",
        "training: 36 pairs",
    ]);
    assert!(workshop.weights("single-run") == workshop.weights("whole"), "the weights differ");

    let part = [&shards[..], &["--set", "train.max_steps=5"]].concat();
    train("parts", &PARTS, &part).trained().logged(&["prepared data: shards (reused)\n"]);
    for number in 0..3 {
        fs::remove_file(workshop.path(format!("part-{number}.tsv"))).unwrap();
    }
    workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    assert_same(&workshop, "whole", "parts");

    let ids = workshop.path("shards/shard-00001/train.ids");
    let mut bytes = fs::read(&ids).unwrap();
    bytes[10] ^= 1;
    fs::write(&ids, bytes).unwrap();
    train("damaged", &PARTS, &shards).failed(
        1,
        &["`shards` is not usable", "`shard-00001/train.ids` is damaged: its SHA-256 is "],
    );
}

/// A shard that was deleted is prepared again, and two processes prepare parts at the same time.
#[test]
fn shards_are_prepared_by_several_processes_and_again() {
    let workshop = workshop();
    prepare(&workshop, "whole", &PARTS, &[]).trained().logged(&["36 training and 2 validation"]);
    let start = |part: &str| {
        let start = ["data", "prepare", "--output", "shared", "--shard", part, "--quiet"];
        let settings = set(&["tokenizer.kind=word", "data.clean.max_ratio=0", "model.max_len=16"]);
        workshop.command(&[&start, &PARTS[..], &settings].concat()).spawn().unwrap()
    };
    for mut process in ["1/2", "2/2"].map(start) {
        assert!(process.wait().unwrap().success());
    }
    let run = prepare(&workshop, "shared", &PARTS, &["--shard", "2/2"]).trained();
    assert_eq!(run.stderr, "part 2/2 of the shards is complete\n");
    let run = prepare(&workshop, "shared", &PARTS, &[]).trained();
    assert!(!run.stderr.contains("shard "), "{}", run.stderr);
    let manifest = |folder: &str| fs::read_to_string(workshop.path(folder).join("corpus.json"));
    assert_eq!(manifest("shared").unwrap(), manifest("whole").unwrap());

    fs::remove_dir_all(workshop.path("shared/shard-00002")).unwrap();
    let run = prepare(&workshop, "shared", &PARTS, &[]).trained();
    run.logged(&["shard 3 of 3: 15 training pairs", "prepared data: shared (created)\n"]);
    assert!(!run.stderr.contains("shard 1 of 3"), "{}", run.stderr);
    assert_eq!(manifest("shared").unwrap(), manifest("whole").unwrap());

    let other = prepare(&workshop, "shared", &PARTS, &["--set", "data.vocabulary_pairs=6"]);
    other.failed(1, &["is stale: `data.vocabulary_pairs` is 6 now, was null"]);
    // Two pairs of each file: the words of the others are unknown.
    let few = prepare(&workshop, "few", &PARTS, &["--set", "data.vocabulary_pairs=6"]).trained();
    few.logged(&["vocabulary from 6 of the first 6 pairs of 3 shards\n"]);
}

#[test]
fn patterns_need_validation_files_and_matching_files() {
    let workshop = workshop();
    let run = prepare(&workshop, "corpus", &["--file", "part-*.tsv"], &[]);
    run.failed(2, &["[data] a pattern of prepared files needs `valid_file`"]);
    let run = prepare(&workshop, "corpus", &PARTS, &["--set", "data.train_pairs=3"]);
    run.failed(2, &["[data] `train_pairs` is not available with a pattern of prepared files"]);
    let run = prepare(&workshop, "corpus", &ALL, &["--shard", "1/2"]);
    run.failed(2, &["[data] parts of the shards need a pattern of training files"]);
    prepare(&workshop, "corpus", &PARTS, &["--shard", "3/2"]).failed(2, &["expected I/N"]);
    let none = ["--file", "none-*.tsv", "--valid-file", "valid.tsv"];
    prepare(&workshop, "corpus", &none, &[]).failed(1, &["`none-*.tsv`: no file matches"]);
    let sides =
        ["--source", "part-*.tsv", "--target", "part-[01].tsv", "--valid-file", "valid.tsv"];
    let run = prepare(&workshop, "corpus", &sides, &[]);
    run.failed(1, &["it names 3 files, and `part-[01].tsv` names 2"]);
    workshop.write("part-1.tsv", "only\t\n");
    let run = prepare(&workshop, "corpus", &PARTS, &[]);
    run.failed(1, &["cannot prepare `part-1.tsv`"]);
}
