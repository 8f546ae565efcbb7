//! Words a sentence in English.

use super::lexicon::PEOPLE;
use super::sentence::{
    Aspect, Being, Clause, Count, Determiner, Existence, Force, Frequency, Minutes, NounPhrase,
    Place, Pronoun, Sentence, Subject, Tense, Time, Weather,
};
use super::verbs::Preposition;
use super::words::Words;

/// The English sentence, from its capital to its full stop or question mark.
pub(super) fn sentence(sentence: &Sentence) -> String {
    match sentence {
        Sentence::Clause(it) => clause(it),
        Sentence::Being(it) => being(it),
        Sentence::Comparison { subject, adjective, than } => {
            let mut words = Words::default();
            words.push(&subject_phrase(subject)).push(be(subject, Tense::Present));
            words.push(adjective.comparative.unwrap_or(adjective.english));
            words.push(preposition(Preposition::Than)).push(&noun_phrase(than));
            words.into_sentence('.')
        }
        Sentence::Existence(it) => existence(it),
        Sentence::Where { what, past } => {
            let tense = if past.is_some() { Tense::Past } else { Tense::Present };
            let mut words = Words::default();
            words.push("where").push(be_third(what.count, tense)).push(&noun_phrase(what));
            push_time(&mut words, *past);
            words.into_sentence('?')
        }
        Sentence::Cost { what } => {
            let mut words = Words::default();
            words.push("how much").push(if what.count == Count::One { "does" } else { "do" });
            words.push(&noun_phrase(what)).push("cost");
            words.into_sentence('?')
        }
        Sentence::Wish { what, many } => {
            let mut words = Words::default();
            words.push(if *many { "we" } else { "I" }).push("would like");
            words.push(&noun_phrase(what)).attach(",").push("please");
            words.into_sentence('.')
        }
        Sentence::Weather(it) => weather(it),
    }
}

/// The mark at the end.
fn mark(force: Force) -> char {
    if force == Force::Asked { '?' } else { '.' }
}

fn clause(clause: &Clause) -> String {
    let group = VerbGroup::of(clause);
    let subject = subject_phrase(&clause.subject);
    let mut words = Words::default();
    if clause.time_first {
        push_time(&mut words, clause.time);
    }
    match clause.force {
        Force::Stated => words.push(&subject).push(&group.stated),
        Force::Denied => words.push(&subject).push(&group.denied_operator).push(&group.rest),
        Force::Asked => words.push(group.operator).push(&subject).push(&group.rest),
    };
    words.push(clause.verb.particle.unwrap_or_default());
    if let Some(object) = &clause.object {
        words.push(&noun_phrase(object));
    }
    push_place(&mut words, clause.place.as_ref());
    if let Some((before, phrase)) = &clause.extra {
        words.push(preposition(*before)).push(&noun_phrase(phrase));
    }
    if !clause.time_first {
        push_time(&mut words, clause.time);
    }
    words.into_sentence(mark(clause.force))
}

/// The verbs of a clause, as the three forces need them.
struct VerbGroup {
    /// `eats`, `is eating`
    stated: String,
    /// Goes before the subject of a question: `does`, `is`.
    operator: &'static str,
    /// `does not`, `is not`
    denied_operator: String,
    /// What follows the operator: `eat`, `eating`.
    rest: String,
}

