//! The program `train` as a user meets it: what it prints, where, and how it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "clippy takes only the test functions for tests, not what they call"
)]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command},
};

use flate2::{Compression, write::GzEncoder};
use tempfile::TempDir;

// What is asked of the program without training: lists, configurations, devices.
mod cli {
    mod asking;
    // Wrong usage ends with 2, and says all that is wrong.
    mod usage;
    // What can be wrong with files and folders ends with 1, never with a panic.
    mod failing;
    // Corpora by name, from a server on this machine.
    mod fetching;
    // From two text files to a bundle that translates.
    mod training;
    // Corpora: cleaned, looked at, prepared on disk, segmented anew.
    mod data;
    // A resumed run equals one that was never interrupted.
    mod resuming;
    // What may change when a run resumes, and what is refused.
    mod changing;
    // Signals, exit codes, and what can be done afterwards.
    #[cfg(unix)]
    mod interrupting;
    // The same on a GPU.
    mod device;
}

#[allow(dead_code, reason = "the fetcher's own tests need more of it")]
#[path = "../../../crates/tx-data/src/fetch/tests/server.rs"]
mod server;

/// Sizes that train in a second.
const TINY: [&str; 14] = [
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
    "validation.samples=1",
    "validation.best_by=loss",
];

/// A folder with a small corpus, in which the program runs.
struct Workshop {
    folder: TempDir,
}

/// How a run of the program ended.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Workshop {
    /// With `source.txt` and `target.txt.gz`: 36 pairs.
    fn new() -> Self {
        let workshop = Self { folder: tempfile::tempdir().unwrap() };
        let (source, target) = corpus();
        workshop.write("source.txt", source);
        workshop.write("target.txt.gz", gzip(target.as_bytes()));
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
        let output = self.command(arguments).output().unwrap();
        let run = Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!run.stderr.contains("panicked"), "{arguments:?}\n{}", run.stderr);
        run
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_train"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    /// Trains a tiny model on the corpus into `run`.
    fn train_tiny(&self, run: &str, arguments: &[&str]) -> Run {
        self.train_tiny_on(&["--source", "source.txt", "--target", "target.txt.gz"], run, arguments)
    }

    /// Trains a tiny model on the files that `files` names; later settings win.
    fn train_tiny_on(&self, files: &[&str], run: &str, arguments: &[&str]) -> Run {
        self.train(&tiny(files, run, arguments))
    }

    /// Begins what [`train_tiny_on`](Self::train_tiny_on) does, without a word.
    fn start_tiny_on(&self, files: &[&str], run: &str, arguments: &[&str]) -> Child {
        self.command(&tiny(files, run, arguments)).arg("--quiet").spawn().unwrap()
    }
}

fn tiny<'a>(files: &[&'a str], run: &'a str, arguments: &[&'a str]) -> Vec<&'a str> {
    [files, &["--run", run], &set(&TINY), arguments].concat()
}

/// `--set` before each of `settings`.
fn set<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    settings.iter().flat_map(|setting| ["--set", *setting]).collect()
}

impl Run {
    /// # Panics
    ///
    /// When it did not end well, or something that is no data stands in standard output.
    fn trained(self) -> Self {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert_eq!(self.stdout, "", "standard output is for data");
        self
    }

    /// # Panics
    ///
    /// When it did not end with `code`, or one of `words` is not in standard error.
    fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert_eq!(self.stdout, "", "standard output is for data");
        self.says(words);
    }

    /// The command printed on the line after the one that ends with `before`.
    ///
    /// # Panics
    ///
    /// When there is none.
    fn command_after(&self, before: &str) -> String {
        let mut lines = self.stderr.lines().skip_while(|line| !line.ends_with(before));
        let command = lines.nth(1).and_then(|line| line.strip_prefix("  "));
        command.unwrap_or_else(|| panic!("no command after `{before}` in:\n{}", self.stderr)).into()
    }

    /// # Panics
    ///
    /// When one of `words` is not in standard error.
    fn says(&self, words: &[&str]) {
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in:\n{}", self.stderr);
        }
    }
}

/// `one two` and `uno due`: all pairs of six numbers.
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

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
