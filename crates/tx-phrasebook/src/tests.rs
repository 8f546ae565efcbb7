//! Tests of the phrasebook's invariants.

mod build;
mod phrases_by_hand;
mod sentences_by_hand;
mod small_talk_by_hand;

use std::collections::{HashMap, HashSet};

use super::grammar::Role;
use super::lexicon::{ADJECTIVES, Kind, NOUNS};
use super::phrases::{OPENERS, PHRASES, Phrase};
use super::sentence::{Determiner, Force, Predicate, Pronoun, Sentence, Talk, Tense};
use super::*;

const ROLES: [Role; 12] = [
    Role::Subject,
    Role::Object,
    Role::DeniedObject,
    Role::Liked,
    Role::Shown,
    Role::Complement,
    Role::Theme,
    Role::DeniedTheme,
    Role::Known,
    Role::Ordered,
    Role::Described,
    Role::Owner,
];

/// Words as written; an elided word ends in its apostrophe, as `l'` in `l'amico`.
fn words(text: &str) -> Vec<String> {
    text.replace('\'', "' ")
        .split([' ', '.', ',', '?', '!'])
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn counts(texts: impl Iterator<Item = String>) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in texts.flat_map(|text| words(&text)) {
        *counts.entry(word).or_default() += 1;
    }
    counts
}

fn source(pair: &SentencePair) -> &str {
    &pair.source
}

fn target(pair: &SentencePair) -> &str {
    &pair.target
}

#[test]
fn english_words_are_not_entered_twice() {
    let nouns = NOUNS.iter().map(|noun| noun.english[0]);
    let adjectives = ADJECTIVES.iter().map(|adjective| adjective.english);
    let mut seen = HashSet::new();
    assert!(nouns.chain(adjectives).all(|word| seen.insert(word)));
}

#[test]
fn every_phrase_has_distinct_english_text() {
    for role in ROLES {
        let mut seen = HashSet::new();
        for noun in NOUNS {
            let phrases = build::phrases(noun, role);
            assert_eq!(phrases.len() as u64, size::phrases(noun, role), "{noun:?} as {role:?}");
            for phrase in phrases {
                let text = english::noun_phrase(&phrase);
                assert!(seen.insert(text.clone()), "two phrases are `{text}`");
            }
        }
    }
}

/// Phrases without determiner are excepted: `I drink water` and `I like water` differ in Italian.
#[test]
fn a_phrase_has_one_translation_in_all_its_roles() {
    let mut translations = HashMap::new();
    // One noun per kind and gender suffices, because the others behave alike and testing all would
    // take long.
    let mut kinds = HashSet::new();
    for noun in NOUNS.iter().filter(|noun| kinds.insert((noun.kind, noun.gender))) {
        let phrases = ROLES.into_iter().flat_map(|role| build::phrases(noun, role));
        for phrase in phrases.filter(|it| it.determiner != Determiner::Generic) {
            let italian = italian::noun_phrase(&phrase, None);
            let known =
                translations.entry(english::noun_phrase(&phrase)).or_insert(italian.clone());
            assert_eq!(*known, italian);
        }
    }
}

#[test]
fn different_sentences_have_different_english() {
    let mut draw = Draw::new(ChaCha8Rng::seed_from_u64(5));
    let mut sentences = HashSet::new();
    let mut sources = HashSet::new();
    for sentence in std::iter::repeat_with(|| draw.sentence()).flatten().take(30_000) {
        let source = english::sentence(&sentence);
        assert_eq!(sentences.insert(sentence), sources.insert(source.clone()), "{source}");
    }
}

