//! Weights and links of a corpus that is cleaned and split.

use std::{fs, sync::atomic::AtomicBool};

use tx_text::{TokenizerConfig, TokenizerKind, context::SEPARATOR};

use super::*;
use crate::{
    annotation::Annotations,
    clean::{CleanConfig, Markup},
    encoded_pair::Link,
    split::SplitBy,
};

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
        context: None,
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

/// The second of the pairs `a b`, `c d` and `e f` is too long and dropped, but is the context of the third. Links
/// of words stay between the tokens of these words.
#[test]
fn context_has_dropped_sentences_and_moves_links() {
    let folder = tempfile::tempdir().unwrap();
    let links = folder.path().join("links");
    fs::write(&links, "0-0\n0-0\n1-0\n").unwrap();
    let pairs = [("a b", "A"), ("c d", &*"C ".repeat(99)), ("e f", "F")];
    let pairs = pairs.map(|(source, target)| Ok(SentencePair::new(source, target)));
    let options = CorpusOptions {
        clean: CleanConfig::default(),
        validation: ValidationPairs::Training(1),
        overlaps: Overlaps::Ignore,
        target: TargetSide::Sentence,
        noise: None,
        context: Some(Context { sentences: 1, dropout: 0.0, seed: 1 }),
    };
    let control = Control { stop: &AtomicBool::new(false), progress: &|_| {} };
    let annotations = Annotations::open(None, Some(&links), false).unwrap();
    let corpus =
        CleanCorpus::read_annotated(pairs.into_iter(), annotations, options, Vec::new(), &control)
            .unwrap();
    let config = TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
    let tokenizers = corpus.learn_tokenizers(&config, &control).unwrap();
    let source = &tokenizers.source;
    let mut encoded = MemoryCorpus::default();
    let report = corpus.encode(&tokenizers, 32, LongPolicy::Skip, &mut encoded, &control).unwrap();
    assert_eq!((report.pairs, report.with_context), (2, 1));
    let pair = &encoded.training[1];
    let at = pair.source.iter().position(|id| Some(*id) == source.special_id(SEPARATOR)).unwrap();
    // The letters of the dropped pair are unknown, because no training pair has them.
    assert_eq!(at, source.encode("c d").unwrap().len() - 1);
    assert_eq!(source.decode(&pair.source[at..]).unwrap(), "e f");
    assert_eq!(report.longest_source, pair.source.len());
    let [link] = pair.annotation.as_ref().unwrap().links[..] else { panic!() };
    assert_eq!(source.token(pair.source[link.source]).unwrap(), "f");
}
