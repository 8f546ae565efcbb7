//! English rendering of small talk.

use super::super::sentence::{Count, Force, Liked, NounPhrase, Pointer, Pronoun, Said, Shown};
use super::super::sentence::{Subject, Talk, Tense};
use super::super::words::Words;
use super::{be, be_third, clock, do_now, is_third_singular, noun_phrase, place, subject_phrase};

pub(super) fn talk(talk: &Talk) -> String {
    let mut words = Words::default();
    match talk {
        Talk::Phrase(phrase) => {
            words.push(phrase.english);
        }
        Talk::Naming { who, name: None, .. } => {
            words.push("what is").push(&owner(who)).push("name");
        }
        Talk::Naming { who, name: Some(name), force } => {
            let subject = format!("{} name", owner(who));
            push_being(&mut words, &subject, "is", *force);
            words.push(name.text);
        }
        Talk::Age { who, years, force } => {
            let (subject, be) = (subject_phrase(who), be(who, Tense::Present));
            match years {
                None => words.push("how old").push(be).push(&subject),
                Some(years) => {
                    push_being(&mut words, &subject, be, *force);
                    words.push(years.english).push("years old")
                }
            };
        }
        Talk::Origin { who, from, force } => {
            let (subject, be) = (subject_phrase(who), be(who, Tense::Present));
            match from {
                None => words.push("where").push(be).push(&subject).push("from"),
                Some(from) => {
                    push_being(&mut words, &subject, be, *force);
                    words.push(&place(from))
                }
            };
        }
        Talk::Liking { who, what, force } => {
            let subject = subject_phrase(who);
            let do_now = do_now(who);
            match force {
                Force::Stated if is_third_singular(who) => words.push(&subject).push("likes"),
                Force::Stated => words.push(&subject).push("like"),
                Force::Denied => words.push(&subject).push(do_now).push("not like"),
                Force::Asked => words.push(do_now).push(&subject).push("like"),
            };
            words.push(&match what {
                Liked::Phrase(phrase) => noun_phrase(phrase),
                Liked::City(city) => city.english.to_owned(),
                Liked::Country(country) => country.english.to_owned(),
            });
        }
        Talk::HowIs { who, today } => {
            words.push("how").push(be(who, Tense::Present)).push(&subject_phrase(who));
            words.push(if *today { "today" } else { "" });
        }
        Talk::Pointing { pointer, what, force } => {
            let (subject, be) = pointing(*pointer, what);
            push_being(&mut words, subject, be, *force);
            words.push(&match what {
                Shown::Phrase(phrase) => noun_phrase(phrase),
                Shown::Name(name) => name.text.to_owned(),
            });
        }
        Talk::Clock { hour, minutes, force } => {
            push_being(&mut words, "it", "is", *force);
            words.push(&clock(*hour, *minutes));
        }
        Talk::Day { tomorrow, day, force } => {
            let subject = if *tomorrow { "tomorrow" } else { "today" };
            push_being(&mut words, subject, "is", *force);
            words.push(day.english.trim_start_matches("on "));
        }
        Talk::Thanks { what } => {
            words.push("thank you for").push(&noun_phrase(what));
        }
        Talk::Saying { what, language } => {
            words.push("how do you say");
            words.push(match what {
                Said::Noun(noun) => noun.english[0],
                Said::Phrase(phrase) => phrase.english,
            });
            words.push("in").push(language.english);
        }
    }
    words.into_phrase()
}

/// Adds subject and `to be` in the order of the force.
fn push_being(words: &mut Words, subject: &str, be: &str, force: Force) {
    match force {
        Force::Stated => words.push(subject).push(be),
        Force::Denied => words.push(subject).push(be).push("not"),
        Force::Asked => words.push(be).push(subject),
    };
}

/// Possessive form: `my`, `Anna's`, `your sister's`.
fn owner(who: &Subject) -> String {
    match who {
        Subject::Pronoun(pronoun) => match pronoun {
            Pronoun::I => "my",
            Pronoun::You | Pronoun::YouAll => "your",
            Pronoun::He => "his",
            Pronoun::She => "her",
            Pronoun::We => "our",
            Pronoun::They => "their",
        }
        .to_owned(),
        Subject::Name(_) | Subject::Phrase(_) => format!("{}'s", subject_phrase(who)),
    }
}

/// Pointer with `to be`: `this is`, `those are`, `she is`.
fn pointing(pointer: Pointer, what: &Shown) -> (&'static str, &'static str) {
    let count = match what {
        Shown::Phrase(NounPhrase { count, .. }) => *count,
        Shown::Name(_) => Count::One,
    };
    let subject = match (pointer, count) {
        (Pointer::This, Count::One) => "this",
        (Pointer::This, _) => "these",
        (Pointer::That, Count::One) => "that",
        (Pointer::That, _) => "those",
        (Pointer::Pronoun(pronoun), _) => {
            return (super::pronoun_word(pronoun), be(&Subject::Pronoun(pronoun), Tense::Present));
        }
    };
    (subject, be_third(count, Tense::Present))
}
