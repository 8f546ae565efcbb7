//! Italian rendering of small talk.

use super::super::morphology::{Agreement, Onset, dative, definite, person};
use super::super::sentence::{Count, Force, Liked, Pointer, Pronoun, Said, Shown};
use super::super::sentence::{Subject, Talk};
use super::super::verbs::{AVERE, CHIAMARSI, ESSERE, Preposition, STARE, VENIRE};
use super::super::words::Words;
use super::{clock_words, noun_phrase, place, push_subject};

pub(super) fn talk(talk: &Talk) -> String {
    let mut words = Words::default();
    match talk {
        Talk::Phrase(phrase) => {
            words.push(phrase.italian);
        }
        Talk::Naming { who, name: None, .. } => {
            words.push("come").push(CHIAMARSI[person(who)]);
            push_asked(&mut words, who);
        }
        Talk::Naming { who, name: Some(name), force } => {
            push_subject(&mut words, who);
            push_denial(&mut words, *force);
            words.push(CHIAMARSI[person(who)]).push(name.text);
        }
        Talk::Age { who, years: None, .. } => {
            words.push("quanti anni").push(AVERE[0][person(who)]);
            push_asked(&mut words, who);
        }
        Talk::Age { who, years: Some(years), force } => {
            push_subject(&mut words, who);
            push_denial(&mut words, *force);
            words.push(AVERE[0][person(who)]).push(years.italian).push("anni");
        }
        Talk::Origin { who, from: None, .. } => {
            words.push("di");
            push_where(&mut words, who, 0);
        }
        Talk::Origin { who, from: Some(from), force } => {
            push_subject(&mut words, who);
            push_denial(&mut words, *force);
            words.push(VENIRE[person(who)]).push(&place(from));
        }
        Talk::Liking { who, what, force } => liking(&mut words, who, what, *force),
        Talk::HowIs { who, today } => {
            words.push("come").push(STARE[person(who)]);
            push_asked(&mut words, who);
            words.push(if *today { "oggi" } else { "" });
        }
        Talk::Pointing { pointer, what, force } => pointing(&mut words, *pointer, what, *force),
        Talk::Clock { hour, minutes, force } => {
            push_denial(&mut words, *force);
            words.push(if hour.is_some() { "sono le" } else { "è l'" });
            words.push(hour.map_or("una", |hour| hour.italian)).push(clock_words(*minutes));
        }
        Talk::Day { tomorrow, day, force } => {
            words.push(if *tomorrow { "domani" } else { "oggi" });
            push_denial(&mut words, *force).push("è").push(day.italian);
        }
        Talk::Thanks { what } => {
            words.push("grazie").push(&noun_phrase(what, Some(Preposition::For)));
        }
        Talk::Saying { what, language } => {
            words.push("come si dice");
            words.push(match what {
                Said::Noun(noun) => noun.italian[0],
                Said::Phrase(phrase) => phrase.italian,
            });
            words.push("in").push(language.italian);
        }
    }
    words.into_phrase()
}

fn push_denial(words: &mut Words, force: Force) -> &mut Words {
    words.push(if force == Force::Denied { "non" } else { "" })
}

/// Adds the subject after the verb of a question with a question word. Pronouns in this position
/// are dropped, including `lui` and `lei`.
fn push_asked(words: &mut Words, who: &Subject) {
    if !matches!(who, Subject::Pronoun(_)) {
        push_subject(words, who);
    }
}

/// Adds `dov'è la chiave` or `dove sei`; `tense` is the index into the table of `essere`.
pub(super) fn push_where(words: &mut Words, what: &Subject, tense: usize) {
    let be = ESSERE[tense][person(what)];
    // `dove` loses its vowel before `è`, `era` and the other imperfects.
    if Onset::of(be) == Onset::Vowel {
        words.push("dov'").push(be);
    } else {
        words.push("dove").push(be);
    }
    push_subject(words, what);
}

fn liking(words: &mut Words, who: &Subject, what: &Liked, force: Force) {
    let please = match what {
        Liked::Phrase(phrase) if phrase.count != Count::One => "piacciono",
        _ => "piace",
    };
    match who {
        Subject::Pronoun(Pronoun::They) => {
            push_denial(words.push(dative(Pronoun::They)), force);
        }
        Subject::Pronoun(pronoun) => {
            push_denial(words, force).push(dative(*pronoun));
        }
        Subject::Name(name) => {
            // `a` becomes `ad` before the same vowel.
            let to = if name.text.starts_with('A') { "ad" } else { "a" };
            push_denial(words.push(to).push(name.text), force);
        }
        Subject::Phrase(phrase) => {
            push_denial(words.push(&noun_phrase(phrase, Some(Preposition::To))), force);
        }
    }
    words.push(please);
    match what {
        Liked::Phrase(phrase) => words.push(&noun_phrase(phrase, None)),
        Liked::City(city) => words.push(city.italian),
        Liked::Country(country) => words.push(country.article).push(country.italian),
    };
}

fn pointing(words: &mut Words, pointer: Pointer, what: &Shown, force: Force) {
    let (shown, agreement) = match what {
        Shown::Phrase(phrase) => {
            let plural = phrase.count != Count::One;
            (noun_phrase(phrase, None), Agreement { gender: phrase.noun.gender, plural })
        }
        Shown::Name(name) => {
            (name.text.to_owned(), Agreement { gender: name.gender, plural: false })
        }
    };
    let person = match pointer {
        Pointer::This => {
            words.push(&agreement.inflect("questo"));
            2 + 3 * usize::from(agreement.plural)
        }
        Pointer::That => {
            words.push(&agreement.inflect("quello"));
            2 + 3 * usize::from(agreement.plural)
        }
        Pointer::Pronoun(pronoun) => {
            let subject = Subject::Pronoun(pronoun);
            push_subject(words, &subject);
            person(&subject)
        }
    };
    push_denial(words, force).push(ESSERE[0][person]).push(&shown);
}

/// Language with its article: `l'inglese`, `il tedesco`, `lo spagnolo`.
pub(super) fn language_article(language: &str) -> &'static str {
    use super::super::lexicon::Gender::Masculine;
    definite(Agreement { gender: Masculine, plural: false }, Onset::of(language))
}
