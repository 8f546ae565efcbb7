//! Words of both sides of a translation, and their links.

use std::{collections::HashMap, ops::Range};

use tx_infer::Alignment;

use tx_infer::tx_text::spacing::is_unspaced;

/// Side of a unit at which markup stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Before the unit, or before its first letter, after punctuation.
    Before,
    BeforeCore,
    /// After the unit, or after its last letter, before punctuation.
    After,
    AfterCore,
}

impl Side {
    pub(super) fn is_before(self) -> bool {
        matches!(self, Self::Before | Self::BeforeCore)
    }
}

/// Units that markup covers: words, characters of scripts without spaces, and the parts of a word that
/// the translation keeps, if markup divides it (`H<sub>2</sub>O`).
#[derive(Debug)]
pub(super) struct Units<'a> {
    pub(super) source_text: &'a str,
    pub(super) target_text: &'a str,
    pub(super) source: Vec<Range<usize>>,
    pub(super) target: Vec<Range<usize>>,
    /// For each source unit, the first and last target unit that are aligned to it.
    pub(super) links: Vec<Option<(usize, usize)>>,
    /// Whether positions are proportional because units are smaller than the words of the alignment.
    pub(super) is_proportional: bool,
}

impl<'a> Units<'a> {
    /// Divides both texts; `cuts` are the positions of markup in the source, in order.
    pub(super) fn new(
        source_text: &'a str,
        target_text: &'a str,
        cuts: &[usize],
        alignment: Option<&Alignment>,
    ) -> Self {
        let (words, target_words) = (words(source_text), words(target_text));
        let mut is_proportional = false;
        // Units of each word, as a range of indices.
        let mut source = Vec::new();
        let mut units_of = Vec::with_capacity(words.len());
        for word in &words {
            let start = source.len();
            if source_text[word.clone()].contains(is_unspaced) {
                characters(source_text, word, &mut source);
                is_proportional |= source.len() > start + 1;
            } else {
                divided(source_text, word, cuts, &mut source);
            }
            units_of.push(start..source.len());
        }
        let mut links = alignment.map(Alignment::links).unwrap_or_default();
        links.retain(|&(from, to)| from < words.len() && to < target_words.len());
        // The source word that each target word repeats.
        let mut repeated: HashMap<usize, usize> = HashMap::new();
        for &(from, to) in &links {
            if units_of[from].len() > 1
                && source_text[words[from].clone()] == target_text[target_words[to].clone()]
            {
                repeated.insert(to, from);
            }
        }
        let mut target = Vec::new();
        let mut targets_of = Vec::with_capacity(target_words.len());
        for (index, word) in target_words.iter().enumerate() {
            let start = target.len();
            if target_text[word.clone()].contains(is_unspaced) {
                characters(target_text, word, &mut target);
                is_proportional |= target.len() > start + 1;
            } else if let Some(&from) = repeated.get(&index) {
                let shift = |at: usize| at - words[from].start + word.start;
                let units = source[units_of[from].clone()].iter();
                target.extend(units.map(|unit| shift(unit.start)..shift(unit.end)));
            } else {
                target.push(word.clone());
            }
            targets_of.push(start..target.len());
        }
        let mut unit_links: Vec<Option<(usize, usize)>> = vec![None; source.len()];
        for (from, to) in links {
            let is_repeated = repeated.get(&to) == Some(&from);
            let Range { start, end } = targets_of[to].clone();
            for (offset, unit) in units_of[from].clone().enumerate() {
                let range =
                    if is_repeated { (start + offset, start + offset) } else { (start, end - 1) };
                unit_links[unit] = super::union(unit_links[unit], Some(range));
            }
        }
        Self { source_text, target_text, source, target, links: unit_links, is_proportional }
    }

    /// The same units, but the target is divided into characters.
    pub(super) fn with_characters(self) -> Self {
        let mut target = Vec::new();
        for word in words(self.target_text) {
            characters(self.target_text, &word, &mut target);
        }
        Self { target, is_proportional: true, ..self }
    }

    /// Number of target units before the position that is relative to the source unit `unit`.
    pub(super) fn proportional(&self, unit: usize) -> usize {
        let count = self.source.len().max(1);
        (unit * self.target.len() + count / 2) / count
    }

