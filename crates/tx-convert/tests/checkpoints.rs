//! Checkpoints of toolkits that use PyTorch: log-probabilities and greedy search as the toolkit gives them, and
//! what the files must have.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

mod checkpoints {
    pub mod fairseq;
    pub mod joeynmt;
    pub mod pytorch;

    use super::{Cases, bundle, error_of_changed, fixtures};
}

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tempfile::TempDir;
use tx_convert::import::{ImportOptions, import_with};
use tx_infer::{Bundle, Cancellation, Device, SearchOptions};
use tx_text::special::EOS;

fn fixtures(toolkit: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(toolkit)
}

/// Bundle of a model whose format is detected.
fn bundle(from: &Path, options: &ImportOptions) -> (TempDir, Bundle) {
    let output = tempfile::tempdir().unwrap();
    import_with(from, None, options).unwrap().save(output.path()).unwrap();
    let bundle = Bundle::open(output.path()).unwrap();
    (output, bundle)
}

/// Error of the import of a copy of a folder, which `change` changes.
fn error_of_changed(folder: &Path, options: &ImportOptions, change: impl FnOnce(&Path)) -> String {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    change(copy.path());
    import_with(copy.path(), None, options).unwrap_err().to_string()
}

fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|token| token.as_str().unwrap()).collect()
}

/// Results of a toolkit for its models, by name.
struct Cases(Value);

impl Cases {
    fn read(toolkit: &str) -> Self {
        let cases = fs::read(fixtures(toolkit).join("cases.json")).unwrap();
        Self(serde_json::from_slice(&cases).unwrap())
    }

    /// Compares the log-probabilities of given targets and the results of greedy search of up to 12
    /// tokens.
    fn check(&self, name: &str, bundle: &Bundle) {
        let engine = bundle.engine(&Device::Cpu).unwrap();
        let target = &bundle.tokenizers.target;
        for case in self.0[name].as_array().unwrap() {
            let text = case["source"].as_str().unwrap();
            let source = bundle.tokenizers.source.encode(text).unwrap();
            let given = texts(&case["given"]).into_iter().map(|token| target.id(token).unwrap());
            let given: Vec<u32> = given.chain([EOS]).collect();
            let pair = [(source.as_slice(), given.as_slice())];
            let scores = engine.log_probabilities(&pair, &Cancellation::new()).unwrap().remove(0);
            let expected = case["log_probabilities"].as_array().unwrap();
            assert_eq!(scores.len(), expected.len());
            for (score, expected) in scores.iter().zip(expected) {
                let error = (f64::from(*score) - expected.as_f64().unwrap()).abs();
                assert!(error <= 1e-4, "{name}: {score} and {expected}: {text}");
            }
            let options = SearchOptions {
                beam: 1,
                max_len: Some(12),
                min_len: case["min_len"].as_u64().unwrap_or_default() as usize,
                ..bundle.search.clone().unwrap()
            };
            let found = engine.search(&[source.as_slice()], &options).unwrap().remove(0).remove(0);
            let ids = found.ids.iter().filter(|&&id| id != EOS);
            let tokens: Vec<String> = ids.map(|&id| target.token(id).unwrap()).collect();
            assert_eq!(tokens, texts(&case["greedy"]), "{name}: {text}");
        }
    }
}
