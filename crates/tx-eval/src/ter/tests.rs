use super::*;

fn score(hypothesis: &str, references: &[&str]) -> TerScore {
    Ter::default().sentence_score(hypothesis, references).unwrap()
}

/// `b c` is shifted, `x` substitutes `d`, `e` is missing: 3 edits for 5 words.
#[test]
fn shifts_count_as_one_edit() {
    let found = score("b c a x", &["a b c d e"]);
    assert_eq!((found.edits, found.reference_len), (3, 5.0));
    assert_eq!(found.score, 60.0);
    assert_eq!(found.to_string(), "TER = 60.00");
}

/// Fewest edits to any reference, divided by the mean of their lengths: 1 / ((2 + 4) / 2).
#[test]
fn several_references_share_their_length() {
    let found = score("a b c", &["x y", "a b c d"]);
    assert_eq!((found.edits, found.reference_len), (1, 3.0));
}

#[test]
fn empty_lines_have_no_rate_of_their_own() {
    assert_eq!(score("", &["a b"]).score, 100.0);
    assert_eq!(score("a b c", &[""]).score, 100.0);
    assert_eq!(score("", &[""]).score, 0.0);
    // Among other lines, an empty reference adds its edits and no length.
    let found = Ter::default().corpus_score(&["a b", "c"], &[["", "c"]]).unwrap();
    assert_eq!((found.edits, found.reference_len, found.score), (2, 1.0, 200.0));
}

#[test]
fn one_word_lines_are_right_or_wrong() {
    assert_eq!(score("Yes", &["yes"]).score, 0.0);
    assert_eq!(score("no", &["yes"]).score, 100.0);
}

/// Each superfluous repetition is one deletion.
#[test]
fn repeated_words_are_deleted() {
    assert_eq!(score("the the the the cat", &["the cat"]).edits, 3);
}

#[test]
fn any_white_space_separates_words() {
    assert_eq!(score("a\tb\u{a0}c\r", &["a b c"]).edits, 0);
    assert_eq!(score("\u{feff}a b", &["a b"]).edits, 1);
    assert_eq!(score("😀 𠀀", &["😀 𠀁"]).edits, 1);
}

#[test]
fn signatures_are_those_of_sacrebleu() {
    assert_eq!(
        score("a", &["a", "b"]).signature.to_string(),
        "nrefs:2|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0"
    );
    let all = Ter { normalized: true, no_punct: true, asian_support: true, case_sensitive: true };
    assert_eq!(
        all.signature(None).to_string(),
        "nrefs:var|case:mixed|tok:tercom|norm:yes|punct:no|asian:yes|version:2.6.0"
    );
}

/// One pass gives `,` and `.5`, two passes give `,`, `.` and `5`: see [`Ter::reference_words`].
#[test]
fn references_are_tokenized_twice_as_by_sacrebleu() {
    let ter = Ter { normalized: true, ..Ter::default() };
    let found = ter.sentence_score("a,.5", &["a,.5"]).unwrap();
    assert_eq!((found.edits, found.reference_len), (2, 4.0));
}
