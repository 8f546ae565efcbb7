//! Known words in place of names and numbers that a model has never read.
//!
//! A model has no use for a new name: its pieces mean nothing to the words around it. A text is therefore translated with a
//! known word in its place, the stand-in, which the name then replaces in the translation.

use std::{cmp::Reverse, collections::HashMap, ops::Range};

use serde::{Deserialize, Serialize};

use super::{
    MAX_WORDS,
    words::{found_in, is_number, words},
};

/// Maximum number of stand-ins of each kind.
const MOST: usize = 4;

/// Fewest sentences with a stand-in.
pub(super) const FEWEST: u32 = 8;

/// Smallest share of the sentences that begin with a start.
const MIN_FREQUENCY: f64 = 0.005;

/// Smallest share of the sentences with a start whose translations begin with its translation.
const MIN_TRANSLATED: f64 = 0.8;

/// Smallest share of the translations that begin with one of a start and are of sentences with it.
const MIN_SOURCE: f64 = 0.9;

/// Words with the number of sentences that have them.
pub(super) type Frequencies<T = String> = Vec<(T, u32)>;

/// Words that stand for names and numbers, the most frequent first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StandIns {
    /// Names that translations have unchanged.
    names: Vec<String>,
    /// Number words and digits, and their translations.
    numbers: Vec<(String, String)>,
    /// First words of sentences, and those of their translations.
    starts: Vec<(String, String)>,
}

impl StandIns {
    /// The most frequent of the names and numbers, which come with their frequency, and of the starts.
    pub(super) fn new(
        names: Frequencies,
        numbers: Frequencies<(String, String)>,
        starts: Starts,
    ) -> Self {
        Self {
            names: most_frequent(names),
            numbers: most_frequent(numbers),
            starts: starts.finish(),
        }
    }

    /// Returns a text with several stand-ins for some of its names. Names of the same kind have different ones, which the text
    /// does not have.
    pub(super) fn texts(&self, text: &str, names: &[&str]) -> Vec<StandInText> {
        let StandIns { names: known, numbers, starts } = self;
        let is_free = |(word, _): &(&String, &String)| found_in(text, word).is_empty();
        let known: Vec<_> = known.iter().map(|name| (name, name)).filter(is_free).collect();
        let numbers = numbers.iter().map(|(word, target)| (word, target));
        let numbers: Vec<_> = numbers.filter(is_free).collect();
        let of_kind = |name: &str| if is_number(name) { &numbers } else { &known };
        let assigned = |turn: usize| {
            let stand_in = |(index, name): (usize, &&str)| {
                let known = of_kind(name);
                let (word, target) = known.get((turn + index) % known.len().max(1))?;
                let replaced = Replaced::new(name, word, target);
                Some(replaced).filter(|_| names.len() <= known.len())
            };
            names.iter().enumerate().map(stand_in).collect::<Option<Vec<_>>>()
        };
        let turns = names.iter().map(|name| of_kind(name).len()).max().unwrap_or_default();
        let of_words = (0..turns).filter_map(assigned);
        let first = names.iter().position(|name| text.starts_with(name));
        let starts = starts.iter().filter(|(start, _)| found_in(text, start).is_empty());
        let of_starts = first.into_iter().flat_map(|first| {
            starts.clone().filter_map(move |(source, target)| {
                let start = Replaced::new(names[first], source, target);
                let start = Replaced { is_start: true, ..start };
                if names.len() == 1 {
                    return Some(vec![start]);
                }
                let mut replaced = assigned(0)?;
                replaced[first] = start;
                Some(replaced)
            })
        });
        of_words.chain(of_starts).filter_map(|replaced| StandInText::new(text, replaced)).collect()
    }

    /// Returns the first problem of the lists. Each stand-in takes a search.
    pub(super) fn problem(&self) -> Option<String> {
        let Self { names, numbers, starts } = self;
        let most = names.len().max(numbers.len()).max(starts.len());
        (most > MOST).then(|| format!("it has {most} stand-ins of a kind, expected at most {MOST}"))
    }
}

