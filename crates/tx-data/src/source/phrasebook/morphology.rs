//! Italian forms: articles, contractions, agreement, conjugation.

use super::lexicon::{Adjective, Gender, Position};
use super::sentence::{Pronoun, Subject};
use super::verbs::{FUTURE, Preposition, Verb};

/// How a word begins, on which the words before it depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Onset {
    /// `amico`: takes `l'`.
    Vowel,
    /// `studente`, `zio`, `psicologo`, `gnomo`: takes `lo` and `uno`.
    Impure,
    /// `libro`: takes `il` and `un`.
    Plain,
}

impl Onset {
    /// How `word` begins.
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
    /// The index into masculine singular, feminine singular, masculine plural, feminine plural.
    pub(super) fn index(self) -> usize {
        usize::from(self.gender == Gender::Feminine) + 2 * usize::from(self.plural)
    }

    /// With whom a participle or adjective agrees. Where English does not tell the gender it is
    /// masculine.
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

    /// A word in `-o` with the ending that agrees: `andato, andata, andati, andate`.
    pub(super) fn inflect(self, word: &str) -> String {
        format!("{}{}", word.trim_end_matches('o'), ["o", "a", "i", "e"][self.index()])
    }
}

/// `io, tu, lui, noi, voi, loro`: 0 to 5, the index into a conjugation.
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

/// The unstressed object pronoun, which stands before the verb: `ti vedo`.
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

/// The pronoun before `piacere`: `mi piace`. Only `a loro` tells `they` from `he`.
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

/// The future: `mangerò`.
pub(super) fn future(verb: &Verb, person: usize) -> String {
    format!("{}{}", verb.future, FUTURE[person])
}

/// The definite article before a word that begins so: `il, lo, l', la, i, gli, le`.
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

/// What `un` and `nessun` end in: nothing, `o`, `a` or an apostrophe.
pub(super) fn indefinite_ending(gender: Gender, onset: Onset) -> &'static str {
    match (gender, onset) {
        (Gender::Masculine, Onset::Impure) => "o",
        (Gender::Masculine, _) => "",
        (Gender::Feminine, Onset::Vowel) => "'",
        (Gender::Feminine, _) => "a",
    }
}

/// Joins a stem to the definite article: `de` gives `del, dello, dell', della, dei, degli,
/// delle`, and so do `a`, `da`, `ne`, `su`, `que` and `be`.
pub(super) fn contract(stem: &str, article: &str) -> String {
    match article {
        "il" => format!("{stem}l"),
        "i" | "gli" => format!("{stem}{article}"),
        _ => format!("{stem}l{article}"),
    }
}

/// The preposition with the article that follows it.
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

/// The preposition before anything but a definite article.
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

/// The form of an adjective that stands before its noun.
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
