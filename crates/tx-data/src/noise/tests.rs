//! Each kind of noise on pairs whose changes are known.

use super::*;

fn only(kind: Kind) -> NoiseConfig {
    serde_json::from_value(serde_json::json!({ kind.key(): 1.0 })).unwrap()
}

/// Copies of a pair with one kind of noise, for many indices.
fn copies(kind: Kind, pair: &SentencePair, links: Option<&[Link]>) -> Vec<SentencePair> {
    let noise = Noise::new(&only(kind), 1).unwrap();
    (0..200).flat_map(|index| noise.copies(index, pair, None, links)).collect()
}

fn pair() -> SentencePair {
    SentencePair::new("Der Hund jagt Tom, im Park.", "The dog is chasing Tom, in the park.")
}

#[test]
fn case_changes_on_the_sides_of_its_kind() {
    let one = |kind| copies(kind, &pair(), None).pop().unwrap();
    assert_eq!(
        one(Kind::UpperCase),
        SentencePair::new("DER HUND JAGT TOM, IM PARK.", "THE DOG IS CHASING TOM, IN THE PARK.")
    );
    assert_eq!(
        one(Kind::TitleCase),
        SentencePair::new("Der Hund Jagt Tom, Im Park.", "The Dog Is Chasing Tom, In The Park.")
    );
    assert_eq!(
        one(Kind::LowerCase),
        SentencePair::new("der hund jagt tom, im park.", pair().target)
    );
    // Nothing to change.
    assert_eq!(copies(Kind::UpperCase, &SentencePair::new("一", "1"), None), []);
}

#[test]
fn punctuation_changes_on_both_sides() {
    let found = copies(Kind::Punctuation, &pair(), None);
    assert_eq!(found.len(), 200);
    for (source, target) in [
        ("Der Hund jagt Tom, im Park", "The dog is chasing Tom, in the park"),
        ("Der Hund jagt Tom, im Park!", "The dog is chasing Tom, in the park!"),
        ("Der Hund jagt Tom im Park", "The dog is chasing Tom, in the park"),
    ] {
        assert!(found.contains(&SentencePair::new(source, target)), "{source}");
    }
    // A question does not become an exclamation.
    let question = SentencePair::new("Wo?", "Where?");
    assert!(copies(Kind::Punctuation, &question, None).iter().all(|copy| copy.source == "Wo"));
    assert_eq!(copies(Kind::Punctuation, &SentencePair::new("Wo", "Where"), None), []);
}

/// Every word with an error is at most one letter longer or shorter, and keeps its first letter.
#[test]
fn typos_change_letters_of_the_source() {
    let found = copies(Kind::Typos, &pair(), None);
    assert!(found.len() > 190);
    let original: Vec<&str> = "Der Hund jagt Tom, im Park.".split(' ').collect();
    for copy in found {
        assert_eq!(copy.target, pair().target);
        let words: Vec<&str> = copy.source.split(' ').collect();
        assert_eq!(words.len(), original.len(), "{}", copy.source);
        assert_ne!(words, original);
        for (word, original) in words.iter().zip(&original) {
            assert!(word.len().abs_diff(original.len()) <= 1, "{word} {original}");
            assert_eq!(word.chars().next(), original.chars().next());
            // Short words are unchanged.
            assert!(original.len() > 4 || word == original || ["Hund", "jagt"].contains(original));
        }
    }
}

/// Word 1 of the source is linked with word 1 of the target, and both words are unique.
#[test]
fn linked_words_are_replaced_marked_and_preceded() {
    let links = [Link { source: 1, target: 1 }];
    for copy in copies(Kind::Tags, &pair(), Some(&links)) {
        let name = copy.source.split(['<', '>']).nth(1).unwrap();
        let marked = |word: &str| format!("<{name}>{word}</{name}>");
        assert_eq!(copy.source, pair().source.replace("Hund", &marked("Hund")));
        assert_eq!(copy.target, pair().target.replace("dog", &marked("dog")));
    }
    for kind in [Kind::Symbols, Kind::Placeholders] {
        for copy in copies(kind, &pair(), Some(&links)) {
            let inserted = copy.source.split(' ').nth(1).unwrap();
            assert_eq!(copy.source, pair().source.replace("Hund", &format!("{inserted} Hund")));
            assert_eq!(copy.target, pair().target.replace("dog", &format!("{inserted} dog")));
        }
    }
    for copy in copies(Kind::Numbers, &pair(), Some(&links)) {
        let number = copy.source.split(' ').nth(1).unwrap();
        assert!(number.starts_with(|c: char| c.is_ascii_digit()), "{number}");
        assert_eq!(copy.source, pair().source.replace("Hund", number));
        assert_eq!(copy.target, pair().target.replace("dog", number));
    }
    let noise = Noise::new(&only(Kind::Terms), 1).unwrap();
    let previous = SentencePair::new("Er sah es", "He saw it");
    let mut found = [0; 2];
    for index in 0..200 {
        let copy = noise.copies(index, &pair(), Some(&previous), Some(&links)).pop().unwrap();
        // Of the target before, one word is long enough.
        let (number, word) = if copy.source.contains("saw") { (1, "saw") } else { (0, "dog") };
        found[number] += 1;
        assert_eq!(copy.source, pair().source.replace("Hund", &format!("⟦ {word} ⟧")));
        assert_eq!(copy.target, pair().target.replace("dog", word));
    }
    assert!(found.iter().all(|count| *count > 70), "{found:?}");
    // A name that both sides have comes first.
    for copy in copies(Kind::Names, &pair(), Some(&links)) {
        let name = copy.source.split([' ', ',']).nth(3).unwrap();
        assert_eq!(copy.source, pair().source.replace("Tom", name));
        assert_eq!(copy.target, pair().target.replace("Tom", name));
    }
    // Two links of one word say nothing about its place.
    let links = [Link { source: 1, target: 1 }, Link { source: 1, target: 2 }];
    assert_eq!(copies(Kind::Tags, &pair(), Some(&links)), []);
    let copy = copies(Kind::Placeholders, &pair(), None).pop().unwrap();
    let placeholder = copy.source.split(' ').next_back().unwrap();
    assert_eq!(copy.source, format!("{} {placeholder}", pair().source));
    assert_eq!(copy.target, format!("{} {placeholder}", pair().target));
}

