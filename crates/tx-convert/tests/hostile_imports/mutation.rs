//! Random changes of bytes and texts.

use std::{io::BufRead, ops::Range};

use proptest::prelude::*;

/// Replacements of a number in a text.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "65536",
    "2147483647",
    "4294967295",
    "4294967296",
    "1099511627776",
    "9223372036854775807",
    "18446744073709551615",
    "1e308",
    "1e999",
    "nan",
];

/// Replacements of a binary number, of which the first bytes are used.
const BINARY: [u64; 8] =
    [0, 1, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];

/// Opcodes of pickles.
const OPCODES: &[u8] = b"(.012NRbdltsa)]}euQoKMJGhjqrpgcXTUVSCBIFLPi\x80\x81\x82\x85\x86\x87\x88\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98";

/// Change of a part of a model. All positions are fractions of a part, and `part` of all parts.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// Flips one bit.
    Flip { part: f64, at: f64, bit: u8 },
    /// Replaces a byte by an opcode of pickles.
    Opcode { part: f64, at: f64, opcode: usize },
    /// Overwrites bytes with a number.
    Binary { part: f64, at: f64, number: usize, size: usize },
    /// Truncates the part.
    Truncate { part: f64, at: f64 },
    /// Overwrites bytes with bytes from any position of any part.
    Splice { part: f64, at: f64, from: f64, from_at: f64, len: usize },
    /// Inserts bytes from any position of any part, several times.
    Insert { part: f64, at: f64, from: f64, from_at: f64, len: usize, times: usize },
    /// Replaces a number in a text.
    Number { part: f64, which: f64, number: usize },
    /// Removes a line.
    Drop { part: f64, at: f64 },
    /// Repeats a line at another position.
    Repeat { part: f64, at: f64, to: f64 },
    /// Swaps two quoted strings, including keys.
    Swap { part: f64, a: f64, b: f64 },
    /// Changes an archive as a whole.
    Archive(Box<Mutation>),
}

/// Returns a random change.
pub fn mutation() -> impl Strategy<Value = Mutation> {
    let share = || 0.0..1.0_f64;
    let bytes = prop_oneof![
        2 => (share(), share(), 0_u8..8).prop_map(|(part, at, bit)| Mutation::Flip { part, at, bit }),
        2 => (share(), share(), 0..OPCODES.len())
            .prop_map(|(part, at, opcode)| Mutation::Opcode { part, at, opcode }),
        3 => (share(), share(), 0..BINARY.len(), 1_usize..9)
            .prop_map(|(part, at, number, size)| Mutation::Binary { part, at, number, size }),
        1 => (share(), share()).prop_map(|(part, at)| Mutation::Truncate { part, at }),
        1 => (share(), share(), share(), share(), 1_usize..200).prop_map(
            |(part, at, from, from_at, len)| Mutation::Splice { part, at, from, from_at, len }
        ),
        1 => (share(), share(), share(), share(), 1_usize..40, 1_usize..3_000).prop_map(
            |(part, at, from, from_at, len, times)| {
                Mutation::Insert { part, at, from, from_at, len, times }
            }
        ),
    ]
    .boxed();
    prop_oneof![
        6 => bytes.clone(),
        3 => (share(), share(), 0..NUMBERS.len())
            .prop_map(|(part, which, number)| Mutation::Number { part, which, number }),
        1 => (share(), share()).prop_map(|(part, at)| Mutation::Drop { part, at }),
        1 => (share(), share(), share()).prop_map(|(part, at, to)| Mutation::Repeat { part, at, to }),
        1 => (share(), share(), share()).prop_map(|(part, a, b)| Mutation::Swap { part, a, b }),
        2 => bytes.prop_map(|inner| Mutation::Archive(Box::new(inner))),
    ]
}

impl Mutation {
    /// Part that is changed, and part that bytes are taken from.
    pub fn parts(&self) -> [f64; 2] {
        match *self {
            Self::Splice { part, from, .. } | Self::Insert { part, from, .. } => [part, from],
            Self::Flip { part, .. }
            | Self::Opcode { part, .. }
            | Self::Binary { part, .. }
            | Self::Truncate { part, .. }
            | Self::Number { part, .. }
            | Self::Drop { part, .. }
            | Self::Repeat { part, .. }
            | Self::Swap { part, .. } => [part, part],
            Self::Archive(ref inner) => inner.parts(),
        }
    }

    /// Changes `bytes`. `source` is the part that bytes are taken from.
    pub fn apply_to(&self, bytes: &mut Vec<u8>, source: &[u8]) {
        match *self {
            Self::Flip { at, bit, .. } => {
                let at = place(at, bytes.len());
                bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << bit);
            }
            Self::Opcode { at, opcode, .. } => {
                let at = place(at, bytes.len());
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = OPCODES[opcode]);
            }
            Self::Binary { at, number, size, .. } => {
                let at = place(at, bytes.len());
                let number = BINARY[number].to_le_bytes();
                bytes.iter_mut().skip(at).zip(&number[..size]).for_each(|(to, from)| *to = *from);
            }
            Self::Truncate { at, .. } => bytes.truncate(place(at, bytes.len())),
            Self::Splice { at, from_at, len, .. } => {
                let piece = piece(source, from_at, len);
                let at = place(at, bytes.len());
                let end = bytes.len().min(at + piece.len());
                bytes.splice(at..end, piece.iter().copied());
            }
            Self::Insert { at, from_at, len, times, .. } => {
                let piece = piece(source, from_at, len).repeat(times);
                let at = place(at, bytes.len());
                bytes.splice(at..at, piece);
            }
            Self::Number { which, number, .. } => {
                let numbers = numbers(bytes);
                if let Some(range) = numbers.get(place(which, numbers.len())) {
                    bytes.splice(range.clone(), NUMBERS[number].bytes());
                }
            }
            Self::Drop { at, .. } => {
                let mut lines = lines(bytes);
                let at = place(at, lines.len());
                if at < lines.len() {
                    lines.remove(at);
                }
                *bytes = lines.concat();
            }
            Self::Repeat { at, to, .. } => {
                let mut lines = lines(bytes);
                if let Some(line) = lines.get(place(at, lines.len())).cloned() {
                    lines.insert(place(to, lines.len()), line);
                }
                *bytes = lines.concat();
            }
            Self::Swap { a, b, .. } => {
                let strings = strings(bytes);
                let [a, b] = [a, b].map(|at| strings.get(place(at, strings.len())).cloned());
                if let Some((a, b)) = a.zip(b).filter(|(a, b)| a.end <= b.start) {
                    let (first, second) = (bytes[a.clone()].to_vec(), bytes[b.clone()].to_vec());
                    bytes.splice(b, first);
                    bytes.splice(a, second);
                }
            }
            Self::Archive(ref inner) => inner.apply_to(bytes, source),
        }
    }
}

/// Position in a part. Half of the positions are near its start, where files have their headers.
fn place(share: f64, len: usize) -> usize {
    let share = if share < 0.5 { (2.0 * share).powi(4) } else { 2.0 * share - 1.0 };
    (share * len as f64) as usize
}

fn piece(source: &[u8], at: f64, len: usize) -> &[u8] {
    let start = place(at, source.len());
    &source[start..source.len().min(start + len)]
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
fn lines(mut text: &[u8]) -> Vec<Vec<u8>> {
    let end = if text.contains(&b'\n') { b'\n' } else { b',' };
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        if text.read_until(end, &mut line).unwrap() == 0 {
            return lines;
        }
        lines.push(line);
    }
}
