//! Italian rendering of sentences.

mod talk;

use super::lexicon::{Kind, Position, StateVerb};
use super::morphology::{
    Agreement, Onset, before_noun, contract, definite, future, indefinite_ending, object_pronoun,
    person, preposition_alone, preposition_with,
};
use super::sentence::{
    Aspect, Being, Clause, Count, Determiner, Existence, Force, Frequency, Minutes, NounPhrase,
    Object, Place, Predicate, Pronoun, Sentence, Subject, Tense, Time, Utterance, Weather,
};
use super::verbs::{AVERE, Auxiliary, ESSERE, Frame, LanguageArticle, Preposition, STARE};
use super::words::Words;

/// Renders an Italian utterance, from its capital to its final mark.
pub(super) fn utterance(utterance: &Utterance) -> String {
    let comma = if utterance.has_commas { "," } else { "" };
    let mut words = Words::default();
    if let Some(opener) = utterance.opener {
        words.push(opener.italian).attach(comma);
    }
    words.push(&sentence(&utterance.sentence));
    if let Some(addressee) = utterance.addressee {
        words.attach(comma).push(addressee.text);
    }
    words.into_sentence(utterance.mark())
}

/// Renders an Italian sentence without capital and final mark.
pub(super) fn sentence(sentence: &Sentence) -> String {
    let mut words = Words::default();
    match sentence {
        Sentence::Clause(it) => clause(&mut words, it),
        Sentence::Being(it) => being(&mut words, it),
        Sentence::Comparison { subject, adjective, than } => {
            push_subject(&mut words, subject);
            words.push(ESSERE[0][person(subject)]).push("più");
            words.push(adjective.italian[Agreement::of(subject).index()]);
            words.push(&noun_phrase(than, Some(Preposition::Than)));
        }
        Sentence::Existence(it) => existence(&mut words, it),
        Sentence::Where { what, past } => {
            let tense = if past.is_some() { Tense::Past } else { Tense::Present };
            talk::push_where(&mut words, what, tense_index(tense));
            push_time(&mut words, *past);
        }
        Sentence::Cost { what } => {
            words.push("quanto");
            words.push(if what.count == Count::One { "costa" } else { "costano" });
            words.push(&noun_phrase(what, None));
        }
        Sentence::Wish { what, is_plural, is_polite } => {
            words.push(if *is_plural { "vorremmo" } else { "vorrei" });
            words.push(&noun_phrase(what, None));
            if *is_polite {
                words.attach(",").push("per favore");
            }
        }
        Sentence::Weather(it) => weather(&mut words, it),
        Sentence::Talk(it) => return talk::talk(it),
    }
    words.into_phrase()
}

fn clause(words: &mut Words, clause: &Clause) {
    let verb = clause.verb;
    let person = person(&clause.subject);
    if clause.time_first {
        push_time(words, clause.time);
    }
    push_subject(words, &clause.subject);
    let never = clause.aspect == Aspect::Habit(Frequency::Never);
    if never || clause.force == Force::Denied {
        words.push("non");
    }
    if let Some(Object::Pronoun(pronoun)) = clause.object {
        words.push(match (pronoun, clause.aspect) {
            // `l'ho visto`
            (Pronoun::He, Aspect::Past) => "l'",
            _ => object_pronoun(pronoun),
        });
    }
    match clause.aspect {
        Aspect::Present => words.push(verb.present[person]),
        Aspect::Habit(often) => words.push(verb.present[person]).push(frequency(often)),
        Aspect::Progressive => words.push(STARE[person]).push(verb.gerund),
        Aspect::Past => match verb.auxiliary {
            Auxiliary::Avere => words.push(AVERE[0][person]).push(verb.participle),
            Auxiliary::Essere => {
                let participle = Agreement::of(&clause.subject).inflect(verb.participle);
                words.push(ESSERE[0][person]).push(&participle)
            }
        },
        Aspect::Future => words.push(&future(verb, person)),
        Aspect::Modal(modal) => words.push(modal.italian[person]).push(verb.infinitive),
    };
    match &clause.object {
        Some(Object::Phrase(phrase)) => words.push(&noun_phrase(phrase, None)),
        Some(Object::Language { language, is_little: true }) => {
            words.push("un po' di").push(language.italian)
        }
        Some(Object::Language { language, is_little: false }) => {
            if verb.frame == Frame::Language(LanguageArticle::With) {
                words.push(talk::language_article(language.italian));
            }
            words.push(language.italian)
        }
        Some(Object::Pronoun(_)) | None => words,
    };
    push_place(words, clause.place.as_ref());
    if let Some((before, phrase)) = &clause.extra {
        words.push(&noun_phrase(phrase, Some(*before)));
    }
    if !clause.time_first {
        push_time(words, clause.time);
    }
}

