//! Which sentences are kept for validation.
//!
//! Some pairs of words (an adjective with a noun, a verb with its object, …) are held out: no
//! training sentence has one, every validation sentence has at least one. So validation asks
//! for combinations never seen, and the two sets cannot meet, whatever their seeds.

use super::english::pronoun_word;
use super::sentence::{NounPhrase, Place, Sentence, Subject};

/// One pair of words in this many is held out.
const ONE_IN: u64 = 20;

/// Whether the sentence has a pair of words that training never sees.
pub(super) fn is_held_out(sentence: &Sentence) -> bool {
    let mut held_out = false;
    pairs(sentence, &mut |first, second| held_out |= is_pair_held_out(first, second));
    held_out
}

/// Whether training never sees this pair of words; fixed for ever, on every machine.
pub(super) fn is_pair_held_out(first: &str, second: &str) -> bool {
    // FNV-1a, with a byte between the words; the high bits are the better mixed.
    let bytes = first.bytes().chain([0]).chain(second.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash >> 32).is_multiple_of(ONE_IN)
}

/// Calls `visit` with each pair of English words that this sentence combines.
pub(super) fn pairs(sentence: &Sentence, visit: &mut dyn FnMut(&'static str, &'static str)) {
    match sentence {
        Sentence::Clause(clause) => {
            let verb = clause.verb.english[0];
            subject_pairs(&clause.subject, visit);
            if let Some(object) = &clause.object {
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
        Sentence::Being(being) => {
            visit(being.adjective.english, subject_head(&being.subject));
            subject_pairs(&being.subject, visit);
        }
        Sentence::Comparison { subject, adjective, than } => {
            visit(adjective.english, subject_head(subject));
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
            visit("where", head(what));
            phrase_pairs(what, visit);
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
    }
}

fn head(phrase: &NounPhrase) -> &'static str {
    phrase.noun.english[0]
}

fn subject_head(subject: &Subject) -> &'static str {
    match subject {
        Subject::Pronoun(pronoun) => pronoun_word(*pronoun),
        Subject::Phrase(phrase) => head(phrase),
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
        Place::At(_, phrase) => {
            visit(verb, head(phrase));
            phrase_pairs(phrase, visit);
        }
    }
}
