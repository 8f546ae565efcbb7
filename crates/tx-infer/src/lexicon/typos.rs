//! Typos in sources.

use tx_text::{spacing::is_unspaced, text_words::word_ranges};

use super::{MAX_WORD, SourceWords};
use crate::letter_case::{is_in_capitals, is_plain, lower, map_words, title};

/// Letters of the shortest word that can be a typo, and of the shortest one that it stands for.
const SHORTEST: usize = 4;

/// Maximum number of new words of a text that are compared with those of the training text.
const MAX_NEW: usize = 64;

/// Maximum number of names of a text, which are no typos.
const MAX_NAMES: usize = 64;

impl SourceWords {
    /// Returns a text in which each new word with a single typo is replaced by the most frequent word of the
    /// training text that it may stand for; `None` if there is none. Names, addresses, placeholders, tags, words with several
    /// capitals and those that are kept stay. A text without capitals remains one.
    pub(crate) fn corrected(&self, text: &str, is_kept: impl Fn(&str) -> bool) -> Option<String> {
        if is_in_capitals(text) {
            return None;
        }
        let is_new = |word: &str| can_be_typo(word) && self.written(&lower(word)).is_none();
        if !super::words(text).any(is_new) {
            return None;
        }
        let names = self.copied_names(text, MAX_NAMES);
        let is_name = |word: &str| names.iter().any(|name| super::words(name).any(|it| it == word));
        let has_capitals = text.chars().any(char::is_uppercase);
        let mut left = MAX_NEW;
        let (mut read, mut end) = (String::with_capacity(text.len()), 0);
        for range in word_ranges(text, usize::MAX) {
            read.push_str(&text[end..range.start]);
            end = range.end;
            let part = &text[range];
            if !is_plain(part) {
                read.push_str(part);
                continue;
            }
            read.push_str(&map_words(part, |word| {
                if left == 0 || !is_new(word) || is_name(word) || is_kept(word) {
                    return word.to_owned();
                }
                left -= 1;
                match self.meant(&lower(word)) {
                    Some(meant) if word.starts_with(char::is_uppercase) => title(meant),
                    Some(meant) if has_capitals => meant.to_owned(),
                    Some(meant) => lower(meant),
                    None => word.to_owned(),
                }
            }));
        }
        read.push_str(&text[end..]);
        (read != text).then_some(read)
    }

    /// Returns the most frequent word that a new word, in lower case, may stand for, as it is written.
    fn meant(&self, word: &str) -> Option<&str> {
        let typed: Vec<char> = word.chars().collect();
        let first = typed.first()?.encode_utf8(&mut [0; 4]).to_owned();
        let mut best: Option<(u32, &str)> = None;
        for (index, written) in self.frequent.beginning_with(&first) {
            // A letter has at most four bytes.
            if written.len().abs_diff(word.len()) > 4 {
                continue;
            }
            let count = self.counts.get(index).copied().unwrap_or_default();
            let other: Vec<char> = lower(written).chars().collect();
            if other.len() >= SHORTEST
                && best.is_none_or(|(most, _)| count > most)
                && is_typo(&typed, &other)
            {
                best = Some((count, written));
            }
        }
        best.map(|(_, written)| written)
    }
}

/// Whether a word can be a typo: it has letters only, of a script with spaces, and no capital after the first.
fn can_be_typo(word: &str) -> bool {
    word.len() <= MAX_WORD
        && word.chars().count() >= SHORTEST
        && word.chars().all(|c| c.is_alphabetic() && !is_unspaced(c))
        && !word.chars().skip(1).any(char::is_uppercase)
}

/// Whether two words differ in one letter that is missing, added or another one, or in two that are swapped. The first letter
/// is the same, and the last one unless the last two are swapped: other endings are inflections.
fn is_typo(typed: &[char], meant: &[char]) -> bool {
    let same = typed.iter().zip(meant).take_while(|(a, b)| a == b).count();
    let (typed, meant) = (&typed[same..], &meant[same..]);
    let rest = typed.len().min(meant.len());
    let equal = |(a, b): &(&char, &char)| a == b;
    let end = typed.iter().rev().zip(meant.iter().rev()).take(rest).take_while(equal).count();
    match (&typed[..typed.len() - end], &meant[..meant.len() - end]) {
        ([a, b], [c, d]) => same > 0 && a == d && b == c,
        ([] | [_], [] | [_]) => same > 0 && end > 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tx_text::{Tokenizer, TokenizerConfig, special::SpecialTokens};

    use super::*;
    use crate::lexicon::LexiconBuilder;

    #[test]
    fn a_typo_changes_one_letter_or_swaps_two() {
        let is_typo = |typed: &str, meant: &str| {
            is_typo(&typed.chars().collect::<Vec<_>>(), &meant.chars().collect::<Vec<_>>())
        };
        for typed in ["kled", "klieid", "kleeid", "klxid", "kelid", "kledi"] {
            assert!(is_typo(typed, "kleid"), "{typed}");
        }
        // The first and the last letter, and two changes.
        for other in
            ["leid", "bkleid", "pleid", "lkeid", "klei", "kleide", "kleit", "ked", "klxxd", "kedil"]
        {
            assert!(!is_typo(other, "kleid"), "{other}");
        }
    }

    /// `Hund` occurs four times and `Hand` three times; `Rand` is rare.
    #[test]
    fn new_words_with_a_typo_are_those_of_the_training_text() {
        let text = ["ein Hund und Hand in Rom", "ein Hund und Hand in Bonn", "das Hund"];
        let mut builder = LexiconBuilder::default();
        for text in text.iter().chain(&text[..1]).chain(&["Rand in Rand von Rom"]) {
            builder.add(text, "");
        }
        let (config, special) = (TokenizerConfig::default(), SpecialTokens::Standard);
        let tokenizer = Tokenizer::train(&config, special, &["Rom"]).unwrap();
        let mut source = builder.finish(&tokenizer).unwrap().unwrap().source().clone();
        let read = |text| source.corrected(text, |word| word == "Hannnd");
        for (text, expected) in [
            ("ein Hnud", "ein Hund"),
            ("hnud von Rom", "Hund von Rom"),
            ("ein hxnd, „hunnd“ hunnd-hunnd!", "ein hund, „hund“ hund-hund!"),
            ("Hannd und Hund", "Hand und Hund"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        // Known words, other endings, kept words, short words, rare words, capitals, addresses and numbers.
        for text in [
            "Rand und Hand",
            "Hunde",
            "enin",
            "Rannd",
            "HNUD",
            "HUnd",
            "{hnud} hnud.de hnud@x",
            "Hnd4",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        source.copied.insert("Hnud".into());
        let read = source.corrected("ein Hnud, ein Hunnd", |_| false);
        assert_eq!(read.as_deref(), Some("ein Hnud, ein Hund"));
    }
}
