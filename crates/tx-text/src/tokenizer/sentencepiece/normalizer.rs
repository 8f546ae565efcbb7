//! Normalization of a text as SentencePiece does it: at each position the longest rule of the table,
//! spaces as `▁`, and the position in the text of every byte written.

use super::{Model, sorted_pieces::SortedPieces};
use crate::tokenizer::charsmap;

/// Mark of a space.
pub(super) const SPACE: &str = "▁";

/// Text after normalization.
#[derive(Debug, Default)]
pub(super) struct Normalized {
    /// The text.
    pub(super) text: String,
    /// Position in the original of each byte of the text, and of its end.
    origin: Vec<usize>,
}

impl Normalized {
    /// Position in the original of a byte of the text, or of its end.
    pub(super) fn origin(&self, byte: usize) -> usize {
        self.origin.get(byte).copied().unwrap_or_default()
    }

    fn push(&mut self, text: &str, origin: usize) {
        self.text.push_str(text);
        self.origin.resize(self.text.len(), origin);
    }
}

/// Rules of a model.
#[derive(Debug)]
pub(super) struct Normalizer {
    /// Units of the double-array trie of the table.
    trie: Vec<u32>,
    /// Texts that the values of the trie point into, each ended by a zero byte.
    replacements: String,
    adds_space: bool,
    trims: bool,
}

impl Normalizer {
    /// Rules of a model, whose table must have been [checked](charsmap::check).
    pub(super) fn new(model: &Model) -> Self {
        let (trie, replacements) = charsmap::parts(&model.charsmap).unwrap_or_default();
        let (adds_space, trims) = (model.adds_space, model.trims);
        Self { trie, replacements: replacements.to_owned(), adds_space, trims }
    }

    /// Normalizes a text. `kept` are user-defined symbols, which are left as they are.
    pub(super) fn normalize(&self, text: &str, kept: &SortedPieces) -> Normalized {
        let mut normalized = Normalized::default();
        let mut rest = text;
        if self.trims {
            while let Some((" ", length)) = self.first(rest, kept) {
                rest = rest.get(length..).unwrap_or_default();
            }
        }
        if rest.is_empty() {
            return normalized;
        }
        let position = |rest: &str| text.len() - rest.len();
        if self.adds_space {
            normalized.push(SPACE, position(rest));
        }
        let mut after_space = self.trims;
        while let Some((mut part, length)) = self.first(rest, kept) {
            if after_space {
                part = part.trim_start_matches(' ');
            }
            if !part.is_empty() {
                for (index, words) in part.split(' ').enumerate() {
                    if index > 0 {
                        normalized.push(SPACE, position(rest));
                    }
                    normalized.push(words, position(rest));
                }
                after_space = self.trims && part.ends_with(' ');
            }
            rest = rest.get(length..).unwrap_or_default();
        }
        let mut end = text.len();
        if self.trims {
            while let Some(trimmed) = normalized.text.strip_suffix(SPACE).map(str::len) {
                end = normalized.origin(trimmed);
                normalized.text.truncate(trimmed);
                normalized.origin.truncate(trimmed);
            }
        }
        normalized.origin.push(end);
        normalized
    }

    /// Replacement of the start of a text, and the length of what it replaces: a symbol of `kept`,
    /// the longest rule, or a character. `None` at the end of the text.
    fn first<'a>(&'a self, text: &'a str, kept: &SortedPieces) -> Option<(&'a str, usize)> {
        let character = text.chars().next()?.len_utf8();
        if !kept.is_empty()
            && let Some(length) = kept.longest(text)
        {
            return Some((text.get(..length)?, length));
        }
        match self.longest_rule(text.as_bytes()) {
            // A rule ends at a character, because the table replaces characters.
            Some((length, value)) if text.is_char_boundary(length) => {
                let replacement = self.replacements.get(value..).unwrap_or_default();
                let end = replacement.find('\0').unwrap_or(replacement.len());
                Some((replacement.get(..end)?, length))
            }
            _ => Some((text.get(..character)?, character)),
        }
    }

    /// Length and value of the longest rule for the start of a text.
    fn longest_rule(&self, text: &[u8]) -> Option<(usize, usize)> {
        let offset = |unit: u32| ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize;
        let mut position = offset(*self.trie.first()?);
        let mut longest = None;
        for (index, &byte) in text.iter().enumerate() {
            position ^= usize::from(byte);
            let Some(&unit) = self.trie.get(position) else { break };
            if byte == 0 || unit & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            position ^= offset(unit);
            if unit >> 8 & 1 == 1
                && let Some(leaf) = self.trie.get(position)
            {
                longest = Some((index + 1, (leaf & ((1 << 31) - 1)) as usize));
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalize(text: &str, adds_space: bool, trims: bool) -> (String, Vec<usize>) {
        let replacements = String::new();
        let normalizer = Normalizer { trie: Vec::new(), replacements, adds_space, trims };
        let kept = SortedPieces::new(std::iter::empty()).unwrap();
        let Normalized { text, origin } = normalizer.normalize(text, &kept);
        (text, origin)
    }

    /// The rules for spaces, by hand. `▁` has three bytes.
    #[test]
    fn spaces_are_marked_and_trimmed() {
        let plain = ("▁a▁b".to_owned(), vec![2, 2, 2, 2, 3, 3, 3, 6, 7]);
        assert_eq!(normalize("  a   b ", true, true), plain);
        let kept = ("▁▁a▁".to_owned(), vec![0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 3]);
        assert_eq!(normalize(" a ", true, false), kept);
        assert_eq!(normalize("a", false, true), ("a".to_owned(), vec![0, 1]));
        assert_eq!(normalize("   ", true, true), (String::new(), Vec::new()));
        assert_eq!(normalize("", true, false), (String::new(), Vec::new()));
    }
}
