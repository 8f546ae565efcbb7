//! Number of sentences in the grammar.
//!
//! Once verb, force and nouns are fixed, the parts of a sentence are independent, so the count is a
//! sum of products over the lists of the grammar.

use super::grammar::{
    FOR_SALE, MINUTES, NAMED, ON_ORDER, Role, additions, ages, aspects, attributes, clock_times,
    comparatives, findable, forces, hours, is_shown_by, may_stand_alone, names, nouns, object_role,
    openings, owners, personal_predicates, placed, pointers, predicates, pronoun_objects, rivals,
    subjects, surroundings, tense_words, tenses, themes, time_words, whereabouts,
};
use super::lexicon::{DAYS, Kind, NOUNS, Noun, PEOPLE, SKIES, SPOTS, STATES};
use super::phrases::{OPENERS, PHRASES};
use super::proper_nouns::{CITIES, COUNTRIES, LANGUAGES, NAMES};
use super::sentence::{Force, Predicate, Pronoun, Tense};
use super::verbs::{Frame, VERBS, Verb};

/// Number of sentences; all have distinct English text. Openers, addressees, contractions and other
/// final marks are not counted.
pub(super) fn size() -> u64 {
    clauses()
        + beings()
        + comparisons()
        + existences()
        + questions_and_wishes()
        + weathers()
        + talks()
}

fn len<T>(list: &[T]) -> u64 {
    list.len() as u64
}

/// Number of phrases around one noun.
pub(super) fn phrases(noun: &Noun, role: Role) -> u64 {
    let adjectives = 1 + len(&attributes(noun, role));
    let owned = phrases_of(&owners(noun, role), Role::Owner);
    // A noun with an owner is `the dog` or `the dogs`.
    adjectives * (len(&openings(noun, role)) + 2 * owned)
}

fn phrases_of(nouns: &[&Noun], role: Role) -> u64 {
    nouns.iter().map(|noun| phrases(noun, role)).sum()
}

fn clauses() -> u64 {
    VERBS.iter().map(clauses_with).sum()
}

/// Number of clauses around one verb.
fn clauses_with(verb: &Verb) -> u64 {
    let phrases_and_names = len(NAMES) + phrases_of(&subjects(verb), Role::Subject);
    let subjects = len(&Pronoun::ALL) + phrases_and_names;
    let extras = verb.extra.map_or(0, |before| phrases_of(&additions(before), Role::Complement));
    let mut sum = 0;
    for aspect in aspects(verb) {
        let times = len(&time_words(aspect)) + len(&clock_times(aspect));
        for &force in forces(aspect) {
            let times = 1 + times * time_places(force);
            // A time or an adjunct, not both.
            let ends = times + extras;
            let role = object_role(verb, aspect, force);
            let (complements, ends) = match verb.frame {
                Frame::Object(kinds) => (phrases_of(&nouns(kinds), role), ends),
                Frame::Language(_) => (2 * len(LANGUAGES), ends),
                Frame::Gift(kinds) => {
                    let receivers = phrases_of(&nouns(PEOPLE), Role::Complement);
                    (phrases_of(&nouns(kinds), role) * receivers, times)
                }
                Frame::Place { city, .. } => (places(city), ends),
            };
            let alone = u64::from(may_stand_alone(verb));
            let of_pronoun = |it: &Pronoun| len(&pronoun_objects(verb, aspect, Some(*it)));
            let pronoun_objects: u64 = phrases_and_names
                * len(&pronoun_objects(verb, aspect, None))
                + Pronoun::ALL.iter().map(of_pronoun).sum::<u64>();
            sum += (subjects * (complements + alone) + pronoun_objects) * ends;
        }
    }
    sum
}

/// Number of places after a preposition; English does not use `at` with cities.
fn places(city: bool) -> u64 {
    let phrases = phrases_of(&nouns(&[Kind::Place]), Role::Complement);
    if city { phrases + len(CITIES) + len(COUNTRIES) } else { phrases }
}