    /// Source unit next to a position of the source, and the side of the unit.
    pub(super) fn place(&self, at: usize) -> (Side, usize) {
        let next = self.source.partition_point(|unit| unit.end <= at);
        let is_in = |range: Range<usize>| {
            let text = self.source_text.get(range).unwrap_or_default();
            text.contains(char::is_alphanumeric)
        };
        let previous = next.checked_sub(1).map(|previous| (previous, &self.source[previous]));
        match (self.source.get(next), previous) {
            (Some(unit), _) if unit.start < at => {
                if is_in(at..unit.end) && !is_in(unit.start..at) {
                    (Side::BeforeCore, next)
                } else if is_in(at..unit.end) {
                    (Side::After, next)
                } else {
                    (Side::AfterCore, next)
                }
            }
            (_, Some((previous, unit))) if unit.end == at => (Side::After, previous),
            (Some(_), _) => (Side::Before, next),
            (None, Some((previous, _))) => (Side::After, previous),
            (None, None) => (Side::Before, 0),
        }
    }

    /// Target unit that corresponds to a side of a source unit.
    pub(super) fn target_of(&self, side: Side, unit: usize) -> usize {
        let linked = self.links.get(unit).copied().flatten().filter(|_| !self.is_proportional);
        match linked {
            Some((from, _)) if side.is_before() => from,
            Some((_, to)) => to,
            None if side.is_before() => self.proportional(unit),
            None => self.proportional(unit + 1).max(1) - 1,
        }
    }

    /// Position in the translation at a side of a target unit.
    pub(super) fn offset(&self, side: Side, unit: usize) -> usize {
        let Some(unit) = self.target.get(unit) else { return self.target_text.len() };
        match side {
            Side::Before => unit.start,
            Side::BeforeCore => core(self.target_text, unit).start,
            Side::After => unit.end,
            Side::AfterCore => core(self.target_text, unit).end,
        }
    }
}

/// The part of a unit without punctuation around it; all of a unit of punctuation.
pub(super) fn core(text: &str, unit: &Range<usize>) -> Range<usize> {
    let word = &text[unit.clone()];
    let is_punctuation = |c: char| !c.is_alphanumeric();
    let end = word.trim_end_matches(is_punctuation).len();
    if end == 0 {
        return unit.clone();
    }
    let start = word.len() - word.trim_start_matches(is_punctuation).len();
    unit.start + start..unit.start + end
}

/// Positions of the words of a text, as the alignment counts them.
fn words(text: &str) -> Vec<Range<usize>> {
    let start = text.as_ptr() as usize;
    let range = |word: &str| {
        let at = word.as_ptr() as usize - start;
        at..at + word.len()
    };
    text.split_whitespace().map(range).collect()
}

/// Divides a word at `cuts` between letters.
fn divided(text: &str, word: &Range<usize>, cuts: &[usize], units: &mut Vec<Range<usize>>) {
    let mut start = word.start;
    let first = cuts.partition_point(|&cut| cut <= start);
    let mut has_letters = false;
    let mut counted = start;
    // The parts between cuts are visited once each.
    for &cut in cuts[first..].iter().take_while(|&&cut| cut < word.end) {
        if cut <= counted {
            continue;
        }
        has_letters |= text[counted..cut].contains(char::is_alphanumeric);
        counted = cut;
        let follows = text[cut..word.end].chars().next().is_some_and(char::is_alphanumeric);
        if has_letters && follows {
            units.push(start..cut);
            (start, has_letters) = (cut, false);
        }
    }
    units.push(start..word.end);
}

/// Divides a word into letters, each with the marks and punctuation after it.
fn characters(text: &str, word: &Range<usize>, units: &mut Vec<Range<usize>>) {
    let mut start = word.start;
    let mut has_letter = false;
    for (offset, c) in text[word.clone()].char_indices() {
        let at = word.start + offset;
        if c.is_alphanumeric() && has_letter {
            units.push(start..at);
            start = at;
        }
        has_letter |= c.is_alphanumeric();
    }
    units.push(start..word.end);
}
