//! Damaged folders: an import is refused, or gives a bundle that can be used. `MUTATIONS` sets the
//! number of damaged folders.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use tempfile::TempDir;
use tx_convert::import::import;
use tx_infer::Bundle;

/// Number of damaged folders without `MUTATIONS`.
const MUTATIONS: u64 = 120;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/transformers")
}

/// Files of a folder, with their contents.
struct Folder(Vec<(String, Vec<u8>)>);

impl Folder {
    /// A folder of the fixtures with these weights, and with small SentencePiece models.
    fn new(name: &str, weights: &[&str]) -> Self {
        let mut files = Vec::new();
        let configurations = [
            "config.json",
            "generation_config.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "vocab.json",
        ];
        for file in configurations.iter().chain(weights) {
            if let Ok(content) = fs::read(fixtures().join(name).join(file)) {
                files.push(((*file).to_owned(), content));
            }
        }
        let packed = fs::read(fixtures().join("bpe.model.gz")).unwrap();
        let mut model = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut model).unwrap();
        for file in ["source.spm", "target.spm", "sentencepiece.bpe.model"] {
            files.push((file.to_owned(), model.clone()));
        }
        Self(files)
    }

    fn write(&self, damaged: usize, content: &[u8]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (index, (name, original)) in self.0.iter().enumerate() {
            let content = if index == damaged { content } else { original };
            fs::write(folder.path().join(name), content).unwrap();
        }
        folder
    }
}

/// Reproducible numbers (xorshift).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Numbers that replace those of a file.
const EXTREME: [&str; 9] =
    ["0", "1", "-1", "3", "65536", "4294967295", "18446744073709551615", "1e308", "null"];

/// Changes a file in one of several ways.
fn damage(content: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut damaged = content.to_vec();
    let at = numbers.below(content.len());
    match numbers.below(6) {
        0 => damaged.truncate(at),
        1 => {
            for _ in 0..=numbers.below(8) {
                let at = numbers.below(content.len());
                damaged[at] ^= 1 << numbers.below(8);
            }
        }
        2 => {
            let end = (at + numbers.below(64)).min(content.len());
            let range = content[at..end].to_vec();
            let to = numbers.below(content.len());
            damaged.splice(to..to, range);
        }
        3 => {
            let end = (at + 1 + numbers.below(16)).min(content.len());
            damaged.drain(at..end);
        }
        4 => {
            // A number of a text, or of the header of a binary file.
            let digit = content.iter().skip(at).position(u8::is_ascii_digit);
            if let Some(start) = digit.map(|skipped| at + skipped) {
                let rest = content[start..].iter();
                let length = rest.take_while(|byte| byte.is_ascii_digit()).count();
                let number = EXTREME[numbers.below(EXTREME.len())];
                damaged.splice(start..start + length, number.bytes());
            }
        }
        _ => {
            let near = numbers.below(content.len().min(4_096));
            damaged[near] = [0, 0xff, 0x7f, 0x80][numbers.below(4)];
        }
    }
    damaged
}

#[test]
fn a_damaged_folder_is_refused_or_usable() {
    let count = std::env::var("MUTATIONS").ok().and_then(|count| count.parse().ok());
    let folders = [
        Folder::new("marian", &["model.safetensors"]),
        Folder::new("marian", &["pytorch_model.bin"]),
        Folder::new(
            "marian",
            &[
                "model.safetensors.index.json",
                "model-00001-of-00002.safetensors",
                "model-00002-of-00002.safetensors",
            ],
        ),
        Folder::new("nllb", &["model.safetensors"]),
        Folder::new("m2m100", &["model.safetensors"]),
    ];
    let mut usable = 0;
    for seed in 1..=count.unwrap_or(MUTATIONS) {
        let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let folder = &folders[numbers.below(folders.len())];
        let damaged = numbers.below(folder.0.len());
        let content = damage(&folder.0[damaged].1, &mut numbers);
        let written = folder.write(damaged, &content);
        let Ok(import) = import(written.path(), None) else { continue };
        let output = tempfile::tempdir().unwrap();
        if import.save(output.path()).is_err() {
            continue;
        }
        let bundle = Bundle::open(output.path()).unwrap();
        let ids = bundle.tokenizers.source.encode("the old man ｓees 東京 <pad>").unwrap();
        bundle.tokenizers.target.decode(&ids).unwrap();
        usable += 1;
    }
    assert!(usable > 0);
}
