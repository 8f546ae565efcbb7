//! Invented names, numbers, addresses and placeholders.

use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

const ONSETS: &[&str] = &[
    "b", "br", "c", "ch", "d", "dr", "f", "g", "gr", "h", "j", "k", "kr", "l", "m", "n", "p", "r",
    "s", "sch", "st", "t", "th", "tr", "v", "w", "y", "z", "",
];
const VOWELS: &[&str] = &["a", "e", "i", "o", "u", "ai", "ie", "au", "ou", "y", "é", "ö"];
const CODAS: &[&str] = &["", "", "", "n", "r", "s", "l", "m", "ck", "nd", "rt", "x", "tt"];

/// Returns one element of a list that has some.
fn one(list: &[&'static str], random: &mut ChaCha8Rng) -> &'static str {
    list.choose(random).copied().unwrap_or_default()
}

/// Returns a pronounceable word of two or three syllables.
fn word(random: &mut ChaCha8Rng) -> String {
    let mut word = String::new();
    for _ in 0..random.random_range(2..=3) {
        for part in [ONSETS, VOWELS, CODAS] {
            word.push_str(one(part, random));
        }
    }
    word
}

/// Returns a name.
pub(super) fn name(random: &mut ChaCha8Rng) -> String {
    let word = word(random);
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a number in digits: mostly an integer, or a decimal number, a time, or a year.
pub(super) fn number(random: &mut ChaCha8Rng) -> String {
    match random.random_range(0..10) {
        0 => format!("{}.{}", random.random_range(0..100), random.random_range(0..100)),
        1 => format!("{}:{:02}", random.random_range(0..24), random.random_range(0..60)),
        2 => random.random_range(1_900..2_100).to_string(),
        _ => {
            let digits: u32 = random.random_range(1..=5);
            random.random_range(0..10_u32.pow(digits)).to_string()
        }
    }
}

/// Returns a placeholder of a program's messages.
pub(super) fn placeholder(random: &mut ChaCha8Rng) -> String {
    match random.random_range(0..6) {
        0 => "%s".into(),
        1 => "%d".into(),
        2 => format!("{{{}}}", random.random_range(0..10)),
        3 => format!("{{{}}}", word(random)),
        4 => format!("{{{{{}}}}}", word(random)),
        _ => format!("%({})s", word(random)),
    }
}

/// Returns the name of an inline tag.
pub(super) fn tag(random: &mut ChaCha8Rng) -> &'static str {
    one(&["b", "i", "a", "em", "strong", "code", "u", "span", "g"], random)
}

/// Returns a line that is the same in all languages.
pub(super) fn line(random: &mut ChaCha8Rng) -> String {
    match random.random_range(0..8) {
        0 | 1 => name(random),
        2 => format!("{} {}", name(random), name(random)),
        3 => number(random),
        4 => format!(
            "{}-{:02}-{:02}",
            random.random_range(1_900..2_100),
            random.random_range(1..=12),
            random.random_range(1..=28)
        ),
        5 => format!(
            "{}@{}.{}",
            word(random),
            word(random),
            one(&["com", "org", "net", "de"], random)
        ),
        6 => format!(
            "https://www.{}.{}/{}",
            word(random),
            one(&["com", "org"], random),
            word(random)
        ),
        _ => format!("{}_{}({})", word(random), word(random), number(random)),
    }
}
