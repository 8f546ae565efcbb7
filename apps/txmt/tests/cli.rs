//! Tests of the program `txmt`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy recognizes test functions as tests, but not the functions they call"
)]

use std::{
    fs,
    process::{Command, Output},
};

use tempfile::TempDir;

/// Runs `txmt` in a folder.
fn txmt(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_txmt"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// Runs `txmt`, which must be successful, and returns standard output and standard error.
fn run(folder: &TempDir, arguments: &[&str]) -> (String, String) {
    let Output { status, stdout, stderr } = txmt(folder, arguments);
    let (stdout, stderr) = (text(stdout), text(stderr));
    assert!(status.success(), "{arguments:?}: {stderr}");
    (stdout, stderr)
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// A training run of a few updates.
const TRAIN: [&str; 11] = [
    "train",
    "--recipe",
    "toy",
    "--set",
    "train.max_steps=2",
    "--set",
    "validation.sentences=2",
    "--set",
    "model.d_model=16",
    "--device",
    "cpu",
];

#[test]
fn the_printed_commands_work_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (_, log) = run(&folder, &[&TRAIN[..], &["--run", "my run"]].concat());
    let tried = log
        .lines()
        .find_map(|line| line.strip_prefix("  ").filter(|it| it.contains(" translate --model")));
    let tried = tried.unwrap_or_else(|| panic!("no command in {log}"));
    assert!(tried.contains("txmt translate --model 'my run' --text"), "{tried}");
    let shell = Command::new("sh").current_dir(&folder).args(["-c", tried]).output().unwrap();
    assert!(shell.status.success(), "{}", text(shell.stderr));
    let failed = txmt(&folder, &[&TRAIN[..], &["--run", "my run"]].concat());
    let problem = text(failed.stderr);
    assert!(problem.contains("txmt train --resume 'my run'`"), "{problem}");
}

#[test]
fn a_sweep_starts_runs_of_the_same_program() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--seeds", "1", "--out", "sweep", "--vary", "train.max_steps=1,2", "--"];
    let (table, log) = run(&folder, &[&["train", "sweep"], &options[..], &TRAIN[1..]].concat());
    assert!(table.contains("max_steps"), "{table}{log}");
    assert_eq!(
        fs::read_dir(folder.path().join("sweep"))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().is_dir())
            .count(),
        2
    );
}

#[test]
fn commands_of_translate_are_commands_of_txmt() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "the cat sleeps on the mat\n").unwrap();
    let score = ["score", "--reference", "a", "--hypothesis", "a", "--metrics", "bleu"];
    let direct = run(&folder, &score).0;
    assert!(direct.contains("100"), "{direct}");
    assert_eq!(run(&folder, &[&["translate"], &score[..]].concat()).0, direct);
    let failed = txmt(&folder, &["translate", "--model", "a", "--text", "--json"]);
    assert_eq!(failed.status.code(), Some(2));
    let failed = txmt(&folder, &["translate", "--model", "a", "--text", "b"]);
    let problem = text(failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{problem}");
    assert!(problem.contains("`txmt models get`"), "{problem}");
}

#[test]
fn completions_and_manual_pages_have_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let script = run(&folder, &["completions", "bash"]).0;
    for part in ["complete -F _txmt", "txmt__subcmd__train", "txmt__subcmd__serve"] {
        assert!(script.contains(part), "{part}: {script}");
    }
    run(&folder, &["manual", "--output", "man"]);
    let page = |name: &str| folder.path().join("man").join(name);
    for name in ["txmt.1", "txmt-train.1", "txmt-translate.1", "txmt-score.1", "txmt-serve.1"] {
        assert!(page(name).is_file(), "{name}");
    }
    assert!(!page("txmt-translate-score.1").exists());
}
