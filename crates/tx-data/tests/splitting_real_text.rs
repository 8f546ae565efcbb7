//! No near duplicate leaks between the parts of a real corpus, into which variants are inserted.
//!
//! The corpus is Multi30k if `TX_MULTI30K` names a folder with its `train.de.gz` and `train.en.gz`;
//! otherwise it is a small generated text.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{collections::HashSet, env, path::Path};

use tx_data::{Split, SplitBy, source::local::parallel_text, split::split};
use tx_text::SentencePair;

fn real() -> Vec<SentencePair> {
    match env::var_os("TX_MULTI30K") {
        Some(folder) => {
            let folder = Path::new(&folder);
            parallel_text(&folder.join("train.de.gz"), &folder.join("train.en.gz")).unwrap()
        }
        None => {
            let things =
                ["Mann:man", "Hund:dog", "Ball:ball", "Baum:tree", "Tisch:table", "Zug:train"];
            let deeds =
                ["sieht:sees", "sucht:looks for", "malt:paints", "findet:finds", "kennt:knows"];
            let two = |pair: &'static str| pair.split_once(':').unwrap();
            let mut pairs = Vec::new();
            for (a, x) in things.map(two) {
                for (verb, does) in deeds.map(two) {
                    for (b, y) in things.map(two) {
                        let (german, english) = (
                            format!("Der {a} {verb} den {b}."),
                            format!("The {x} {does} the {y}."),
                        );
                        pairs.push(SentencePair::new(german, english));
                    }
                }
            }
            pairs
        }
    }
}

/// Lowercase letters only, a measure of similarity that is independent of the library's.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphabetic()).flat_map(char::to_lowercase).collect()
}

#[test]
fn variants_of_a_sentence_are_never_in_both_parts() {
    let mut pairs = real();
    let originals = pairs.len();
    for index in (0..originals).step_by(7) {
        let SentencePair { source, target, .. } = pairs[index].clone();
        for number in [3, 14, 159] {
            pairs.push(SentencePair::new(
                format!("Bild {number}: {source}"),
                format!("Picture {number}: {target}"),
            ));
        }
        pairs.push(SentencePair::new(source.to_uppercase(), target.to_uppercase()));
        pairs.push(SentencePair::new(source.replace([',', '.'], " !"), format!("“{target}”")));
    }
    for by in [SplitBy::Seed, SplitBy::Hash] {
        let Split { train, validation } = split(pairs.clone(), 0.1, by, 1);
        assert!(validation.len() > pairs.len() / 30, "{by:?}: {}", validation.len());
        let sources: HashSet<String> = train.iter().map(|pair| letters(&pair.source)).collect();
        let targets: HashSet<String> = train.iter().map(|pair| letters(&pair.target)).collect();
        for pair in &validation {
            assert!(!sources.contains(&letters(&pair.source)), "{by:?}: {}", pair.source);
            assert!(!targets.contains(&letters(&pair.target)), "{by:?}: {}", pair.target);
        }
    }
}
