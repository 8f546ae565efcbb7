//! Abbreviations and other words of a language that decide about a full stop.

use std::{collections::HashMap, sync::LazyLock};

/// Words of a language.
#[derive(Debug, Default)]
pub(super) struct Language {
    /// Abbreviations without their last full stop.
    abbreviations: HashMap<&'static str, Abbreviation>,
    /// Words that often begin a sentence and are otherwise not capitalized, as written at its start.
    starters: HashMap<&'static str, ()>,
    /// Words that follow an ordinal.
    counted: HashMap<&'static str, ()>,
    /// Whether a number with a full stop is an ordinal.
    pub(super) ordinals: Ordinals,
    /// Whether the semicolon is the question mark.
    pub(super) greek: bool,
    /// Whether a short word without a vowel is an abbreviation.
    pub(super) vowels: bool,
}

/// Behavior of an abbreviation at the end of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Abbreviation {
    /// A title or a word that needs a continuation: never the last word.
    Never,
    /// An abbreviation before a number or a letter; otherwise a word.
    Number,
    /// Can be the last word: of a sentence if a starter follows.
    Final,
    /// Can be the last word: of a sentence if a capital letter follows.
    Closing,
}

/// Numbers with a full stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Ordinals {
    /// Ordinals are written without a full stop.
    #[default]
    None,
    /// An ordinal is followed by a word in lower case, a name of a month or a number.
    Lowercase,
    /// An ordinal can be followed by any noun, which is capitalized.
    Capitalized,
}

impl Language {
    /// Returns the words of a language: see [`sentences`](super::sentences).
    pub(super) fn of(code: Option<&str>) -> &'static Self {
        let code = code.and_then(|code| code.split(['-', '_']).next()).unwrap_or_default();
        let code = code.to_ascii_lowercase();
        let code =
            ISO_639_3.iter().find(|(long, _)| *long == code).map_or(&*code, |(_, short)| *short);
        LANGUAGES.get(code).unwrap_or(&COMMON)
    }

    /// Returns the behavior of an abbreviation. An entry in lower case stands for the capitalized word,
    /// too, unless it is one letter, because a capital letter is an initial.
    pub(super) fn abbreviation(&self, word: &str) -> Option<Abbreviation> {
        let found = self.abbreviations.get(word).copied();
        found.or_else(|| self.abbreviations.get(&*decapitalized(word)?).copied())
    }

    /// Whether a word often begins a sentence.
    pub(super) fn is_starter(&self, word: &str) -> bool {
        self.starters.contains_key(word)
    }

    /// Whether a word follows an ordinal.
    pub(super) fn is_counted(&self, word: &str) -> bool {
        self.counted.contains_key(word)
    }

    /// Parses a file of this folder.
    fn parse(file: &'static str) -> Self {
        let mut language = Self { vowels: true, ..Self::default() };
        for line in file.lines().filter(|line| !line.starts_with('#')) {
            let Some((key, words)) = line.split_once(':') else { continue };
            let words = words.split_whitespace();
            let kind = match key {
                "never" => Abbreviation::Never,
                "number" => Abbreviation::Number,
                "final" => Abbreviation::Final,
                "closing" => Abbreviation::Closing,
                "starters" => {
                    language.starters.extend(words.map(|word| (word, ())));
                    continue;
                }
                "counted" => {
                    language.counted.extend(words.map(|word| (word, ())));
                    continue;
                }
                "ordinals" => {
                    language.ordinals = match words.last() {
                        Some("capitalized") => Ordinals::Capitalized,
                        _ => Ordinals::Lowercase,
                    };
                    continue;
                }
                "words-without-vowels" => {
                    language.vowels = false;
                    continue;
                }
                _ => continue,
            };
            language.abbreviations.extend(words.map(|word| (word, kind)));
        }
        language
    }
}

/// Returns a capitalized word of two or more letters with its first letter in lower case.
fn decapitalized(word: &str) -> Option<String> {
    let mut chars = word.chars();
    let first = chars.next().filter(|c| c.is_uppercase())?;
    let rest = Some(chars.as_str()).filter(|rest| !rest.is_empty())?;
    Some(first.to_lowercase().chain(rest.chars()).collect())
}

/// Returns the codes of the languages with a file.
pub(super) fn codes() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(code, _)| *code)
}

static LANGUAGES: LazyLock<HashMap<&str, Language>> = LazyLock::new(|| {
    let parsed = FILES
        .iter()
        .map(|&(code, file)| (code, Language { greek: code == "el", ..Language::parse(file) }));
    parsed.collect()
});

static COMMON: LazyLock<Language> =
    LazyLock::new(|| Language::parse(include_str!("languages/common.txt")));

const FILES: &[(&str, &str)] = &[
    ("cs", include_str!("languages/cs.txt")),
    ("da", include_str!("languages/da.txt")),
    ("de", include_str!("languages/de.txt")),
    ("el", include_str!("languages/el.txt")),
    ("en", include_str!("languages/en.txt")),
    ("es", include_str!("languages/es.txt")),
    ("fi", include_str!("languages/fi.txt")),
    ("fr", include_str!("languages/fr.txt")),
    ("it", include_str!("languages/it.txt")),
    ("nl", include_str!("languages/nl.txt")),
    ("pl", include_str!("languages/pl.txt")),
    ("pt", include_str!("languages/pt.txt")),
    ("ru", include_str!("languages/ru.txt")),
    ("sv", include_str!("languages/sv.txt")),
    ("tr", include_str!("languages/tr.txt")),
    ("uk", include_str!("languages/uk.txt")),
];

/// Codes of ISO 639-3 and 639-2 for codes of ISO 639-1.
const ISO_639_3: &[(&str, &str)] = &[
    ("ces", "cs"),
    ("cze", "cs"),
    ("dan", "da"),
    ("deu", "de"),
    ("dut", "nl"),
    ("ell", "el"),
    ("eng", "en"),
    ("fin", "fi"),
    ("fra", "fr"),
    ("fre", "fr"),
    ("ger", "de"),
    ("gre", "el"),
    ("ita", "it"),
    ("nld", "nl"),
    ("pol", "pl"),
    ("por", "pt"),
    ("rus", "ru"),
    ("spa", "es"),
    ("swe", "sv"),
    ("tur", "tr"),
    ("ukr", "uk"),
];
