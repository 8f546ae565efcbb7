//! Sentences that say the same but for a number, a name, case or punctuation.
//!
//! "Tom is 12." and "Mary is 30!" with the translations "Tom a 12 ans." and "Mary a 30 ans." come
//! from one template. A model that has learned one knows the other, so neither may be in validation
//! while the other is in training.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use tx_text::{SentencePair, hash::hash64};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// Stands for a name in a template; nothing else there is no letter and no digit.
const NAME: char = '\u{1}';

/// What a sentence has in common with its near duplicates.
///
/// Unicode is folded (NFKC) and so is case, every number becomes `0`, punctuation and spaces go, and
/// a capitalised word that stands on the `other` side as well is taken for a name. A sentence that
/// is left without letters (sums, a lone name) is its own, but for case and spacing.
///
/// ```
/// use tx_data::near_duplicate::template;
/// assert_eq!(template("Tom is 12.", "Tom a 12 ans."), template("Mary is 30!", "Mary a 30 ans."));
/// assert_ne!(template("Tom is 12.", "Er ist 12."), template("Mary is 30!", "Sie ist 30!"));
/// ```
pub fn template(text: &str, other: &str) -> String {
    template_without(text, &names(other).collect())
}

/// The template with some names taken for any name.
fn template_without(text: &str, names: &HashSet<&str>) -> String {
    let folded: Cow<'_, str> = match is_nfkc_quick(text.chars()) {
        IsNormalized::Yes => text.into(),
        _ => text.nfkc().collect(),
    };
    let mut template = String::with_capacity(text.len());
    // Whether the last sign was a digit: `1,234.50` and `9 87` are both one number.
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

/// Words of letters that start with a capital and go on in small letters.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().map(bare).filter(|word| {
        let mut letters = word.chars();
        letters.next().is_some_and(char::is_uppercase)
            && letters.next().is_some_and(char::is_lowercase)
            && letters.all(char::is_lowercase)
    })
}

/// A word without the punctuation around it.
fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Keys of a pair.
pub const KEYS: usize = 4;

/// Hashes of the templates of both sides, with names and without: pairs that share one are near
/// duplicates. A source and a target never have the same.
///
/// Both kinds, for `WHO IS TOM?` is `Who is Tom?` without regard to names only, and that is
/// `Who is Mary?` with regard to them only.
pub fn keys(pair: &SentencePair) -> [u64; KEYS] {
    let SentencePair { source, target } = pair;
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

/// How many validation pairs are known from training, in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Overlap {
    /// Validation pairs looked for.
    pub validation: usize,
    /// Of which the same pair is in training.
    pub pairs: usize,
    /// Of which the same source is in training.
    pub sources: usize,
    /// Of which the same target is in training.
    pub targets: usize,
    /// Of which a near duplicate of either side is in training; those above are among them.
    pub near: usize,
    /// The first of those, from 1.
    pub first_near: Option<usize>,
}

/// Looks for validation pairs in training, which may be of any length: only the validation pairs
/// are held in memory, as hashes.
#[derive(Debug, Clone)]
pub struct OverlapFinder {
    /// For each hash whether training has it.
    met: HashMap<u64, bool>,
    /// Hashes of each validation pair: pair, source, target, templates.
    validation: Vec<[u64; 3 + KEYS]>,
}

impl OverlapFinder {
    /// Will look for these.
    pub fn new<'a>(validation: impl IntoIterator<Item = &'a SentencePair>) -> Self {
        let validation: Vec<_> = validation.into_iter().map(all_keys).collect();
        let met = validation.iter().flatten().map(|&key| (key, false)).collect();
        Self { met, validation }
    }

    /// Takes note of a training pair; tells whether it is a near duplicate of a validation pair.
    pub fn meet(&mut self, pair: &SentencePair) -> bool {
        let keys = all_keys(pair);
        let mut near = false;
        for (index, key) in keys.into_iter().enumerate() {
            if let Some(met) = self.met.get_mut(&key) {
                *met = true;
                near |= index >= 3;
            }
        }
        near
    }

    /// What was found so far.
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

fn all_keys(pair: &SentencePair) -> [u64; 3 + KEYS] {
    let SentencePair { source, target } = pair;
    let [a, b, c, d] = keys(pair);
    [
        hash64(&[b"pair", source.as_bytes(), target.as_bytes()]),
        hash64(&[b"same source", source.as_bytes()]),
        hash64(&[b"same target", target.as_bytes()]),
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
    fn a_name_is_a_capitalised_word_of_both_sides() {
        let (tom, mary) =
            (pair("I saw Tom.", "J'ai vu Tom !"), pair("I saw Mary.", "J'ai vu Mary !"));
        let shared = |a, b| keys(a).iter().zip(keys(b)).filter(|&(a, b)| *a == b).count();
        assert_eq!(shared(&tom, &mary), 2);
        let loud = pair("I SAW TOM!", "J'AI VU TOM");
        assert_eq!((shared(&tom, &loud), shared(&mary, &loud)), (2, 0));
        // `Hund` stands on one side only.
        let (dog, cat) = (pair("Der Hund", "the dog"), pair("Der Kater", "the cat"));
        assert_eq!(shared(&dog, &cat), 0);
    }

    #[test]
    fn sides_have_keys_of_their_own() {
        let [source, _, target, _] = keys(&pair("a", "a"));
        assert_ne!(source, target);
    }

    /// Of four validation pairs the first is in training as it stands, the second with another
    /// target, the third with another number and the fourth not at all.
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
