use super::*;

fn unsmoothed() -> Bleu {
    Bleu { tokenizer: Tokenizer::None, smoothing: Smoothing::None, ..Bleu::default() }
}

fn score(bleu: Bleu, hypothesis: &str, references: &[&str]) -> BleuScore {
    let references: Vec<[&str; 1]> = references.iter().map(|line| [*line]).collect();
    bleu.corpus_score(&[hypothesis], &references).unwrap()
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "found {found}, expected {expected}");
}

/// ```text
/// hypothesis  a b c d x      reference  a b c d e f
/// 1-grams     a b c d        4 of 5
/// 2-grams     ab bc cd       3 of 4
/// 3-grams     abc bcd        2 of 3
/// 4-grams     abcd           1 of 2
/// product     4/5 · 3/4 · 2/3 · 1/2 = 1/5
/// BP          c = 5 < r = 6: exp(1 − 6/5) = exp(−1/5)
/// ```
#[test]
fn the_score_equals_that_computed_by_hand() {
    let found = score(unsmoothed(), "a b c d x", &["a b c d e f"]);

    assert_eq!(found.counts, [4, 3, 2, 1]);
    assert_eq!(found.totals, [5, 4, 3, 2]);
    assert_eq!((found.hypothesis_len, found.reference_len), (5, 6));
    assert_close(found.brevity_penalty, (-0.2_f64).exp());
    assert_close(found.score, 100.0 * (-0.2_f64).exp() * 0.2_f64.powf(0.25));
    assert_eq!(
        found.to_string(),
        "BLEU = 54.75 80.0/75.0/66.7/50.0 (BP = 0.819 ratio = 0.833 hyp_len = 5 ref_len = 6)"
    );
}

/// Example of Papineni et al., section 2.1.1: "the" occurs at most twice in one reference, so 2 of
/// 7 match. No reference contains "the the".
#[test]
fn repeated_words_are_clipped() {
    let references = ["The cat is on the mat .", "There is a cat on the mat ."];
    let bleu = Bleu { lowercase: true, ..unsmoothed() };
    let found = score(bleu, "the the the the the the the", &references);
    assert_eq!(found.counts, [2, 0, 0, 0]);
    assert_eq!(found.totals, [7, 6, 5, 4]);
    assert_eq!(found.score, 0.0);
}

/// Clipping uses the highest count in *one* reference, not the sum: "a" occurs once in each.
#[test]
fn counts_of_several_references_are_not_added() {
    assert_eq!(score(unsmoothed(), "a a", &["a b", "b a"]).counts, [1, 0, 0, 0]);
    assert_eq!(score(unsmoothed(), "a a", &["a b", "a a"]).counts, [2, 1, 0, 0]);
}

#[test]
fn the_closest_reference_length_counts_and_on_a_tie_the_shorter() {
    let three_words = "a b c";
    assert_eq!(score(unsmoothed(), three_words, &["a", "a b c d"]).reference_len, 4);
    assert_eq!(score(unsmoothed(), three_words, &["a b c d", "a b"]).reference_len, 2);
}

/// ```text
/// hypothesis  a b x y     reference  a b c d
/// matches     2 1 0 0  of 4 3 2 1
/// exp         2/4 1/3 (1/2)/2 (1/4)/1     product 1/4 · … = 1/96
/// floor 0.1   2/4 1/3 0.1/2 0.1/1         product 1/1200
/// add-1       2/4 2/4 1/3 1/2             product 1/24
/// none        2/4 1/3 0 0                 0
/// ```
#[test]
fn each_smoothing_method_equals_that_computed_by_hand() {
    for (smoothing, product) in [
        (Smoothing::Exp, 1.0 / 96.0),
        (Smoothing::FLOOR, 1.0 / 1200.0),
        (Smoothing::ADD_K, 1.0 / 24.0),
        (Smoothing::None, 0.0_f64),
    ] {
        let found = score(Bleu { smoothing, ..unsmoothed() }, "a b x y", &["a b c d"]);
        assert_close(found.score, 100.0 * product.powf(0.25));
        assert_eq!((found.counts, found.totals), ([2, 1, 0, 0], [4, 3, 2, 1]));
    }
}

#[test]
fn a_smoothing_value_must_be_a_number_of_at_least_zero() {
    for value in [-0.1, f64::NAN, f64::INFINITY] {
        let bleu = Bleu { smoothing: Smoothing::Floor(value), ..Bleu::default() };
        let error = bleu.corpus_score(&["a"], &[["a"]]).unwrap_err();
        assert!(matches!(error, ScoreError::SmoothingValue { method: "floor", .. }), "{error}");
    }
    let bleu = Bleu { smoothing: Smoothing::AddK(-1.0), ..Bleu::default() };
    let error = bleu.corpus_score(&["a"], &[["a"]]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "smoothing method `add-k` has value -1, expected a finite number of at least 0"
    );
}