/// Of equals, the first in the alphabet.
fn most_frequent<T: Ord>(mut found: Vec<(T, u32)>) -> Vec<T> {
    found.sort_by(|(a, times), (b, others)| (Reverse(times), a).cmp(&(Reverse(others), b)));
    found.into_iter().take(MOST).map(|(word, _)| word).collect()
}

/// A text with stand-ins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StandInText {
    pub(crate) text: String,
    replaced: Vec<Replaced>,
}

/// A name of a text, and its stand-in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Replaced {
    name: String,
    stand_in: String,
    /// Words of translations for the stand-in.
    translation: String,
    /// Whether translations begin with it.
    is_start: bool,
    /// Number of places in the text.
    times: usize,
}

impl Replaced {
    fn new(name: &str, stand_in: &str, translation: &str) -> Self {
        let [name, stand_in, translation] = [name, stand_in, translation].map(str::to_owned);
        Self { name, stand_in, translation, is_start: false, times: 0 }
    }
}

impl StandInText {
    /// `None` if a name is not in the text, or only within others.
    fn new(text: &str, mut replaced: Vec<Replaced>) -> Option<Self> {
        let mut places = Vec::new();
        for (index, of_name) in replaced.iter().enumerate() {
            places.extend(found_in(text, &of_name.name).into_iter().map(|place| (place, index)));
        }
        // Of names that begin at the same place, the longest.
        places.sort_by_key(|(place, _)| (place.start, Reverse(place.end)));
        let mut end = 0;
        places.retain(|(place, _)| {
            let is_apart = place.start >= end;
            end = end.max(place.end);
            is_apart
        });
        for (_, index) in &places {
            replaced[*index].times += 1;
        }
        let is_whole = |of_name: &Replaced| match of_name.is_start {
            true => of_name.times == 1,
            false => of_name.times > 0,
        };
        let text = with(text, &places, |index| &replaced[index].stand_in);
        replaced.iter().all(is_whole).then_some(Self { text, replaced })
    }

    /// Returns a translation with the names in the places of their stand-ins; `None` if it does not have each as often as the
    /// text, or a number as a part of another one.
    pub(crate) fn put_back(&self, translation: &str) -> Option<String> {
        let mut places = Vec::new();
        for (index, of_name) in self.replaced.iter().enumerate() {
            let found = found_in(translation, &of_name.translation);
            let first = words(translation).next().and_then(|word| translation.find(word));
            let is_at_start = || found.iter().map(|place| place.start).min() == first;
            let is_part = |place: &Range<usize>| {
                is_number(&of_name.stand_in) && is_part_of_number(&translation[place.end..])
            };
            if found.len() != of_name.times
                || of_name.is_start && !is_at_start()
                || found.iter().any(is_part)
            {
                return None;
            }
            places.extend(found.into_iter().map(|place| (place, index)));
        }
        places.sort_by_key(|(place, _)| place.start);
        let are_apart = places.windows(2).all(|two| two[0].0.end <= two[1].0.start);
        are_apart.then(|| with(translation, &places, |index| &self.replaced[index].name))
    }
}

/// Whether the text after a number continues it, as `:30` does.
fn is_part_of_number(rest: &str) -> bool {
    let rest = rest.strip_prefix([':', '.', ',', '-', '/']);
    rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// A text with the word of each index in its place. The places are in order and apart.
fn with<'a>(
    text: &str,
    places: &[(Range<usize>, usize)],
    word: impl Fn(usize) -> &'a str,
) -> String {
    let mut written = String::with_capacity(text.len());
    let mut end = 0;
    for (place, index) in places {
        written.push_str(&text[end..place.start]);
        written.push_str(word(*index));
        end = place.end;
    }
    written.push_str(&text[end..]);
    written
}

