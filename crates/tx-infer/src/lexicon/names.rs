//! Words of the sources, and the new words that are names.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tx_text::spacing::is_unspaced;

use super::{
    stand_ins::{StandInText, StandIns},
    words::{MAX_WORD, is_long_number, is_number, is_quoted, offset, words},
};
use crate::letter_case::lower;

/// Letters of the longest new word that can be a name. Longer ones are compounds.
const LONGEST_NAME: usize = 14;

/// Letters of the shortest piece of a word of the training text that a new word is composed of.
const SHORTEST_PIECE: usize = 4;

/// Share of copied words from which new words are copied.
const COPIED_SHARE: f64 = 1.0 / 3.0;

/// A word in quotation marks follows this one.
pub(super) const QUOTATION: &str = "\"";

/// Weight of the share of all words in the share of words after a given one, and of all numbers in that of one, as a
/// number of words.
pub(super) const PRIOR: f64 = 4.0;

/// Words of the source text of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceWords {
    /// Words that occur three times or more.
    pub(super) frequent: Words,
    /// Occurrences of each of them.
    pub(super) counts: Vec<u32>,
    /// Words that occur once or twice.
    pub(super) rare: Words,
    /// Share of the sentences with letters that begin with a capital.
    pub(super) capital_starts: f64,
    /// Share of the sentences with letters that end with a final mark.
    pub(super) final_marks: f64,
    /// Names and numbers that most of their translations have, too.
    pub(super) copied: BTreeSet<String>,
    /// Share of copied words among the rare ones with a capital that are not composed of others, by the word
    /// before.
    pub(super) names: Shares,
    /// Share of copied numbers among the rare ones of two digits and more.
    pub(super) numbers: f64,
    /// Words of the target, in lower case, that stand for numbers which are not copied.
    pub(super) number_words: BTreeMap<String, String>,
    /// Words in place of new names and numbers.
    pub(super) stand_ins: StandIns,
}

/// Words as they are written within most sentences, in the order of their lower case, which is different for all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Words(Vec<Box<str>>);

impl FromIterator<String> for Words {
    fn from_iter<I: IntoIterator<Item = String>>(words: I) -> Self {
        let mut words: Vec<Box<str>> = words.into_iter().map(String::into_boxed_str).collect();
        words.sort_by_cached_key(|word| lower(word));
        Self(words)
    }
}

impl Words {
    /// Returns a word, which is in lower case, as it is written.
    fn get(&self, word: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|other| (*lower(other)).cmp(word));
        found.ok().map(|index| &*self.0[index])
    }

    /// Whether a piece begins a word other than `word`.
    fn begins_other(&self, piece: &str, word: &str) -> bool {
        let start = self.0.partition_point(|other| *lower(other) < *piece);
        // The first or the second is another one.
        let mut first = self.0[start..].iter().take(2).map(|other| lower(other));
        first.any(|other| other.starts_with(piece) && other != word)
    }

    /// The words, as they are written, that begin with a text in lower case, with their indices.
    pub(super) fn beginning_with(&self, start: &str) -> impl Iterator<Item = (usize, &str)> {
        let first = self.0.partition_point(|other| *lower(other) < *start);
        let words = self.0.iter().enumerate().skip(first);
        words
            .map(|(index, word)| (index, &**word))
            .take_while(move |(_, word)| lower(word).starts_with(start))
    }

    /// Whether the words are in order, and none is longer than [`MAX_WORD`].
    fn are_valid(&self) -> bool {
        if self.0.iter().any(|word| word.len() > MAX_WORD) {
            return false;
        }
        let lower: Vec<String> = self.0.iter().map(|word| lower(word)).collect();
        lower.is_sorted_by(|a, b| a < b)
    }
}

/// Share of copied words by the word before.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shares {
    all: f64,
    at_start: f64,
    after_rare: f64,
    after: BTreeMap<String, f64>,
}

/// The word before a word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Neighbor {
    /// There is none.
    Start,
    /// A word of the training text that is rare or new.
    Rare,
    /// Another word, in lower case.
    Word(String),
}

impl Shares {
    /// Shares of copied words among those with these neighbors.
    pub(super) fn of(found: &[(Neighbor, bool)]) -> Self {
        let mut counts = BTreeMap::<&Neighbor, (f64, f64)>::new();
        for (neighbor, is_copied) in found {
            let (copied, words) = counts.entry(neighbor).or_default();
            *copied += f64::from(*is_copied);
            *words += 1.0;
        }
        let copied = found.iter().filter(|(_, is_copied)| *is_copied).count();
        let all = copied as f64 / found.len().max(1) as f64;
        let share = |(copied, words): (f64, f64)| {
            let share = (copied + PRIOR * all) / (words + PRIOR);
            // Three digits are enough.
            (share * 1e3).round() / 1e3
        };
        let of = |neighbor| share(counts.get(&neighbor).copied().unwrap_or_default());
        let after = counts.iter().filter_map(|(neighbor, counts)| match neighbor {
            Neighbor::Word(word) => Some((word.clone(), share(*counts))),
            Neighbor::Start | Neighbor::Rare => None,
        });
        Self {
            all: share((0.0, 0.0)),
            at_start: of(Neighbor::Start),
            after_rare: of(Neighbor::Rare),
            after: after.collect(),
        }
    }

