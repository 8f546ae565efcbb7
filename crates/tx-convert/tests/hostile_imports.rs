//! Hostile models: for any content of its files, a model is imported, or the import returns an error.
//! Nothing panics, hangs, or allocates more memory than the files justify.
//!
//! `TX_CASES` is the number of mutated models.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "clippy recognizes test functions as tests, but not the functions they call"
)]

mod hostile_imports {
    // Checkpoints of PyTorch that declare more than they contain.
    pub mod checkpoints;
    // Files of a model, with the parts of archives.
    pub mod files;
    // Peak of the allocated memory.
    pub mod memory;
    // Random changes.
    pub mod mutation;
}

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::abort,
    sync::{
        LazyLock,
        mpsc::{RecvTimeoutError, channel},
    },
    thread,
    time::Duration,
};

use hostile_imports::{
    checkpoints,
    files::{Files, Part},
    memory::peak_of,
    mutation::{Mutation, mutation},
};
use proptest::prelude::*;
use serde_json::Value;
use tx_convert::import::{ImportOptions, import_with};
use tx_infer::{Bundle, Device, ModelTask, SearchOptions};

/// Number of mutated models.
fn cases() -> u32 {
    env::var("TX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}

/// Memory that an import may allocate, in bytes: a constant, and a multiple of the size of its files.
const MEMORY: (usize, usize) = (64 << 20, 64);

/// Files of models, relative to `tests/fixtures`. Those that end in `.gz` are decompressed.
const MODELS: [&[&str]; 26] = [
    &[
        "transformers/marian/config.json",
        "transformers/marian/generation_config.json",
        "transformers/marian/special_tokens_map.json",
        "transformers/marian/tokenizer_config.json",
        "transformers/marian/vocab.json",
        "transformers/marian/model.safetensors",
        "transformers/source.spm.gz",
        "transformers/target.spm.gz",
    ],
    &[
        "transformers/marian/config.json",
        "transformers/marian/tokenizer_config.json",
        "transformers/marian/vocab.json",
        "transformers/marian/pytorch_model.bin",
        "transformers/source.spm.gz",
        "transformers/target.spm.gz",
    ],
    &[
        "transformers/marian/config.json",
        "transformers/marian/tokenizer_config.json",
        "transformers/marian/vocab.json",
        "transformers/marian/model.safetensors.index.json",
        "transformers/marian/model-00001-of-00002.safetensors",
        "transformers/marian/model-00002-of-00002.safetensors",
        "transformers/source.spm.gz",
        "transformers/target.spm.gz",
    ],
    &[
        "transformers/separate/config.json",
        "transformers/separate/tokenizer_config.json",
        "transformers/separate/vocab.json",
        "transformers/separate/target_vocab.json",
        "transformers/separate/model.safetensors",
        "transformers/source.spm.gz",
        "transformers/target.spm.gz",
    ],
    &[
        "transformers/m2m100/config.json",
        "transformers/m2m100/generation_config.json",
        "transformers/m2m100/special_tokens_map.json",
        "transformers/m2m100/tokenizer_config.json",
        "transformers/m2m100/vocab.json",
        "transformers/m2m100/model.safetensors",
        "transformers/bpe.model.gz",
    ],
    &[
        "transformers/nllb/added_tokens.json",
        "transformers/nllb/config.json",
        "transformers/nllb/special_tokens_map.json",
        "transformers/nllb/tokenizer_config.json",
        "transformers/nllb/model.safetensors",
        "transformers/bpe.model.gz",
    ],
    &["marian/post/decoder.yml", "marian/post/model.npz", "marian/post/vocab.spm"],
    &["marian/pre/decoder.yml", "marian/pre/model.npz", "marian/pre/vocab.spm"],
    &[
        "marian/words/decoder.yml",
        "marian/words/model.npz",
        "marian/words/vocab.de.yml",
        "marian/words/vocab.en.yml",
    ],
    &["marian/rms/decoder.yml", "marian/rms/model.npz", "marian/rms/vocab.spm"],
    &[
        "firefox/model.ende.intgemm.alphas.bin",
        "firefox/lex.12.6.ende.s2t.bin",
        "firefox/vocab.ende.spm",
    ],
    &["tutorial/first/tmodel_02.pt", "tutorial/tokenizer_en.json", "tutorial/tokenizer_it.json"],
    &["tutorial/last/tmodel_02.pt", "tutorial/tokenizer_en.json", "tutorial/tokenizer_it.json"],
    &[
        "pytorch/tutorial/model.pt",
        "pytorch/tutorial/source_vocabulary.txt",
        "pytorch/tutorial/target_vocabulary.txt",
    ],
    &["pytorch/tied/mapping.toml", "pytorch/tied/model.pt", "pytorch/tied/shared_vocabulary.json"],
    &[
        "joeynmt/pre/best.ckpt",
        "joeynmt/pre/config.yaml",
        "joeynmt/pre/src_vocab.txt",
        "joeynmt/pre/trg_vocab.txt",
    ],
    &[
        "joeynmt/post/best.ckpt",
        "joeynmt/post/config.yaml",
        "joeynmt/post/src_vocab.txt",
        "joeynmt/post/trg_vocab.txt",
    ],
    &["fairseq/pre/checkpoint_best.pt", "fairseq/pre/dict.en.txt", "fairseq/pre/dict.it.txt"],
    &["fairseq/post/checkpoint_best.pt", "fairseq/post/dict.de.txt", "fairseq/post/dict.en.txt"],
    &[
        "ctranslate2/pre/model.bin",
        "ctranslate2/pre/config.json",
        "ctranslate2/pre/shared_vocabulary.json",
    ],
    &[
        "ctranslate2/post/model.bin",
        "ctranslate2/post/config.json",
        "ctranslate2/post/source_vocabulary.json",
        "ctranslate2/post/target_vocabulary.json",
    ],
    &[
        "ctranslate2/gated/model.bin",
        "ctranslate2/gated/config.json",
        "ctranslate2/gated/source_vocabulary.json",
        "ctranslate2/gated/target_vocabulary.json",
    ],
    &[
        "ctranslate2/final/model.bin",
        "ctranslate2/final/config.json",
        "ctranslate2/final/shared_vocabulary.json",
    ],
    &[
        "ctranslate2/opt/model.bin",
        "ctranslate2/opt/config.json",
        "ctranslate2/opt/vocabulary.json",
    ],
    &[
        "ctranslate2/llama/model.bin",
        "ctranslate2/llama/config.json",
        "ctranslate2/llama/vocabulary.json",
    ],
    &[
        "ctranslate2/mpt/model.bin",
        "ctranslate2/mpt/config.json",
        "ctranslate2/mpt/vocabulary.json",
    ],
];

/// Models as they are read without a change.
static ORIGINALS: LazyLock<Vec<Files>> = LazyLock::new(|| {
    let read_files = |paths: &&[&str]| Files::read(paths.iter().map(|path| fixtures().join(path)));
    let models: Vec<Files> = MODELS.iter().map(read_files).collect();
    for (which, files) in models.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        files.write(folder.path());
        read(folder.path()).unwrap_or_else(|error| panic!("model {which}: {error}"));
    }
    models
});

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Imports a model, and opens and uses the bundle.
fn read(folder: &Path) -> Result<(), String> {
    let options = ImportOptions { heads: Some(3), ..ImportOptions::default() };
    let import = import_with(folder, None, &options).map_err(|error| error.to_string())?;
    assert!(!import.report().is_empty());
    let output = tempfile::tempdir().unwrap();
    import.save(output.path()).map_err(|error| error.to_string())?;
    // A bundle that was saved can be opened.
    let bundle = Bundle::open(output.path()).unwrap();
    let source = bundle.tokenizers.source.encode("the boy sees . <eos> ﬁ 日本 😀").unwrap();
    let options = SearchOptions { max_len: Some(3), ..bundle.search.clone().unwrap_or_default() };
    let engine = bundle.engine(&Device::Cpu).unwrap();
    let source = if bundle.task == ModelTask::Generate { &[] } else { &source[..] };
    engine.search(&[source], &options).map(drop).map_err(|error| error.to_string())
}

/// Runs `work`, and ends this process if it takes minutes.
fn without_a_hang<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (done, wait) = channel::<()>();
    let what = what.to_owned();
    let guard = thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            eprintln!("hangs: {what}");
            abort();
        }
    });
    let result = work();
    drop(done);
    guard.join().unwrap();
    result
}

