//! Split of sentences between training and validation.
//!
//! Some pairs of words (an adjective with a noun, a verb with its object, …) are held out: no
//! training sentence contains one, and every validation sentence contains at least one. So
//! validation measures generalization to unseen combinations, and the two sets are disjoint for all
//! seeds.

use super::english::pronoun_word;
use super::sentence::{
    Being, Liked, NounPhrase, Object, Place, Predicate, Said, Sentence, Shown, Subject, Talk,
};

/// Held-out rate: one pair of words in this number.
const ONE_IN: u64 = 20;

/// Returns `true` if the sentence contains a held-out pair of words.
pub(super) fn is_held_out(sentence: &Sentence) -> bool {
    let mut held_out = false;
    pairs(sentence, &mut |first, second| held_out |= is_pair_held_out(first, second));
    held_out
}

/// Returns `true` if this pair of words is held out; the result is the same on every machine.
pub(super) fn is_pair_held_out(first: &str, second: &str) -> bool {
    // FNV-1a with a separator byte between the words; the high bits are better mixed.
    let bytes = first.bytes().chain([0]).chain(second.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 32).is_multiple_of(ONE_IN)
}

/// Calls `visit` with each pair of English words that the sentence combines.
pub(super) fn pairs(sentence: &Sentence, visit: &mut dyn FnMut(&'static str, &'static str)) {
    match sentence {
        Sentence::Clause(clause) => {
            let verb = clause.verb.english[0];
            subject_pairs(&clause.subject, visit);
            if let Some(Object::Phrase(object)) = &clause.object {
                visit(verb, head(object));
                phrase_pairs(object, visit);
            }
            if let Some(place) = &clause.place {
                place_pairs(verb, place, visit);
            }
            if let Some((_, phrase)) = &clause.extra {
                visit(verb, head(phrase));
                phrase_pairs(phrase, visit);
            }
        }
        Sentence::Being(being) => being_pairs(being, visit),
        Sentence::Comparison { subject, adjective, than } => {
            if let Some(head) = subject_head(subject) {
                visit(adjective.english, head);
            }
            visit(adjective.english, head(than));
            subject_pairs(subject, visit);
            phrase_pairs(than, visit);
        }
        Sentence::Existence(existence) => {
            visit(head(&existence.theme), head(&existence.place.1));
            phrase_pairs(&existence.theme, visit);
            phrase_pairs(&existence.place.1, visit);
        }
        Sentence::Where { what, .. } => {
            about(what, "where", visit);
        }
        Sentence::Cost { what } => {
            visit("cost", head(what));
            phrase_pairs(what, visit);
        }
        Sentence::Wish { what, .. } => {
            visit("like", head(what));
            phrase_pairs(what, visit);
        }
        Sentence::Weather(weather) => {
            if let Some(place) = &weather.place {
                place_pairs(weather.sky.english, place, visit);
            }
        }
        Sentence::Talk(talk) => talk_pairs(talk, visit),
    }
}

fn being_pairs(being: &Being, visit: &mut dyn FnMut(&'static str, &'static str)) {
    match &being.predicate {
        Predicate::Adjective { adjective, .. } => {
            if let Some(head) = subject_head(&being.subject) {
                visit(adjective.english, head);
            }
            subject_pairs(&being.subject, visit);
        }
        Predicate::State { state, .. } => about(&being.subject, state.english, visit),
        Predicate::Spot(spot) => about(&being.subject, spot.english, visit),
        Predicate::Place(place) => match &being.subject {
            Subject::Phrase(phrase) => {
                phrase_pairs(phrase, visit);
                place_pairs(head(phrase), place, visit);
            }
            Subject::Pronoun(_) | Subject::Name(_) => {
                if let Place::At(_, phrase) = place {
                    phrase_pairs(phrase, visit);
                }
            }
        },
    }
}

/// Pairs of small talk. Fixed phrases and statements about pronouns, names and languages have no
/// pairs, because there are too few of them to leave one out of training.
fn talk_pairs(talk: &Talk, visit: &mut dyn FnMut(&'static str, &'static str)) {
    match talk {
        Talk::Phrase(_) | Talk::Clock { .. } | Talk::Day { .. } => {}
        Talk::Naming { who, .. } => about(who, "name", visit),
        Talk::Age { who, .. } => about(who, "age", visit),
        Talk::Origin { who, .. } => about(who, "from", visit),
        Talk::HowIs { who, .. } => about(who, "how", visit),
        Talk::Liking { who, what, .. } => {
            about(who, "like", visit);
            if let Liked::Phrase(phrase) = what {
                visit("like", head(phrase));
                phrase_pairs(phrase, visit);
            }
        }
        Talk::Pointing { what: Shown::Phrase(what), .. } => {
            visit("this", head(what));
            phrase_pairs(what, visit);
        }
        Talk::Pointing { what: Shown::Name(_), .. } => {}
        Talk::Thanks { what } => {
            visit("thank", head(what));
            phrase_pairs(what, visit);
        }
        Talk::Saying { what: Said::Noun(noun), .. } => visit("say", noun.english[0]),
        Talk::Saying { what: Said::Phrase(_), .. } => {}
    }
}

/// Pairs of a subject with a one-word predicate.
fn about(subject: &Subject, word: &'static str, visit: &mut dyn FnMut(&'static str, &'static str)) {
    if let Subject::Phrase(phrase) = subject {
        visit(word, head(phrase));
        phrase_pairs(phrase, visit);
    }
}

fn head(phrase: &NounPhrase) -> &'static str {
    phrase.noun.english[0]
}

/// Word that represents the subject in a pair; `None` for names.
fn subject_head(subject: &Subject) -> Option<&'static str> {
    match subject {
        Subject::Pronoun(pronoun) => Some(pronoun_word(*pronoun)),
        Subject::Name(_) => None,
        Subject::Phrase(phrase) => Some(head(phrase)),
    }
}

fn subject_pairs(subject: &Subject, visit: &mut dyn FnMut(&'static str, &'static str)) {
    if let Subject::Phrase(phrase) = subject {
        phrase_pairs(phrase, visit);
    }
}

fn phrase_pairs(phrase: &NounPhrase, visit: &mut dyn FnMut(&'static str, &'static str)) {
    if let Some(adjective) = phrase.adjective {
        visit(adjective.english, head(phrase));
    }
    if let Some(owner) = &phrase.owner {
        visit(head(phrase), head(owner));
        phrase_pairs(owner, visit);
    }
}

fn place_pairs(
    verb: &'static str,
    place: &Place,
    visit: &mut dyn FnMut(&'static str, &'static str),
) {
    match place {
        Place::City(_, city) => visit(verb, city.english),
        Place::Country(_, country) => visit(verb, country.english),
        Place::At(_, phrase) => {
            visit(verb, head(phrase));
            phrase_pairs(phrase, visit);
        }
    }
}
