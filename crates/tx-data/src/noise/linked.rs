//! Words of a pair that are translations of each other, and changes at their places.

use std::ops::Range;

use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use tx_text::{SentencePair, terminology::with_terms, text_words::word_ranges};

use super::lexicon::{Lexicon, core, hash};
use crate::encoded_pair::Link;

/// Letters of the shortest word that a change replaces or marks; shorter ones are function words.
const SHORTEST: usize = 3;

/// A word and its translation, as byte ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    source: Range<usize>,
    pub(super) target: Range<usize>,
}

impl Place {
    /// Returns a word that occurs once on each side, unchanged, among those that `is_wanted`.
    pub(super) fn same(
        pair: &SentencePair,
        is_wanted: impl Fn(&str) -> bool,
        random: &mut ChaCha8Rng,
    ) -> Option<Self> {
        let [sources, targets] = [&pair.source, &pair.target].map(|text| cores(text));
        let only = |words: &[Range<usize>], text: &str, word: &str| {
            let mut found = words.iter().filter(|range| text[(*range).clone()] == *word);
            found.next().cloned().filter(|_| found.next().is_none())
        };
        let places: Vec<Self> = sources
            .iter()
            .filter_map(|range| {
                let word = &pair.source[range.clone()];
                if !is_wanted(word) {
                    return None;
                }
                let source = only(&sources, &pair.source, word)?;
                Some(Self { source, target: only(&targets, &pair.target, word)? })
            })
            .collect();
        places.choose(random).cloned()
    }

    /// Returns a word with one translation: by the links of the pair if it has them, or else by the
    /// lexicon, in which each must be the likeliest translation of the other.
    pub(super) fn find(
        pair: &SentencePair,
        links: Option<&[Link]>,
        lexicon: &Lexicon,
        random: &mut ChaCha8Rng,
    ) -> Option<Self> {
        let [sources, targets] = [&pair.source, &pair.target].map(|text| cores(text));
        let linked = match links {
            Some(links) => single_links(links),
            None => likeliest(pair, &sources, &targets, lexicon),
        };
        let places: Vec<Self> = linked
            .into_iter()
            .filter_map(|(source, target)| {
                let (source, target) = (sources.get(source)?.clone(), targets.get(target)?.clone());
                let is_word =
                    is_long(&pair.source[source.clone()]) && is_long(&pair.target[target.clone()]);
                is_word.then_some(Self { source, target })
            })
            .collect();
        places.choose(random).cloned()
    }
}

/// Returns a word of a text without the marks around it.
pub(super) fn word_of<'a>(text: &'a str, random: &mut ChaCha8Rng) -> Option<&'a str> {
    let words = cores(text).into_iter().map(|range| &text[range]).filter(|word| is_long(word));
    words.collect::<Vec<_>>().choose(random).copied()
}

/// Whether a word is longer than a function word.
fn is_long(text: &str) -> bool {
    text.chars().filter(|c| c.is_alphanumeric()).count() >= SHORTEST
}

/// Ranges of all words without the marks around them. A word of marks is empty.
fn cores(text: &str) -> Vec<Range<usize>> {
    word_ranges(text, usize::MAX).into_iter().map(|range| core(text, range)).collect()
}

/// Links of words that have no other link.
fn single_links(links: &[Link]) -> Vec<(usize, usize)> {
    let is_single = |link: &&Link| {
        let shares = |other: &&Link| other.source == link.source || other.target == link.target;
        links.iter().filter(shares).count() == 1
    };
    links.iter().filter(is_single).map(|link| (link.source, link.target)).collect()
}

/// Pairs of words that are the likeliest translations of each other.
fn likeliest(
    pair: &SentencePair,
    sources: &[Range<usize>],
    targets: &[Range<usize>],
    lexicon: &Lexicon,
) -> Vec<(usize, usize)> {
    let hashes = |text: &str, words: &[Range<usize>]| -> Vec<u64> {
        words.iter().map(|range| hash(&text[range.clone()])).collect()
    };
    let (sources, targets) = (hashes(&pair.source, sources), hashes(&pair.target, targets));
    let weight = |source: usize, target: usize| lexicon.weight(sources[source], targets[target]);
    // The only largest weight; a word that occurs twice has none.
    let best = |weights: Vec<f32>| {
        let largest = weights.iter().copied().fold(0.0, f32::max);
        let mut found = (0..weights.len()).filter(|&index| weights[index] == largest);
        found.next().filter(|_| largest > 0.0 && found.next().is_none())
    };
    (0..sources.len())
        .filter_map(|source| {
            let target = best((0..targets.len()).map(|target| weight(source, target)).collect())?;
            let back = best((0..sources.len()).map(|source| weight(source, target)).collect())?;
            (back == source).then_some((source, target))
        })
        .collect()
}

/// Replaces a word and its translation by `text`.
pub(super) fn replaced(pair: &SentencePair, text: &str, place: &Place) -> SentencePair {
    let replace = |whole: &str, range: &Range<usize>| {
        format!("{}{text}{}", &whole[..range.start], &whole[range.end..])
    };
    SentencePair::new(replace(&pair.source, &place.source), replace(&pair.target, &place.target))
}

/// Writes `translation` in place of a word and of its translation.
pub(super) fn translated(pair: &SentencePair, translation: &str, place: &Place) -> SentencePair {
    let Place { source, target } = place;
    let (before, after) = (&pair.target[..target.start], &pair.target[target.end..]);
    SentencePair::new(
        with_terms(&pair.source, [(source.clone(), translation)]),
        format!("{before}{translation}{after}"),
    )
}

/// Puts `open` and `close` around a word and its translation.
pub(super) fn surrounded(
    pair: &SentencePair,
    open: &str,
    close: &str,
    place: &Place,
) -> SentencePair {
    let surround = |whole: &str, range: &Range<usize>| {
        let (before, word) = (&whole[..range.start], &whole[range.clone()]);
        format!("{before}{open}{word}{close}{}", &whole[range.end..])
    };
    SentencePair::new(surround(&pair.source, &place.source), surround(&pair.target, &place.target))
}

/// Inserts a word before a word and its translation, or at the end of both sides.
pub(super) fn inserted(pair: &SentencePair, text: &str, place: Option<Place>) -> SentencePair {
    match place {
        Some(Place { source, target }) => {
            let insert = |whole: &str, at: usize| {
                // Before the marks at the start of the word.
                let at = whole[..at].rfind(char::is_whitespace).map_or(0, |space| {
                    space + whole[space..].chars().next().map_or(0, char::len_utf8)
                });
                format!("{}{text} {}", &whole[..at], &whole[at..])
            };
            SentencePair::new(
                insert(&pair.source, source.start),
                insert(&pair.target, target.start),
            )
        }
        None => {
            SentencePair::new(format!("{} {text}", pair.source), format!("{} {text}", pair.target))
        }
    }
}