#[test]
fn signatures_are_those_of_sacrebleu() {
    let signature = |bleu: Bleu| bleu.signature(Some(1)).to_string();
    let with = |smoothing| Bleu { smoothing, ..Bleu::default() };
    assert_eq!(
        signature(Bleu::default()),
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
    );
    assert_eq!(
        signature(Bleu { lowercase: true, ..with(Smoothing::FLOOR) }),
        "nrefs:1|case:lc|eff:no|tok:13a|smooth:floor[0.10]|version:2.6.0"
    );
    assert_eq!(
        signature(Bleu { tokenizer: Tokenizer::None, ..with(Smoothing::ADD_K) }),
        "nrefs:1|case:mixed|eff:no|tok:none|smooth:add-k[1.00]|version:2.6.0"
    );
}

/// An empty hypothesis among others only shortens the corpus: c = 4, r = 4 + 2.
#[test]
fn an_empty_hypothesis_line_affects_the_brevity_penalty_only() {
    let found = unsmoothed().corpus_score(&["a b c d", ""], &[["a b c d", "e f"]]).unwrap();
    assert_eq!(found.precisions, [100.0; 4]);
    assert_close(found.score, 100.0 * (1.0 - 6.0 / 4.0_f64).exp());
}

#[test]
fn empty_corpora_score_zero_and_never_nan() {
    for smoothing in [Smoothing::Exp, Smoothing::FLOOR, Smoothing::ADD_K, Smoothing::None] {
        for (hypothesis, reference, penalty) in [("", "a b", 0.0), ("a b", "", 1.0), ("", "", 1.0)]
        {
            let found = score(Bleu { smoothing, ..Bleu::default() }, hypothesis, &[reference]);
            assert_eq!((found.score, found.brevity_penalty), (0.0, penalty));
            assert_eq!(found.length_ratio(), 0.0);
        }
    }
}

/// One word has no 2-grams, so their precision is undefined and the score is 0, even if the word is
/// right. Only add-k, which also increases the number of n-grams, gives (1/1)⁴.
#[test]
fn one_word_lines_score_zero_unless_k_is_added() {
    let right = |smoothing| score(Bleu { smoothing, ..Bleu::default() }, "yes", &["yes"]).score;
    assert_eq!(right(Smoothing::Exp), 0.0);
    assert_eq!(right(Smoothing::FLOOR), 0.0);
    assert_eq!(right(Smoothing::None), 0.0);
    assert_close(right(Smoothing::ADD_K), 100.0);
}

#[test]
fn a_carriage_return_is_space_and_a_byte_order_mark_is_not() {
    let reference = "one two three four";
    assert_close(score(Bleu::default(), "one two three four\r", &[reference]).score, 100.0);
    let marked = score(Bleu::default(), "\u{feff}one two three four", &[reference]);
    assert_eq!(marked.counts, [3, 2, 1, 0]);
}

#[test]
fn unequal_line_counts_are_refused() {
    let none: [[&str; 1]; 0] = [];
    let bleu = Bleu::default();
    assert_eq!(bleu.corpus_score(&["a"], &none), Err(ScoreError::NoReference));
    assert_eq!(
        bleu.corpus_score(&["a", "b"], &[["a"]]),
        Err(ScoreError::LineCount { hypotheses: 2, references: 1 })
    );
    assert_eq!(
        bleu.corpus_score(&["a"], &[vec!["a"], vec!["a", "b"]]),
        Err(ScoreError::UnequalReferences { first: 1, number: 2, lines: 2 })
    );
}

/// Precisions: 1/1 for one word, 2/2 for two; `a b x` against `a b c` has 2/3, 1/2 and, smoothed,
/// (1/2)/1.
#[test]
fn effective_order_leaves_out_orders_without_ngrams() {
    let bleu = Bleu { effective_order: true, ..Bleu::default() };
    let value =
        |hypothesis, reference| bleu.sentence_score(hypothesis, &[reference]).unwrap().score;
    assert_close(value("yes", "yes"), 100.0);
    assert_close(value("oh yes", "oh yes"), 100.0);
    assert_close(value("a b x", "a b c"), 100.0 * (1.0_f64 / 6.0).cbrt());
    assert_eq!(value("no", "yes"), 0.0);
    assert_eq!(value("", "yes"), 0.0);
    let signature = bleu.signature(Some(1)).to_string();
    assert!(signature.contains("|eff:yes|"), "{signature}");
}

#[test]
fn tabs_are_space_and_characters_outside_the_basic_plane_are_one() {
    assert_eq!(score(unsmoothed(), "a\tb c\u{3000}d", &["a b c d"]).counts, [4, 3, 2, 1]);
    let characters = Bleu { tokenizer: Tokenizer::Char, ..unsmoothed() };
    let found = score(characters, "😀𠀀", &["😀𠀁"]);
    assert_eq!((found.counts, found.totals), ([1, 0, 0, 0], [2, 1, 0, 0]));
}

/// The second line has one reference. An empty reference would be closer to its hypothesis.
#[test]
fn a_missing_reference_is_not_an_empty_one() {
    let first = [Some("a b c d"), Some("e f g h")];
    let missing =
        unsmoothed().corpus_score(&["a b c d", "e"], &[first, [Some("a"), None]]).unwrap();
    assert_eq!(missing.reference_len, 8);
    assert!(missing.signature.to_string().starts_with("nrefs:var|"));
    let empty =
        unsmoothed().corpus_score(&["a b c d", "e"], &[first, [Some("a"), Some("")]]).unwrap();
    assert_eq!(empty.reference_len, 4);
    assert!(empty.signature.to_string().starts_with("nrefs:2|"));
}
