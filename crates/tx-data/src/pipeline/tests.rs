//! Weights and links of a corpus that is cleaned and split.

use std::{fs, sync::atomic::AtomicBool};

use tx_text::{TokenizerConfig, TokenizerKind};

use super::*;
use crate::{annotation::Annotations, clean::Markup, encode::Link};

/// Two words that no other pair has.
fn words(i: usize) -> String {
    let letter = |i: usize| char::from(b'a' + i as u8 % 26).to_string();
    let word = (letter(i) + &letter(7 * i + 3)).repeat(3);
    format!("{word} {word}{}", letter(i / 26))
}

/// Pair `i` has the weight `i`, and its second words are linked. Pair 3 has an empty side, and pair 5 a tag
/// between spaces, which cleaning removes.
#[test]
fn weights_and_links_follow_their_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["weights", "links"].map(|name| folder.path().join(name));
    let lines = |line: &dyn Fn(usize) -> String| (0..40).map(line).collect::<String>();
    fs::write(&files[0], lines(&|i| format!("{i}\n"))).unwrap();
    fs::write(&files[1], lines(&|i| if i == 3 { "\n".into() } else { "1-1\n".into() })).unwrap();
    let pair = |i: usize| match i {
        3 => SentencePair::new("", words(3)),
        5 => SentencePair::new(words(5).replace(' ', " <b> "), words(5)),
        _ => SentencePair::new(words(i), words(i)),
    };
    let options = CorpusOptions {
        clean: CleanConfig { markup: Markup::Strip, ..CleanConfig::default() },
        validation: ValidationPairs::SetAside { fraction: 0.2, by: SplitBy::Seed, seed: 1 },
        overlaps: Overlaps::Ignore,
        target: TargetSide::Sentence,
        noise: None,
    };
    let control = Control { stop: &AtomicBool::new(false), progress: &|_| {} };
    let annotations = Annotations::open(Some(&files[0]), Some(&files[1]), false).unwrap();
    let pairs = (0..40).map(|i| Ok(pair(i)));
    let corpus =
        CleanCorpus::read_annotated(pairs, annotations, options, Vec::new(), &control).unwrap();
    assert_eq!(corpus.unlinked, 1);
    assert!(corpus.validation_pairs() > 1);

    let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
    let tokenizers = corpus.learn_tokenizers(&config, &control).unwrap();
    let mut encoded = MemoryCorpus::default();
    corpus.encode(&tokenizers, 32, LongPolicy::Skip, &mut encoded, &control).unwrap();
    assert_eq!(encoded.training.len(), corpus.training_pairs());
    assert_eq!(corpus.annotations().count(), corpus.training_pairs());
    for pair in encoded.training {
        let annotation = pair.annotation.unwrap();
        let text = tokenizers.source.decode(&pair.source).unwrap();
        let i = annotation.weight as usize;
        assert_eq!(text, words(i));
        let expected = if i == 5 { vec![] } else { vec![Link { source: 1, target: 2 }] };
        assert_eq!(annotation.links, expected, "{i}");
    }
}
