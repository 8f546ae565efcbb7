//! Abstract syntax of sentences, independent of the languages.

use super::lexicon::{Adjective, Fixed, Noun, Possessor, Sky, State};
use super::phrases::Phrase;
use super::proper_nouns::{Country, Name};
use super::verbs::{Modal, Preposition, Verb};

/// Sentence as a user types it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Utterance {
    /// Opener: `Excuse me, …`.
    pub(super) opener: Option<&'static Phrase>,
    pub(super) sentence: Sentence,
    /// Addressee: `…, Anna`.
    pub(super) addressee: Option<&'static Name>,
    /// Whether commas set off the opener and the addressee.
    pub(super) has_commas: bool,
    /// Whether English uses contractions, such as `don't` for `do not`.
    pub(super) is_contracted: bool,
    /// Ending, the same in both languages.
    pub(super) ending: Ending,
}

impl Utterance {
    /// Returns `true` if the sentence is a fixed phrase.
    pub(super) fn is_phrase(&self) -> bool {
        matches!(self.sentence, Sentence::Talk(Talk::Phrase(_)))
    }

    /// Final mark, if any.
    pub(super) fn mark(&self) -> &'static str {
        match self.ending {
            Ending::Mark if self.sentence.is_question() => "?",
            Ending::Mark => ".",
            Ending::Exclamation => "!",
            Ending::Nothing => "",
        }
    }
}

/// Ending of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Ending {
    /// Question mark or period.
    Mark,
    /// Exclamation mark; never after a question.
    Exclamation,
    /// No final mark.
    Nothing,
}

/// Complete sentence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Sentence {
    /// `I am not eating the apple.`
    Clause(Clause),
    /// `Is the door of the museum closed?`, `The small cats are not here.`
    Being(Being),
    /// `My sister is taller than your friend.`
    Comparison { subject: Subject, adjective: &'static Adjective, than: NounPhrase },
    /// `There are two cats in the garden.`
    Existence(Existence),
    /// `Where is the station?`, `Where were you yesterday?`
    Where { what: Subject, past: Option<Time> },
    /// `How much does the book cost?`
    Cost { what: NounPhrase },
    /// `I would like some water, please.`; `we` if `is_plural`.
    Wish { what: NounPhrase, is_plural: bool, is_polite: bool },
    /// `Today it is not raining in Rome.`
    Weather(Weather),
    /// `What is your name?`
    Talk(Talk),
}

impl Sentence {
    /// Returns `true` if the sentence ends in a question mark.
    pub(super) fn is_question(&self) -> bool {
        self.force() == Force::Asked
    }

    /// Illocutionary force.
    pub(super) fn force(&self) -> Force {
        match self {
            Self::Clause(Clause { force, .. })
            | Self::Being(Being { force, .. })
            | Self::Existence(Existence { force, .. })
            | Self::Weather(Weather { force, .. }) => *force,
            Self::Where { .. } | Self::Cost { .. } => Force::Asked,
            Self::Comparison { .. } | Self::Wish { .. } => Force::Stated,
            Self::Talk(talk) => talk.force(),
        }
    }
}

