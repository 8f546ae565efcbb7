//! Words a sentence in Italian.

use super::lexicon::{Kind, Position};
use super::morphology::{
    Agreement, Onset, before_noun, contract, definite, future, indefinite_ending, person,
    preposition_alone, preposition_with,
};
use super::sentence::{
    Aspect, Being, Clause, Count, Determiner, Existence, Force, Frequency, Minutes, NounPhrase,
    Place, Pronoun, Sentence, Subject, Tense, Time, Weather,
};
use super::verbs::{AVERE, Auxiliary, ESSERE, Preposition, STARE};
use super::words::Words;

/// The Italian sentence, from its capital to its full stop or question mark.
pub(super) fn sentence(sentence: &Sentence) -> String {
    match sentence {
        Sentence::Clause(it) => clause(it),
        Sentence::Being(it) => being(it),
        Sentence::Comparison { subject, adjective, than } => {
            let mut words = Words::default();
            push_subject(&mut words, subject);
            words.push(ESSERE[0][person(subject)]).push("più");
            words.push(adjective.italian[Agreement::of(subject).index()]);
            words.push(&noun_phrase(than, Some(Preposition::Than)));
            words.into_sentence('.')
        }
        Sentence::Existence(it) => existence(it),
        Sentence::Where { what, past } => {
            let mut words = Words::default();
            words.push(match (past, what.count) {
                (None, Count::One) => "dov'è",
                (None, _) => "dove sono",
                (Some(_), Count::One) => "dov'era",
                (Some(_), _) => "dov'erano",
            });
            words.push(&noun_phrase(what, None));
            push_time(&mut words, *past);
            words.into_sentence('?')
        }
        Sentence::Cost { what } => {
            let mut words = Words::default();
            words.push("quanto");
            words.push(if what.count == Count::One { "costa" } else { "costano" });
            words.push(&noun_phrase(what, None));
            words.into_sentence('?')
        }
        Sentence::Wish { what, many } => {
            let mut words = Words::default();
            words.push(if *many { "vorremmo" } else { "vorrei" });
            words.push(&noun_phrase(what, None)).attach(",").push("per favore");
            words.into_sentence('.')
        }
        Sentence::Weather(it) => weather(it),
    }
}

/// The mark at the end; nothing else tells a question from a statement.
fn mark(force: Force) -> char {
    if force == Force::Asked { '?' } else { '.' }
}

fn clause(clause: &Clause) -> String {
    let verb = clause.verb;
    let person = person(&clause.subject);
    let mut words = Words::default();
    if clause.time_first {
        push_time(&mut words, clause.time);
    }
    push_subject(&mut words, &clause.subject);
    let never = clause.aspect == Aspect::Habit(Frequency::Never);
    if never || clause.force == Force::Denied {
        words.push("non");
    }
    match clause.aspect {
        Aspect::Present => words.push(verb.present[person]),
        Aspect::Habit(often) => words.push(verb.present[person]).push(frequency(often)),
        Aspect::Progressive => words.push(STARE[person]).push(verb.gerund),
        Aspect::Past => match verb.auxiliary {
            Auxiliary::Avere => words.push(AVERE[person]).push(verb.participle),
            Auxiliary::Essere => {
                let participle = Agreement::of(&clause.subject).inflect(verb.participle);
                words.push(ESSERE[0][person]).push(&participle)
            }
        },
        Aspect::Future => words.push(&future(verb, person)),
        Aspect::Modal(modal) => words.push(modal.italian[person]).push(verb.infinitive),
    };
    if let Some(object) = &clause.object {
        words.push(&noun_phrase(object, None));
    }
    push_place(&mut words, clause.place.as_ref());
    if let Some((before, phrase)) = &clause.extra {
        words.push(&noun_phrase(phrase, Some(*before)));
    }
    if !clause.time_first {
        push_time(&mut words, clause.time);
    }
    words.into_sentence(mark(clause.force))
}

fn frequency(frequency: Frequency) -> &'static str {
    match frequency {
        Frequency::Always => "sempre",
        Frequency::Often => "spesso",
        Frequency::Never => "mai",
    }
}

fn being(being: &Being) -> String {
    let mut words = Words::default();
    if being.time_first {
        push_time(&mut words, being.time);
    }
    push_subject(&mut words, &being.subject);
    if being.force == Force::Denied {
        words.push("non");
    }
    words.push(ESSERE[tense_index(being.tense)][person(&being.subject)]);
    words.push(being.adjective.italian[Agreement::of(&being.subject).index()]);
    if !being.time_first {
        push_time(&mut words, being.time);
    }
    words.into_sentence(mark(being.force))
}

fn existence(existence: &Existence) -> String {
    let Existence { tense, force, theme, place: (before, place) } = existence;
    let mut words = Words::default();
    if *force == Force::Denied {
        words.push("non");
    }
    words.push(match (tense, theme.count) {
        (Tense::Present, Count::One) => "c'è",
        (Tense::Present, _) => "ci sono",
        (Tense::Past, Count::One) => "c'era",
        (Tense::Past, _) => "c'erano",
        (Tense::Future, Count::One) => "ci sarà",
        (Tense::Future, _) => "ci saranno",
    });
    words.push(&noun_phrase(theme, None)).push(&noun_phrase(place, Some(*before)));
    words.into_sentence(mark(*force))
}

