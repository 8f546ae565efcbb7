//! English rendering of sentences.

mod talk;

use super::lexicon::{Fixed, PEOPLE};
use super::sentence::{
    Aspect, Being, Clause, Count, Determiner, Existence, Force, Frequency, Minutes, NounPhrase,
    Object, Place, Predicate, Pronoun, Sentence, Subject, Tense, Time, Utterance, Weather,
};
use super::verbs::Preposition;
use super::words::Words;

/// Renders an English utterance, from its capital to its final mark.
pub(super) fn utterance(utterance: &Utterance) -> String {
    framed(utterance, sentence(&utterance.sentence))
}

/// Renders an utterance whose sentence is an order: the clause without its subject.
///
/// An opener other than `please` always has a comma, because `No work in the hotel` would be a noun phrase.
pub(super) fn order(utterance: &Utterance, clause: &Clause) -> String {
    let [base, ..] = clause.verb.english;
    let mut words = Words::default();
    words.push(base);
    complements(&mut words, clause);
    let needs_comma = utterance.opener.is_some_and(|opener| opener.english != "please");
    let has_commas = utterance.has_commas || needs_comma;
    framed(&Utterance { has_commas, ..utterance.clone() }, words.into_phrase())
}

/// Adds the surroundings of an utterance to its sentence.
fn framed(utterance: &Utterance, sentence: String) -> String {
    let comma = if utterance.has_commas { "," } else { "" };
    let mut words = Words::default();
    if let Some(opener) = utterance.opener {
        words.push(opener.english).attach(comma);
    }
    words.push(&if utterance.is_contracted { contracted(&sentence) } else { sentence });
    if let Some(addressee) = utterance.addressee {
        words.attach(comma).push(addressee.text);
    }
    words.into_sentence(utterance.mark())
}

/// Contractions. Negations come first, because `is not` becomes `isn't` and `it is not` does not
/// become `it's not`.
const CONTRACTIONS: &[(&str, &str)] = &[
    ("do not", "don't"),
    ("does not", "doesn't"),
    ("did not", "didn't"),
    ("is not", "isn't"),
    ("are not", "aren't"),
    ("was not", "wasn't"),
    ("were not", "weren't"),
    ("will not", "won't"),
    ("cannot", "can't"),
    ("I am", "I'm"),
    ("I will", "I'll"),
    ("I would", "I'd"),
    ("you are", "you're"),
    ("you will", "you'll"),
    ("he is", "he's"),
    ("he will", "he'll"),
    ("she is", "she's"),
    ("she will", "she'll"),
    ("we are", "we're"),
    ("we will", "we'll"),
    ("we would", "we'd"),
    ("they are", "they're"),
    ("they will", "they'll"),
    ("it is", "it's"),
    ("it will", "it'll"),
    ("that is", "that's"),
    ("there is", "there's"),
    ("what is", "what's"),
    ("where is", "where's"),
    ("who is", "who's"),
    ("how is", "how's"),
];

/// Applies all possible contractions.
fn contracted(sentence: &str) -> String {
    let padded = CONTRACTIONS.iter().fold(format!(" {sentence} "), |text, (long, short)| {
        text.replace(&format!(" {long} "), &format!(" {short} "))
    });
    padded.trim().to_owned()
}

/// Renders an English sentence without capital and final mark.
pub(super) fn sentence(sentence: &Sentence) -> String {
    let mut words = Words::default();
    match sentence {
        Sentence::Clause(it) => clause(&mut words, it),
        Sentence::Being(it) => being(&mut words, it),
        Sentence::Comparison { subject, adjective, than } => {
            words.push(&subject_phrase(subject)).push(be(subject, Tense::Present));
            words.push(adjective.comparative.unwrap_or(adjective.english));
            words.push(preposition(Preposition::Than)).push(&noun_phrase(than));
        }
        Sentence::Existence(it) => existence(&mut words, it),
        Sentence::Where { what, past } => {
            let tense = if past.is_some() { Tense::Past } else { Tense::Present };
            words.push("where").push(be(what, tense)).push(&subject_phrase(what));
            push_time(&mut words, *past);
        }
        Sentence::Cost { what } => {
            words.push("how much").push(if what.count == Count::One { "does" } else { "do" });
            words.push(&noun_phrase(what)).push("cost");
        }
        Sentence::Wish { what, is_plural, is_polite } => {
            words.push(if *is_plural { "we" } else { "I" }).push("would like");
            words.push(&noun_phrase(what));
            if *is_polite {
                words.attach(",").push("please");
            }
        }
        Sentence::Weather(it) => weather(&mut words, it),
        Sentence::Talk(it) => return talk::talk(it),
    }
    words.into_phrase()
}

