//! Randomly mutated bundles: bits, bytes, numbers, lines, weights. Checksums are recomputed after
//! each mutation, because they would reject most mutations.

use std::{
    env,
    fmt::Debug,
    fs,
    io::{BufRead, BufReader},
    ops::Range,
    sync::LazyLock,
};

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;
use tx_infer::LanguagePlacement;
use tx_model::{NormPlacement, Positions, Tying};
use tx_text::TokenizerKind;

use super::{
    CONFIG, PROVENANCE, TOKENIZER, TOKENIZERS, WEIGHTS, bundle, multilingual, one_text, open,
    sha256, without_a_hang,
};

/// Number of bundles; `TX_CASES` overrides it.
fn cases() -> u32 {
    env::var("TX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100)
}

/// File that is not part of a bundle.
const UNUSED: &str = "unused.json";

/// Number of files of a bundle.
const FILES: usize = 5;

/// Replacements of a number.
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "3",
    "7",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e308",
    "1e999",
    "nan",
];

/// Replacements of a weight.
const VALUES: [f32; 8] = [0.0, -0.0, 1e-45, 1e20, f32::MAX, f32::MIN, f32::INFINITY, f32::NAN];

/// Mutation of a bundle. Positions are fractions of a file; `file` is an index into [`FILES`].
#[derive(Debug, Clone)]
enum Mutation {
    /// Flips one bit.
    Flip { file: usize, at: f64, bit: u8 },
    /// Truncates the file.
    Truncate { file: usize, at: f64 },
    /// Overwrites bytes with bytes from any position of any file.
    Splice { file: usize, at: f64, from: usize, from_at: f64, len: usize },
    /// Replaces a number in a text.
    Number { file: usize, which: f64, number: usize },
    /// Removes a line.
    Drop { file: usize, at: f64 },
    /// Repeats a line at another position.
    Repeat { file: usize, at: f64, to: f64 },
    /// Swaps two quoted strings, including keys.
    Swap { file: usize, a: f64, b: f64 },
    /// Sets a weight to an extreme value.
    Weight { at: f64, value: usize },
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let file = || 0..FILES;
    let at = || 0.0..1.0_f64;
    prop_oneof![
        1 => (file(), at(), 0_u8..8).prop_map(|(file, at, bit)| Mutation::Flip { file, at, bit }),
        1 => (file(), at()).prop_map(|(file, at)| Mutation::Truncate { file, at }),
        1 => (file(), at(), file(), at(), 1_usize..200).prop_map(|(file, at, from, from_at, len)| {
            Mutation::Splice { file, at, from, from_at, len }
        }),
        4 => (file(), at(), 0..NUMBERS.len())
            .prop_map(|(file, which, number)| Mutation::Number { file, which, number }),
        2 => (file(), at()).prop_map(|(file, at)| Mutation::Drop { file, at }),
        1 => (file(), at(), at()).prop_map(|(file, at, to)| Mutation::Repeat { file, at, to }),
        2 => (file(), at(), at()).prop_map(|(file, a, b)| Mutation::Swap { file, a, b }),
        2 => (at(), 0..VALUES.len()).prop_map(|(at, value)| Mutation::Weight { at, value }),
    ]
}

/// Files of a bundle. The weights are split into header and data.
#[derive(Debug, Clone)]
struct Files {
    /// Names of the tokenizers; the second is [`UNUSED`] for tasks with one text.
    tokenizers: [&'static str; 2],
    /// Configuration, source tokenizer, target tokenizer, header of the weights, provenance.
    texts: [Vec<u8>; FILES],
    data: Vec<u8>,
}

impl Files {
    fn read(folder: &TempDir) -> Self {
        let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
        let weights = read(WEIGHTS);
        let len = u64::from_le_bytes(*weights.first_chunk().unwrap()) as usize;
        let header = weights[8..8 + len].to_vec();
        let tokenizers =
            if folder.path().join(TOKENIZER).is_file() { [TOKENIZER, UNUSED] } else { TOKENIZERS };
        let [source, target] = tokenizers.map(|name| match name {
            UNUSED => Vec::new(),
            name => read(name),
        });
        let texts = [read(CONFIG), source, target, header, read(PROVENANCE)];
        Self { tokenizers, texts, data: weights[8 + len..].to_vec() }
    }