/// Small talk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Talk {
    /// `Thank you very much.`
    Phrase(&'static Phrase),
    /// `My name is Anna.`; without a name, `What is your sister's name?`
    Naming { who: Subject, name: Option<&'static Name>, force: Force },
    /// `I am twenty years old.`; without an age, `How old is Anna?`
    Age { who: Subject, years: Option<&'static Fixed>, force: Force },
    /// `I am from Italy.`; without a place, `Where are you from?`
    Origin { who: Subject, from: Option<Place>, force: Force },
    /// `I like the red shoes.`
    Liking { who: Subject, what: Liked, force: Force },
    /// `How is your mother today?`
    HowIs { who: Subject, today: bool },
    /// `This is my mother.`, `Are you a student?`
    Pointing { pointer: Pointer, what: Shown, force: Force },
    /// `It is half past three.`; without a numeral, one o'clock.
    Clock { hour: Option<&'static Fixed>, minutes: Minutes, force: Force },
    /// `Today is Monday.`
    Day { tomorrow: bool, day: &'static Fixed, force: Force },
    /// `Thank you for the coffee.`
    Thanks { what: NounPhrase },
    /// `How do you say cat in Italian?`
    Saying { what: Said, language: &'static Fixed },
}

impl Talk {
    fn force(&self) -> Force {
        match self {
            Self::Phrase(phrase) if phrase.is_question => Force::Asked,
            Self::Phrase(_) => Force::Stated,
            Self::Naming { force, .. }
            | Self::Age { force, .. }
            | Self::Origin { force, .. }
            | Self::Liking { force, .. }
            | Self::Pointing { force, .. }
            | Self::Clock { force, .. }
            | Self::Day { force, .. } => *force,
            Self::HowIs { .. } | Self::Saying { .. } => Force::Asked,
            Self::Thanks { .. } => Force::Stated,
        }
    }
}

/// Object of liking.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Liked {
    Phrase(NounPhrase),
    City(&'static Fixed),
    Country(&'static Country),
}

/// Subject of `… is my mother`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pointer {
    /// `this` or `these`.
    This,
    /// `that` or `those`.
    That,
    Pronoun(Pronoun),
}

/// Predicate noun or name after a pointer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Shown {
    Phrase(NounPhrase),
    Name(&'static Name),
}

/// Word in a question for its translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Said {
    Noun(&'static Noun),
    Phrase(&'static Phrase),
}

/// Illocutionary force: statement, negation or question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Force {
    Stated,
    Denied,
    Asked,
}

impl Force {
    pub(super) const ALL: [Self; 3] = [Self::Stated, Self::Denied, Self::Asked];
}

/// Sentence with a full verb.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Clause {
    pub(super) subject: Subject,
    pub(super) aspect: Aspect,
    pub(super) force: Force,
    pub(super) verb: &'static Verb,
    pub(super) object: Option<Object>,
    pub(super) place: Option<Place>,
    /// Adjunct: recipient, location, company or beneficiary.
    pub(super) extra: Option<(Preposition, NounPhrase)>,
    pub(super) time: Option<Time>,
    /// Whether the time opens the sentence; never in a question or without a time.
    pub(super) time_first: bool,
}

/// Object of a clause.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Object {
    Phrase(NounPhrase),
    /// `Can you help me?`; in Italian an unstressed pronoun before the verb.
    Pronoun(Pronoun),
    /// `I speak Italian.`, `I speak a little Italian.`
    Language {
        language: &'static Fixed,
        is_little: bool,
    },
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

/// Frequency adverb.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Frequency {
    Always,
    Often,
    /// `never`, `non … mai`.
    Never,
}

/// Sentence with `to be`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Being {
    pub(super) subject: Subject,
    pub(super) tense: Tense,
    pub(super) force: Force,
    pub(super) predicate: Predicate,
    pub(super) time: Option<Time>,
    /// Whether the time opens the sentence, as in a clause.
    pub(super) time_first: bool,
}

/// Predicate of a sentence with `to be`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Predicate {
    /// `is closed`, `is very tall`
    Adjective { adjective: &'static Adjective, is_very: bool },
    /// `is hungry`, `is very cold`: an idiom of `avere` or `stare`.
    State { state: &'static State, is_very: bool },
    /// `is here`
    Spot(&'static Fixed),
    /// `is on the table`, `is in Rome`
    Place(Place),
}

/// Sentence with `there is`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Existence {
    pub(super) tense: Tense,
    pub(super) force: Force,
    pub(super) theme: NounPhrase,
    pub(super) place: (Preposition, NounPhrase),
}

/// Sentence about the weather: `It is raining`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Weather {
    pub(super) time: Option<Time>,
    /// Whether the time opens the sentence, as in a clause.
    pub(super) time_first: bool,
    pub(super) tense: Tense,
    pub(super) force: Force,
    pub(super) sky: &'static Sky,
    pub(super) place: Option<Place>,
}

/// Tense of `to be`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tense {
    Present,
    /// Past; the imperfect in Italian.
    Past,
    Future,
}

impl Tense {
    pub(super) const ALL: [Self; 3] = [Self::Present, Self::Past, Self::Future];
}

/// Subject of a clause.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Subject {
    Pronoun(Pronoun),
    Name(&'static Name),
    Phrase(NounPhrase),
}

/// Subject pronoun. Italian keeps only `lui` and `lei`, because their verb forms are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Pronoun {
    I,
    /// `you` of one person, `tu`.
    You,
    He,
    She,
    We,
    /// `you` of several people, `voi`.
    YouAll,
    They,
}

impl Pronoun {
    pub(super) const ALL: [Self; 7] =
        [Self::I, Self::You, Self::He, Self::She, Self::We, Self::YouAll, Self::They];

    pub(super) fn is_plural(self) -> bool {
        matches!(self, Self::We | Self::YouAll | Self::They)
    }
}

/// Noun with its determiner, number, adjective and owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct NounPhrase {
    pub(super) determiner: Determiner,
    pub(super) count: Count,
    pub(super) adjective: Option<&'static Adjective>,
    pub(super) noun: &'static Noun,
    /// Owner: `the student's dog`, `the door of the museum`; the determiner is then definite.
    pub(super) owner: Option<Box<NounPhrase>>,
}

/// Determiner of a noun phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Determiner {
    Definite,
    Indefinite,
    /// `some`, the partitive article.
    Some,
    /// `any` in a negation; no determiner in Italian.
    Any,
    /// `no` after `there is`; `nessun` or no determiner in Italian.
    No,
    This,
    That,
    Possessive(&'static Possessor),
    /// No determiner in either language: `two books`, `I drink water`.
    Bare,
    /// No determiner in English, the definite article in Italian: `I like cats`, `mi piacciono i
    /// gatti`.
    Generic,
}

/// Grammatical number, with a numeral if given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Count {
    One,
    Many,
    /// Entry of the numerals, two or more.
    Exactly(&'static Fixed),
}

impl Count {
    /// Index into the forms of a noun: 0 for singular, 1 for plural.
    pub(super) fn index(self) -> usize {
        usize::from(self != Self::One)
    }
}

/// Location.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Place {
    City(Preposition, &'static Fixed),
    Country(Preposition, &'static Country),
    At(Preposition, NounPhrase),
}

/// Time adverbial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Time {
    Word(&'static Fixed),
    /// `at half past three`; without a numeral, one o'clock.
    Clock(Option<&'static Fixed>, Minutes),
}

/// Part of the hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Minutes {
    Sharp,
    Quarter,
    Half,
}