#[test]
fn lines_that_are_copied_have_equal_sides() {
    let found = copies(Kind::Copies, &pair(), None);
    assert_eq!(found.len(), 200);
    assert!(found.iter().all(|copy| copy.source == copy.target && !copy.source.is_empty()));
}

#[test]
fn concatenation_joins_a_pair_with_the_one_before() {
    let noise = Noise::new(&only(Kind::Concatenation), 1).unwrap();
    let previous = SentencePair::new("Wo?", "Where?");
    assert_eq!(
        noise.copies(1, &pair(), Some(&previous), None),
        [SentencePair::new(
            "Wo? Der Hund jagt Tom, im Park.",
            "Where? The dog is chasing Tom, in the park."
        )]
    );
    assert_eq!(noise.copies(0, &pair(), None, None), []);
    let previous = SentencePair::new("一。", "One.");
    let copies = noise.copies(1, &SentencePair::new("二。", "Two."), Some(&previous), None);
    assert_eq!(copies, [SentencePair::new("一。二。", "One. Two.")]);
}

/// `Hund` and `dog` are in 6 of 8 pairs together, and in no other: 2·6 / (6 + 6) = 1. `rot` is in 2 pairs,
/// fewer than a word needs.
#[test]
fn the_lexicon_has_words_that_occur_together() {
    let mut builder = LexiconBuilder::default();
    for number in 0..8 {
        let (source, target) = if number < 6 { ("Hund", "dog") } else { ("rot", "red") };
        builder.add(&SentencePair::new(format!("ein {source}."), format!("a {target}!")));
    }
    let lexicon = builder.finish();
    let weight = |source, target| lexicon.weight(lexicon::hash(source), lexicon::hash(target));
    assert_eq!(weight("hund", "Dog"), 1.0);
    assert_eq!(weight("ein", "a"), 1.0);
    assert_eq!(weight("rot", "red"), 0.0);
    // 2·6 / (6 + 8).
    assert!((weight("Hund", "a") - 12.0 / 14.0).abs() < 1e-6);

    let noise = Noise::new(&only(Kind::Tags), 1).unwrap().with_lexicon(lexicon);
    let copy = noise.copies(0, &SentencePair::new("ein Hund", "a dog"), None, None).pop().unwrap();
    assert!(copy.source.starts_with("ein <") && copy.source.contains(">Hund</"));
    assert!(copy.target.starts_with("a <") && copy.target.contains(">dog</"));
}

#[test]
fn copies_depend_on_seed_index_and_pair_alone() {
    let robust = NoiseConfig { robust: true, ..NoiseConfig::default() };
    let all = |seed| -> Vec<Vec<SentencePair>> {
        let noise = Noise::new(&robust, seed).unwrap();
        (0..300).map(|index| noise.copies(index, &pair(), Some(&pair()), None)).collect()
    };
    assert_eq!(all(1), all(1));
    assert_ne!(all(1), all(2));
    assert!(Noise::new(&NoiseConfig::default(), 1).is_none());
}

/// The expected number of copies of 10,000 pairs with share 0.2 is 2,000, with a standard deviation of 40.
#[test]
fn shares_are_those_of_the_copies() {
    let config = NoiseConfig { lower_case: Some(0.2), ..NoiseConfig::default() };
    let noise = Noise::new(&config, 3).unwrap();
    let count: usize = (0..10_000).map(|i| noise.copies(i, &pair(), None, None).len()).sum();
    assert!((1_800..2_200).contains(&count), "{count}");
    let robust = NoiseConfig { robust: true, typos: Some(0.0), ..NoiseConfig::default() };
    assert_eq!((robust.share(Kind::Typos), robust.share(Kind::LowerCase)), (0.0, 0.02));
    let wrong = NoiseConfig { typos: Some(1.5), ..NoiseConfig::default() };
    assert_eq!(wrong.problems(), ["`noise.typos` = 1.5 must be in 0..1"]);
}
