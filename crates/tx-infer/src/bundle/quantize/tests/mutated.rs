//! Randomly mutated quantized bundles. Checksums of the tokenizers are recomputed, because they would
//! reject most mutations.

use std::{
    env, fs,
    ops::Range,
    path::Path,
    process::abort,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use tx_model::Tying;

use super::folders;
use crate::{
    Bundle, BundleInfo, Device, Precision, SearchOptions, Translator,
    bundle::{WEIGHTS, files::sha256},
};

/// Number of bundles; `TX_CASES` overrides it.
fn cases() -> u32 {
    env::var("TX_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(600)
}

/// Texts of a bundle, beside the weights.
const TEXTS: [&str; 4] =
    ["config.toml", "source.tokenizer.json", "target.tokenizer.json", "provenance.toml"];

/// Replacements of a number in a text.
const NUMBERS: [&str; 12] = [
    "0",
    "1",
    "-1",
    "3",
    "64",
    "65536",
    "65537",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1e999",
    "nan",
];

/// Replacements of four bytes of the weights: scales, sums, and bytes that a kernel never writes.
const WORDS: [[u8; 4]; 9] = [
    0.0_f32.to_le_bytes(),
    1e-45_f32.to_le_bytes(),
    f32::MAX.to_le_bytes(),
    f32::INFINITY.to_le_bytes(),
    f32::NAN.to_le_bytes(),
    (-1.0_f32).to_le_bytes(),
    i32::MIN.to_le_bytes(),
    i32::MAX.to_le_bytes(),
    [0x80; 4],
];

/// Linear congruential generator (Knuth 1997, MMIX).
struct Random(u64);

impl Random {
    /// A number below `end`; 0 if `end` is 0.
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize).checked_rem(end).unwrap_or(0)
    }
}

/// Files of a bundle: the texts, the header of the weights, and their data.
#[derive(Clone)]
struct Files {
    texts: Vec<Vec<u8>>,
    data: Vec<u8>,
}

/// Index of the header among the texts.
const HEADER: usize = TEXTS.len();

impl Files {
    fn read(folder: &Path) -> Self {
        let mut texts: Vec<_> =
            TEXTS.iter().map(|name| fs::read(folder.join(name)).unwrap()).collect();
        let weights = fs::read(folder.join(WEIGHTS)).unwrap();
        let (length, rest) = weights.split_first_chunk().unwrap();
        let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
        texts.push(header.to_vec());
        Self { texts, data: data.to_vec() }
    }

    fn write(&self, original: &Self, folder: &Path) {
        let mut config = self.texts[0].clone();
        for index in [1, 2] {
            let [old, new] = [original, self].map(|files| sha256(&files.texts[index]));
            let at = config.windows(old.len()).position(|part| part == old.as_bytes());
            at.map(|at| config.splice(at..at + old.len(), new.into_bytes()).count());
        }
        fs::write(folder.join(TEXTS[0]), config).unwrap();
        for (name, text) in TEXTS.iter().zip(&self.texts).skip(1) {
            fs::write(folder.join(name), text).unwrap();
        }
        let header = &self.texts[HEADER];
        let weights = [&(header.len() as u64).to_le_bytes()[..], header, &self.data].concat();
        fs::write(folder.join(WEIGHTS), weights).unwrap();
    }

