use std::{fs, path::PathBuf, sync::LazyLock};

use super::*;
use crate::{
    Bundle, Cancellation, Device, Line, Precision, Sampling, SearchOptions, Translation,
    Translator, tokens::Tokens,
};

const TEXTS: [&str; 5] =
    ["the cat sleeps .", "the dog eats the fish .", "a bird reads .", "the cat .", "xyz"];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/bundle-v1")
}

fn translator(precision: Precision) -> Translator {
    Translator::new_in(&BUNDLE, precision, &Device::Cpu).unwrap()
}

static BUNDLE: LazyLock<Bundle> = LazyLock::new(|| Bundle::open(folder()).unwrap());

/// A shortlist in which each source token has these candidates.
fn shortlist(frequent: Vec<u32>, of_token: impl Fn(u32) -> Vec<u32>) -> Shortlist {
    let (mut offsets, mut candidates) = (vec![0], Vec::new());
    for token in 0..BUNDLE.vocabulary().source as u32 {
        candidates.extend(of_token(token));
        offsets.push(candidates.len() as u32);
    }
    let vocabulary_sha256 = vocabulary_hash(&BUNDLE.tokenizers);
    Shortlist { vocabulary_sha256, frequent, offsets, candidates }
}

/// Shortlist of these pairs with one candidate for each token.
fn learned(pairs: &[(&str, &str)], options: ShortlistOptions) -> Shortlist {
    let translator = translator(Precision::F32);
    let mut builder = ShortlistBuilder::new(&translator, options).unwrap();
    let texts = translator.texts();
    let tokens: Vec<(Tokens, Tokens)> = pairs
        .iter()
        .map(|(source, target)| (texts.source(source).unwrap(), texts.target(target).unwrap()))
        .collect();
    builder.add(&tokens);
    builder.finish()
}

fn source(token: &str) -> u32 {
    BUNDLE.tokenizers.source.id(token).unwrap()
}

fn target(token: &str) -> u32 {
    BUNDLE.tokenizers.target.id(token).unwrap()
}

/// The frequent tokens 9 and 12, those of the tokens 4 and 6, `<eos>` and `<unk>`, and a given token.
#[test]
fn candidates_of_a_source_by_hand() {
    let list = shortlist(vec![9, 12], |token| match token {
        4 => vec![7, 12, 20],
        5 => vec![30],
        6 => vec![8],
        _ => vec![],
    });
    assert_eq!(list.candidates(&[4, 6, 2], &[]), [2, 3, 7, 8, 9, 12, 20]);
    assert_eq!(list.candidates(&[], &[40]), [2, 3, 9, 12, 40]);
    assert_eq!(list.candidates(&[u32::MAX, 1 << 20], &[]), [2, 3, 9, 12]);
    assert_eq!((list.of_token(5), list.of_token(7)), (&[30][..], &[][..]));
}

/// The attention of the fixture's random weights is nearly uniform, so that the sums of weights follow
/// the number of pairs with both words: `cat` and `gatto` are in two pairs.
#[test]
fn candidates_are_the_tokens_that_are_linked_most() {
    let pairs = [
        ("the cat sleeps .", "il gatto dorme ."),
        ("the cat eats .", "il gatto mangia ."),
        ("the dog sleeps .", "il cane dorme ."),
        ("", "il"),
    ];
    let layer = Some(BUNDLE.config.decoder_layers - 1);
    let list = learned(&pairs, ShortlistOptions { candidates: 2, frequent: 2, layer });
    // `.` and `▁il` occur three times, each other token less often.
    let mut frequent = [target("."), target("▁il")];
    frequent.sort_unstable();
    assert_eq!(list.frequent(), frequent);
    for (word, translation) in [("cat", "gatto"), ("dog", "cane"), ("sleeps", "dorme")] {
        let [word, translation] = [word, translation].map(|word| format!("▁{word}"));
        let found = list.of_token(source(&word));
        assert!(found.contains(&target(&translation)), "{word}: {found:?}");
    }
    for special in [0, 1, 2] {
        assert!(list.of_token(special).is_empty());
    }
    list.check(&BUNDLE.tokenizers).unwrap();
}