/// Counts the predicates of pronouns by enumeration.
#[test]
fn counts_equal_those_of_enumeration() {
    let mut made = HashSet::new();
    let mut add = |sentence: &Sentence| assert!(made.insert(english::sentence(sentence)));
    for pronoun in Pronoun::ALL {
        for adjective in grammar::personal_predicates() {
            for tense in Tense::ALL {
                for force in Force::ALL {
                    let times = grammar::tense_words(tense).into_iter().map(Some);
                    for time in times.chain([None]) {
                        for (is_very, time_first) in
                            [(false, false), (false, true), (true, false), (true, true)]
                        {
                            if time_first && (time.is_none() || force == Force::Asked) {
                                continue;
                            }
                            let subject = sentence::Subject::Pronoun(pronoun);
                            let predicate = Predicate::Adjective { adjective, is_very };
                            let being = sentence::Being {
                                subject,
                                tense,
                                force,
                                predicate,
                                time,
                                time_first,
                            };
                            add(&Sentence::Being(being));
                        }
                    }
                }
            }
        }
    }
    assert_eq!(made.len() as u64, size::personal_beings());
}

#[test]
fn every_fixed_phrase_is_entered_once_and_is_in_training() {
    let phrases = || OPENERS.iter().chain(PHRASES);
    let mut seen = HashSet::new();
    for phrase in phrases() {
        assert!(seen.insert(phrase.english), "{}", phrase.english);
        assert!(!held_out::is_held_out(&Sentence::Talk(Talk::Phrase(phrase))));
    }
    let training: HashSet<_> =
        training(80_000, 1).into_iter().map(|pair| pair.source.to_lowercase()).collect();
    for phrase in phrases() {
        let written = phrase.english.to_lowercase();
        let marks = if phrase.is_question { ["?", ""].as_slice() } else { &[".", "!", ""] };
        for mark in marks {
            assert!(training.contains(&format!("{written}{mark}")), "{written}{mark}");
        }
    }
}

/// Also covers fixed phrases, some of which the grammar generates too.
#[test]
fn an_english_sentence_has_one_translation() {
    let mut translations = HashMap::new();
    for seed in 0..3 {
        for SentencePair { source, target, .. } in training(30_000, seed) {
            let source = source.to_lowercase();
            let known = translations.entry(source.clone()).or_insert(target.clone());
            assert_eq!(*known, target, "{source}");
        }
    }
}

#[test]
fn there_are_millions_of_sentences() {
    assert!(size() >= 1_000_000, "{}", size());
}

#[test]
fn the_same_seed_gives_the_same_pairs_and_the_requested_number() {
    for count in [0, 1, 1_000] {
        for make in [training, validation] {
            let pairs = make(count, 7);
            assert_eq!(pairs.len(), count);
            assert_eq!(pairs, make(count, 7));
        }
    }
    assert_ne!(training(10, 1), training(10, 2));
    assert_eq!(training(10, 1), training(20, 1)[..10]);
}

#[test]
fn only_fixed_phrases_repeat() {
    let mut seen = HashSet::new();
    let mut repeated: Vec<_> = training(80_000, 7).into_iter().map(|pair| pair.source).collect();
    repeated.retain(|source| !seen.insert(source.clone()));
    assert!(repeated.iter().any(|source| source == "Hello!"));
    for source in repeated {
        let found = |it: &Phrase| source.to_lowercase().contains(&it.english.to_lowercase());
        let contracted = source.contains('\'');
        assert!(contracted || OPENERS.iter().chain(PHRASES).any(found), "{source}");
    }
    let validation = validation(5_000, 7);
    let sources: HashSet<_> = validation.iter().map(|pair| &pair.source).collect();
    assert_eq!(sources.len(), validation.len());
}

/// First pairs of seed 0, which must not change between platforms.
#[test]
fn the_pairs_of_a_seed_are_fixed() {
    let found: Vec<_> = training(3, 0).into_iter().map(|pair| pair.source).collect();
    assert_eq!(
        found,
        ["That doctor isn't forty years old.", "Their wife was not right.", "Will Paul be there?",]
    );
}

