//! Random sampling of small talk.

use super::super::grammar::{
    MINUTES, NAMED, ON_ORDER, Role, ages, hours, is_shown_by, names, nouns, pointers,
};
use super::super::lexicon::{DAYS, NOUNS, PEOPLE, TENS};
use super::super::phrases::{OPENERS, PHRASES};
use super::super::proper_nouns::{CITIES, COUNTRIES, LANGUAGES, NAMES};
use super::super::sentence::{Force, Liked, Place, Pointer, Said, Shown, Subject, Talk};
use super::super::verbs::Preposition;
use super::Draw;

/// Variants of [`Talk`] without their parts.
#[derive(Debug, Clone, Copy)]
enum Topic {
    Phrase,
    Naming,
    Age,
    Origin,
    Liking,
    HowIs,
    Pointing,
    Clock,
    Day,
    Thanks,
    Saying,
}

/// Sampling weights of the topics.
const TOPICS: &[(Topic, u32)] = &[
    (Topic::Phrase, 160),
    (Topic::Naming, 25),
    (Topic::Age, 25),
    (Topic::Origin, 25),
    (Topic::Liking, 45),
    (Topic::HowIs, 10),
    (Topic::Pointing, 50),
    (Topic::Clock, 10),
    (Topic::Day, 6),
    (Topic::Thanks, 10),
    (Topic::Saying, 10),
];

impl Draw {
    pub(super) fn talk(&mut self) -> Option<Talk> {
        Some(match self.weighted(TOPICS)? {
            Topic::Phrase => {
                // Openers must be learned as separate sentences too. The other phrases take turns,
                // so that each occurs often enough to be learned.
                if self.chance(15) {
                    return self.pick(OPENERS).map(Talk::Phrase);
                }
                self.turn = (self.turn + 1) % PHRASES.len();
                Talk::Phrase(PHRASES.get(self.turn)?)
            }
            Topic::Naming => {
                let who = self.one_of(&NAMED).map(Subject::Pronoun);
                let who = if self.chance(60) { who } else { self.relative() }?;
                let (name, force) = self.answer(NAMES)?;
                Talk::Naming { who, name, force }
            }
            Topic::Age => {
                let who = self.somebody()?;
                let (years, force) = if self.chance(30) {
                    (None, Force::Asked)
                } else {
                    // Tens occur in no other construction.
                    let tens = self.chance(60);
                    (if tens { self.pick(TENS) } else { self.one_of(&ages()) }, self.force()?)
                };
                Talk::Age { who, years, force }
            }
            Topic::Origin => {
                let who = self.somebody()?;
                let (from, force) = if self.chance(60) {
                    let (country, force) = self.answer(COUNTRIES)?;
                    (country.map(|it| Place::Country(Preposition::From, it)), force)
                } else {
                    let (city, force) = self.answer(CITIES)?;
                    (city.map(|it| Place::City(Preposition::From, it)), force)
                };
                Talk::Origin { who, from, force }
            }
            Topic::Liking => {
                // Names teach `ad` before `a`.
                let named = self.chance(20);
                let who = if named { Subject::Name(self.pick(NAMES)?) } else { self.somebody()? };
                let what = match self.weighted(&[(0, 6), (1, 6), (2, 88)])? {
                    0 => Liked::City(self.pick(CITIES)?),
                    1 => Liked::Country(self.pick(COUNTRIES)?),
                    _ => {
                        let noun = self.pick(NOUNS)?;
                        Liked::Phrase(self.phrase(noun, Role::Liked)?)
                    }
                };
                Talk::Liking { who, what, force: self.force()? }
            }
            Topic::HowIs => Talk::HowIs { who: self.somebody()?, today: self.chance(30) },
            Topic::Pointing => self.pointing()?,
            Topic::Clock => {
                let hour = self.one_of(&hours())?;
                Talk::Clock { hour, minutes: self.one_of(&MINUTES)?, force: self.force()? }
            }
            Topic::Day => {
                Talk::Day { tomorrow: self.chance(50), day: self.pick(DAYS)?, force: self.force()? }
            }
            Topic::Thanks => Talk::Thanks { what: self.phrase_of(ON_ORDER, Role::Known)? },
            Topic::Saying => {
                let what = if self.chance(75) {
                    Said::Noun(self.pick(NOUNS)?)
                } else {
                    Said::Phrase(self.pick(OPENERS)?)
                };
                Talk::Saying { what, language: self.pick(LANGUAGES)? }
            }
        })
    }

    /// Samples an entry of the table, or none in a question for it.
    fn answer<T>(&mut self, table: &'static [T]) -> Option<(Option<&'static T>, Force)> {
        if self.chance(15) {
            return Some((None, Force::Asked));
        }
        Some((Some(self.pick(table)?), self.force()?))
    }

    /// Samples a person: pronoun, name or `your sister`.
    fn somebody(&mut self) -> Option<Subject> {
        if self.chance(65) { self.person() } else { self.relative() }
    }

    fn relative(&mut self) -> Option<Subject> {
        let phrase = self.phrase_of(PEOPLE, Role::Owner)?;
        Some(Subject::Phrase(phrase))
    }

    fn pointing(&mut self) -> Option<Talk> {
        let weights: Vec<_> = pointers().into_iter().map(|it| (it, pointer_weight(it))).collect();
        let pointer = self.weighted(&weights)?;
        let names = names(pointer);
        let what = if !names.is_empty() && self.chance(20) {
            Shown::Name(self.one_of(&names)?)
        } else {
            let noun = match pointer {
                Pointer::Pronoun(_) => self.one_of(&nouns(PEOPLE))?,
                Pointer::This | Pointer::That => self.pick(NOUNS)?,
            };
            let phrase = self.phrase(noun, Role::Shown)?;
            if !is_shown_by(pointer, noun, phrase.count) {
                return None;
            }
            Shown::Phrase(phrase)
        };
        Some(Talk::Pointing { pointer, what, force: self.force()? })
    }
}

/// Weight of a pointer. Many pronouns do not match the noun sampled next and are rejected.
fn pointer_weight(pointer: Pointer) -> u32 {
    match pointer {
        Pointer::This => 8,
        Pointer::That => 12,
        Pointer::Pronoun(_) => 3,
    }
}
