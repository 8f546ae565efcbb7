//! Error rates and exact match: how much of the reference text was not reproduced.
//!
//! ```text
//! error rate = Σ edits / Σ units of the reference,  over all lines
//! ```
//!
//! Edits are the fewest insertions, deletions and substitutions that turn the hypothesis into the
//! reference (Levenshtein 1966). Before units are compared, white space at both ends of a line is
//! dropped. The values are those of jiwer, the tool of speech recognition, times 100: here every
//! score is in percent. There is one reference only; case counts.

use std::fmt;

use crate::error::check_line_counts;
use crate::tokenizer::{is_space, words};
use crate::{Score, ScoreError, Signature};

/// Character error rate: edits per reference character, over the whole corpus.
///
/// A character is a Unicode scalar value, so `é` written with a combining accent is two; spaces
/// inside the line count. See [`ErrorRate::score`] for empty references.
///
/// ```
/// // One substitution, one deletion, 4 + 4 reference characters.
/// assert_eq!(tx_eval::cer(&["abxd", "efg"], &["abcd", "efgh"])?.score, 25.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// # Errors
///
/// When the numbers of lines differ or there is no line.
pub fn cer<H, R>(hypotheses: &[H], references: &[R]) -> Result<ErrorRate, ScoreError>
where
    H: AsRef<str>,
    R: AsRef<str>,
{
    error_rate(Unit::Character, hypotheses, references, |line| {
        line.trim_matches(is_space).chars().collect()
    })
}

/// Word error rate: edits per reference word, over the whole corpus.
///
/// A word is what stands between white space of any kind, punctuation included. (jiwer splits at
/// U+0020 alone, which is the same where words are separated by single spaces.) See
/// [`ErrorRate::score`] for empty references.
///
/// ```
/// // One substitution and one insertion, 4 reference words.
/// assert_eq!(tx_eval::wer(&["the cat sat on it"], &["the dog sat on"])?.score, 50.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// # Errors
///
/// When the numbers of lines differ or there is no line.
pub fn wer<H, R>(hypotheses: &[H], references: &[R]) -> Result<ErrorRate, ScoreError>
where
    H: AsRef<str>,
    R: AsRef<str>,
{
    error_rate(Unit::Word, hypotheses, references, |line| words(line).collect())
}

/// Share of lines that equal their reference, white space at the end of lines aside.
///
/// An empty hypothesis matches an empty reference.
///
/// ```
/// assert_eq!(tx_eval::exact_match(&["yes ", "No"], &["yes", "no"])?.score, 50.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// # Errors
///
/// When the numbers of lines differ or there is no line.
pub fn exact_match<H, R>(hypotheses: &[H], references: &[R]) -> Result<ExactMatch, ScoreError>
where
    H: AsRef<str>,
    R: AsRef<str>,
{
    check_line_counts(hypotheses.len(), &[references.len()])?;
    let lines = hypotheses.len();
    let matches = hypotheses
        .iter()
        .zip(references)
        .filter(|(hypothesis, reference)| {
            let [hypothesis, reference] = [hypothesis.as_ref(), reference.as_ref()];
            hypothesis.trim_end_matches(is_space) == reference.trim_end_matches(is_space)
        })
        .count();
    Ok(ExactMatch { score: 100.0 * matches as f64 / lines as f64, matches, lines })
}

/// What an error rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Unicode scalar values: CER.
    Character,
    /// What stands between white space: WER.
    Word,
}

/// A character or word error rate with what it was computed from.
///
/// `Display` is `CER = 25.00 (edits = 2 ref_len = 8)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorRate {
    /// Characters or words.
    pub unit: Unit,
    /// `edits / reference_len` in percent: 0 is perfect, and more than 100 is possible when the
    /// hypotheses are longer than the references. References without a single unit count as one
    /// unit, so the score is 0 if the hypotheses are empty too and `100 · edits` if not.
    pub score: f64,
    /// Insertions, deletions and substitutions over all lines.
    pub edits: usize,
    /// Units of all references.
    pub reference_len: usize,
}

impl ErrorRate {
    /// The result in the shape that all metrics share.
    pub fn summary(&self) -> Score {
        let (name, unit) = match self.unit {
            Unit::Character => ("CER", "character"),
            Unit::Word => ("WER", "word"),
        };
        let verbose = format!("(edits = {} ref_len = {})", self.edits, self.reference_len);
        Score { name, value: self.score, verbose, signature: signature(unit) }
    }
}

impl fmt::Display for ErrorRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

/// The share of lines translated exactly as in the reference.
///
/// `Display` is `exact match = 50.00 (matches = 1 lines = 2)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExactMatch {
    /// `matches / lines` in percent, 0 to 100.
    pub score: f64,
    /// Lines equal to their reference.
    pub matches: usize,
    /// All lines.
    pub lines: usize,
}

impl ExactMatch {
    /// The result in the shape that all metrics share.
    pub fn summary(&self) -> Score {
        let verbose = format!("(matches = {} lines = {})", self.matches, self.lines);
        Score { name: "exact match", value: self.score, verbose, signature: signature("line") }
    }
}

impl fmt::Display for ExactMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