    /// Writes the bundle; with `old_len`, the weights file keeps the header length of `original`.
    fn write(&self, original: &Self, old_len: bool, folder: &TempDir) {
        let [config, source, target, header, provenance] = &self.texts;
        let mut config = config.clone();
        for index in [1, 2] {
            let [old, new] = [&original.texts[index], &self.texts[index]].map(|text| sha256(text));
            config = replaced(&config, old.as_bytes(), new.as_bytes());
        }
        let len = if old_len { original.texts[3].len() } else { header.len() };
        let weights = [&(len as u64).to_le_bytes()[..], header, &self.data].concat();
        for (name, content) in [
            (CONFIG, &config),
            (self.tokenizers[0], source),
            (self.tokenizers[1], target),
            (WEIGHTS, &weights),
            (PROVENANCE, provenance),
        ] {
            fs::write(folder.path().join(name), content).unwrap();
        }
    }

    fn apply(&mut self, mutation: &Mutation) {
        match *mutation {
            Mutation::Flip { file, at, bit } => {
                let text = &mut self.texts[file];
                let at = place(at, text.len());
                text.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << bit);
            }
            Mutation::Truncate { file, at } => {
                let text = &mut self.texts[file];
                text.truncate(place(at, text.len()));
            }
            Mutation::Splice { file, at, from, from_at, len } => {
                let from = &self.texts[from];
                let start = place(from_at, from.len());
                let bytes = from[start..from.len().min(start + len)].to_vec();
                let text = &mut self.texts[file];
                let at = place(at, text.len());
                text.splice(at..text.len().min(at + bytes.len()), bytes);
            }
            Mutation::Number { file, which, number } => {
                let text = &mut self.texts[file];
                let numbers = numbers(text);
                if let Some(range) = numbers.get(place(which, numbers.len())) {
                    text.splice(range.clone(), NUMBERS[number].bytes());
                }
            }
            Mutation::Drop { file, at } => {
                let mut parts = parts(&self.texts[file]);
                let at = place(at, parts.len());
                if at < parts.len() {
                    parts.remove(at);
                }
                self.texts[file] = parts.concat();
            }
            Mutation::Repeat { file, at, to } => {
                let mut parts = parts(&self.texts[file]);
                if let Some(part) = parts.get(place(at, parts.len())).cloned() {
                    parts.insert(place(to, parts.len()), part);
                }
                self.texts[file] = parts.concat();
            }
            Mutation::Swap { file, a, b } => {
                let text = &mut self.texts[file];
                let strings = strings(text);
                let [a, b] = [a, b].map(|at| strings.get(place(at, strings.len())).cloned());
                if let Some((a, b)) = a.zip(b).filter(|(a, b)| a.end <= b.start) {
                    let (first, second) = (text[a.clone()].to_vec(), text[b.clone()].to_vec());
                    text.splice(b, first);
                    text.splice(a, second);
                }
            }
            Mutation::Weight { at, value } => {
                let at = place(at, self.data.len() / 4) * 4;
                if let Some(bytes) = self.data.get_mut(at..at + 4) {
                    bytes.copy_from_slice(&VALUES[value].to_le_bytes());
                }
            }
        }
    }
}

fn place(share: f64, len: usize) -> usize {
    (share * len as f64) as usize
}

fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    match text.windows(old.len()).position(|window| window == old) {
        Some(at) => [&text[..at], new, &text[at + old.len()..]].concat(),
        None => text.to_vec(),
    }
}

