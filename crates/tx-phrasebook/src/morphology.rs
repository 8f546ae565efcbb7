//! Italian morphology: articles, contractions, agreement, conjugation.

use super::lexicon::{Adjective, Gender, Position};
use super::sentence::{Pronoun, Subject};
use super::verbs::{FUTURE, Preposition, Verb};

/// Onset of a word, which determines the form of the words before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onset {
    /// Vowel, as in `amico`: takes `l'`.
    Vowel,
    /// Cluster such as in `studente`, `zio`, `psicologo`, `gnomo`: takes `lo` and `uno`.
    Impure,
    /// Other consonants, as in `libro`: takes `il` and `un`.
    Plain,
}

impl Onset {
    /// Onset of `word`.
    pub(super) fn of(word: &str) -> Self {
        let is_vowel = |letter: char| "aeiouàèéìòù".contains(letter);
        let mut letters = word.chars();
        match (letters.next(), letters.next()) {
            (Some(first), _) if is_vowel(first) => Self::Vowel,
            (Some('z' | 'x' | 'y'), _) => Self::Impure,
            (Some('p'), Some('s')) | (Some('g'), Some('n')) => Self::Impure,
            (Some('s'), Some(second)) if !is_vowel(second) => Self::Impure,
            _ => Self::Plain,
        }
    }
}

/// Gender and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreement {
    pub(super) gender: Gender,
    pub(super) plural: bool,
}

impl Agreement {
    /// Index into masculine singular, feminine singular, masculine plural, feminine plural.
    pub(super) fn index(self) -> usize {
        usize::from(self.gender == Gender::Feminine) + 2 * usize::from(self.plural)
    }

    /// Agreement of a participle or adjective with the subject; masculine if English does not mark
    /// the gender.
    pub(super) fn of(subject: &Subject) -> Self {
        match subject {
            Subject::Pronoun(pronoun) => Self {
                gender: match pronoun {
                    Pronoun::She => Gender::Feminine,
                    _ => Gender::Masculine,
                },
                plural: pronoun.is_plural(),
            },
            Subject::Name(name) => Self { gender: name.gender, plural: false },
            Subject::Phrase(phrase) => {
                Self { gender: phrase.noun.gender, plural: phrase.count.index() == 1 }
            }
        }
    }

    /// Inflects a word in `-o`: `andato, andata, andati, andate`.
    pub(super) fn inflect(self, word: &str) -> String {
        format!("{}{}", word.trim_end_matches('o'), ["o", "a", "i", "e"][self.index()])
    }
}

/// Person `io, tu, lui, noi, voi, loro`: 0 to 5, the index into a conjugation.
pub(super) fn person(subject: &Subject) -> usize {
    match subject {
        Subject::Pronoun(Pronoun::I) => 0,
        Subject::Pronoun(Pronoun::You) => 1,
        Subject::Pronoun(Pronoun::He | Pronoun::She) | Subject::Name(_) => 2,
        Subject::Pronoun(Pronoun::We) => 3,
        Subject::Pronoun(Pronoun::YouAll) => 4,
        Subject::Pronoun(Pronoun::They) => 5,
        Subject::Phrase(phrase) => 2 + 3 * phrase.count.index(),
    }
}

/// Unstressed object pronoun, which precedes the verb: `ti vedo`.
pub(super) fn object_pronoun(pronoun: Pronoun) -> &'static str {
    match pronoun {
        Pronoun::I => "mi",
        Pronoun::You => "ti",
        Pronoun::He => "lo",
        Pronoun::She => "la",
        Pronoun::We => "ci",
        Pronoun::YouAll => "vi",
        Pronoun::They => "li",
    }
}

/// Pronoun before `piacere`: `mi piace`. Only `a loro` distinguishes `they` from `he`.
pub(super) fn dative(pronoun: Pronoun) -> &'static str {
    match pronoun {
        Pronoun::I => "mi",
        Pronoun::You => "ti",
        Pronoun::He => "gli",
        Pronoun::She => "le",
        Pronoun::We => "ci",
        Pronoun::YouAll => "vi",
        Pronoun::They => "a loro",
    }
}

/// Future form: `mangerò`.
pub(super) fn future(verb: &Verb, person: usize) -> String {
    format!("{}{}", verb.future, FUTURE[person])
}

/// Definite article before a word with this onset: `il, lo, l', la, i, gli, le`.
pub(super) fn definite(agreement: Agreement, onset: Onset) -> &'static str {
    match (agreement.gender, agreement.plural, onset) {
        (_, false, Onset::Vowel) => "l'",
        (Gender::Masculine, false, Onset::Impure) => "lo",
        (Gender::Masculine, false, Onset::Plain) => "il",
        (Gender::Masculine, true, Onset::Plain) => "i",
        (Gender::Masculine, true, _) => "gli",
        (Gender::Feminine, false, _) => "la",
        (Gender::Feminine, true, _) => "le",
    }
}

/// Ending of `un` and `nessun`: empty, `o`, `a` or an apostrophe.
pub(super) fn indefinite_ending(gender: Gender, onset: Onset) -> &'static str {
    match (gender, onset) {
        (Gender::Masculine, Onset::Impure) => "o",
        (Gender::Masculine, _) => "",
        (Gender::Feminine, Onset::Vowel) => "'",
        (Gender::Feminine, _) => "a",
    }
}

/// Contracts a stem with the definite article: `de` gives `del, dello, dell', della, dei, degli,
/// delle`; `a`, `da`, `ne`, `su`, `que` and `be` likewise.
pub(super) fn contract(stem: &str, article: &str) -> String {
    match article {
        "il" => format!("{stem}l"),
        "i" | "gli" => format!("{stem}{article}"),
        _ => format!("{stem}l{article}"),
    }
}

/// Preposition contracted with the following article.
pub(super) fn preposition_with(preposition: Preposition, article: &str) -> String {
    match preposition {
        Preposition::To | Preposition::At => contract("a", article),
        Preposition::From => contract("da", article),
        Preposition::In => contract("ne", article),
        Preposition::On => contract("su", article),
        Preposition::Of | Preposition::Than => contract("de", article),
        Preposition::With | Preposition::For => {
            format!("{} {article}", preposition_alone(preposition))
        }
    }
}

/// Preposition without a following definite article.
pub(super) fn preposition_alone(preposition: Preposition) -> &'static str {
    match preposition {
        Preposition::To | Preposition::At => "a",
        Preposition::From => "da",
        Preposition::In => "in",
        Preposition::On => "su",
        Preposition::Of | Preposition::Than => "di",
        Preposition::With => "con",
        Preposition::For => "per",
    }
}

/// Form of an adjective before its noun.
pub(super) fn before_noun(adjective: &Adjective, agreement: Agreement, noun: &str) -> String {
    let full = adjective.italian[agreement.index()];
    let onset = Onset::of(noun);
    match adjective.position {
        Position::BeforeLikeDefinite => contract("be", definite(agreement, onset)),
        Position::BeforeLikeIndefinite
            if agreement == (Agreement { gender: Gender::Masculine, plural: false })
                && onset != Onset::Impure =>
        {
            "buon".to_owned()
        }
        _ => full.to_owned(),
    }
}
