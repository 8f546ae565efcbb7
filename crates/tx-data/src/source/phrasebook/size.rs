//! Counts the sentences of the grammar.
//!
//! The parts of a sentence are chosen independently of each other once verb, force and nouns
//! are fixed, so the count is a sum of products over the lists of the grammar.

use super::grammar::{
    FOR_SALE, ON_ORDER, Role, additions, aspects, attributes, cities, clock_times, comparatives,
    findable, forces, nouns, object_role, openings, owners, personal_predicates, predicates,
    rivals, subjects, tense_words, themes, time_words, whereabouts,
};
use super::lexicon::{CITIES, Kind, NOUNS, Noun, PEOPLE, SKIES};
use super::sentence::{Force, Pronoun, Tense};
use super::verbs::{Frame, VERBS, Verb};

const TENSES: [Tense; 3] = [Tense::Present, Tense::Past, Tense::Future];

/// The number of sentences; each has its own English.
pub(super) fn size() -> u64 {
    clauses() + beings() + comparisons() + existences() + questions_and_wishes() + weathers()
}

fn len<T>(list: &[T]) -> u64 {
    list.len() as u64
}

/// The phrases around one noun.
pub(super) fn phrases(noun: &Noun, role: Role) -> u64 {
    let adjectives = 1 + len(&attributes(noun, role));
    let owned = phrases_of(&owners(noun, role), Role::Owner);
    // What is owned is `the dog` or `the dogs`.
    adjectives * (len(&openings(noun, role)) + 2 * owned)
}

fn phrases_of(nouns: &[&Noun], role: Role) -> u64 {
    nouns.iter().map(|noun| phrases(noun, role)).sum()
}

fn clauses() -> u64 {
    VERBS.iter().map(clauses_with).sum()
}

/// The clauses around one verb.
fn clauses_with(verb: &Verb) -> u64 {
    let subjects = len(&Pronoun::ALL) + phrases_of(&subjects(verb), Role::Subject);
    let extras = verb.extra.map_or(0, |before| phrases_of(&additions(before), Role::Complement));
    let mut sum = 0;
    for aspect in aspects(verb) {
        let times = len(&time_words(aspect)) + len(&clock_times(aspect));
        for &force in forces(aspect) {
            let times = 1 + times * time_places(force);
            // A time or an addition, not both.
            let ends = times + extras;
            let role = object_role(aspect, force);
            let rest = match verb.frame {
                Frame::Object(kinds) => phrases_of(&nouns(kinds), role) * ends,
                Frame::Gift(kinds) => {
                    phrases_of(&nouns(kinds), role)
                        * phrases_of(&nouns(PEOPLE), Role::Complement)
                        * times
                }
                Frame::Place { city, .. } => {
                    let places = phrases_of(&nouns(&[Kind::Place]), Role::Complement);
                    (places + len(cities(city))) * ends
                }
            };
            sum += subjects * rest;
        }
    }
    sum
}

/// A time stands first or last; in a question only last.
fn time_places(force: Force) -> u64 {
    if force == Force::Asked { 1 } else { 2 }
}

fn beings() -> u64 {
    let described: u64 =
        NOUNS.iter().map(|noun| phrases(noun, Role::Described) * len(&predicates(noun))).sum();
    being_endings() * described + personal_beings()
}

/// What is said of pronouns.
pub(super) fn personal_beings() -> u64 {
    being_endings() * len(&Pronoun::ALL) * len(&personal_predicates())
}

/// The tenses, forces and times of `to be`.
fn being_endings() -> u64 {
    let times: u64 = TENSES.iter().map(|&tense| len(&tense_words(tense))).sum();
    let forces = [Force::Stated, Force::Denied, Force::Asked];
    forces.iter().map(|&force| len(&TENSES) + times * time_places(force)).sum()
}

fn comparisons() -> u64 {
    let mut sum = 0;
    for noun in NOUNS {
        let subjects = phrases(noun, Role::Described);
        for rival in rivals(noun) {
            let rest = len(&comparatives(Some(noun), rival)) * phrases(rival, Role::Complement);
            sum += subjects * rest;
        }
    }
    for rival in nouns(PEOPLE) {
        let rest = len(&comparatives(None, rival)) * phrases(rival, Role::Complement);
        sum += len(&Pronoun::ALL) * rest;
    }
    sum
}

fn existences() -> u64 {
    let mut sum = 0;
    for theme in themes() {
        let stated_or_asked = 2 * phrases(theme, Role::Theme);
        let themes = stated_or_asked + phrases(theme, Role::DeniedTheme);
        for &(_, kind) in whereabouts(theme) {
            sum += 3 * themes * phrases_of(&nouns(&[kind]), Role::Complement);
        }
    }
    sum
}

fn questions_and_wishes() -> u64 {
    let when = 1 + len(&tense_words(Tense::Past));
    phrases_of(&findable(), Role::Known) * when
        + phrases_of(&nouns(FOR_SALE), Role::Known)
        + 2 * phrases_of(&nouns(ON_ORDER), Role::Ordered)
}

fn weathers() -> u64 {
    let times: u64 = TENSES.iter().map(|&tense| len(&tense_words(tense))).sum();
    let places = 1 + len(CITIES) + phrases_of(&nouns(&[Kind::Place]), Role::Complement);
    2 * times * len(SKIES) * places
}