fn weather(weather: &Weather) -> String {
    let mut words = Words::default();
    push_time(&mut words, Some(weather.time));
    if weather.force == Force::Denied {
        words.push("non");
    }
    words.push(weather.sky.italian[tense_index(weather.tense)]);
    push_place(&mut words, weather.place.as_ref());
    words.into_sentence('.')
}

/// The index into the tables of `essere` and of the weather.
fn tense_index(tense: Tense) -> usize {
    match tense {
        Tense::Present => 0,
        Tense::Past => 1,
        Tense::Future => 2,
    }
}

/// The subject, if Italian says it.
fn push_subject(words: &mut Words, subject: &Subject) {
    match subject {
        Subject::Pronoun(Pronoun::He) => words.push("lui"),
        Subject::Pronoun(Pronoun::She) => words.push("lei"),
        Subject::Pronoun(_) => words,
        Subject::Phrase(phrase) => words.push(&noun_phrase(phrase, None)),
    };
}

/// `le due case rosse`; behind a preposition `delle due case rosse`.
pub(super) fn noun_phrase(phrase: &NounPhrase, before: Option<Preposition>) -> String {
    let agreement = Agreement { gender: phrase.noun.gender, plural: phrase.count.index() == 1 };
    let body = body(phrase, agreement);
    let onset = Onset::of(&body);

    let mut words = Words::default();
    let alone = before.map_or("", preposition_alone);
    if has_article(phrase) {
        let article = definite(agreement, onset);
        match before {
            Some(before) => words.push(&preposition_with(before, article)),
            None => words.push(article),
        };
    } else {
        words.push(alone).push(&determiner(phrase, agreement, onset));
    }
    words.push(&body);
    if let Some(owner) = &phrase.owner {
        words.push(&noun_phrase(owner, Some(Preposition::Of)));
    }
    words.into_phrase()
}

/// All of a noun phrase but its article or demonstrative: `mie due case rosse`.
fn body(phrase: &NounPhrase, agreement: Agreement) -> String {
    let mut words = Words::default();
    if let Determiner::Possessive(possessor) = phrase.determiner {
        words.push(possessor.italian[agreement.index()]);
    }
    if let Count::Exactly(numeral) = phrase.count {
        words.push(numeral.italian);
    }
    let noun = phrase.noun.italian[phrase.count.index()];
    match phrase.adjective {
        None => words.push(noun),
        Some(adjective) if adjective.position == Position::After => {
            words.push(noun).push(adjective.italian[agreement.index()])
        }
        Some(adjective) => words.push(&before_noun(adjective, agreement, noun)).push(noun),
    };
    words.into_phrase()
}

/// Whether the definite article opens the phrase. It does before a possessive, except that of
/// one relative without adjective: `mia madre`, yet `la loro madre` and `la mia vecchia madre`.
fn has_article(phrase: &NounPhrase) -> bool {
    match phrase.determiner {
        Determiner::Definite => true,
        Determiner::Possessive(possessor) => {
            phrase.noun.kind != Kind::Family
                || phrase.count != Count::One
                || phrase.adjective.is_some()
                || possessor.english == "their"
        }
        _ => false,
    }
}

/// Every determiner but the definite article.
fn determiner(phrase: &NounPhrase, agreement: Agreement, onset: Onset) -> String {
    let Agreement { gender, plural } = agreement;
    match phrase.determiner {
        Determiner::Indefinite => format!("un{}", indefinite_ending(gender, onset)),
        Determiner::Some => contract("de", definite(agreement, onset)),
        Determiner::No if !plural && phrase.noun.is_countable() => {
            format!("nessun{}", indefinite_ending(gender, onset))
        }
        Determiner::This if !plural && onset == Onset::Vowel => "quest'".to_owned(),
        Determiner::This => agreement.inflect("questo"),
        Determiner::That => contract("que", definite(agreement, onset)),
        Determiner::Definite
        | Determiner::Possessive(_)
        | Determiner::No
        | Determiner::Any
        | Determiner::Bare => String::new(),
    }
}

fn push_place(words: &mut Words, place: Option<&Place>) {
    match place {
        Some(Place::City(Preposition::From, city)) => {
            words.push("da").push(city.italian);
        }
        Some(Place::City(_, city)) => {
            words.push("a").push(city.italian);
        }
        Some(Place::At(before, phrase)) => {
            words.push(&noun_phrase(phrase, Some(*before)));
        }
        None => {}
    }
}

fn push_time(words: &mut Words, time: Option<Time>) {
    match time {
        Some(Time::Word(fixed)) => {
            words.push(fixed.italian);
        }
        Some(Time::Clock(hour, minutes)) => {
            match hour {
                None => words.push("all'una"),
                Some(numeral) => words.push("alle").push(numeral.italian),
            };
            words.push(match minutes {
                Minutes::Sharp => "",
                Minutes::Quarter => "e un quarto",
                Minutes::Half => "e mezza",
            });
        }
        None => {}
    }
}