impl VerbGroup {
    fn of(clause: &Clause) -> Self {
        let [base, third, past, progressive] = clause.verb.english;
        let third_person = is_third_singular(&clause.subject);
        let finite = if third_person { third } else { base };
        let do_now = if third_person { "does" } else { "do" };
        let with_do = |stated: String, operator: &'static str, rest: String| Self {
            stated,
            operator,
            denied_operator: format!("{operator} not"),
            rest,
        };
        match clause.aspect {
            Aspect::Present => with_do(finite.to_owned(), do_now, base.to_owned()),
            Aspect::Habit(often) => {
                with_do(format!("{} {finite}", frequency(often)), do_now, base.to_owned())
            }
            Aspect::Past => with_do(past.to_owned(), "did", base.to_owned()),
            Aspect::Progressive => {
                let be = be(&clause.subject, Tense::Present);
                with_do(format!("{be} {progressive}"), be, progressive.to_owned())
            }
            Aspect::Future => with_do(format!("will {base}"), "will", base.to_owned()),
            Aspect::Modal(modal) => match modal.denied {
                Some(denied) => Self {
                    stated: format!("{} {base}", modal.english),
                    operator: modal.english,
                    denied_operator: denied.to_owned(),
                    rest: base.to_owned(),
                },
                None => {
                    let ending = if third_person { "s" } else { "" };
                    let rest = format!("{} to {base}", modal.english);
                    with_do(format!("{}{ending} to {base}", modal.english), do_now, rest)
                }
            },
        }
    }
}

fn frequency(frequency: Frequency) -> &'static str {
    match frequency {
        Frequency::Always => "always",
        Frequency::Often => "often",
        Frequency::Never => "never",
    }
}

fn being(being: &Being) -> String {
    let subject = subject_phrase(&being.subject);
    let be = be(&being.subject, being.tense);
    let mut words = Words::default();
    if being.time_first {
        push_time(&mut words, being.time);
    }
    match (being.force, being.tense) {
        (Force::Stated, Tense::Future) => words.push(&subject).push("will be"),
        (Force::Denied, Tense::Future) => words.push(&subject).push("will not be"),
        (Force::Asked, Tense::Future) => words.push("will").push(&subject).push("be"),
        (Force::Stated, _) => words.push(&subject).push(be),
        (Force::Denied, _) => words.push(&subject).push(be).push("not"),
        (Force::Asked, _) => words.push(be).push(&subject),
    };
    words.push(being.adjective.english);
    if !being.time_first {
        push_time(&mut words, being.time);
    }
    words.into_sentence(mark(being.force))
}

fn existence(existence: &Existence) -> String {
    let Existence { tense, force, theme, place: (before, place) } = existence;
    let mut words = Words::default();
    match (force, tense) {
        (Force::Asked, Tense::Future) => words.push("will there be"),
        (Force::Asked, _) => words.push(be_third(theme.count, *tense)).push("there"),
        _ => words.push("there").push(be_third(theme.count, *tense)),
    };
    words.push(&noun_phrase(theme)).push(preposition(*before)).push(&noun_phrase(place));
    words.into_sentence(mark(*force))
}

fn weather(weather: &Weather) -> String {
    let mut words = Words::default();
    push_time(&mut words, Some(weather.time));
    words.push("it").push(match (weather.tense, weather.force) {
        (Tense::Present, Force::Denied) => "is not",
        (Tense::Present, _) => "is",
        (Tense::Past, Force::Denied) => "was not",
        (Tense::Past, _) => "was",
        (Tense::Future, Force::Denied) => "will not be",
        (Tense::Future, _) => "will be",
    });
    words.push(weather.sky.english);
    push_place(&mut words, weather.place.as_ref());
    words.into_sentence('.')
}

fn subject_phrase(subject: &Subject) -> String {
    match subject {
        Subject::Pronoun(pronoun) => pronoun_word(*pronoun).to_owned(),
        Subject::Phrase(phrase) => noun_phrase(phrase),
    }
}

/// The word, or two, for a pronoun.
pub(super) fn pronoun_word(pronoun: Pronoun) -> &'static str {
    match pronoun {
        Pronoun::I => "I",
        Pronoun::You => "you",
        Pronoun::He => "he",
        Pronoun::She => "she",
        Pronoun::We => "we",
        Pronoun::YouAll => "you all",
        Pronoun::They => "they",
    }
}

