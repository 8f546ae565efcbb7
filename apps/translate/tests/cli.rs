//! Tests of the program `translate`: output, messages and exit codes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "clippy recognizes test functions as tests, but not the functions they call"
)]

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::LazyLock,
    thread,
};

use burn::tensor::Device as BurnDevice;
use flate2::{Compression, write::GzEncoder};
use tempfile::TempDir;
use tx_infer::{
    Device, LanguagePlacement, Languages, ModelTask, ModuleBundle, SearchOptions, Translator,
};
use tx_model::{ModelConfig, Transformer, Tying, VocabSizes};
use tx_text::{SentencePair, Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers};

mod cli {
    // Translation of lines from text, files and standard input.
    mod translating;
    // Division of lines into sentences.
    mod splitting;
    // Words of the training text.
    mod lexicons;
    // Sentences before those that are translated, and contrastive evaluation.
    mod contexts;
    // Files with markup, subtitles and documents.
    mod files;
    // Search options, output formats and contradictions.
    mod searching;
    // Minimum Bayes risk and reranking.
    mod deciding;
    // Unusual lines, long lines and many lines.
    mod robust;
    // Errors and their exit codes.
    mod failing;
    // Scores of translations against references.
    mod scoring;
    // Word alignments.
    mod aligning;
    // Attention weights as a page, a picture and JSON.
    mod attending;
    // Figures of concepts.
    mod explaining;
    // Interactive sessions at a terminal.
    mod conversing;
    // Contents and invariants of a bundle.
    mod inspecting;
    // Multilingual models, and the search options of a bundle.
    mod languages;
    // Models of other toolkits.
    mod importing;
    // Models by name.
    #[cfg(feature = "models")]
    mod models;
    // Classification, continuation of texts, and masks.
    mod tasks;
    // Bundles in the formats of other toolkits.
    mod exporting;
    // Computation in int8, and quantized bundles.
    mod quantizing;
    // Vocabulary shortlists.
    mod shortlisting;
    // Terms with given translations.
    mod glossaries;
    // Confidence of translations.
    mod calibrating;
    // Search and attention on a GPU.
    mod device;
}

/// Maximum sentence length of the test bundle in tokens, including `<eos>`.
const MAX_LEN: usize = 12;

/// Pointer file of Git LFS, from its specification.
const LFS_POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

/// Bundle with random weights: its translations are meaningless, but deterministic.
static BUNDLE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    bundle("one two three four five six seven").save(folder.path()).unwrap();
    folder
});

/// Path of the test bundle.
fn model() -> &'static str {
    BUNDLE.path().to_str().unwrap()
}

/// Opens the test bundle with search options.
fn translator(options: SearchOptions) -> Translator {
    let translator = Translator::open(BUNDLE.path(), &Device::Cpu).unwrap();
    translator.with_options(options).unwrap()
}

/// Creates a bundle with random weights and a vocabulary of `words` on both sides.
fn bundle(words: &str) -> ModuleBundle {
    let pairs = [SentencePair::new(words, words)];
    let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
    with_tokenizers(Tokenizers::train(&config, &pairs).unwrap())
}

/// Creates a bundle with the languages `de` and `en`.
fn multilingual(placement: LanguagePlacement) -> ModuleBundle {
    let codes = ["de", "en"].map(str::to_owned).to_vec();
    let (token, source) = match placement {
        LanguagePlacement::TargetInSource => (">>{}<<", Vec::new()),
        LanguagePlacement::BothSides => ("__{}__", codes.clone()),
    };
    let plain = bundle("one two three four five six seven").tokenizers.source;
    let mut json: serde_json::Value = serde_json::from_str(&plain.to_json().unwrap()).unwrap();
    for (code, id) in codes.iter().zip(plain.vocab_size()..) {
        let added = json["added_tokens"].as_array_mut().unwrap();
        added.push(serde_json::json!({
            "id": id, "content": token.replace("{}", code), "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false, "special": true,
        }));
    }
    let tokenizer = Tokenizer::from_json(json.to_string().as_bytes(), "a.json".as_ref()).unwrap();
    let tokenizers = Tokenizers { source: tokenizer.clone(), target: tokenizer };
    let languages = Languages {
        placement,
        token: token.into(),
        source,
        target: codes,
        default_source: None,
        default_target: None,
    };
    ModuleBundle { languages: Some(languages), ..with_tokenizers(tokenizers) }
}

/// Creates a bundle with random weights and these tokenizers.
fn with_tokenizers(tokenizers: Tokenizers) -> ModuleBundle {
    let device = BurnDevice::flex();
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
    ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        tokenizers,
        languages: None,
        context: 0,
        search: None,
        lexicon: None,
        provenance: Default::default(),
    }
}

/// Beginning of a warning about unknown words.
const UNKNOWN: &str = "warning: unknown words";

/// Result of a run of the program.
struct Run {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Run {
    /// Returns standard output.
    ///
    /// # Panics
    ///
    /// If the program failed, or printed anything but warnings about unknown words to standard error.
    fn printed(self) -> String {
        let mut others = self.stderr.lines().filter(|line| !line.starts_with(UNKNOWN));
        assert_eq!((self.code, others.next()), (Some(0), None));
        self.stdout
    }

    /// # Panics
    ///
    /// If the exit code is not `code`, or one of `words` is missing in standard error.
    fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert_eq!(self.stdout, "", "standard output contains data only");
        for word in words {
            assert!(self.stderr.contains(word), "no `{word}` in:\n{}", self.stderr);
        }
    }
}

/// Translates with the test bundle.
fn translate(arguments: &[&str], input: impl AsRef<[u8]>) -> Run {
    run(&[&["--model", model()], arguments].concat(), input)
}

/// Runs a command of the program with the test bundle.
fn command(name: &str, arguments: &[&str]) -> Run {
    run(&[&[name, "--model", model()], arguments].concat(), "")
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
    // Written from another thread, because a full pipe on either side would block both processes. The
    // program may stop reading before the end.
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

/// Creates a file in `folder` and returns its path.
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