/// Counts the first word and the first two words of sentences and of their translations.
#[derive(Debug, Default)]
pub(super) struct Starts {
    sentences: u32,
    sources: HashMap<String, u32>,
    targets: HashMap<String, u32>,
    pairs: HashMap<(String, String), u32>,
}

impl Starts {
    pub(super) fn add(&mut self, source: &str, target: &str) {
        self.sentences = self.sentences.saturating_add(1);
        for count in [1, 2] {
            let [Some(source), Some(target)] = [source, target].map(|text| start(text, count))
            else {
                continue;
            };
            *self.sources.entry(source.to_owned()).or_default() += 1;
            *self.targets.entry(target.to_owned()).or_default() += 1;
            *self.pairs.entry((source.to_owned(), target.to_owned())).or_default() += 1;
        }
        // Frequent ones stay.
        for counts in [&mut self.sources, &mut self.targets] {
            if counts.len() > MAX_WORDS {
                counts.retain(|_, times| *times > 1);
            }
        }
        if self.pairs.len() > MAX_WORDS {
            self.pairs.retain(|_, times| *times > 1);
        }
    }

    /// The most frequent starts that have one translation, which no other start has. If names are among them, others such
    /// as pronouns are left out.
    fn finish(self) -> Vec<(String, String)> {
        let Self { sentences, sources, targets, pairs } = self;
        let share = |times: u32, of: Option<&u32>| {
            f64::from(times) / f64::from(of.copied().unwrap_or(times).max(1))
        };
        let is_known = |((source, target), times): &((String, String), u32)| {
            *times >= FEWEST
                && share(*times, Some(&sentences)) >= MIN_FREQUENCY
                && share(*times, sources.get(source)) >= MIN_TRANSLATED
                && share(*times, targets.get(target)) >= MIN_SOURCE
        };
        let mut known: Vec<_> = pairs.into_iter().filter(is_known).collect();
        let is_name = |((source, target), _): &((String, String), u32)| source == target;
        if known.iter().any(is_name) {
            known.retain(is_name);
        }
        most_frequent(known)
    }
}

