//! Glossaries: translations of terms that a target must contain.

mod accuracy;
mod files;
mod term;
mod terms;

use std::{collections::HashMap, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::{error::InferError, letter_case::lower};
pub use accuracy::TermAccuracy;
pub use files::{GlossaryFormat, GlossaryLanguages};
pub use term::Term;
use term::{is_bordered, matches_case, occurrences};
pub(crate) use terms::{FoundTerms, Terms, after, forms_of};

/// Maximum length of a term in bytes.
pub const MAX_TERM: usize = 400;

/// Maximum number of translations of a term.
pub const MAX_TRANSLATIONS: usize = 8;

/// Terms of the source language, each with its translations.
///
/// A term is found in a text with word borders, also as a part of longer text without spaces in scripts
/// that do not use them. Of overlapping terms, the first counts, and the longest that begins there. A term without
/// capitals is found in any case; one with capitals as it is written, or in a word in capitals.
///
/// ```
/// use tx_infer::Glossary;
///
/// let glossary = Glossary::from_tsv("Hund\tdog\nkaltes Buffet\tcold buffet\n")?;
/// let found = glossary.find("Kein Hund, nur Hunde.");
/// let [(range, entry)] = &found[..] else { panic!("one term") };
/// assert_eq!((range.clone(), &*entry.targets[0]), (5..9, "dog"));
/// # Ok::<(), tx_infer::InferError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Glossary {
    entries: Vec<Entry>,
    /// Finds the sources in lower case; pattern `i` is that of entry `i`.
    finder: AhoCorasick,
}

/// A term and its translations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The term.
    pub source: String,
    /// Its translations, each of which is right; at least one.
    pub targets: Vec<String>,
}

/// Uses of terms in translations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TermCount {
    /// Terms in the sources.
    pub terms: usize,
    /// Terms with one of their translations in the target.
    pub translated: usize,
}

impl Glossary {
    /// Creates a glossary of terms with their translations. A term that occurs several times has several
    /// translations.
    ///
    /// # Errors
    ///
    /// [`InferError::Glossary`] with the number of the entry, from 1, if a term or a translation is empty or longer than
    /// [`MAX_TERM`] bytes, or a term has more than [`MAX_TRANSLATIONS`].
    pub fn new<S: AsRef<str>, T: AsRef<str>>(
        pairs: impl IntoIterator<Item = (S, T)>,
    ) -> Result<Self, InferError> {
        let (mut entries, mut index) = (Vec::<Entry>::new(), HashMap::<String, usize>::new());
        for (number, (source, target)) in pairs.into_iter().enumerate() {
            let [source, target] = [source.as_ref(), target.as_ref()].map(str::trim);
            for (text, side) in [(source, "term"), (target, "translation")] {
                let problem = match text.len() {
                    0 => format!("the {side} is empty"),
                    len if len > MAX_TERM => {
                        format!("the {side} has {len} bytes; at most {MAX_TERM} are allowed")
                    }
                    _ => continue,
                };
                return Err(InferError::Glossary { entry: number + 1, problem });
            }
            let at = *index.entry(source.to_owned()).or_insert(entries.len());
            if at == entries.len() {
                entries.push(Entry { source: source.to_owned(), targets: Vec::new() });
            }
            let targets = &mut entries[at].targets;
            if targets.iter().any(|other| other == target) {
                continue;
            }
            if targets.len() == MAX_TRANSLATIONS {
                let problem = format!("a term has at most {MAX_TRANSLATIONS} translations");
                return Err(InferError::Glossary { entry: number + 1, problem });
            }
            targets.push(target.to_owned());
        }
        // The table of a deterministic automaton, which few terms get by default, takes a hundred times their bytes.
        let finder = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(entries.iter().map(|entry| lower(&entry.source)));
        let finder = finder.map_err(|error| InferError::Glossary {
            entry: entries.len(),
            problem: format!("the glossary is too large: {error}"),
        })?;
        Ok(Self { entries, finder })
    }

