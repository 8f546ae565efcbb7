//! Warnings about words that are not in the vocabulary.

use std::collections::HashSet;

/// Maximum number of listed words; further words are only counted.
pub const LISTED: usize = 20;

/// Maximum number of characters printed of a word.
const LONGEST: usize = 40;

/// Unknown words of all lines.
#[derive(Debug, Default)]
pub struct UnknownWords {
    listed: HashSet<String>,
    /// Number of words, counted once per line.
    count: u64,
    lines: u64,
}

impl UnknownWords {
    /// Adds the words of a line; returns those that are to be listed, if any.
    pub fn add(&mut self, words: &[String]) -> Option<String> {
        self.count += words.len() as u64;
        self.lines += u64::from(!words.is_empty());
        let mut new = Vec::new();
        for word in words {
            if self.listed.len() < LISTED && self.listed.insert(word.clone()) {
                new.push(printable(word));
            }
        }
        (!new.is_empty()).then(|| new.join(", "))
    }

    /// Returns the number of words, unless all of them were listed.
    pub fn summary(&self) -> Option<String> {
        let Self { listed, count, lines } = self;
        let listed = listed.len();
        (*count > listed as u64).then(|| match listed {
            LISTED => format!("{count} in {lines} lines; the first {LISTED} are listed above"),
            _ => format!("{count} in {lines} lines, of which {listed} are distinct"),
        })
    }
}

/// Returns the beginning of a word, with control characters as escapes.
fn printable(word: &str) -> String {
    let start: String = word.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let start = start.replace("\\'", "'").replace("\\\"", "\"");
    if word.chars().nth(LONGEST).is_some() { start + "…" } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.into()).collect()
    }

    #[test]
    fn each_word_is_listed_once_and_repetitions_are_counted() {
        let mut unknown = UnknownWords::default();
        assert_eq!(unknown.add(&[]), None);
        assert_eq!(unknown.add(&words(&["hello", "world"])), Some("hello, world".into()));
        assert_eq!(unknown.summary(), None);
        assert_eq!(unknown.add(&words(&["world", "moon"])), Some("moon".into()));
        assert_eq!(unknown.add(&words(&["moon"])), None);
        assert_eq!(unknown.summary(), Some("5 in 3 lines, of which 3 are distinct".into()));
    }

    #[test]
    fn a_limited_number_is_listed() {
        let mut unknown = UnknownWords::default();
        for line in 0..30 {
            let first = unknown.add(&words(&[&format!("a{line}"), &format!("b{line}")]));
            assert_eq!(first.is_some(), line < 10);
        }
        let summary = "60 in 30 lines; the first 20 are listed above";
        assert_eq!(unknown.summary(), Some(summary.into()));
    }

    #[test]
    fn words_are_shortened_and_escaped() {
        assert_eq!(printable("d'été"), "d'été");
        assert_eq!(printable("a\u{1b}[1mb\u{202e}"), "a\\u{1b}[1mb\\u{202e}");
        assert_eq!(printable(&"x".repeat(41)), "x".repeat(40) + "…");
    }
}