    fn get(&self, neighbor: &Neighbor) -> f64 {
        match neighbor {
            Neighbor::Start => self.at_start,
            Neighbor::Rare => self.after_rare,
            Neighbor::Word(word) => self.after.get(word).copied().unwrap_or(self.all),
        }
    }
}

/// Whether one character between two words, or a word and a name, of a text makes them one name. Numbers are apart.
fn is_joined(text: &str, first: &str, second: &str) -> bool {
    let between = &text[offset(text, first) + first.len()..offset(text, second)];
    matches!(between, " " | "-" | "'" | "’")
        && !is_number(second)
        && !first.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether a new word can be a name: it has a capital and no digit, and is of a script with spaces.
pub(super) fn can_be_name(word: &str) -> bool {
    let letters = word.chars().count();
    (2..=LONGEST_NAME).contains(&letters)
        && word.chars().any(char::is_uppercase)
        && !word.chars().any(|c| c.is_numeric() || is_unspaced(c))
}

impl SourceWords {
    /// Returns the first names and numbers of a text that its translation has, at most `most`: those that
    /// the training text copies, new ones, and numbers for which it may have a [word](Self::number_word). Words next to each other are one name. Each is returned once.
    pub fn copied_names<'a>(&self, text: &'a str, most: usize) -> Vec<&'a str> {
        let words: Vec<&str> = words(text).collect();
        let mut is_name = self.are_copied(text, &words);
        // New words next to a name are a part of it.
        let can_be_part =
            |index: usize| can_be_name(words[index]) && self.is_new_word(words[index]);
        for index in 1..words.len() {
            let is_next = is_joined(text, words[index - 1], words[index]);
            is_name[index] |= is_next && is_name[index - 1] && can_be_part(index);
        }
        for index in (1..words.len()).rev() {
            let is_next = is_joined(text, words[index - 1], words[index]);
            is_name[index - 1] |= is_next && is_name[index] && can_be_part(index - 1);
        }
        let mut found: Vec<&str> = Vec::new();
        // Position of the end of the last name.
        let mut last: Option<(usize, &str)> = None;
        for (index, word) in words.into_iter().enumerate().filter(|(index, _)| is_name[*index]) {
            let name = match last.filter(|(at, _)| at + 1 == index) {
                Some((_, name)) if is_joined(text, name, word) => {
                    found.pop();
                    &text[offset(text, name)..offset(text, word) + word.len()]
                }
                _ => word,
            };
            last = Some((index, name));
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found.truncate(most);
        found
    }

    /// Returns the word of the target, in lower case, that stands for a number of a source; `None` if numbers like this
    /// one are copied.
    pub fn number_word(&self, number: &str) -> Option<&str> {
        self.number_words.get(number).map(String::as_str)
    }

    /// Whether each word of a text is a name or number that the training text copies, or a new one.
    fn are_copied(&self, text: &str, words: &[&str]) -> Vec<bool> {
        let mut before = Neighbor::Start;
        let mut is_copied = |word: &&str| {
            if is_quoted(text, word) {
                before = self.neighbor(QUOTATION.into());
            }
            let is_name = || can_be_name(word) && self.names.get(&before) >= COPIED_SHARE;
            let is_number = || is_long_number(word) && self.numbers >= COPIED_SHARE;
            let is_copied = self.copied.contains(*word)
                || self.number_words.contains_key(*word)
                || (is_number() || is_name()) && self.is_new_word(word);
            before = self.neighbor(lower(word));
            is_copied
        };
        words.iter().map(&mut is_copied).collect()
    }

    /// Whether a word is not in the training text and does not consist of words that are.
    fn is_new_word(&self, word: &str) -> bool {
        let lowered = lower(word);
        !self.contains(&lowered) && (is_number(word) || !self.is_composed(&lowered))
    }

    /// Returns the first words of a text that the training text does not have, at most `most`. Each is returned once.
    pub fn new_words<'a>(&self, text: &'a str, most: usize) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        for word in words(text) {
            if !self.contains(&lower(word)) && !found.contains(&word) {
                found.push(word);
            }
            if found.len() >= most {
                break;
            }
        }
        found
    }

    /// Returns a text with several stand-ins for some of its names. Names of the same kind have different ones, which the text
    /// does not have.
    pub(crate) fn with_stand_ins(&self, text: &str, names: &[&str]) -> Vec<StandInText> {
        self.stand_ins.texts(text, names)
    }

    /// Whether the training text lacks a word of a name.
    pub(crate) fn is_new(&self, name: &str) -> bool {
        words(name).any(|word| !self.contains(&lower(word)))
    }

    /// Whether the training text has a word, which is in lower case.
    fn contains(&self, word: &str) -> bool {
        self.written(word).is_some()
    }

    /// Returns a word, which is in lower case, as it is written within most sentences of the training text.
    pub(crate) fn written(&self, word: &str) -> Option<&str> {
        self.frequent.get(word).or_else(|| self.rare.get(word))
    }

    /// Occurrences of a word, which is in lower case; 0 for a rare one.
    pub(super) fn times(&self, word: &str) -> u32 {
        let index = self.frequent.0.binary_search_by(|other| (*lower(other)).cmp(word));
        index.ok().and_then(|index| self.counts.get(index).copied()).unwrap_or_default()
    }

    /// Share of the sentences of the training text that end with a final mark.
    pub(crate) fn final_marks(&self) -> f64 {
        self.final_marks
    }

    /// Whether most sentences of the training text begin with a capital.
    pub(crate) fn begins_with_capitals(&self) -> bool {
        self.capital_starts > 0.5
    }

    /// A word, in lower case, or [`QUOTATION`], as the neighbor of the next word.
    pub(super) fn neighbor(&self, word: String) -> Neighbor {
        let is_word = word == QUOTATION || self.frequent.get(&word).is_some();
        if is_word { Neighbor::Word(word) } else { Neighbor::Rare }
    }

    /// Whether a word, in lower case, consists of pieces that begin other words, as inflections and compounds do. Up to
    /// three letters may follow a long piece, and fewer a short one.
    pub(super) fn is_composed(&self, word: &str) -> bool {
        let mut ends: Vec<usize> = word.char_indices().map(|(at, _)| at).collect();
        ends.push(word.len());
        let letters = ends.len() - 1;
        let mut is_reached = vec![false; letters + 1];
        is_reached[0] = true;
        for start in 0..letters {
            if !is_reached[start] {
                continue;
            }
            for end in start + SHORTEST_PIECE..=letters {
                if !self.begins_other(&word[ends[start]..ends[end]], word) {
                    // A longer piece begins no word either.
                    break;
                }
                let more = (end - start).saturating_sub(3).min(3);
                let more = if end - start == SHORTEST_PIECE { 0 } else { more };
                is_reached[end..=(end + more).min(letters)].fill(true);
            }
        }
        is_reached[letters]
    }

    /// Whether a piece begins a word other than `word`.
    fn begins_other(&self, piece: &str, word: &str) -> bool {
        self.frequent.begins_other(piece, word) || self.rare.begins_other(piece, word)
    }

    /// Returns the first problem of the lists.
    pub(super) fn problem(&self) -> Option<String> {
        if !self.frequent.are_valid() || !self.rare.are_valid() {
            let problem = format!(
                "the source words are not in ascending order, or one has more than {MAX_WORD} bytes"
            );
            return Some(problem);
        }
        if self.counts.len() != self.frequent.0.len() {
            let (counts, words) = (self.counts.len(), self.frequent.0.len());
            return Some(format!("it has {counts} counts for {words} words"));
        }
        if let Some(problem) = self.stand_ins.problem() {
            return Some(problem);
        }
        let Shares { all, at_start, after_rare, after } = &self.names;
        let others = [&self.numbers, &self.capital_starts, &self.final_marks];
        let shares = [all, at_start, after_rare].into_iter().chain(others).chain(after.values());
        let wrong = shares.copied().find(|share| !(0.0..=1.0).contains(share));
        wrong.map(|share| format!("{share} is not a share"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set<T: FromIterator<String>>(words: &[&str]) -> T {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    pub(crate) fn source() -> SourceWords {
        let frequent = ["in", "ein", "wohnt", "Hund", "Weihnachtsmann", "Kostüm", "Berg"];
        SourceWords {
            frequent: set(&frequent),
            counts: vec![3; frequent.len()],
            rare: set(&["Kiel"]),
            capital_starts: 0.9,
            final_marks: 0.9,
            copied: set(&["Boston", "2024", "7"]),
            names: Shares {
                all: 0.3,
                at_start: 0.5,
                after_rare: 0.6,
                after: [("in", 0.4), ("ein", 0.3), (QUOTATION, 0.8)]
                    .map(|(word, share)| (word.to_owned(), share))
                    .into(),
            },
            numbers: 0.9,
            number_words: [("3".to_owned(), "three".to_owned())].into(),
            stand_ins: StandIns::default(),
        }
    }

    /// `ein`: 1 of 3 copied; start: 1 of 1. With 4 words of the mean, 1/2: (1 + 2) / 7 and (1 + 2) / 5.
    #[test]
    fn shares_are_smoothed_by_the_mean() {
        let ein = || Neighbor::Word("ein".into());
        let found = [
            (ein(), true),
            (ein(), false),
            (ein(), false),
            (Neighbor::Start, true),
            (Neighbor::Rare, true),
            (Neighbor::Rare, false),
        ];
        let shares = Shares::of(&found);
        let mean = Neighbor::Word("other".into());
        let all = [ein(), Neighbor::Start, Neighbor::Rare, mean];
        assert_eq!(all.map(|neighbor| shares.get(&neighbor)), [0.429, 0.6, 0.5, 0.5]);
        assert_eq!(Shares::of(&[]).get(&Neighbor::Start), 0.0);
    }

    #[test]
    fn a_name_is_new_if_one_of_its_words_is() {
        let source = source();
        for (name, expected) in [
            ("Kiel", false),
            ("BERG", false),
            ("Thandiwe", true),
            ("Kiel Thandiwe", true),
            ("57", true),
        ] {
            assert_eq!(source.is_new(name), expected, "{name}");
        }
    }

    #[test]
    fn new_words_with_capitals_are_names_where_rare_ones_were() {
        let source = source();
        for (text, copied) in [
            ("Thandiwe wohnt in Kyjiw.", &["Thandiwe", "Kyjiw"][..]),
            // After an article and after other words, most are nouns.
            ("ein Gnu wohnt Gnu", &[]),
            // Known words are no names, in any case.
            ("Kiel in Hund in Berg", &[]),
            // After a rare word.
            ("ein Kiel Thandiwe", &["Thandiwe"]),
            // Inflections and compounds.
            ("in Kostümen in Weihnachtskostüm", &[]),
            ("in Lenzfahrzeugteile", &[]),
            // Names that the training text has, wherever they are.
            ("ein Boston und ein boston", &["Boston"]),
            ("in Kyjiw, in Kyjiw", &["Kyjiw"]),
            ("ein 27, ein 5, ein 2024, ein 7, ein B2, ein 3", &["27", "2024", "7", "3"]),
            // In quotation marks; an apostrophe is within a word.
            ("ein \"Gnu\" wohnt, ein ‚Emu‘, ein'Ara", &["Gnu", "Emu"]),
            // New words next to a name, and names next to each other.
            ("ein El Gnu in Kyjiw Nord-Ost Hund", &["El Gnu", "Kyjiw Nord-Ost"]),
            ("ein El Boston wohnt Boston", &["El Boston", "Boston"]),
            ("in Kyjiw, Emu 2024 in Kyjiw 27", &["Kyjiw", "Emu", "2024", "27"]),
            ("in 東京 in thandiwe", &[]),
            ("", &[]),
        ] {
            assert_eq!(source.copied_names(text, 9), copied, "{text}");
        }
        let few = SourceWords { numbers: 0.3, ..source };
        assert_eq!(few.copied_names("ein 27, ein 2024", 9), ["2024"]);
    }

    /// A piece of four letters is followed by none, one of five by two, and longer ones by three.
    #[test]
    fn pieces_of_words_compose_words() {
        let source = source();
        for (word, expected) in [
            ("bergkostüm", true),
            ("berge", false),
            ("kostümen", true),
            ("kostümiert", false),
            ("kostüberg", true),
            ("weihnachtsberg", true),
            ("weih", true),
            ("wei", false),
            ("thandiwe", false),
            ("", true),
        ] {
            assert_eq!(source.is_composed(word), expected, "{word}");
        }
        // Not by itself.
        assert!(!source.is_composed("kiel"));
    }

    #[test]
    fn words_are_written_as_in_the_training_text() {
        let source = source();
        let written = ["in", "hund", "Hund", "kiel", "katze"].map(|word| source.written(word));
        assert_eq!(written, [Some("in"), Some("Hund"), None, Some("Kiel"), None]);
        let saved = serde_json::to_string(&source.frequent).unwrap();
        assert_eq!(saved, r#"["Berg","ein","Hund","in","Kostüm","Weihnachtsmann","wohnt"]"#);
        assert_eq!(serde_json::from_str::<Words>(&saved).unwrap(), source.frequent);
    }

    #[test]
    fn words_that_the_training_text_lacks_are_new() {
        let text = "Ein Hund isst Eis, Eis in Kiel";
        assert_eq!(source().new_words(text, 9), ["isst", "Eis"]);
        assert_eq!(source().new_words(text, 1), ["isst"]);
        assert_eq!(source().copied_names("in Kyjiw in Lwiw", 1), ["Kyjiw"]);
    }
}