/// The first words of a text, with a space between them and after them; `None` if there are other characters.
fn start(text: &str, count: usize) -> Option<&str> {
    let mut spaces = text.match_indices(' ');
    let end = spaces.nth(count - 1)?.0;
    let start = &text[..end];
    let is_plain = start.chars().all(|c| c.is_alphanumeric() || c == ' ');
    (is_plain && words(start).count() == count).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn stand_ins() -> StandIns {
        StandIns {
            names: texts(&["Tom", "Boston"]),
            numbers: [("2", "2"), ("fünf", "five")].map(|(a, b)| (a.into(), b.into())).into(),
            starts: vec![("Ein Mann".into(), "A man".into())],
        }
    }

    #[test]
    fn texts_have_stand_ins_for_their_names() {
        for (text, names, expected) in [
            ("Aiko in Kyjiw", &["Kyjiw"][..], &["Aiko in Tom", "Aiko in Boston"][..]),
            ("Aiko ruft", &["Aiko"], &["Tom ruft", "Boston ruft", "Ein Mann ruft"]),
            (
                "Aiko in Kyjiw",
                &["Aiko", "Kyjiw"],
                &["Tom in Boston", "Boston in Tom", "Ein Mann in Boston"],
            ),
            ("27 und 27", &["27"], &["2 und 2", "fünf und fünf"]),
            (
                "27 in Kyjiw",
                &["27", "Kyjiw"],
                &["2 in Boston", "fünf in Tom", "Ein Mann in Boston"],
            ),
            // The text has some of them, or too many names.
            ("Tom ruft Aiko", &["Aiko"], &["Tom ruft Boston"]),
            (
                "Aiko ruft einen Ein-Mann",
                &["Aiko"],
                &["Tom ruft einen Ein-Mann", "Boston ruft einen Ein-Mann"],
            ),
            ("A B C", &["A", "B", "C"], &[]),
            // A part of another one.
            (
                "New Kyjiw, Kyjiw",
                &["New Kyjiw", "Kyjiw"],
                &["Tom, Boston", "Boston, Tom", "Ein Mann, Boston"],
            ),
            ("New Kyjiw", &["New Kyjiw", "Kyjiw"], &[]),
            ("Tom Boston", &["Tom Boston"], &["Ein Mann"]),
        ] {
            let found = stand_ins().texts(text, names);
            let found: Vec<&str> = found.iter().map(|found| &*found.text).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn names_are_put_back() {
        for (text, names, turn, translation, expected) in [
            (
                "Aiko ruft",
                &["Aiko"][..],
                0,
                "Tom's calling, Tomas.",
                Some("Aiko's calling, Tomas."),
            ),
            ("Aiko ruft", &["Aiko"], 0, "tom calls", Some("Aiko calls")),
            ("Aiko ruft", &["Aiko"], 0, "Tom calls Tom", None),
            ("Aiko ruft", &["Aiko"], 0, "", None),
            ("Aiko, Aiko", &["Aiko"], 0, "Tom, Tom", Some("Aiko, Aiko")),
            ("Aiko, Aiko", &["Aiko"], 0, "Tom", None),
            ("Aiko ruft", &["Aiko"], 2, "\"A man\" calls", Some("\"Aiko\" calls")),
            ("Aiko ruft", &["Aiko"], 2, "Is a man calling?", None),
            ("27 in Kyjiw", &["27", "Kyjiw"], 1, "Tom has five", Some("Kyjiw has 27")),
            ("27 in Kyjiw", &["27", "Kyjiw"], 1, "Five in Tom", Some("27 in Kyjiw")),
            ("27 in Kyjiw", &["27", "Kyjiw"], 0, "12 in Boston", None),
            ("27 in Kyjiw", &["27", "Kyjiw"], 0, "Boston at 2.", Some("Kyjiw at 27.")),
            ("27 in Kyjiw", &["27", "Kyjiw"], 0, "Boston at 2:30.", None),
        ] {
            let with = stand_ins().texts(text, names).remove(turn);
            assert_eq!(with.put_back(translation).as_deref(), expected, "{translation}");
        }
    }

    /// `Ein Mann` begins 10 sentences, of which 8 have `A man`, which begins 8 translations. `Ein` has `A` in 8 of 12, and `Drei`
    /// has `Three` in 10 of 15. `Vier` begins 7.
    #[test]
    fn starts_with_one_translation_are_known() {
        let mut starts = Starts::default();
        for (source, target, times) in [
            ("Ein Mann ruft", "A man calls", 8),
            ("Ein Mann, der", "Somebody who calls", 2),
            ("Ein Mann ruft", "Someone is calling", 2),
            ("Drei rufen", "Three call", 10),
            ("Drei rufen", "They call", 5),
            ("Vier rufen", "Four call", 7),
            ("Einer", "A man's", 1),
        ] {
            (0..times).for_each(|_| starts.add(source, target));
        }
        assert_eq!(starts.finish(), [("Ein Mann".into(), "A man".into())]);
        // Names are better.
        let mut starts = Starts::default();
        (0..9).for_each(|_| starts.add("Je suis", "I am"));
        (0..8).for_each(|_| starts.add("Tom est", "Tom is"));
        assert_eq!(starts.finish(), [("Tom".into(), "Tom".into())]);
        assert_eq!(start("J'ai vu", 1), None);
        assert_eq!(start("Ein Mann", 2), None);
    }

    #[test]
    fn the_most_frequent_are_first() {
        let found = [("b", 2), ("a", 2), ("c", 3), ("d", 1), ("e", 1)];
        assert_eq!(most_frequent(found.to_vec()), ["c", "a", "b", "d"]);
    }
}
