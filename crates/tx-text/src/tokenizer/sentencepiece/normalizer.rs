//! Normalization of a text as SentencePiece does it: at each position the longest rule of the table,
//! spaces as `▁`, and the position in the text of every byte written.

use super::{Model, piece_trie::PieceTrie};
use crate::tokenizer::charsmap;

/// Mark of a space.
pub(super) const SPACE: &str = "▁";

/// Text after normalization.
#[derive(Debug, Default)]
pub(super) struct Normalized {
    /// The text.
    pub(super) text: String,
    /// Position in the original of each byte of the text, and of its end; empty if they are not
    /// requested.
    origin: Vec<usize>,
    is_aligned: bool,
}

impl Normalized {
    /// Text that is normalized already, without positions.
    pub(super) fn part(text: &str) -> Self {
        Self { text: text.to_owned(), ..Self::default() }
    }

    /// Position in the original of a byte of the text, or of its end; 0 if they are not requested.
    pub(super) fn origin(&self, byte: usize) -> usize {
        self.origin.get(byte).copied().unwrap_or_default()
    }

    fn push(&mut self, text: &str, origin: usize) {
        self.text.push_str(text);
        if self.is_aligned {
            self.origin.resize(self.text.len(), origin);
        }
    }
}

/// Scope of a normalization.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope {
    /// Number of bytes after which the normalization ends.
    pub(super) max_bytes: usize,
    /// Whether positions in the original are requested.
    pub(super) is_aligned: bool,
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
    /// Rules of a model, whose table must have been [checked](charsmap::check): its longest rule then
    /// has a limit.
    pub(super) fn new(model: &Model) -> Self {
        let (trie, replacements) = charsmap::parts(&model.charsmap).unwrap_or_default();
        let (adds_space, trims) = (model.adds_space, model.trims);
        Self { trie, replacements: replacements.to_owned(), adds_space, trims }
    }

    /// Number of tokens at the start of a text whose first space SentencePiece removes when it decodes
    /// them.
    pub(super) fn spaces_before_text(&self) -> usize {
        match (self.trims, self.adds_space) {
            (true, _) => usize::MAX,
            (false, true) => 1,
            (false, false) => 0,
        }
    }

    /// Normalizes a text. `kept` are user-defined symbols, which are left as they are.
    pub(super) fn normalize(&self, text: &str, kept: &PieceTrie, scope: Scope) -> Normalized {
        let Scope { max_bytes, is_aligned } = scope;
        let mut normalized = Normalized { is_aligned, ..Normalized::default() };
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
        while normalized.text.len() < max_bytes
            && let Some((mut part, length)) = self.first(rest, kept)
        {
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
        let mut end = position(rest);
        if self.trims {
            while let Some(trimmed) = normalized.text.strip_suffix(SPACE).map(str::len) {
                end = normalized.origin(trimmed);
                normalized.text.truncate(trimmed);
                normalized.origin.truncate(trimmed);
            }
        }
        if is_aligned {
            normalized.origin.push(end);
        }
        normalized
    }

    /// Replacement of the start of a text, and the length of what it replaces: a symbol of `kept`,
    /// the longest rule, or a character. `None` at the end of the text.
    fn first<'a>(&'a self, text: &'a str, kept: &PieceTrie) -> Option<(&'a str, usize)> {
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
        for (index, &byte) in text.iter().take(charsmap::LONGEST_RULE).enumerate() {
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
        let kept = PieceTrie::new(std::iter::empty()).unwrap();
        let scope = Scope { max_bytes: usize::MAX, is_aligned: true };
        let Normalized { text, origin, .. } = normalizer.normalize(text, &kept, scope);
        let scope = Scope { max_bytes: usize::MAX, is_aligned: false };
        assert!(normalizer.normalize(&text, &kept, scope).origin.is_empty());
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