/// Byte ranges of the runs of digits.
fn numbers(text: &[u8]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| byte.is_ascii_digit()) {
        match found.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// Byte ranges of the quoted strings, without their quotes.
fn strings(text: &[u8]) -> Vec<Range<usize>> {
    let quotes: Vec<usize> =
        text.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| at).collect();
    quotes.chunks_exact(2).map(|pair| pair[0] + 1..pair[1]).collect()
}

/// Lines; for a text with one line, its parts between commas.
fn parts(text: &[u8]) -> Vec<Vec<u8>> {
    let end = if text.contains(&b'\n') { b'\n' } else { b',' };
    let mut reader = BufReader::new(text);
    let mut parts = Vec::new();
    loop {
        let mut part = Vec::new();
        if reader.read_until(end, &mut part).unwrap() == 0 {
            return parts;
        }
        parts.push(part);
    }
}

/// Bundles with every kind of tokenizer, every kind of positional encoding and every task.
static BUNDLES: LazyLock<Vec<Files>> = LazyLock::new(|| {
    use TokenizerKind::{Bpe, Byte, Character, Unigram, Word, Wordpiece};
    [
        (Word, Positions::Sinusoidal, NormPlacement::Post, Tying::All),
        (Character, Positions::Learned, NormPlacement::Pre, Tying::Decoder),
        (Byte, Positions::Relative, NormPlacement::SublayerOutput, Tying::None),
        (Bpe, Positions::Rotary, NormPlacement::Pre, Tying::All),
        (Unigram, Positions::None, NormPlacement::Post, Tying::Decoder),
        (Wordpiece, Positions::Alibi, NormPlacement::Pre, Tying::None),
    ]
    .into_iter()
    .map(|(kind, positions, norm, tying)| {
        let mut bundle = bundle(kind, positions, norm, tying);
        match kind {
            Word => bundle = multilingual(bundle, LanguagePlacement::BothSides),
            Bpe => bundle = multilingual(bundle, LanguagePlacement::TargetInSource),
            _ => {}
        }
        if kind == Unigram {
            // Identity normalization table: 256 units of zeros.
            let table = format!("AAQA{}AAA=", "AAAA".repeat(341));
            let table = json!({ "type": "Precompiled", "precompiled_charsmap": table });
            let json = bundle.tokenizers.source.to_json().unwrap();
            let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
            let theirs = json["normalizer"].take();
            let all: Vec<_> = [theirs, table].into_iter().filter(|part| !part.is_null()).collect();
            json["normalizer"] = json!({ "type": "Sequence", "normalizers": all });
            let json = serde_json::to_vec_pretty(&json).unwrap();
            bundle.tokenizers.source =
                tx_text::Tokenizer::from_json(&json, "table".as_ref()).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        bundle.save(folder.path()).unwrap();
        open(folder.path()).unwrap();
        Files::read(&folder)
    })
    .chain(one_text::TASKS.into_iter().zip([Word, Bpe, Character]).map(|(task, kind)| {
        let folder = one_text::saved(task, kind, Positions::Learned, Tying::All);
        open(folder.path()).unwrap();
        Files::read(&folder)
    }))
    .collect()
});

/// Peak virtual memory of this process in KiB, where the system reports it.
fn peak() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

fn run(which: usize, mutations: &[Mutation], old_len: bool) {
    let original = &BUNDLES[which];
    let mut files = original.clone();
    mutations.iter().for_each(|mutation| files.apply(mutation));
    let folder = tempfile::tempdir().unwrap();
    files.write(original, old_len, &folder);
    let before = peak();
    // Either result is accepted.
    let _ = without_a_hang(&format!("{which} {mutations:?}"), || open(folder.path()));
    if let Some((before, after)) = before.zip(peak()) {
        assert!(after < before + (2 << 20), "{} KiB more", after - before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_changed_bundle_is_refused_or_works(
        which in 0..9_usize,
        mutations in prop::collection::vec(mutation(), 1..4),
        old_len in prop::bool::weighted(0.1),
    ) {
        run(which, &mutations, old_len);
    }
}
