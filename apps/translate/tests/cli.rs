//! The program `translate` as a user meets it: what it prints, where, and how it ends.

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
    process::{Child, Command, Output, Stdio},
    sync::LazyLock,
    thread,
};

use burn::tensor::Device;
use flate2::{Compression, write::GzEncoder};
use tempfile::TempDir;
use tx_infer::ModuleBundle;
use tx_model::{ModelConfig, Transformer, Tying, VocabSizes};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

mod cli {
    // Lines in, translations out.
    mod translating;
    // Every option of searching, how results are printed, and what is refused.
    mod searching;
    // Lines of all kinds and sizes, and many of them.
    mod robust;
    // What ends with an error, and with which.
    mod failing;
    // Translations against references.
    mod scoring;
    // Which word came from which.
    mod aligning;
    // Where the model looks, as a page, a picture and JSON.
    mod attending;
    // Sentence by sentence at a terminal.
    mod conversing;
    // What is in a bundle, and whether it is sound.
    mod inspecting;
    // The same on a GPU.
    mod device;
}

/// Longest sentence of the test bundle in tokens, `<eos>` included.
const MAX_LEN: usize = 12;

/// A bundle of random weights: what it says makes no sense, but is always the same.
static BUNDLE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three four five six seven").save(folder.path()).unwrap();
    folder
});

/// With a vocabulary of `words` on both sides.
fn bundle(words: &str) -> ModuleBundle {
    let device = Device::flex();
    let pairs = [SentencePair::new(words, words)];
    let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&config, &pairs).unwrap();
    let config = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: MAX_LEN,
        tying: Tying::None,
        ..ModelConfig::default()
    };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    device.seed(3);
    let model = Transformer::new(&config, vocab, &device).unwrap();
    ModuleBundle { model, config, tokenizers, provenance: Default::default() }
}

/// Beginning of a warning of unknown words.
const UNKNOWN: &str = "warning: unknown words";

/// How a run of the program ended.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    /// Standard output.
    ///
    /// # Panics
    ///
    /// If the program failed, or printed anything but warnings of unknown words to standard error.
    fn said(self) -> String {
        let mut others = self.stderr.lines().filter(|line| !line.starts_with(UNKNOWN));
        assert_eq!((self.code, others.next()), (Some(0), None));
        self.stdout
    }

    /// # Panics
    ///
    /// When it did not end with `code`, or one of `words` is not in standard error.
    fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert_eq!(self.stdout, "", "standard output is for data");
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in:\n{}", self.stderr);
        }
    }
}

/// Runs the program with the test bundle.
fn translate(arguments: &[&str], input: impl AsRef<[u8]>) -> Run {
    run(&[&["--model", BUNDLE.path().to_str().unwrap()], arguments].concat(), input)
}

/// Runs the program with `arguments` and `input` on standard input.
fn run(arguments: &[&str], input: impl AsRef<[u8]>) -> Run {
    let output = output_of(arguments, input);
    let run = Run {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(!run.stderr.contains("panicked"), "{arguments:?}\n{}", run.stderr);
    run
}

fn output_of(arguments: &[&str], input: impl AsRef<[u8]>) -> Output {
    let mut child = start(arguments);
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref().to_vec();
    // Beside the reading below, or two full pipes wait for each other. The program may stop
    // reading before the end.
    let writer = thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn start(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_translate"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A file of `content` in `folder`.
fn file(folder: &TempDir, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> String {
    let path: PathBuf = folder.path().join(name);
    fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