/// Token 8 of both sides is `a`. Target tokens 9 and 30 are the most frequent, 31 follows:
///
/// ```text
/// sums of source token 8    9: 5   31: 2   32: 1   33: 1   34: 3   → 34, 31; and 8
/// sums of source token 10   32: 1  33: 1   20: 1                   → 20, 32: on a tie, the lower ids
/// ```
#[test]
fn a_lexicon_by_hand() {
    let translator = translator(Precision::F32);
    let options = ShortlistOptions { candidates: 2, frequent: 2, layer: None };
    let mut builder = ShortlistBuilder::new(&translator, options).unwrap();
    builder.set_sums(8, &[(9, 5.0), (31, 2.0), (32, 1.0), (33, 1.0), (34, 3.0)]);
    builder.set_sums(10, &[(33, 1.0), (32, 1.0), (20, 1.0)]);
    builder.set_occurrences(&[(2, 99), (9, 7), (30, 8), (31, 7)]);
    let list = builder.finish();
    assert_eq!(list.frequent(), [9, 30]);
    assert_eq!(list.of_token(8), [8, 31, 34]);
    // `c` is the target token 9, which is frequent.
    assert_eq!(BUNDLE.tokenizers.source.token(10).as_deref(), Some("c"));
    assert_eq!(list.of_token(10), [20, 32]);
    // `b` is no target token, and has no links.
    assert!(list.of_token(9).is_empty());
    list.check(&BUNDLE.tokenizers).unwrap();
    // Only the four strongest links for each candidate are kept.
    builder.set_sums(11, &(4..40).map(|id| (id, id as f32)).collect::<Vec<_>>());
    builder.prune();
    assert_eq!(builder.finish().of_token(11), [10, 38, 39]);
    assert_eq!(builder.count(), 5 + 3 + 8);
}

fn options() -> Vec<SearchOptions> {
    let default = SearchOptions::default;
    vec![
        SearchOptions::greedy(),
        SearchOptions { beam: 3, n_best: 3, ..default() },
        SearchOptions { repetition_penalty: 1.3, renormalize: true, ..default() },
        SearchOptions { force_eos: true, max_len: Some(3), ..default() },
        SearchOptions::sampling(Sampling { samples: 3, top_k: 9, ..Sampling::default() }),
    ]
}

#[test]
fn a_shortlist_of_all_tokens_changes_no_bit() {
    let all: Vec<u32> = (2..BUNDLE.vocabulary().target as u32).collect();
    for precision in [Precision::F32, Precision::Int8] {
        let free = translator(precision);
        let listed = free.clone().with_shortlist(shortlist(all.clone(), |_| vec![])).unwrap();
        for options in options() {
            let translate = |translator: &Translator| {
                translator.translate_batch_with(&TEXTS, &options, &Cancellation::new()).unwrap()
            };
            assert_eq!(translate(&listed), translate(&free), "{precision} {options:?}");
        }
        // Forced decoding has no shortlist.
        let few = free.clone().with_shortlist(shortlist(vec![], |_| vec![])).unwrap();
        let pair = [("the cat sleeps .", "il gatto dorme .")];
        assert_eq!(few.score(&pair, 0).unwrap(), free.score(&pair, 0).unwrap());
    }
}

#[test]
fn translations_do_not_depend_on_the_batch_or_the_threads() {
    let list = shortlist(vec![4, 5, 6, 7], |token| vec![token + 8, token + 20]);
    let size = BUNDLE.vocabulary().target as u32;
    let list = Shortlist {
        candidates: list.candidates.iter().map(|id| (*id).min(size - 1)).collect(),
        ..list
    };
    for precision in [Precision::F32, Precision::Int8] {
        let translator = translator(precision).with_shortlist(list.clone()).unwrap();
        for options in options() {
            let translate = |translator: &Translator, texts: &[&str]| -> Vec<Translation> {
                translator.translate_batch_with(texts, &options, &Cancellation::new()).unwrap()
            };
            let together = translate(&translator, &TEXTS);
            let threads = translator.clone().with_threads(3).with_batch_tokens(1);
            assert_eq!(translate(&threads, &TEXTS), together);
            if options.sampling.is_none() {
                let alone = TEXTS.iter().flat_map(|text| translate(&translator, &[text]));
                assert_eq!(alone.collect::<Vec<_>>(), together);
            }
            let texts = &BUNDLE.tokenizers;
            for (text, found) in TEXTS.iter().zip(&together) {
                let candidates = list.candidates(&texts.source.encode(text).unwrap(), &[]);
                for hypothesis in &found.hypotheses {
                    let ids = &hypothesis.hypothesis.ids;
                    assert!(ids.iter().all(|id| candidates.contains(id)), "{text}: {ids:?}");
                }
            }
        }
    }
}

/// A prefix whose tokens are no candidates.
#[test]
fn given_tokens_are_candidates() {
    let few = translator(Precision::F32).with_shortlist(shortlist(vec![4], |_| vec![])).unwrap();
    let line = Line { prefix: "il gatto", ..Line::new("the cat sleeps .", 0) };
    let mut found = Vec::new();
    few.translate_lines(&[line], few.options(), &Cancellation::new(), |ready| {
        found.extend(ready);
        Ok::<_, InferError>(())
    })
    .unwrap();
    assert!(found[0].text.starts_with("il gatto"), "{found:?}");
    assert!(found[0].hypotheses[0].hypothesis.log_probability.is_finite());
}