#[test]
fn held_out_pairs_of_words_are_never_in_training() {
    let mut draw = Draw::new(ChaCha8Rng::seed_from_u64(3));
    let (mut training, mut validation) = (HashSet::new(), HashSet::new());
    for sentence in std::iter::repeat_with(|| draw.sentence()).flatten().take(10_000) {
        let mut pairs = Vec::new();
        held_out::pairs(&sentence, &mut |first, second| pairs.push((first, second)));
        if held_out::is_held_out(&sentence) {
            validation.extend(
                pairs
                    .into_iter()
                    .filter(|(first, second)| held_out::is_pair_held_out(first, second)),
            );
        } else {
            training.extend(pairs);
        }
    }
    assert!(training.is_disjoint(&validation));
    assert!(validation.len() > 50, "only {} pairs are held out", validation.len());
}

#[test]
fn training_and_validation_are_disjoint_for_all_seeds() {
    let training: HashSet<_> = (0..3).flat_map(|seed| training(5_000, seed)).collect();
    assert!((0..3).flat_map(|seed| validation(1_000, seed)).all(|pair| !training.contains(&pair)));
}

/// Uses fewer pairs than the recipe trains on.
#[test]
fn every_word_is_frequent_in_training() {
    let training = training(80_000, 1);
    for side in [source, target] {
        let counts = counts(training.iter().map(|pair| side(pair).to_lowercase()));
        let mut rare: Vec<_> = counts.into_iter().filter(|(_, count)| *count < 25).collect();
        rare.sort();
        assert!(rare.is_empty(), "{rare:?}");
    }
}

/// Source words are compared in lowercase, as the recipe lowercases the source. Target words are
/// compared with case.
#[test]
fn validation_has_no_new_word() {
    let training = training(40_000, 1);
    let validation = validation(2_000, 2);
    let sides: [fn(&SentencePair) -> String; 2] =
        [|pair| pair.source.to_lowercase(), |pair| pair.target.clone()];
    for side in sides {
        let known = counts(training.iter().map(side));
        for word in counts(validation.iter().map(side)).keys() {
            assert!(known.contains_key(word), "`{word}` is not in training");
        }
    }
}

#[test]
fn sentences_are_well_formed() {
    for SentencePair { source, target, .. } in training(5_000, 4) {
        for text in [&source, &target] {
            assert!(text.chars().next().is_some_and(char::is_uppercase), "{text}");
            assert!(text.ends_with(|last: char| last.is_alphabetic() || ".?!".contains(last)));
            assert!(!text.contains("  ") && !text.contains(" ,"), "{text}");
            assert!(!text.replace("po' ", "").contains("' "), "{text}");
        }
        let mark = |text: &str| text.chars().last().filter(|last| ".?!".contains(*last));
        assert_eq!(mark(&source), mark(&target), "{source}");
    }
}

#[test]
fn endings_contractions_and_surroundings_of_a_sentence_vary() {
    let sources: Vec<_> = training(5_000, 4).into_iter().map(|pair| pair.source).collect();
    let with = |found: fn(&str) -> bool| sources.iter().filter(|it| found(it)).count();
    assert!(with(|it| it.ends_with('!')) > 100);
    assert!(with(|it| !it.ends_with(['.', '?', '!'])) > 250);
    assert!(with(|it| it.contains("n't") || it.contains("'m ")) > 100);
    assert!(with(|it| it.starts_with("Hello, ")) > 10);
    assert!(with(|it| it.starts_with("Hello ")) > 5);
    let names = || super::proper_nouns::NAMES.iter();
    let addressed = |it: &&String| names().any(|name| it.contains(&format!(", {}", name.text)));
    assert!(sources.iter().filter(addressed).count() > 50);
}

#[test]
fn mass_nouns_have_no_plural() {
    for noun in NOUNS.iter().filter(|noun| matches!(noun.kind, Kind::Dish | Kind::Drink)) {
        let singular = |role| grammar::openings(noun, role).iter().all(|it| it.1.index() == 0);
        assert!(ROLES.into_iter().all(singular), "{}", noun.english[0]);
    }
}
