//! Tests of the program `train`: output, messages and exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "clippy recognizes test functions as tests, but not the functions they call"
)]

use std::{
    cmp::Ordering,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use tempfile::TempDir;

mod cli {
    // Commands without training: lists, configurations, devices, speed.
    mod asking;
    // Wrong usage: exit code 2 and a list of all problems.
    mod usage;
    // Invalid files and folders: exit code 1, never a panic.
    mod failing;
    // Named corpora, from a server on this system.
    mod fetching;
    // Training, from two text files to a bundle that translates.
    mod training;
    // Classification and language modeling, from text files to bundles.
    mod tasks;
    // Small and unusual data of a first run, and the printed commands.
    mod first_steps;
    // The log of events.
    mod logging;
    // Labeled texts: formats, unusual and invalid ones.
    mod labels;
    // Labels and columns that are numbers, and data that a task cannot use.
    mod numbers;
    // Documents of language models: unusual and invalid ones.
    mod documents;
    // Models that start from the encoder of another one.
    mod encoders;
    // Runs that continue a bundle: frozen weights, LoRA, replay.
    mod fine_tuning;
    // Runs for every combination of some settings.
    #[cfg(unix)]
    mod sweeping;
    // Several training corpora and validation sets.
    mod corpora;
    // Options of all forms of training data.
    mod mixing;
    // Weights and word alignments of pairs.
    mod annotations;
    // Words of the training text.
    mod lexicons;
    // Sentences before those of a pair.
    mod contexts;
    // Distillation from one or more teachers.
    mod distilling;
    // Synthetic pairs.
    mod synthesizing;
    // Corpora: cleaning, statistics, preparation on disk, segmentation.
    mod data;
    // Prepared corpora of several files.
    mod shards;
    // Resumed runs, which equal uninterrupted ones.
    mod resuming;
    // Changes between a checkpoint and its resumption.
    mod changing;
    // Signals, exit codes and recovery.
    #[cfg(unix)]
    mod interrupting;
    // Resuming on a GPU.
    mod device;
}

/// Settings of a model that trains in a second.
const TINY: [&str; 17] = [
    "tokenizer.kind=word",
    "model.d_model=16",
    "model.n_heads=2",
    "model.d_ff=16",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "model.max_len=16",
    "train.epochs=2",
    "train.batch={ sentences = 8 }",
    "train.schedule=constant",
    "train.warmup_steps=0",
    "train.learning_rate=0.01",
    "train.ema_decay=0",
    "validation.samples=1",
    "validation.best_by=loss",
    "validation.patience=",
    "validation.length_penalties=",
];

/// The corpus of a [`Workshop`].
const FILES: [&str; 4] = ["--source", "source.txt", "--target", "target.txt.gz"];

/// Tasks of one text, each with a recipe of its name.
const TASKS: [&str; 3] = ["classify", "generate", "fill-mask"];

/// Folder with a small corpus, in which the program runs.
struct Workshop {
    folder: TempDir,
}

/// Result of a run of the program.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Workshop {
    /// Creates a folder with `source.txt` and `target.txt.gz`, which are 36 pairs, and the sources as
    /// documents in `text.txt` and with labels in `labeled.tsv`.
    fn new() -> Self {
        let workshop = Self { folder: tempfile::tempdir().unwrap() };
        let (source, target) = corpus();
        workshop.write("target.txt.gz", gzip(target.as_bytes()));
        workshop.write("text.txt", source.replace('\n', "\n\n"));
        workshop.write("labeled.tsv", labeled("\t"));
        workshop.write("source.txt", source);
        workshop
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    fn append(&self, name: &str, content: &str) {
        let mut file = fs::OpenOptions::new().append(true).open(self.path(name)).unwrap();
        file.write_all(content.as_bytes()).unwrap();
    }

    /// Runs the program with `arguments`.
    fn train(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_train"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Trains a tiny model on the corpus into `run`.
    fn train_tiny(&self, run: &str, arguments: &[&str]) -> Run {
        self.train_tiny_on(&FILES, run, arguments)
    }

    /// Trains a tiny model on other files; later settings override earlier ones.
    fn train_tiny_on(&self, files: &[&str], run: &str, arguments: &[&str]) -> Run {
        self.train(&tiny(files, run, arguments))
    }

    /// Trains a tiny model of one of [`TASKS`] into `run`; later settings override earlier ones.
    fn train_task(&self, task: &str, run: &str, arguments: &[&str]) -> Run {
        self.train(&tiny_task(task, run, arguments))
    }

    /// Starts a run as [`train_tiny_on`](Self::train_tiny_on) does, with `--quiet`.
    fn start_tiny_on(&self, files: &[&str], run: &str, arguments: &[&str]) -> Child {
        self.command(&tiny(files, run, arguments)).arg("--quiet").spawn().unwrap()
    }

    /// Reads the weights of the bundle in `run`.
    fn weights(&self, run: &str) -> Vec<u8> {
        fs::read(self.path(run).join("model.safetensors")).unwrap()
    }

    /// Reads the records of `metrics.jsonl` in `run`.
    fn metrics(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(run).join("metrics.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn tiny<'a>(files: &[&'a str], run: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [files, &["--run", run], &set(&TINY), arguments].concat()
}

/// Arguments of [`Workshop::train_task`], with four batches per epoch.
fn tiny_task<'a>(task: &'a str, run: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    // A row of a language model has two texts, in each of which three tokens are predicted.
    let rows = set(&["model.max_len=6", "train.batch={ sentences = 4 }"]);
    let more = match task {
        "classify" => vec!["--file", "labeled.tsv"],
        "generate" => [&["--source", "text.txt"], &rows[..]].concat(),
        _ => vec!["--source", "text.txt"],
    };
    let recipe = ["--recipe", task, "--run", run];
    [&recipe[..], &set(&TINY), &more, arguments].concat()
}

/// Puts `--set` before each of `settings`.
fn set<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    settings.iter().flat_map(|setting| ["--set", *setting]).collect()
}

impl Run {
    /// # Panics
    ///
    /// If the program panicked.
    fn of(output: Output) -> Self {
        let run = Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
        run
    }

    /// # Panics
    ///
    /// If the program failed or printed anything to standard output.
    fn trained(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert_eq!(self.stdout, "", "standard output contains data only");
        self
    }

    /// # Panics
    ///
    /// If the exit code is not `code`, or one of `words` is missing in standard error.
    fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert_eq!(self.stdout, "", "standard output contains data only");
        self.logged(words);
    }

    /// Returns the command printed on the line after the one that ends with `before`.
    ///
    /// # Panics
    ///
    /// If there is no such command.
    fn command_after(&self, before: &str) -> String {
        let mut lines = self.stderr.lines().skip_while(|line| !line.ends_with(before));
        let command = lines.nth(1).and_then(|line| line.strip_prefix("  "));
        command.unwrap_or_else(|| panic!("no command after `{before}` in:\n{}", self.stderr)).into()
    }

    /// # Panics
    ///
    /// If one of `words` is missing in standard error.
    fn logged(&self, words: &[&str]) {
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in:\n{}", self.stderr);
        }
    }
}

/// Returns all pairs of six numbers in two languages: `one two` and `uno due`.
fn corpus() -> (String, String) {
    let numbers = [
        ("one", "uno"),
        ("two", "due"),
        ("three", "tre"),
        ("four", "quattro"),
        ("five", "cinque"),
        ("six", "sei"),
    ];
    let (mut source, mut target) = (String::new(), String::new());
    for (english, italian) in numbers {
        for (more_english, more_italian) in numbers {
            source += &format!("{english} {more_english}\n");
            target += &format!("{italian} {more_italian}\n");
        }
    }
    (source, target)
}

/// Returns the sources of [`corpus`], each with a label: whether the numbers are equal, or which is
/// spelled first.
fn labeled(separator: &str) -> String {
    let (source, _) = corpus();
    let label = |text: &str| {
        let (first, second) = text.split_once(' ').unwrap();
        match first.cmp(second) {
            Ordering::Less => "sorted",
            Ordering::Equal => "equal",
            Ordering::Greater => "reversed",
        }
    };
    source.lines().map(|text| format!("{text}{separator}{}\n", label(text))).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
