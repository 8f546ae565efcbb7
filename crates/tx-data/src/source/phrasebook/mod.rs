//! A phrasebook: English sentences with their Italian translations, made by a grammar.
//!
//! Training data without a download, large enough to be no list and regular enough to be learnt
//! in minutes: a small model that knows the grammar translates every sentence exactly.
//!
//! ```text
//! I eat the apple.                            Mangio la mela.
//! My sister went to the market yesterday.     Mia sorella è andata al mercato ieri.
//! There is no milk on the table.              Non c'è latte sul tavolo.
//! Do you want to buy those beautiful shoes?   Vuoi comprare quelle belle scarpe?
//! ```
//!
//! # Laws
//!
//! - **One English sentence has one translation.** `you` is one person, `you all` several; `I`,
//!   `we` and `they`, and nouns such as `friend`, are masculine where Italian must choose.
//!   Subject pronouns are dropped, except `lui` and `lei`.
//! - **Validation asks for the unseen.** Some one in twenty pairs of words (an adjective with a
//!   noun, a verb with its object or place, …) is never in training, and every validation
//!   sentence has such a pair. The two sets are disjoint, whatever the seeds and counts.
//! - **Same seed, same sentences**, on every platform.
//!
//! # Road of a sentence
//!
//! `grammar` lists what may stand where, `draw` chooses from it a `sentence` (abstract
//! syntax), `held_out` says to which set that belongs, `english` and `italian` word it.

mod draw;
mod english;
mod grammar;
mod held_out;
mod italian;
mod lexicon;
mod morphology;
mod sentence;
mod size;
mod verbs;
mod words;

#[cfg(test)]
mod tests;

use std::collections::HashSet;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::SentencePair;
use draw::Draw;

/// Draws in a row without a new sentence after which a set counts as complete.
const PATIENCE: u32 = 100_000;

/// `count` different sentence pairs to train on, the same for the same `seed`.
///
/// The first pairs of a longer list are those of a shorter one. Fewer than `count` come back only
/// when the grammar is nearly used up: see [`size()`].
pub fn training(count: usize, seed: u64) -> Vec<SentencePair> {
    pairs(count, seed, false)
}

/// `count` different sentence pairs to validate with, none of them ever in [`training`].
///
/// Each has at least one pair of words that no training sentence has.
pub fn validation(count: usize, seed: u64) -> Vec<SentencePair> {
    pairs(count, seed, true)
}

/// The number of different sentences that the grammar makes, training and validation together.
pub fn size() -> u64 {
    size::size()
}

/// Draws until `count` sentences of one set are found, or until [`PATIENCE`] draws bring
/// nothing new (which takes a `count` in the order of [`size()`]).
fn pairs(count: usize, seed: u64, held_out: bool) -> Vec<SentencePair> {
    let mut draw = Draw::new(ChaCha8Rng::seed_from_u64(seed));
    let mut seen = HashSet::new();
    let mut pairs = Vec::new();
    let mut idle = 0;
    while pairs.len() < count && idle < PATIENCE {
        idle += 1;
        let Some(sentence) = draw.sentence() else { continue };
        if held_out::is_held_out(&sentence) != held_out {
            continue;
        }
        let source = english::sentence(&sentence);
        if seen.insert(source.clone()) {
            pairs.push(SentencePair { source, target: italian::sentence(&sentence) });
            idle = 0;
        }
    }
    pairs
}