    /// Returns the terms in the order of their first occurrence.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the terms in a text, in order and without overlap, with their positions in bytes.
    pub fn find(&self, text: &str) -> Vec<(Range<usize>, &Entry)> {
        // Positions are the same in lower case.
        let lowered = lower(text);
        let matches = self.finder.find_overlapping_iter(&lowered);
        let matches =
            matches.map(|found| (found.range(), &self.entries[found.pattern().as_usize()]));
        let mut found: Vec<(Range<usize>, &Entry)> = matches
            .filter(|(range, entry)| {
                is_bordered(text, range) && matches_case(&entry.source, &text[range.clone()])
            })
            .collect();
        found.sort_by_key(|(range, entry)| {
            let is_exact = text[range.clone()] == entry.source;
            (range.start, usize::MAX - range.end, !is_exact)
        });
        let mut end = 0;
        found.retain(|(range, _)| {
            let is_next = range.start >= end;
            end = if is_next { range.end } else { end };
            is_next
        });
        found
    }

    /// Counts the terms in a source, and those of them with a translation in the target that no other term
    /// has used.
    pub fn count(&self, source: &str, target: &str) -> TermCount {
        let mut used: Vec<Range<usize>> = Vec::new();
        let terms = self.find(source);
        for (_, entry) in &terms {
            let mut found = entry.targets.iter().flat_map(|text| occurrences(text, target));
            let is_free = |range: &Range<usize>| {
                used.iter().all(|other| other.end <= range.start || range.end <= other.start)
            };
            if let Some(range) = found.find(is_free) {
                used.push(range);
            }
        }
        TermCount { terms: terms.len(), translated: used.len() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found<'a>(glossary: &'a Glossary, text: &'a str) -> Vec<(&'a str, &'a str)> {
        let found = glossary.find(text).into_iter();
        found.map(|(range, entry)| (&text[range], &*entry.source)).collect()
    }

    #[test]
    fn terms_are_found_with_borders_and_case() {
        let pairs = [
            ("Hund", "dog"),
            ("buffet", "buffet"),
            ("kaltes buffet", "cold buffet"),
            ("IT", "IT"),
            ("C++", "C++"),
            ("狗", "dog"),
        ];
        let glossary = Glossary::new(pairs).unwrap();
        for (text, expected) in [
            ("Der Hund, ein Hundehund.", &[("Hund", "Hund")][..]),
            ("hund HUND", &[("HUND", "Hund")]),
            ("Kaltes Buffet", &[("Kaltes Buffet", "kaltes buffet")]),
            ("Das BUFFET!", &[("BUFFET", "buffet")]),
            ("it is IT", &[("IT", "IT")]),
            ("C++ und C", &[("C++", "C++")]),
            ("C++x", &[]),
            ("一只狗叫", &[("狗", "狗")]),
            ("", &[]),
        ] {
            assert_eq!(found(&glossary, text), expected, "{text}");
        }
    }

    #[test]
    fn one_term_has_several_translations() {
        let pairs = [("Bank", "bank"), ("Bank", "bench"), ("Bank", "bank"), ("bank", "x")];
        let glossary = Glossary::new(pairs).unwrap();
        assert_eq!(glossary.entries().len(), 2);
        assert_eq!(glossary.entries()[0].targets, ["bank", "bench"]);
        // The term as it is written comes before the one in any case.
        assert_eq!(found(&glossary, "Bank"), [("Bank", "Bank")]);
        assert_eq!(found(&glossary, "bank"), [("bank", "bank")]);
    }

    #[test]
    fn translations_count_once() {
        let glossary =
            Glossary::new([("Hund", "dog"), ("Katze", "cat"), ("Katze", "kitty")]).unwrap();
        let count = |source, target| {
            let TermCount { terms, translated } = glossary.count(source, target);
            (terms, translated)
        };
        assert_eq!(count("Hund Hund", "A dog."), (2, 1));
        assert_eq!(count("Hund Hund", "Dog dog"), (2, 2));
        assert_eq!(count("Katze Hund", "dogs and a kitty"), (2, 1));
        assert_eq!(count("Maus", "mouse"), (0, 0));
    }

    #[test]
    fn invalid_terms_are_named() {
        for (pair, problem) in [
            ((" ", "x"), "entry 2 of the glossary: the term is empty"),
            (("x", "\t"), "entry 2 of the glossary: the translation is empty"),
        ] {
            let error = Glossary::new([("a", "b"), pair]).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
        let many = (0..=MAX_TRANSLATIONS).map(|number| ("a", format!("b{number}")));
        let error = Glossary::new(many).unwrap_err().to_string();
        assert_eq!(error, "entry 9 of the glossary: a term has at most 8 translations");
        let long = "x".repeat(MAX_TERM + 1);
        assert!(Glossary::new([("a", &*long)]).unwrap_err().to_string().contains("401 bytes"));
        assert!(Glossary::new([("a", &long[1..])]).is_ok());
    }
}