fn run(which: usize, mutations: &[Mutation]) {
    let mut files = ORIGINALS[which].clone();
    mutations.iter().for_each(|mutation| files.apply(mutation));
    let folder = tempfile::tempdir().unwrap();
    let bytes = files.write(folder.path());
    let what = format!("model {which} {mutations:?}");
    // Either result is accepted.
    let (_, peak) = peak_of(|| without_a_hang(&what, || read(folder.path())));
    let most = MEMORY.0 + MEMORY.1 * bytes;
    assert!(peak < most, "{peak} bytes of memory for {bytes} bytes of files: {what}");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_changed_model_is_refused_or_works(
        which in 0..MODELS.len(),
        mutations in prop::collection::vec(mutation(), 1..4),
    ) {
        run(which, &mutations);
    }
}

/// Each of these took gigabytes: of memory that the file does not contain, or for each repetition.
#[test]
fn checkpoints_that_declare_more_than_they_contain_are_refused() {
    for (name, file, problem) in checkpoints::all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.pt");
        fs::write(&path, file).unwrap();
        let (result, peak) = peak_of(|| without_a_hang(name, || read(&path)));
        let error = result.unwrap_err();
        assert!(error.contains(problem), "{name}: {error}");
        assert!(peak < 2 * MEMORY.0, "{name}: {peak} bytes");
    }
}