fn frequency(frequency: Frequency) -> &'static str {
    match frequency {
        Frequency::Always => "sempre",
        Frequency::Often => "spesso",
        Frequency::Never => "mai",
    }
}

fn being(words: &mut Words, being: &Being) {
    if being.time_first {
        push_time(words, being.time);
    }
    push_subject(words, &being.subject);
    if being.force == Force::Denied {
        words.push("non");
    }
    let (tense, person) = (tense_index(being.tense), person(&being.subject));
    match &being.predicate {
        Predicate::Adjective { adjective, is_very } => {
            words.push(ESSERE[tense][person]).push(if *is_very { "molto" } else { "" });
            words.push(adjective.italian[Agreement::of(&being.subject).index()]);
        }
        Predicate::State { state, is_very } => {
            words.push(match state.verb {
                StateVerb::Avere => AVERE[tense][person],
                StateVerb::Stare => STARE[person],
            });
            words.push(state.very.filter(|_| *is_very).unwrap_or(state.italian));
        }
        Predicate::Spot(spot) => {
            words.push(ESSERE[tense][person]).push(spot.italian);
        }
        Predicate::Place(place) => {
            words.push(ESSERE[tense][person]);
            push_place(words, Some(place));
        }
    }
    if !being.time_first {
        push_time(words, being.time);
    }
}

fn existence(words: &mut Words, existence: &Existence) {
    let Existence { tense, force, theme, place: (before, place) } = existence;
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
}

fn weather(words: &mut Words, weather: &Weather) {
    if weather.time_first {
        push_time(words, weather.time);
    }
    if weather.force == Force::Denied {
        words.push("non");
    }
    words.push(weather.sky.italian[tense_index(weather.tense)]);
    push_place(words, weather.place.as_ref());
    if !weather.time_first {
        push_time(words, weather.time);
    }
}

/// Index into the tables of `essere` and of the weather.
fn tense_index(tense: Tense) -> usize {
    match tense {
        Tense::Present => 0,
        Tense::Past => 1,
        Tense::Future => 2,
    }
}

/// Adds the subject, unless Italian drops it.
fn push_subject(words: &mut Words, subject: &Subject) {
    match subject {
        Subject::Pronoun(Pronoun::He) => words.push("lui"),
        Subject::Pronoun(Pronoun::She) => words.push("lei"),
        Subject::Pronoun(_) => words,
        Subject::Name(name) => words.push(name.text),
        Subject::Phrase(phrase) => words.push(&noun_phrase(phrase, None)),
    };
}

/// Renders a noun phrase: `le due case rosse`; after a preposition `delle due case rosse`.
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

/// Noun phrase without its article or demonstrative: `mie due case rosse`.
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

/// Returns `true` if the definite article opens the phrase. Possessives take it, except that of one
/// relative without adjective: `mia madre`, but `la loro madre` and `la mia vecchia madre`.
fn has_article(phrase: &NounPhrase) -> bool {
    match phrase.determiner {
        Determiner::Definite | Determiner::Generic => true,
        Determiner::Possessive(possessor) => {
            phrase.noun.kind != Kind::Family
                || phrase.count != Count::One
                || phrase.adjective.is_some()
                || possessor.english == "their"
        }
        _ => false,
    }
}

/// Determiners other than the definite article.
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
        | Determiner::Generic
        | Determiner::Possessive(_)
        | Determiner::No
        | Determiner::Any
        | Determiner::Bare => String::new(),
    }
}

fn push_place(words: &mut Words, at: Option<&Place>) {
    words.push(&at.map(place).unwrap_or_default());
}

fn place(at: &Place) -> String {
    match at {
        Place::City(Preposition::From, city) => format!("da {}", city.italian),
        Place::City(_, city) => format!("a {}", city.italian),
        Place::Country(Preposition::From, country) => {
            let mut words = Words::default();
            words.push(&contract("da", country.article)).push(country.italian);
            words.into_phrase()
        }
        Place::Country(_, country) => format!("in {}", country.italian),
        Place::At(before, phrase) => noun_phrase(phrase, Some(*before)),
    }
}

fn push_time(words: &mut Words, time: Option<Time>) {
    match time {
        Some(Time::Word(fixed)) => words.push(fixed.italian),
        Some(Time::Clock(hour, minutes)) => {
            match hour {
                None => words.push("all'una"),
                Some(numeral) => words.push("alle").push(numeral.italian),
            };
            words.push(clock_words(minutes))
        }
        None => words,
    };
}

/// Words after the hour.
fn clock_words(minutes: Minutes) -> &'static str {
    match minutes {
        Minutes::Sharp => "",
        Minutes::Quarter => "e un quarto",
        Minutes::Half => "e mezza",
    }
}
