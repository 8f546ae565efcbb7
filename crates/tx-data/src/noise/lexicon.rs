//! Translations of words, learned from sentence pairs.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use tx_text::{SentencePair, hash::hash64, text_words::word_ranges};

/// Pairs that a lexicon is learned from, at most: the first of a corpus. Their words take memory.
const PAIRS: usize = 50_000;
/// Pairs with a word and its translation, at least.
const FEWEST: u32 = 5;
/// Smallest Dice coefficient of a word and its translation.
const SMALLEST: f32 = 0.3;

/// Words with their translations. The weight of a source word `s` and a target word `t` is the Dice
/// coefficient `2 n(s, t) / (n(s) + n(t))` of the numbers of pairs that contain them. Translations have a
/// weight of at least 0.3.
#[derive(Debug, Clone, Default)]
pub struct Lexicon {
    /// Weights by the hashes of both words.
    weights: HashMap<(u64, u64), f32>,
}

impl Lexicon {
    /// Returns the weight of two words with these [hashes](hash); 0 if they are no translations of each
    /// other.
    pub(super) fn weight(&self, source: u64, target: u64) -> f32 {
        self.weights.get(&(source, target)).copied().unwrap_or_default()
    }
}

/// Counts the words of pairs.
#[derive(Debug, Default)]
pub struct LexiconBuilder {
    pairs: usize,
    sources: HashMap<u64, u32>,
    targets: HashMap<u64, u32>,
    together: HashMap<(u64, u64), u32>,
}

impl LexiconBuilder {
    /// Returns `true` if more pairs have no effect.
    pub fn is_full(&self) -> bool {
        self.pairs >= PAIRS
    }

    /// Adds the words of a pair.
    pub fn add(&mut self, pair: &SentencePair) {
        self.pairs += 1;
        let [sources, targets] = [&pair.source, &pair.target].map(|text| words(text));
        sources.iter().for_each(|word| *self.sources.entry(*word).or_default() += 1);
        targets.iter().for_each(|word| *self.targets.entry(*word).or_default() += 1);
        for source in &sources {
            for target in &targets {
                *self.together.entry((*source, *target)).or_default() += 1;
            }
        }
    }

    /// Returns the lexicon.
    pub fn finish(self) -> Lexicon {
        let Self { sources, targets, together, .. } = self;
        let weight = |((source, target), count): ((u64, u64), u32)| {
            let sum = sources.get(&source)? + targets.get(&target)?;
            let weight = 2.0 * count as f32 / sum as f32;
            (count >= FEWEST && weight >= SMALLEST).then_some(((source, target), weight))
        };
        Lexicon { weights: together.into_iter().filter_map(weight).collect() }
    }
}

/// Hash of a word in any case.
pub(super) fn hash(word: &str) -> u64 {
    hash64(&[word.to_lowercase().as_bytes()])
}

/// Returns the range of a word without the marks around it.
pub(super) fn core(text: &str, range: Range<usize>) -> Range<usize> {
    let word = &text[range.clone()];
    let is_mark = |c: char| !c.is_alphanumeric();
    let start = range.start + (word.len() - word.trim_start_matches(is_mark).len());
    let end = range.end - (word.len() - word.trim_end_matches(is_mark).len());
    start.min(end)..end
}

/// Distinct words of a text, without the marks around them.
fn words(text: &str) -> HashSet<u64> {
    let ranges = word_ranges(text, usize::MAX).into_iter();
    let words = ranges.map(|range| &text[core(text, range)]).filter(|word| !word.is_empty());
    words.map(hash).collect()
}