/// The number of rows is compared with the arrays before a token is made for each row.
#[test]
fn rows_that_no_array_has_are_refused() {
    for rows in ["50000000", "4294967295", "18446744073709551615", "31"] {
        let mut files = ORIGINALS[8].clone();
        let options = files.parts.iter_mut();
        let mut options = options.filter(|part| {
            part.entry.as_ref().is_some_and(|entry| entry.starts_with("special:model.yml"))
        });
        let options = options.next().unwrap();
        let start = 10 + usize::from(u16::from_le_bytes([options.bytes[8], options.bytes[9]]));
        let text = String::from_utf8(options.bytes[start..].to_vec()).unwrap();
        let list = text.find("dim-vocabs:").unwrap();
        let end = list + text[list..].find("\ndropout").or(text[list..].find("\nenc")).unwrap();
        let changed = format!("{}dim-vocabs: [{rows}, {rows}]{}", &text[..list], &text[end..]);
        options.bytes = checkpoints::array(changed.as_bytes());
        let folder = tempfile::tempdir().unwrap();
        files.write(folder.path());
        let (result, peak) = peak_of(|| without_a_hang(rows, || read(folder.path())));
        let error = result.unwrap_err();
        assert!(error.contains(rows) && error.contains("Wemb"), "{error}");
        assert!(peak < MEMORY.0, "{peak} bytes");
    }
}

/// Tokens of 80,000 languages on both sides. The time is not quadratic in their number.
#[test]
fn many_languages_are_read_in_time() {
    let mut files = ORIGINALS[3].clone();
    let json = |part: &mut Part, change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let mut value: Value = serde_json::from_slice(&part.bytes).unwrap();
        change(value.as_object_mut().unwrap());
        part.bytes = serde_json::to_vec(&value).unwrap();
    };
    const LANGUAGES: usize = 80_000;
    for part in &mut files.parts {
        match part.file.as_str() {
            "vocab.json" | "target_vocab.json" => json(part, &|tokens| {
                let first = tokens.len();
                let added = (0..LANGUAGES).map(|id| (format!(">>{id}<<"), (first + id).into()));
                tokens.extend(added);
            }),
            "config.json" => json(part, &|config| {
                for key in ["vocab_size", "decoder_vocab_size"] {
                    let size = config[key].as_u64().unwrap() as usize;
                    config[key] = (size + LANGUAGES).into();
                }
            }),
            _ => {}
        }
    }
    let folder = tempfile::tempdir().unwrap();
    files.write(folder.path());
    let error = without_a_hang("languages", || read(folder.path())).unwrap_err();
    assert!(error.contains("the weights of"), "{error}");
}

/// Keys and names that are given twice, which readers treat differently.
#[test]
fn repeated_names_are_refused() {
    for (which, file) in [(0, "config.json"), (0, "vocab.json"), (0, "model.safetensors")] {
        let mut files = ORIGINALS[which].clone();
        let part = files.parts.iter_mut().find(|part| part.file == file).unwrap();
        let start = if file.ends_with(".safetensors") { 8 } else { 0 };
        let end = match start {
            0 => part.bytes.len(),
            _ => 8 + u64::from_le_bytes(*part.bytes.first_chunk().unwrap()) as usize,
        };
        // The first entry again, in front of all others.
        let text = str::from_utf8(&part.bytes[start..end]).unwrap().trim_end();
        let inner = text.strip_prefix('{').unwrap().trim_start();
        let mut entries = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let Some(Ok(Value::Object(all))) = entries.next() else { panic!("{file} is no object") };
        let (key, value) = all.iter().find(|(key, _)| *key != "__metadata__").unwrap();
        let changed = format!("{{{}: {value}, {inner}", Value::from(key.as_str()));
        let mut bytes = Vec::new();
        if start == 8 {
            bytes.extend((changed.len() as u64).to_le_bytes());
        }
        bytes.extend(changed.as_bytes());
        bytes.extend_from_slice(&part.bytes[end..]);
        part.bytes = bytes;
        let folder = tempfile::tempdir().unwrap();
        files.write(folder.path());
        let error = read(folder.path()).unwrap_err();
        assert!(error.contains(file) && error.contains("is given twice"), "{error}");
    }
}

/// Found by the mutations: an id in proportion to nothing in the files.
#[test]
fn ids_far_beyond_the_vocabulary_are_refused() {
    for (which, file, number, id) in [
        (4, "vocab.json", ": 5", "4294967295"),
        (4, "vocab.json", ": 5", "4294967290"),
        (11, "tokenizer_en.json", "\"[EOS]\": 3", "2147483647"),
    ] {
        let mut files = ORIGINALS[which].clone();
        let part = files.parts.iter_mut().find(|part| part.file == file).unwrap();
        let text = str::from_utf8(&part.bytes).unwrap();
        let (key, _) = number.rsplit_once(' ').unwrap();
        let changed = text.replacen(number, &format!("{key} {id}"), 1);
        assert_ne!(changed, text, "{file}");
        part.bytes = changed.into_bytes();
        let folder = tempfile::tempdir().unwrap();
        files.write(folder.path());
        let (result, peak) = peak_of(|| read(folder.path()));
        let error = result.unwrap_err();
        assert!(error.contains(id), "{error}");
        assert!(peak < MEMORY.0, "{peak} bytes");
    }
}