fn is_third_singular(subject: &Subject) -> bool {
    match subject {
        Subject::Pronoun(pronoun) => matches!(pronoun, Pronoun::He | Pronoun::She),
        Subject::Phrase(phrase) => phrase.count == Count::One,
    }
}

/// `am`, `are`, `is`, `was`, `were`, `will be`.
fn be(subject: &Subject, tense: Tense) -> &'static str {
    match (subject, tense) {
        (Subject::Pronoun(Pronoun::I), Tense::Present) => "am",
        (Subject::Pronoun(Pronoun::I), Tense::Past) => "was",
        _ if is_third_singular(subject) => be_third(Count::One, tense),
        _ => be_third(Count::Many, tense),
    }
}

/// The third person of `to be`.
fn be_third(count: Count, tense: Tense) -> &'static str {
    match (tense, count) {
        (Tense::Present, Count::One) => "is",
        (Tense::Present, _) => "are",
        (Tense::Past, Count::One) => "was",
        (Tense::Past, _) => "were",
        (Tense::Future, _) => "will be",
    }
}

/// `the two red houses`, `my uncle's dog`, `the door of the museum`
pub(super) fn noun_phrase(phrase: &NounPhrase) -> String {
    let mut body = Words::default();
    if let Count::Exactly(numeral) = phrase.count {
        body.push(numeral.english);
    }
    body.push(phrase.adjective.map_or("", |adjective| adjective.english));
    body.push(phrase.noun.english[phrase.count.index()]);
    let body = body.into_phrase();

    let mut words = Words::default();
    match &phrase.owner {
        Some(owner) if PEOPLE.contains(&owner.noun.kind) => {
            words.push(&noun_phrase(owner)).attach("'s").push(&body);
        }
        Some(owner) => {
            words.push("the").push(&body);
            words.push(preposition(Preposition::Of)).push(&noun_phrase(owner));
        }
        None => {
            words.push(determiner(phrase, &body)).push(&body);
        }
    }
    words.into_phrase()
}

fn determiner(phrase: &NounPhrase, body: &str) -> &'static str {
    match (phrase.determiner, phrase.count) {
        (Determiner::Definite, _) => "the",
        (Determiner::Indefinite, _) if body.starts_with(['a', 'e', 'i', 'o', 'u', 'I']) => "an",
        (Determiner::Indefinite, _) => "a",
        (Determiner::Some, _) => "some",
        (Determiner::Any, _) => "any",
        (Determiner::No, _) => "no",
        (Determiner::This, Count::One) => "this",
        (Determiner::This, _) => "these",
        (Determiner::That, Count::One) => "that",
        (Determiner::That, _) => "those",
        (Determiner::Possessive(possessor), _) => possessor.english,
        (Determiner::Bare, _) => "",
    }
}

fn preposition(preposition: Preposition) -> &'static str {
    match preposition {
        Preposition::To => "to",
        Preposition::At => "at",
        Preposition::From => "from",
        Preposition::In => "in",
        Preposition::On => "on",
        Preposition::Of => "of",
        Preposition::Than => "than",
        Preposition::With => "with",
        Preposition::For => "for",
    }
}

fn push_place(words: &mut Words, place: Option<&Place>) {
    match place {
        Some(Place::City(before, city)) => {
            words.push(preposition(*before)).push(city.english);
        }
        Some(Place::At(before, phrase)) => {
            words.push(preposition(*before)).push(&noun_phrase(phrase));
        }
        None => {}
    }
}

fn push_time(words: &mut Words, time: Option<Time>) {
    match time {
        Some(Time::Word(fixed)) => {
            words.push(fixed.english);
        }
        Some(Time::Clock(hour, minutes)) => {
            let hour = hour.map_or("one", |numeral| numeral.english);
            match minutes {
                Minutes::Sharp => words.push("at").push(hour).push("o'clock"),
                Minutes::Quarter => words.push("at a quarter past").push(hour),
                Minutes::Half => words.push("at half past").push(hour),
            };
        }
        None => {}
    }
}