/// sacreBLEU has none of these metrics, so the version is that of this crate.
fn signature(unit: &str) -> Signature {
    Signature::new(vec![
        ("nrefs", "1".to_owned()),
        ("case", "mixed".to_owned()),
        ("unit", unit.to_owned()),
        ("version", concat!("tx-", env!("CARGO_PKG_VERSION")).to_owned()),
    ])
}

fn error_rate<'a, H, R, T>(
    unit: Unit,
    hypotheses: &'a [H],
    references: &'a [R],
    units: impl Fn(&'a str) -> Vec<T>,
) -> Result<ErrorRate, ScoreError>
where
    H: AsRef<str>,
    R: AsRef<str>,
    T: PartialEq,
{
    check_line_counts(hypotheses.len(), &[references.len()])?;
    let mut edits = 0;
    let mut reference_len = 0;
    for (hypothesis, reference) in hypotheses.iter().zip(references) {
        let reference = units(reference.as_ref());
        edits += levenshtein(&units(hypothesis.as_ref()), &reference);
        reference_len += reference.len();
    }
    let score = 100.0 * edits as f64 / reference_len.max(1) as f64;
    Ok(ErrorRate { unit, score, edits, reference_len })
}

/// The fewest insertions, deletions and substitutions that turn one sequence into the other, in
/// time proportional to the product of the lengths and space to the second.
fn levenshtein<T: PartialEq>(from: &[T], to: &[T]) -> usize {
    // Row i holds, at column j, the distance between the first i of `from` and the first j of `to`.
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distance(from: &str, to: &str) -> usize {
        levenshtein(&from.chars().collect::<Vec<_>>(), &to.chars().collect::<Vec<_>>())
    }

    /// kitten → sitten → sittin → sitting.
    #[test]
    fn edits_are_as_few_as_possible() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("ab", "ba"), 2);
    }

    /// Lines are 4 and 1 long with 1 and 1 edits: 2/5 of the corpus, not the mean of 1/4 and 1/1.
    #[test]
    fn long_lines_weigh_more_than_short_ones() {
        assert_eq!(cer(&["abcx", "x"], &["abcd", "y"]).unwrap().score, 40.0);
        assert_eq!(wer(&["a b c x", "x"], &["a b c d", "y"]).unwrap().score, 40.0);
    }

    #[test]
    fn characters_are_unicode_scalar_values() {
        let emoji = cer(&["a😀c"], &["a😁c"]).unwrap();
        assert_eq!((emoji.edits, emoji.reference_len), (1, 3));
        // é as one scalar value against e and a combining accent.
        assert_eq!(cer(&["\u{e9}"], &["e\u{301}"]).unwrap().edits, 2);
    }

    #[test]
    fn white_space_counts_inside_a_line_and_not_around_it() {
        assert_eq!(cer(&[" ab\r"], &["ab"]).unwrap().edits, 0);
        assert_eq!(cer(&["a  b"], &["a b"]).unwrap().edits, 1);
        assert_eq!(wer(&["a \t b\r"], &["a\u{a0}b"]).unwrap().edits, 0);
        assert_eq!(exact_match(&["a\r", " a"], &["a", "a"]).unwrap().matches, 1);
    }

    #[test]
    fn a_byte_order_mark_is_text() {
        assert_eq!(cer(&["\u{feff}ab"], &["ab"]).unwrap().edits, 1);
        assert_eq!(wer(&["\u{feff}ab"], &["ab"]).unwrap().edits, 1);
        assert_eq!(exact_match(&["\u{feff}ab"], &["ab"]).unwrap().matches, 0);
    }

    #[test]
    fn empty_references_count_as_one_unit() {
        assert_eq!(cer(&[""], &[""]).unwrap().score, 0.0);
        assert_eq!(cer(&["ab"], &[""]).unwrap().score, 200.0);
        assert_eq!(wer(&["a b c"], &[" "]).unwrap().score, 300.0);
        assert_eq!(exact_match(&[""], &[" "]).unwrap().score, 100.0);
        // Among other lines an empty one adds its edits and no length: (2 + 0) / (0 + 4).
        assert_eq!(cer(&["ab", "abcd"], &["", "abcd"]).unwrap().score, 50.0);
    }

    #[test]
    fn an_empty_hypothesis_misses_everything() {
        assert_eq!(cer(&[""], &["abcd"]).unwrap().score, 100.0);
        assert_eq!(wer(&[""], &["a b"]).unwrap().score, 100.0);
    }

    #[test]
    fn lines_that_do_not_belong_together_are_refused() {
        let nothing: [&str; 0] = [];
        assert_eq!(cer(&nothing, &nothing), Err(ScoreError::NoLines));
        let uneven = ScoreError::LineCount { hypotheses: 2, references: 1 };
        assert_eq!(wer(&["a", "b"], &["a"]), Err(uneven.clone()));
        assert_eq!(exact_match(&["a", "b"], &["a"]), Err(uneven));
    }

    #[test]
    fn names_and_signatures_say_what_was_counted() {
        let score = wer(&["a"], &["b"]).unwrap().summary();
        assert_eq!(score.to_string(), "WER = 100.00 (edits = 1 ref_len = 1)");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            score.signature.to_string(),
            format!("nrefs:1|case:mixed|unit:word|version:tx-{version}")
        );
        let score = exact_match(&["a"], &["b"]).unwrap();
        assert_eq!(score.to_string(), "exact match = 0.00 (matches = 0 lines = 1)");
    }
}