fn clause(words: &mut Words, clause: &Clause) {
    let group = VerbGroup::of(clause);
    let subject = subject_phrase(&clause.subject);
    if clause.time_first {
        push_time(words, clause.time);
    }
    match clause.force {
        Force::Stated => words.push(&subject).push(&group.stated),
        Force::Denied => words.push(&subject).push(&group.denied_operator).push(&group.rest),
        Force::Asked => words.push(group.operator).push(&subject).push(&group.rest),
    };
    complements(words, clause);
}

/// Adds everything after the verb.
fn complements(words: &mut Words, clause: &Clause) {
    words.push(clause.verb.particle.unwrap_or_default());
    match &clause.object {
        Some(Object::Phrase(phrase)) => words.push(&noun_phrase(phrase)),
        Some(Object::Pronoun(pronoun)) => words.push(object_pronoun(*pronoun)),
        Some(Object::Language { language, is_little }) => {
            words.push(if *is_little { "a little" } else { "" }).push(language.english)
        }
        None => words,
    };
    push_place(words, clause.place.as_ref());
    if let Some((before, phrase)) = &clause.extra {
        words.push(preposition(*before)).push(&noun_phrase(phrase));
    }
    if !clause.time_first {
        push_time(words, clause.time);
    }
}

/// Verb group of a clause, in the form that each force needs.
struct VerbGroup {
    /// Statement: `eats`, `is eating`.
    stated: String,
    /// Operator before the subject of a question: `does`, `is`.
    operator: &'static str,
    /// Operator of a negation: `does not`, `is not`.
    denied_operator: String,
    /// Words after the operator: `eat`, `eating`.
    rest: String,
}

impl VerbGroup {
    fn of(clause: &Clause) -> Self {
        let [base, third, past, progressive] = clause.verb.english;
        let third_person = is_third_singular(&clause.subject);
        let finite = if third_person { third } else { base };
        let do_now = do_now(&clause.subject);
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

/// Returns `do` or `does`.
fn do_now(subject: &Subject) -> &'static str {
    if is_third_singular(subject) { "does" } else { "do" }
}

fn being(words: &mut Words, being: &Being) {
    let subject = subject_phrase(&being.subject);
    let be = be(&being.subject, being.tense);
    if being.time_first {
        push_time(words, being.time);
    }
    match (being.force, being.tense) {
        (Force::Stated, Tense::Future) => words.push(&subject).push("will be"),
        (Force::Denied, Tense::Future) => words.push(&subject).push("will not be"),
        (Force::Asked, Tense::Future) => words.push("will").push(&subject).push("be"),
        (Force::Stated, _) => words.push(&subject).push(be),
        (Force::Denied, _) => words.push(&subject).push(be).push("not"),
        (Force::Asked, _) => words.push(be).push(&subject),
    };
    let very = |is_very: bool| if is_very { "very" } else { "" };
    match &being.predicate {
        Predicate::Adjective { adjective, is_very } => {
            words.push(very(*is_very)).push(adjective.english);
        }
        Predicate::State { state, is_very } => {
            words.push(very(*is_very)).push(state.english);
        }
        Predicate::Spot(spot) => {
            words.push(spot.english);
        }
        Predicate::Place(place) => push_place(words, Some(place)),
    }
    if !being.time_first {
        push_time(words, being.time);
    }
}

fn existence(words: &mut Words, existence: &Existence) {
    let Existence { tense, force, theme, place: (before, place) } = existence;
    match (force, tense) {
        (Force::Asked, Tense::Future) => words.push("will there be"),
        (Force::Asked, _) => words.push(be_third(theme.count, *tense)).push("there"),
        _ => words.push("there").push(be_third(theme.count, *tense)),
    };
    words.push(&noun_phrase(theme)).push(preposition(*before)).push(&noun_phrase(place));
}

fn weather(words: &mut Words, weather: &Weather) {
    if weather.time_first {
        push_time(words, weather.time);
    }
    match (weather.tense, weather.force) {
        (Tense::Present, Force::Asked) => words.push("is it"),
        (Tense::Present, Force::Denied) => words.push("it is not"),
        (Tense::Present, Force::Stated) => words.push("it is"),
        (Tense::Past, Force::Asked) => words.push("was it"),
        (Tense::Past, Force::Denied) => words.push("it was not"),
        (Tense::Past, Force::Stated) => words.push("it was"),
        (Tense::Future, Force::Asked) => words.push("will it be"),
        (Tense::Future, Force::Denied) => words.push("it will not be"),
        (Tense::Future, Force::Stated) => words.push("it will be"),
    };
    words.push(weather.sky.english);
    push_place(words, weather.place.as_ref());
    if !weather.time_first {
        push_time(words, weather.time);
    }
}

fn subject_phrase(subject: &Subject) -> String {
    match subject {
        Subject::Pronoun(pronoun) => pronoun_word(*pronoun).to_owned(),
        Subject::Name(name) => name.text.to_owned(),
        Subject::Phrase(phrase) => noun_phrase(phrase),
    }
}

/// English pronoun, one or two words.
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

fn object_pronoun(pronoun: Pronoun) -> &'static str {
    match pronoun {
        Pronoun::I => "me",
        Pronoun::You => "you",
        Pronoun::He => "him",
        Pronoun::She => "her",
        Pronoun::We => "us",
        Pronoun::YouAll => "you all",
        Pronoun::They => "them",
    }
}