#[test]
fn other_vocabularies_and_ensembles_are_refused() {
    let translator = translator(Precision::F32);
    let good = shortlist(vec![4], |_| vec![5]);
    let problem =
        |list: &Shortlist| translator.clone().with_shortlist(list.clone()).unwrap_err().to_string();
    let other = Shortlist { vocabulary_sha256: "ab".into(), ..good.clone() };
    assert!(problem(&other).contains("SHA-256 ab, expected "), "{}", problem(&other));
    let beyond = Shortlist { frequent: vec![1 << 20], ..good.clone() };
    assert!(problem(&beyond).contains("candidate 1048576 of"), "{}", problem(&beyond));
    let short = Shortlist { offsets: vec![0, 0], candidates: vec![], ..good.clone() };
    assert!(problem(&short).contains("1 source tokens, expected"), "{}", problem(&short));

    let listed = translator.clone().with_shortlist(good.clone()).unwrap();
    let path = folder();
    for (a, b) in [(&listed, &translator), (&translator, &listed)] {
        let error = a.clone().with_member(&path, &path, b.clone()).unwrap_err().to_string();
        assert!(error.contains("`shortlist` conflicts with an ensemble"), "{error}");
    }
    let both = translator.clone().with_member(&path, &path, translator.clone()).unwrap();
    let error = ShortlistBuilder::new(&both, ShortlistOptions::default()).unwrap_err().to_string();
    assert!(error.contains("conflicts with an ensemble"), "{error}");
    assert!(both.with_shortlist(good).is_err());
    let options = ShortlistOptions { layer: Some(99), ..ShortlistOptions::default() };
    let error = ShortlistBuilder::new(&translator, options).unwrap_err().to_string();
    assert!(error.contains("`attention_layer` = 100, but the decoder has"), "{error}");
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lex");
    for list in
        [shortlist(vec![4, 9], |token| vec![token, token + 1]), shortlist(vec![], |_| vec![])]
    {
        list.save(&path).unwrap();
        assert_eq!(Shortlist::open(&path).unwrap(), list);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let missing = Shortlist::open(folder.path().join("none")).unwrap_err();
    assert!(matches!(missing, InferError::Read { .. }), "{missing}");
    assert!(shortlist(vec![], |_| vec![]).save(folder.path().join("no/lex")).is_err());
    assert!(Shortlist::open(folder.path()).is_err());
}

#[test]
fn a_damaged_file_is_named_with_its_problem() {
    let good = shortlist(vec![4, 9], |_| vec![5, 7]);
    for (list, expected) in [
        (
            Shortlist { frequent: vec![9, 4], ..good.clone() },
            "`frequent` is not in ascending order",
        ),
        (
            Shortlist { offsets: vec![0, 3, 2], candidates: vec![5, 7], ..good.clone() },
            "ascend from 0 to 2",
        ),
        (Shortlist { offsets: vec![], ..good.clone() }, "`offsets` do not"),
        (
            Shortlist { offsets: vec![0, 2], candidates: vec![7, 7], ..good.clone() },
            "of source token 0",
        ),
    ] {
        let bytes = list.to_bytes().unwrap();
        let problem = Shortlist::from_bytes(&bytes).unwrap_err();
        assert!(problem.contains(expected), "{problem}");
    }
    let bytes = good.to_bytes().unwrap();
    let replaced = |from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    // Spaces keep the length of the header.
    let metadata =
        format!("\"__metadata__\":{{\"tx shortlist 1\":\"{}\"}},", good.vocabulary_sha256);
    let without_metadata = replaced(&metadata, &" ".repeat(metadata.len()));
    for (bytes, expected) in [
        (Vec::new(), "its header has more than"),
        (vec![255; 40], "its header has more than"),
        (replaced("tx shortlist 1", "tx shortlist 2"), "its format is `tx shortlist 2`"),
        (without_metadata, "it has no format"),
        (replaced("\"frequent\"", "\"frequenz\""), "it has no list `frequent`"),
        (replaced("U32", "I32"), "expected a list of U32"),
        (bytes[..bytes.len() - 1].to_vec(), "its header"),
    ] {
        let problem = Shortlist::from_bytes(&bytes).unwrap_err();
        assert!(problem.contains(expected), "{expected}: {problem}");
    }
}

/// Each byte of a file, changed in three ways: it is refused, or usable with any source.
#[test]
fn a_changed_file_is_refused_or_works() {
    let bytes = shortlist(vec![4, 9], |token| vec![4 + token % 8, 20]).to_bytes().unwrap();
    let translator = translator(Precision::F32);
    let mut used = 0;
    for place in 0..bytes.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[place] ^= change;
            let Ok(list) = Shortlist::from_bytes(&bytes) else { continue };
            let Ok(listed) = translator.clone().with_shortlist(list) else { continue };
            if used % 50 == 0 {
                listed.translate_batch(&TEXTS).unwrap();
            }
            used += 1;
        }
    }
    assert!(used > 0);
}
