//! Abstract syntax: what a sentence says, before either language words it.

use super::lexicon::{Adjective, Fixed, Noun, Possessor, Sky};
use super::verbs::{Modal, Preposition, Verb};

/// A whole sentence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Sentence {
    /// `I am not eating the apple.`
    Clause(Clause),
    /// `Is the door of the museum closed?`
    Being(Being),
    /// `My sister is taller than your friend.`
    Comparison { subject: Subject, adjective: &'static Adjective, than: NounPhrase },
    /// `There are two cats in the garden.`
    Existence(Existence),
    /// `Where is the station?`, `Where were the keys yesterday?`
    Where { what: NounPhrase, past: Option<Time> },
    /// `How much does the book cost?`
    Cost { what: NounPhrase },
    /// `I would like some water, please.`; `we` where `many` holds.
    Wish { what: NounPhrase, many: bool },
    /// `Today it is not raining in Rome.`
    Weather(Weather),
}

/// Stated, denied or asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Force {
    Stated,
    Denied,
    Asked,
}

/// A sentence around a full verb.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Clause {
    pub(super) subject: Subject,
    pub(super) aspect: Aspect,
    pub(super) force: Force,
    pub(super) verb: &'static Verb,
    pub(super) object: Option<NounPhrase>,
    pub(super) place: Option<Place>,
    /// The person something is given to, or where, with or for whom it is done.
    pub(super) extra: Option<(Preposition, NounPhrase)>,
    pub(super) time: Option<Time>,
    /// Whether the time opens the sentence; never so in a question or without a time.
    pub(super) time_first: bool,
}

/// Tense, aspect and mood of a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Aspect {
    /// `I eat`, `mangio`.
    Present,
    /// `I often eat`, `mangio spesso`.
    Habit(Frequency),
    /// `I am eating`, `sto mangiando`.
    Progressive,
    /// `I ate`, `ho mangiato`.
    Past,
    /// `I will eat`, `mangerò`.
    Future,
    /// `I can eat`, `posso mangiare`.
    Modal(&'static Modal),
}

/// How often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Frequency {
    Always,
    Often,
    /// `never`, `non … mai`.
    Never,
}

/// A sentence around `to be` and an adjective.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Being {
    pub(super) subject: Subject,
    pub(super) tense: Tense,
    pub(super) force: Force,
    pub(super) adjective: &'static Adjective,
    pub(super) time: Option<Time>,
    /// Whether the time opens the sentence, as in a clause.
    pub(super) time_first: bool,
}

/// `There is …`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Existence {
    pub(super) tense: Tense,
    pub(super) force: Force,
    pub(super) theme: NounPhrase,
    pub(super) place: (Preposition, NounPhrase),
}

/// `It is raining`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Weather {
    pub(super) time: Time,
    pub(super) tense: Tense,
    /// `Denied` or `Stated`; weather is not asked for.
    pub(super) force: Force,
    pub(super) sky: &'static Sky,
    pub(super) place: Option<Place>,
}

/// The tenses of `to be`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tense {
    Present,
    /// The imperfect in Italian.
    Past,
    Future,
}

/// Who does it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    Pronoun(Pronoun),
    Phrase(NounPhrase),
}

/// Subject pronouns. Italian keeps only `lui` and `lei`, which its verbs do not tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pronoun {
    I,
    /// One person, addressed as `tu`.
    You,
    He,
    She,
    We,
    /// Several people, `voi`.
    YouAll,
    They,
}

impl Pronoun {
    pub(super) const ALL: [Self; 7] =
        [Self::I, Self::You, Self::He, Self::She, Self::We, Self::YouAll, Self::They];
}

/// A noun with all that stands around it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NounPhrase {
    pub(super) determiner: Determiner,
    pub(super) count: Count,
    pub(super) adjective: Option<&'static Adjective>,
    pub(super) noun: &'static Noun,
    /// `the student's dog`, `the door of the museum`; the determiner is then definite.
    pub(super) owner: Option<Box<NounPhrase>>,
}

/// What opens a noun phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Determiner {
    Definite,
    Indefinite,
    /// `some`, the partitive article.
    Some,
    /// `any` after a denial; nothing in Italian.
    Any,
    /// `no` after `there is`; `nessun` or nothing in Italian.
    No,
    This,
    That,
    Possessive(&'static Possessor),
    /// Nothing: `two books`.
    Bare,
}

/// How many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Count {
    One,
    Many,
    /// An entry of the numerals, two or more.
    Exactly(&'static Fixed),
}

impl Count {
    /// 0 for singular, 1 for plural: the index into the forms of a noun.
    pub(super) fn index(self) -> usize {
        usize::from(self != Self::One)
    }
}

/// Where.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    City(Preposition, &'static Fixed),
    At(Preposition, NounPhrase),
}

/// When.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Time {
    Word(&'static Fixed),
    /// `at half past three`; no numeral means one o'clock.
    Clock(Option<&'static Fixed>, Minutes),
}

/// The part of the hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Minutes {
    Sharp,
    Quarter,
    Half,
}
