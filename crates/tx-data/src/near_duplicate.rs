//! Near-duplicate sentences, which differ only in numbers, names, case or punctuation.
//!
//! "Tom is 12." and "Mary is 30!" with the translations "Tom a 12 ans." and "Mary a 30 ans." share
//! one template. A model trained on one of them has effectively seen the other, so near duplicates
//! must not be split between training and validation.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use tx_text::{SentencePair, hash::hash64};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use crate::encode::TargetSide;

/// Placeholder of a name in a template; unlike any other character of a template, it is neither a
/// letter nor a digit.
const NAME: char = '\u{1}';

/// Returns the template of a sentence, equal for its near duplicates.
///
/// The template is NFKC-normalized and case-folded. Every number becomes `0`, punctuation and
/// spaces are removed, and a capitalized word that also occurs on the `other` side counts as a
/// name. A sentence without other letters (sums, a single name) keeps its own text except for case
/// and spacing.
///
/// ```
/// use tx_data::near_duplicate::template;
/// assert_eq!(template("Tom is 12.", "Tom a 12 ans."), template("Mary is 30!", "Mary a 30 ans."));
/// assert_ne!(template("Tom is 12.", "Er ist 12."), template("Mary is 30!", "Sie ist 30!"));
/// ```
pub fn template(text: &str, other: &str) -> String {
    template_without(text, &names(other).collect())
}

/// Template with the given names replaced by the placeholder.
fn template_without(text: &str, names: &HashSet<&str>) -> String {
    let folded: Cow<'_, str> = match is_nfkc_quick(text.chars()) {
        IsNormalized::Yes => text.into(),
        _ => text.nfkc().collect(),
    };
    let mut template = String::with_capacity(text.len());
    // True after a digit: `1,234.50` and `9 87` each count as one number.
    let mut digits = false;
    let mut letters = false;
    for word in folded.split_whitespace() {
        if !names.is_empty() && names.contains(bare(word)) {
            template.push(NAME);
            digits = false;
            continue;
        }
        for c in word.chars().flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()) {
            if !(c.is_numeric() && digits) {
                template.push(if c.is_numeric() { '0' } else { c });
            }
            digits = c.is_numeric();
            letters |= c.is_alphabetic();
        }
    }
    if letters {
        return template;
    }
    folded.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// Words with a capital followed by lowercase letters.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(bare).filter(|word| {
        let mut letters = word.chars();
        letters.next().is_some_and(char::is_uppercase)
            && letters.next().is_some_and(char::is_lowercase)
            && letters.all(char::is_lowercase)
    })
}

/// Word without surrounding punctuation.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Number of keys per pair.
pub const KEYS: usize = 4;

/// Hashes of the templates of both sides, with and without name detection. Pairs that share a hash
/// are near duplicates. Hashes of sources and targets are distinct.
///
/// Both variants are needed: `WHO IS TOM?` equals `Who is Tom?` only without name detection, and
/// `Who is Tom?` equals `Who is Mary?` only with it.
pub fn keys(pair: &SentencePair) -> [u64; KEYS] {
    let SentencePair { source, target, .. } = pair;
    let key = |side: &[u8], text, names: &HashSet<&str>| {
        hash64(&[side, template_without(text, names).as_bytes()])
    };
    let none = HashSet::new();
    let [a, b] = [key(b"source", source, &none), key(b"target", target, &none)];
    let known: HashSet<&str> = names(source).collect();
    let names: HashSet<&str> = names(target).filter(|name| known.contains(name)).collect();
    match names.is_empty() {
        true => [a, a, b, b],
        false => [a, key(b"source", source, &names), b, key(b"target", target, &names)],
    }
}

/// Keys of a text without a translation: four times the same.
pub fn keys_of_text(text: &str) -> [u64; KEYS] {
    [hash64(&[b"source", template_without(text, &HashSet::new()).as_bytes()]); KEYS]
}

/// [`keys`] of a pair, or those of its source alone if the target is a label.
pub fn keys_with(pair: &SentencePair, target: TargetSide) -> [u64; KEYS] {
    match target {
        TargetSide::Sentence => keys(pair),
        TargetSide::Label => keys_of_text(&pair.source),
    }
}

/// Overlap of validation with training, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Overlap {
    /// Number of validation pairs.
    pub validation: usize,
    /// Validation pairs that are in training.
    pub pairs: usize,
    /// Validation pairs whose source is in training.
    pub sources: usize,
    /// Validation pairs whose target is in training. For labels, equal to `pairs`.
    pub targets: usize,
    /// Validation pairs with a near duplicate of either side in training, including those counted
    /// above.
    pub near: usize,
    /// Number of the first of these pairs, from 1.
    pub first_near: Option<usize>,
}

impl Overlap {
    /// Adds the overlap of the same validation pairs with the next part of a corpus. The counts are
    /// those of the part with the most, and therefore lower bounds, because parts do not record which
    /// pairs they have found.
    pub(crate) fn add(&mut self, next: &Self) {
        for (count, next) in [
            (&mut self.pairs, next.pairs),
            (&mut self.sources, next.sources),
            (&mut self.targets, next.targets),
            (&mut self.near, next.near),
        ] {
            *count = (*count).max(next);
        }
        self.first_near = self.first_near.into_iter().chain(next.first_near).min();
    }
}

/// Search for validation pairs in training data of any size; only hashes of the validation pairs
/// are held in memory.
#[derive(Debug, Clone)]
pub struct OverlapFinder {
    /// For each hash, true if it occurs in training.
    met: HashMap<u64, bool>,
    /// Hashes of each validation pair: pair, source, target, templates.
    validation: Vec<[u64; 3 + KEYS]>,
    target: TargetSide,
}