/// Number of positions of a time: first or last, in a question only last.
fn time_places(force: Force) -> u64 {
    if force == Force::Asked { 1 } else { 2 }
}

fn beings() -> u64 {
    let described: u64 =
        NOUNS.iter().map(|noun| phrases(noun, Role::Described) * 2 * len(&predicates(noun))).sum();
    let persons = len(&Pronoun::ALL) + len(NAMES);
    let livings = nouns(&[Kind::Family, Kind::Person, Kind::Animal]);
    let livings = persons + phrases_of(&livings, Role::Described);
    let mut states = 0;
    for state in STATES {
        let endings = being_endings(tenses(&Predicate::State { state, is_very: false }));
        states += endings * (1 + u64::from(state.very.is_some())) * livings;
    }
    let spots = len(SPOTS) * (persons + phrases_of(&findable(), Role::Known));
    let mut placed_there = persons * places(true);
    for noun in placed() {
        for &(_, kind) in surroundings(noun) {
            let places = phrases_of(&nouns(&[kind]), Role::Complement);
            placed_there += phrases(noun, Role::Known) * places;
        }
    }
    let named = len(NAMES) * 2 * len(&personal_predicates());
    let others = described + named + spots + placed_there;
    being_endings(&Tense::ALL) * others + states + personal_beings()
}

/// Number of adjective predicates of pronouns.
pub(super) fn personal_beings() -> u64 {
    being_endings(&Tense::ALL) * len(&Pronoun::ALL) * 2 * len(&personal_predicates())
}

/// Number of combinations of tense, force and time of `to be`.
fn being_endings(tenses: &[Tense]) -> u64 {
    let times: u64 = tenses.iter().map(|&tense| len(&tense_words(tense))).sum();
    Force::ALL.iter().map(|&force| len(tenses) + times * time_places(force)).sum()
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
    let persons = len(&Pronoun::ALL) + len(NAMES);
    (persons + phrases_of(&findable(), Role::Known)) * when
        + phrases_of(&nouns(FOR_SALE), Role::Known)
        + 4 * phrases_of(&nouns(ON_ORDER), Role::Ordered)
}

fn weathers() -> u64 {
    being_endings(&Tense::ALL) * len(SKIES) * (1 + places(true))
}

fn talks() -> u64 {
    let relatives_and_others = phrases_of(&nouns(PEOPLE), Role::Owner);
    let forces = len(&Force::ALL);
    let owners = len(&NAMED) + relatives_and_others;
    let persons = len(&Pronoun::ALL) + len(NAMES) + relatives_and_others;
    let naming = owners * (1 + forces * len(NAMES));
    let age = persons * (1 + forces * len(&ages()));
    let origin = persons * (1 + forces * (len(CITIES) + len(COUNTRIES)));
    let liked = phrases_of(NOUNS.iter().collect::<Vec<_>>().as_slice(), Role::Liked);
    let liking = persons * forces * (liked + len(CITIES) + len(COUNTRIES));
    let how_is = 2 * persons;
    let clock = forces * len(&hours()) * len(&MINUTES);
    let days = 2 * forces * len(DAYS);
    let thanks = phrases_of(&nouns(ON_ORDER), Role::Known);
    let saying = len(LANGUAGES) * (len(NOUNS) + len(OPENERS));
    let phrases = len(OPENERS) + len(PHRASES);
    naming + age + origin + liking + how_is + pointings() + clock + days + thanks + saying + phrases
}

fn pointings() -> u64 {
    let mut sum = 0;
    for pointer in pointers() {
        sum += len(&names(pointer));
        for noun in NOUNS {
            let fitting = openings(noun, Role::Shown)
                .into_iter()
                .filter(|it| is_shown_by(pointer, noun, it.1));
            let adjectives = 1 + len(&attributes(noun, Role::Shown));
            sum += adjectives * fitting.count() as u64;
        }
    }
    sum * len(&Force::ALL)
}
