use super::*;

fn score(chrf: Chrf, hypothesis: &str, references: &[&str]) -> f64 {
    chrf.sentence_score(hypothesis, references).unwrap().score
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "found {found}, expected {expected}");
}

/// `abcd` against `abce`, characters up to order 2: P = R = (3/4 + 2/3) / 2 = 17/24, so F is the
/// same. `ab` against `abcd`: P = 1, R = (2/4 + 1/3) / 2 = 5/12, F₂ = 5·P·R / (4·P + R) = 25/53,
/// and F₁ = 2·P·R / (P + R) = 10/17.
#[test]
fn the_score_equals_that_computed_by_hand() {
    let two = Chrf { char_order: 2, ..Chrf::default() };
    assert_close(score(two, "abcd", &["abce"]), 1700.0 / 24.0);
    assert_close(score(two, "ab", &["abcd"]), 2500.0 / 53.0);
    assert_close(score(Chrf { beta: 1, ..two }, "ab", &["abcd"]), 1000.0 / 17.0);
}

/// chrF++ with order 1 for characters and words: 5 of 7 and of 6 characters match, and 1 of 3 and
/// of 2 words (`the`, `cat` and `!` against `the` and `hat`).
///
/// ```text
/// thecat! against thehat   characters t h e · a t = 5 of 7 and of 6
/// the cat ! against the hat   words 1 of 3 and of 2
/// P = (5/7 + 1/3) / 2 = 11/21     R = (5/6 + 1/2) / 2 = 2/3
/// F₂ = 5 · 11/21 · 2/3 / (4 · 11/21 + 2/3) = 110/63 / (58/21) = 110/174
/// ```
#[test]
fn words_count_as_one_more_order() {
    let chrf = Chrf { char_order: 1, word_order: 1, ..Chrf::default() };
    assert_eq!(chrf.name(), "chrF2+");
    assert_close(score(chrf, "the cat!", &["the hat"]), 11000.0 / 174.0);
}

#[test]
fn punctuation_is_split_off_one_side_of_a_word() {
    assert_eq!(split_punctuation("(hi)"), ("(hi", Some(")")));
    assert_eq!(split_punctuation("(hi"), ("(", Some("hi")));
    assert_eq!(split_punctuation("!"), ("!", None));
    assert_eq!(split_punctuation("猫。"), ("猫。", None));
    assert_eq!(split_punctuation("猫!"), ("猫", Some("!")));
    assert_eq!(split_punctuation("😀"), ("😀", None));
    assert_eq!(split_punctuation("''"), ("'", Some("'")));
}

#[test]
fn the_best_reference_counts() {
    let alone = score(Chrf::default(), "abcd", &["abce"]);
    assert_eq!(score(Chrf::default(), "abcd", &["xyz", "abce", "abzz"]), alone);
    assert_eq!(score(Chrf::default(), "abcd", &["xyz", "abcd"]), 100.0);
}

/// `aaaa` has four `a` and three `aa`; `aa` has two and one.
#[test]
fn repeated_units_are_clipped() {
    let two = Chrf { char_order: 2, beta: 1, ..Chrf::default() };
    // P = (2/4 + 1/3) / 2 = 5/12, R = 1.
    assert_close(score(two, "aaaa", &["aa"]), 1000.0 / 17.0);
}

/// By default, only orders that both sides have are averaged. With `eps_smoothing`, all orders are,
/// with a tiny value for the missing ones.
#[test]
fn short_lines_leave_orders_out() {
    assert_eq!(score(Chrf::default(), "ab", &["ab"]), 100.0);
    let eps = Chrf { eps_smoothing: true, ..Chrf::default() };
    assert_close(score(eps, "ab", &["ab"]), 100.0 * 2.0 / 6.0);
}

#[test]
fn empty_lines_score_zero_and_never_nan() {
    for chrf in [Chrf::default(), Chrf::PLUS_PLUS, Chrf { eps_smoothing: true, ..Chrf::default() }]
    {
        for (hypothesis, reference) in [("", "ab"), ("ab", ""), ("", ""), (" \t", "\u{a0}")] {
            let found = score(chrf, hypothesis, &[reference]);
            assert!(found.abs() < 1e-9, "{hypothesis:?} {reference:?} {found}");
        }
    }
}

#[test]
fn white_space_counts_only_if_enabled() {
    assert_eq!(
        score(Chrf::default(), "a b\r", &["\u{feff}ab".trim_start_matches('\u{feff}')]),
        100.0
    );
    let spaces = Chrf { whitespace: true, ..Chrf::default() };
    assert!(score(spaces, "a b", &["ab"]) < 100.0);
    assert!(score(spaces, "a\tb", &["a b"]) < 100.0);
    assert_eq!(score(Chrf::default(), "a\tb", &["a b"]), 100.0);
}

#[test]
fn a_byte_order_mark_is_text() {
    assert!(score(Chrf::default(), "\u{feff}abc", &["abc"]) < 100.0);
}

/// One Unicode scalar value counts as one character, not as two UTF-16 code units: 1 of 2 match.
#[test]
fn characters_outside_the_basic_plane_are_one() {
    let one = Chrf { char_order: 1, ..Chrf::default() };
    assert_close(score(one, "😀𠀀", &["😀𠀁"]), 50.0);
}

#[test]
fn case_counts_by_default() {
    assert!(score(Chrf::default(), "ABC", &["abc"]) < 50.0);
    let lower = Chrf { lowercase: true, ..Chrf::default() };
    assert_eq!(score(lower, "ABC", &["abc"]), 100.0);
}

#[test]
fn names_and_signatures_are_those_of_sacrebleu() {
    let found = Chrf::PLUS_PLUS.corpus_score(&["a"], &[["a"], ["b"]]).unwrap();
    assert_eq!(found.to_string(), "chrF2++ = 100.00");
    assert_eq!(
        found.signature.to_string(),
        "nrefs:2|case:mixed|eff:yes|nc:6|nw:2|space:no|version:2.6.0"
    );
    let other = Chrf {
        char_order: 4,
        beta: 3,
        lowercase: true,
        whitespace: true,
        eps_smoothing: true,
        ..Chrf::default()
    };
    assert_eq!(other.name(), "chrF3");
    assert_eq!(
        other.signature(None).to_string(),
        "nrefs:var|case:lc|eff:no|nc:4|nw:0|space:yes|version:2.6.0"
    );
}

#[test]
fn orders_of_zero_are_rejected() {
    let none = Chrf { char_order: 0, ..Chrf::default() };
    assert_eq!(none.corpus_score(&["a"], &[["a"]]), Err(ScoreError::NoOrder));
    let words = Chrf { char_order: 0, word_order: 1, ..Chrf::default() };
    assert_eq!(score(words, "a b", &["a b"]), 100.0);
}