impl OverlapFinder {
    /// Creates a finder for the given validation pairs.
    pub fn new<'a>(validation: impl IntoIterator<Item = &'a SentencePair>) -> Self {
        Self::with_targets(validation, TargetSide::Sentence)
    }

    /// Finder for the given validation pairs, whose targets are of this kind. Labels are not compared.
    pub fn with_targets<'a>(
        validation: impl IntoIterator<Item = &'a SentencePair>,
        target: TargetSide,
    ) -> Self {
        let validation: Vec<_> =
            validation.into_iter().map(|pair| all_keys(pair, target)).collect();
        let met = validation.iter().flatten().map(|&key| (key, false)).collect();
        Self { met, validation, target }
    }

    /// Records a training pair; returns `true` if it is a near duplicate of a validation pair.
    pub fn meet(&mut self, pair: &SentencePair) -> bool {
        let keys = all_keys(pair, self.target);
        let mut near = false;
        for (index, key) in keys.into_iter().enumerate() {
            if let Some(met) = self.met.get_mut(&key) {
                *met = true;
                near |= index >= 3;
            }
        }
        near
    }

    /// Returns the overlap found so far.
    pub fn overlap(&self) -> Overlap {
        let mut overlap = Overlap { validation: self.validation.len(), ..Overlap::default() };
        for (index, keys) in self.validation.iter().enumerate() {
            let met = keys.map(|key| self.met.get(&key).copied().unwrap_or(false));
            overlap.pairs += usize::from(met[0]);
            overlap.sources += usize::from(met[1]);
            overlap.targets += usize::from(met[2]);
            if met.contains(&true) {
                overlap.near += 1;
                overlap.first_near.get_or_insert(index + 1);
            }
        }
        overlap
    }
}

fn all_keys(pair: &SentencePair, side: TargetSide) -> [u64; 3 + KEYS] {
    let SentencePair { source, target, .. } = pair;
    let [a, b, c, d] = keys_with(pair, side);
    let whole = hash64(&[b"pair", source.as_bytes(), target.as_bytes()]);
    [
        whole,
        hash64(&[b"same source", source.as_bytes()]),
        match side {
            TargetSide::Sentence => hash64(&[b"same target", target.as_bytes()]),
            TargetSide::Label => whole,
        },
        a,
        b,
        c,
        d,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(source: &str, target: &str) -> SentencePair {
        SentencePair::new(source, target)
    }

    #[test]
    fn numbers_names_case_and_punctuation_are_folded() {
        for (a, b) in [
            ("Room 12 is free.", "room 7 is free"),
            ("It costs 1,234.50 now!", "It costs 9 87 now"),
            ("L'amico è qui…", "l’AMICO È QUI"),
            ("ﬁne １２", "fine 3"),
            ("e\u{301}té", "été"),
            ("a T-shirt", "a tshirt"),
        ] {
            assert_eq!(template(a, ""), template(b, ""));
        }
        for (a, b) in [("I saw a dog", "I saw a cat"), ("no", "on"), ("!", "?"), ("1 + 2", "1 + 3")]
        {
            assert_ne!(template(a, ""), template(b, ""), "{a} {b}");
        }
    }

    #[test]
    fn a_name_is_a_capitalized_word_of_both_sides() {
        let (tom, mary) =
            (pair("I saw Tom.", "J'ai vu Tom !"), pair("I saw Mary.", "J'ai vu Mary !"));
        let shared = |a, b| keys(a).iter().zip(keys(b)).filter(|&(a, b)| *a == b).count();
        assert_eq!(shared(&tom, &mary), 2);
        let loud = pair("I SAW TOM!", "J'AI VU TOM");
        assert_eq!((shared(&tom, &loud), shared(&mary, &loud)), (2, 0));
        // `Hund` occurs on one side only.
        let (dog, cat) = (pair("Der Hund", "the dog"), pair("Der Kater", "the cat"));
        assert_eq!(shared(&dog, &cat), 0);
    }

    /// All texts with one label would be near duplicates if labels were compared.
    #[test]
    fn labels_are_not_compared() {
        let [a, b] = [pair("a cat", "animal"), pair("a dog", "animal")];
        let mut finder = OverlapFinder::with_targets([&a], TargetSide::Label);
        assert!(!finder.meet(&b));
        assert_eq!(finder.overlap(), Overlap { validation: 1, ..Overlap::default() });
        assert!(finder.meet(&pair("A CAT!", "other")));
        let near = Overlap { validation: 1, near: 1, first_near: Some(1), ..Overlap::default() };
        assert_eq!(finder.overlap(), near);
        assert_ne!(keys_with(&a, TargetSide::Label), keys_with(&b, TargetSide::Label));
    }

    #[test]
    fn sources_and_targets_have_distinct_keys() {
        let [source, _, target, _] = keys(&pair("a", "a"));
        assert_ne!(source, target);
    }

    /// Of four validation pairs, the first is in training unchanged, the second with another
    /// target, the third with another number, and the fourth is not.
    #[test]
    fn overlap_is_counted_by_kind() {
        let validation =
            [pair("a b", "x"), pair("c d", "y"), pair("page 1", "Seite 1"), pair("e f", "z")];
        let mut finder = OverlapFinder::new(&validation);
        assert!(finder.meet(&pair("a b", "x")));
        assert!(finder.meet(&pair("c d", "other")));
        assert!(finder.meet(&pair("page 2", "Seite 2")));
        assert!(!finder.meet(&pair("g", "h")));
        let expected = Overlap {
            validation: 4,
            pairs: 1,
            sources: 2,
            targets: 1,
            near: 3,
            first_near: Some(1),
        };
        assert_eq!(finder.overlap(), expected);
    }
}
