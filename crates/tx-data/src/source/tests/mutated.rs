//! Valid files of every format with bytes changed, removed, duplicated and moved: no panic, no
//! hang, and bounded memory.
//!
//! The normal run reads a few hundred files. This command reads 100,000: `cargo test --release
//! --workspace --lib a_hundred_thousand -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use proptest::{prelude::*, test_runner::TestRunner};

use super::*;

/// Maximum time for a file of a few kilobytes.
const LONGEST: Duration = Duration::from_secs(10);

/// Maximum growth of the process's peak memory in KiB; a Parquet page may expand to 64 MiB.
const MOST_KIB: u64 = 128 << 10;

/// Mutation of a file.
#[derive(Debug, Clone)]
enum Change {
    Flip(usize, u8),
    Set(usize, [u8; 4]),
    Cut(usize, usize),
    Repeat(usize, usize),
    Truncate(usize),
    Insert(usize, Vec<u8>),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<usize>;
    let extreme = prop_oneof![
        Just([0; 4]),
        Just([0xff; 4]),
        Just([0xff, 0xff, 0xff, 0x7f]),
        Just([0x80, 0x80, 0x80, 0x80]),
        any::<[u8; 4]>()
    ];
    prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, bits)| Change::Flip(at, bits)),
        3 => (at(), extreme).prop_map(|(at, bytes)| Change::Set(at, bytes)),
        1 => (at(), 1..64_usize).prop_map(|(at, len)| Change::Cut(at, len)),
        1 => (at(), 1..64_usize).prop_map(|(at, len)| Change::Repeat(at, len)),
        1 => at().prop_map(Change::Truncate),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..16))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    if bytes.is_empty() {
        return;
    }
    let len = bytes.len();
    match change {
        Change::Flip(at, bits) => bytes[at % len] ^= bits,
        Change::Set(at, with) => {
            // Every second offset is in the last bytes, which contain the metadata of Parquet and
            // zip.
            let at = if at % 2 == 0 { at % len } else { len - 1 - (at / 2) % len.min(600) };
            for (byte, with) in bytes[at..].iter_mut().zip(with) {
                *byte = *with;
            }
        }
        Change::Cut(at, count) => {
            let at = at % len;
            bytes.drain(at..(at + count).min(len));
        }
        Change::Repeat(at, count) => {
            let at = at % len;
            let piece = bytes[at..(at + count).min(len)].to_vec();
            bytes.splice(at..at, piece);
        }
        Change::Truncate(at) => bytes.truncate(at % len),
        Change::Insert(at, more) => {
            let at = at % len;
            bytes.splice(at..at, more.iter().copied());
        }
    }
}

/// Options that fit the pairs of a valid file.
#[derive(Debug, Clone, Copy)]
enum Content {
    /// English and Italian, or English and German.
    Sentences,
    /// Texts with labels in this column.
    Labels(&'static str),
}

impl Content {
    fn options(self, seed: usize) -> ReadOptions {
        match self {
            Self::Sentences if seed.is_multiple_of(2) => languages("en", "it"),
            Self::Sentences => languages("en", "de"),
            Self::Labels(column) => {
                let columns = Columns { target: Some(column.into()), ..labels::label_columns() };
                ReadOptions { columns, ..ReadOptions::default() }
            }
        }
    }
}

/// Valid file of each format and compression.
fn seeds() -> Vec<(Vec<u8>, Content)> {
    let fixture = |name: &str| fs::read(Path::new(FIXTURES).join(name)).unwrap();
    let texts = [tsv(), csv_with(",", "en,it\n"), jsonl(), tmx()];
    let mut seeds: Vec<Vec<u8>> = texts.iter().map(|text| text.clone().into_bytes()).collect();
    seeds.push(tsv().encode_utf16().fold(vec![0xff, 0xfe], |mut bytes, unit| {
        bytes.extend(unit.to_le_bytes());
        bytes
    }));
    for text in &texts {
        seeds.extend(packings("pairs", text.as_bytes()).into_iter().skip(1).map(|(_, b)| b));
    }
    let moses: [(&str, &[u8]); 2] = [("a.en", b"one\ntwo\n"), ("a.it", b"uno\ndue\n")];
    seeds.extend([deflated(&moses), gzip(&tar(&moses))]);
    // Parquet has the most complex reader and is repeated.
    for _ in 0..4 {
        seeds.push(fixture("opus_books.en-it.parquet"));
        for codec in ["none", "gzip", "lz4"] {
            seeds.push(fixture(&format!("flat.{codec}.parquet")));
        }
    }
    seeds.push(fixture("flat.zstd.parquet"));
    let mut seeds: Vec<(Vec<u8>, Content)> =
        seeds.into_iter().map(|bytes| (bytes, Content::Sentences)).collect();
    for column in ["label", "int32", "uint64", "bool", "required"] {
        seeds.push((fixture("labeled.parquet"), Content::Labels(column)));
    }
    let labeled = "{\"text\": \"a\", \"label\": 1}\n{\"text\": \"b\", \"label\": true}\n";
    seeds.push((labeled.into(), Content::Labels("label")));
    seeds
}

/// Peak memory of this process in KiB; 0 if unknown.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Reads mutated files and counts those that still yield pairs.
fn survive(cases: u32) -> (u32, u32) {
    let folder = Folder::new();
    let seeds = seeds();
    let before = peak_kib();
    let (read_well, panics) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    let strategy = (0..seeds.len(), prop::collection::vec(change(), 1..4), 0..3_u8);
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    };
    let mut runner = TestRunner::new(config);
    let result = runner.run(&strategy, |(seed, changes, how)| {
        let (mut bytes, content) = seeds[seed].clone();
        changes.iter().for_each(|change| apply(&mut bytes, change));
        let path = folder.file("mutated", &bytes);
        let begun = Instant::now();
        let options = content.options(seed);
        let outcome = match how {
            0 => parallel(&path, &path, &options).map(Iterator::count),
            _ => pairs(&path, &options)
                .and_then(|pairs| pairs.take(1_000_000).collect::<Result<Vec<_>, _>>())
                .map(|pairs| pairs.len()),
        };
        if outcome.is_ok() {
            read_well.set(read_well.get() + 1);
        } else if let Err(error) = &outcome
            && error.to_string().contains("the Parquet library panicked")
        {
            panics.set(panics.get() + 1);
        }
        prop_assert!(begun.elapsed() < LONGEST, "it took {:?}", begun.elapsed());
        let grown = peak_kib().saturating_sub(before);
        prop_assert!(grown < MOST_KIB, "memory grew by {} KiB", grown);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    (read_well.get(), panics.get())
}

#[test]
fn mutated_files_do_no_harm() {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let (read_well, _) = survive(cases);
    assert!(read_well < cases, "no mutation had an effect");
}

#[test]
#[ignore = "100,000 cases take minutes"]
fn a_hundred_thousand_mutated_files_do_no_harm() {
    let (read_well, panics) = survive(100_000);
    eprintln!(
        "100,000 mutated files: {read_well} still gave pairs, {panics} panics of the Parquet \
         library became errors, peak memory {} KiB",
        peak_kib()
    );
}