    fn mutate(&mut self, random: &mut Random) {
        // Mostly the header and the configuration, which describe the weights.
        let file = [HEADER, HEADER, HEADER, 0, 0, 1, 2, 3][random.below(8)];
        let text = &mut self.texts[file];
        let at = random.below(text.len());
        match random.below(10) {
            0 => text.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << random.below(8)),
            1 => text.truncate(at),
            2 => {
                let (start, end) = (random.below(text.len()), random.below(60));
                let part = text[start..text.len().min(start + end)].to_vec();
                let end = text.len().min(at + part.len());
                text.splice(at..end, part);
            }
            3 | 4 => {
                let numbers = ranges(text, u8::is_ascii_digit);
                if let Some(range) = numbers.get(random.below(numbers.len())) {
                    let number = NUMBERS[random.below(NUMBERS.len())];
                    text.splice(range.clone(), number.bytes());
                }
            }
            5 => {
                let words = ranges(text, |byte| byte.is_ascii_alphanumeric() || *byte == b'_');
                let [a, b] = [0; 2].map(|_| words.get(random.below(words.len())).cloned());
                if let Some((a, b)) = a.zip(b).filter(|(a, b)| a.end <= b.start) {
                    let (first, second) = (text[a.clone()].to_vec(), text[b.clone()].to_vec());
                    text.splice(b, first);
                    text.splice(a, second);
                }
            }
            6 => self.data.truncate(random.below(self.data.len())),
            7 => {
                let at = random.below(self.data.len());
                self.data.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << random.below(8));
            }
            _ => {
                let at = random.below(self.data.len() / 4) * 4;
                let word = WORDS[random.below(WORDS.len())];
                self.data.get_mut(at..at + 4).into_iter().for_each(|to| to.copy_from_slice(&word));
            }
        }
    }
}

/// Ranges of neighboring bytes that `belongs` accepts.
fn ranges(text: &[u8], belongs: impl Fn(&u8) -> bool) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in text.iter().enumerate().filter(|(_, byte)| belongs(byte)) {
        match found.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => found.push(at..at + 1),
        }
    }
    found
}

/// Opens and uses a bundle. Returns whether it was accepted.
fn is_accepted(folder: &Path) -> bool {
    let opened = Bundle::open(folder);
    let info = BundleInfo::read(folder);
    let Ok(bundle) = opened else { return false };
    info.unwrap();
    for precision in [Precision::Int8, Precision::F32] {
        let Ok(translator) = Translator::new_in(&bundle, precision, &Device::Cpu) else { continue };
        for beam in [1, 2] {
            let options = SearchOptions { beam, max_len: Some(4), ..SearchOptions::default() };
            let Ok(translator) = translator.clone().with_options(options) else { continue };
            // Extreme scales are valid, and can give scores that are not finite.
            drop(translator.translate_batch(&["one two three", "", "日本"]));
        }
    }
    for name in bundle.weight_names() {
        assert!(bundle.weight(name).is_some(), "{name}");
    }
    true
}

/// Runs `work`; ends the process if it takes minutes.
fn without_a_hang<R>(case: &str, work: impl FnOnce() -> R) -> R {
    let (done, wait) = channel::<()>();
    let case = case.to_owned();
    let guard = thread::spawn(move || {
        if wait.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
            std::io::Write::write_all(&mut std::io::stderr(), case.as_bytes()).ok();
            abort();
        }
    });
    let result = work();
    drop(done);
    guard.join().unwrap();
    result
}

/// Peak virtual memory of this process in KiB, where the system reports it.
fn peak() -> Option<usize> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

#[test]
fn a_changed_quantized_bundle_is_refused_or_works() {
    let (mut accepted, mut refused) = (0, 0);
    for (number, tying) in [Tying::None, Tying::Decoder, Tying::All].into_iter().enumerate() {
        let (_folder, [_, path]) = folders(tying);
        let original = Files::read(&path);
        assert!(is_accepted(&path));
        for case in 0..cases().div_ceil(3) {
            let mut random = Random(u64::from(case) << 8 | number as u64);
            let mut files = original.clone();
            (0..=random.below(3)).for_each(|_| files.mutate(&mut random));
            files.write(&original, &path);
            let before = peak();
            let is_accepted = without_a_hang(&format!("{tying:?} {case}"), || is_accepted(&path));
            *if is_accepted { &mut accepted } else { &mut refused } += 1;
            if let Some((before, after)) = before.zip(peak()) {
                assert!(
                    after < before + (2 << 20),
                    "{tying:?} {case}: {} KiB more",
                    after - before
                );
            }
        }
    }
    assert!(accepted > 0 && refused > 0, "{accepted} accepted, {refused} refused");
}