fn is_third_singular(subject: &Subject) -> bool {
    match subject {
        Subject::Pronoun(pronoun) => matches!(pronoun, Pronoun::He | Pronoun::She),
        Subject::Name(_) => true,
        Subject::Phrase(phrase) => phrase.count == Count::One,
    }
}

/// Form of `to be`: `am`, `are`, `is`, `was`, `were`, `will be`.
fn be(subject: &Subject, tense: Tense) -> &'static str {
    match (subject, tense) {
        (Subject::Pronoun(Pronoun::I), Tense::Present) => "am",
        (Subject::Pronoun(Pronoun::I), Tense::Past) => "was",
        _ if is_third_singular(subject) => be_third(Count::One, tense),
        _ => be_third(Count::Many, tense),
    }
}

/// Third person of `to be`.
fn be_third(count: Count, tense: Tense) -> &'static str {
    match (tense, count) {
        (Tense::Present, Count::One) => "is",
        (Tense::Present, _) => "are",
        (Tense::Past, Count::One) => "was",
        (Tense::Past, _) => "were",
        (Tense::Future, _) => "will be",
    }
}

/// Renders a noun phrase: `the two red houses`, `my uncle's dog`, `the door of the museum`.
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
        (Determiner::Bare | Determiner::Generic, _) => "",
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

fn push_place(words: &mut Words, at: Option<&Place>) {
    words.push(&at.map(place).unwrap_or_default());
}

fn place(at: &Place) -> String {
    match at {
        Place::City(before, city) => format!("{} {}", preposition(*before), city.english),
        Place::Country(before, country) => format!("{} {}", preposition(*before), country.english),
        Place::At(before, phrase) => format!("{} {}", preposition(*before), noun_phrase(phrase)),
    }
}

fn push_time(words: &mut Words, time: Option<Time>) {
    match time {
        Some(Time::Word(fixed)) => words.push(fixed.english),
        Some(Time::Clock(hour, minutes)) => words.push("at").push(&clock(hour, minutes)),
        None => words,
    };
}

/// Renders a time of day: `three o'clock`, `half past three`.
fn clock(hour: Option<&Fixed>, minutes: Minutes) -> String {
    let hour = hour.map_or("one", |numeral| numeral.english);
    match minutes {
        Minutes::Sharp => format!("{hour} o'clock"),
        Minutes::Quarter => format!("a quarter past {hour}"),
        Minutes::Half => format!("half past {hour}"),
    }
}
