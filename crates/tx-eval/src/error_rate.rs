//! Character error rate, word error rate and exact match.
//!
//! ```text
//! error rate = Σ edits / Σ units of the reference,  over all lines
//! ```
//!
//! Edits are the fewest insertions, deletions and substitutions that turn the hypothesis into the
//! reference (Levenshtein 1966). Before units are compared, white space at both ends of a line is
//! dropped. The values are those of jiwer, the tool of speech recognition, times 100: here every
//! score is in percent. If there are several references, only the first is used.

use std::{borrow::Cow, fmt, sync::LazyLock};

use crate::{
    Corpus, Metric, Score, ScoreError, SegmentStatistics, Signature,
    levenshtein::levenshtein,
    metric::{ResampleScore, TX_VERSION},
    real::{Real, Single},
    replace::{self, Rule, rules},
    tokenizer::{is_space, words},
};

/// Character or word error rate and its settings; [`cer`] and [`wer`] compute the usual ones.
///
/// ```
/// use tx_eval::{ErrorRate, Unit};
///
/// let wer = ErrorRate { lowercase: true, no_punct: true, ..ErrorRate::new(Unit::Word) };
/// assert_eq!(wer.corpus_score(&["well I see"], &["Well, I see!"])?.score, 0.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorRate {
    /// Unit of counting: characters or words.
    pub unit: Unit,
    /// Compare in lower case. Shown as `case:lc`.
    pub lowercase: bool,
    /// Remove punctuation (Unicode's category P) and collapse repeated white space. Shown as
    /// `punct:no`.
    pub no_punct: bool,
}

impl ErrorRate {
    /// Creates an error rate that counts case and punctuation.
    pub const fn new(unit: Unit) -> Self {
        Self { unit, lowercase: false, no_punct: false }
    }

    /// Scores a corpus against one reference.
    ///
    /// # Errors
    ///
    /// If line counts differ or there is no line.
    pub fn corpus_score<H, R>(
        &self,
        hypotheses: &[H],
        reference: &[R],
    ) -> Result<ErrorRateScore, ScoreError>
    where
        H: AsRef<str>,
        R: AsRef<str>,
    {
        let reference: Vec<&str> = reference.iter().map(AsRef::as_ref).collect();
        let sum = self.statistics(&Corpus::new(hypotheses, &[reference])?)?.sum();
        Ok(ErrorRateScore {
            unit: self.unit,
            score: self.formula(&sum),
            edits: sum[0] as usize,
            reference_len: sum[1] as usize,
            signature: Metric::signature(self, Some(1)),
        })
    }

    /// Returns the normalized text of a line, as it is compared.
    fn text<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let mut text =
            if self.lowercase { Cow::Owned(line.to_lowercase()) } else { Cow::Borrowed(line) };
        if self.no_punct {
            replace::apply(&mut text, &*NO_PUNCT);
        }
        text
    }

    fn value<N: Real>(&self, [edits, reference_len]: [N; 2]) -> N {
        let one = N::literal(1.0);
        N::literal(100.0) * edits / if reference_len > one { reference_len } else { one }
    }
}

/// Rules that remove punctuation and collapse the white space around it.
static NO_PUNCT: LazyLock<[Rule; 2]> =
    LazyLock::new(|| rules([(r"\p{P}", ""), (r"[\s\x1c-\x1f]{2,}", " ")]));

impl Metric for ErrorRate {
    fn name(&self) -> String {
        match self.unit {
            Unit::Character => "CER",
            Unit::Word => "WER",
        }
        .to_owned()
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn signature(&self, _n_references: Option<usize>) -> Signature {
        let unit = match self.unit {
            Unit::Character => "character",
            Unit::Word => "word",
        };
        let pairs = vec![
            ("case", if self.lowercase { "lc" } else { "mixed" }.to_owned()),
            ("punct", if self.no_punct { "no" } else { "yes" }.to_owned()),
            ("unit", unit.to_owned()),
        ];
        Signature::new(Some(1), pairs, TX_VERSION)
    }

    fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError> {
        Ok(corpus.statistics(
            2,
            || (),
            |(), hypothesis, references, row| {
                let [hypothesis, reference] =
                    [hypothesis, references[0]].map(|line| self.text(line));
                let (edits, reference_len) = match self.unit {
                    Unit::Character => {
                        let [hypothesis, reference] = [&hypothesis, &reference]
                            .map(|line| line.trim_matches(is_space).chars().collect::<Vec<_>>());
                        (levenshtein(&hypothesis, &reference), reference.len())
                    }
                    Unit::Word => {
                        let [hypothesis, reference] =
                            [&hypothesis, &reference].map(|line| words(line).collect::<Vec<_>>());
                        (levenshtein(&hypothesis, &reference), reference.len())
                    }
                };
                row.copy_from_slice(&[edits as f64, reference_len as f64]);
            },
        ))
    }

    fn formula(&self, sum: &[f64]) -> f64 {
        self.value([sum[0], sum[1]])
    }

    fn resample_score(&self, sum: &[f32]) -> Option<ResampleScore> {
        Some(ResampleScore(self.value([Single::Float(sum[0]), Single::Float(sum[1])])))
    }

    fn verbose(&self, sum: &[f64]) -> String {
        format!("(edits = {} ref_len = {})", sum[0], sum[1])
    }
}

/// Computes the character error rate: edits per reference character, over the whole corpus.
///
/// A character is a Unicode scalar value, so `é` written with a combining accent counts as two.
/// White space inside a line counts. See [`ErrorRateScore::score`] for empty references.
///
/// ```
/// // One substitution, one deletion, 4 + 4 reference characters.
/// assert_eq!(tx_eval::cer(&["abxd", "efg"], &["abcd", "efgh"])?.score, 25.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// # Errors
///
/// If the numbers of lines differ or there is no line.
pub fn cer<H, R>(hypotheses: &[H], references: &[R]) -> Result<ErrorRateScore, ScoreError>
where
    H: AsRef<str>,
    R: AsRef<str>,
{
    ErrorRate::new(Unit::Character).corpus_score(hypotheses, references)
}

/// Computes the word error rate: edits per reference word, over the whole corpus.
///
/// Words are separated by white space of any kind and include punctuation. (jiwer splits at U+0020
/// alone, which is the same if words are separated by single spaces.) See [`ErrorRateScore::score`]
/// for empty references.
///
/// ```
/// // One substitution and one insertion, 4 reference words.
/// assert_eq!(tx_eval::wer(&["the cat sat on it"], &["the dog sat on"])?.score, 50.0);
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// # Errors
///
/// If the numbers of lines differ or there is no line.
pub fn wer<H, R>(hypotheses: &[H], references: &[R]) -> Result<ErrorRateScore, ScoreError>
where
    H: AsRef<str>,
    R: AsRef<str>,
{
    ErrorRate::new(Unit::Word).corpus_score(hypotheses, references)
}

/// Computes the percentage of lines that equal their reference, ignoring trailing white space.
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
/// If the numbers of lines differ or there is no line.
pub fn exact_match<H, R>(hypotheses: &[H], references: &[R]) -> Result<ExactMatchScore, ScoreError>
where
    H: AsRef<str>,
    R: AsRef<str>,
{
    let references: Vec<&str> = references.iter().map(AsRef::as_ref).collect();
    let statistics = ExactMatch.statistics(&Corpus::new(hypotheses, &[references])?)?;
    let sum = statistics.sum();
    Ok(ExactMatchScore {
        score: ExactMatch.formula(&sum),
        matches: sum[0] as usize,
        lines: sum[1] as usize,
        signature: ExactMatch.signature(Some(1)),
    })
}

/// Exact match as a [`Metric`]; [`exact_match`] computes it for lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExactMatch;

impl Metric for ExactMatch {
    fn name(&self) -> String {
        "exact match".to_owned()
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn signature(&self, _n_references: Option<usize>) -> Signature {
        let pairs = vec![("case", "mixed".to_owned()), ("unit", "line".to_owned())];
        Signature::new(Some(1), pairs, TX_VERSION)
    }

    fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError> {
        Ok(corpus.statistics(
            2,
            || (),
            |(), hypothesis, references, row| {
                let [hypothesis, reference] =
                    [hypothesis, references[0]].map(|line| line.trim_end_matches(is_space));
                row.copy_from_slice(&[f64::from(u8::from(hypothesis == reference)), 1.0]);
            },
        ))
    }

    fn formula(&self, sum: &[f64]) -> f64 {
        100.0 * sum[0] / sum[1]
    }

    fn resample_score(&self, sum: &[f32]) -> Option<ResampleScore> {
        Some(ResampleScore(Single::Float(100.0 * sum[0] / sum[1])))
    }

    fn verbose(&self, sum: &[f64]) -> String {
        format!("(matches = {} lines = {})", sum[0], sum[1])
    }
}

/// Unit in which an error rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Unicode scalar values: CER.
    Character,
    /// Words separated by white space: WER.
    Word,
}

/// Character or word error rate with its components.
///
/// `Display` prints `CER = 25.00 (edits = 2 ref_len = 8)`.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRateScore {
    /// Unit of the counts: characters or words.
    pub unit: Unit,
    /// `edits / reference_len` in percent: 0 is perfect, and values above 100 are possible if the
    /// hypotheses are longer than the references. References without any unit count as one unit, so
    /// the score is 0 if the hypotheses are empty too and `100 · edits` otherwise.
    pub score: f64,
    /// Insertions, deletions and substitutions over all lines.
    pub edits: usize,
    /// Units of all references.
    pub reference_len: usize,
    /// Signature of the settings.
    pub signature: Signature,
}

impl ErrorRateScore {
    /// Returns the result in the format shared by all metrics.
    pub fn summary(&self) -> Score {
        let settings = ErrorRate::new(self.unit);
        Score {
            name: settings.name(),
            value: self.score,
            verbose: settings.verbose(&[self.edits as f64, self.reference_len as f64]),
            signature: self.signature.clone(),
        }
    }
}

impl fmt::Display for ErrorRateScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

/// Exact match with its components.
///
/// `Display` prints `exact match = 50.00 (matches = 1 lines = 2)`.
#[derive(Debug, Clone, PartialEq)]
pub struct ExactMatchScore {
    /// `matches / lines` in percent, 0 to 100.
    pub score: f64,
    /// Lines equal to their reference.
    pub matches: usize,
    /// Number of lines.
    pub lines: usize,
    /// Signature of the settings.
    pub signature: Signature,
}

impl ExactMatchScore {
    /// Returns the result in the format shared by all metrics.
    pub fn summary(&self) -> Score {
        Score {
            name: ExactMatch.name(),
            value: self.score,
            verbose: ExactMatch.verbose(&[self.matches as f64, self.lines as f64]),
            signature: self.signature.clone(),
        }
    }
}

impl fmt::Display for ExactMatchScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of length 4 and 1 with one edit each: 2/5 over the corpus, not the mean of 1/4 and
    /// 1/1.
    #[test]
    fn long_lines_weigh_more_than_short_ones() {
        assert_eq!(cer(&["abcx", "x"], &["abcd", "y"]).unwrap().score, 40.0);
        assert_eq!(wer(&["a b c x", "x"], &["a b c d", "y"]).unwrap().score, 40.0);
    }

    #[test]
    fn characters_are_unicode_scalar_values() {
        let emoji = cer(&["a😀c"], &["a😁c"]).unwrap();
        assert_eq!((emoji.edits, emoji.reference_len), (1, 3));
        // `é` as one scalar value against `e` and a combining accent.
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
        // Among other lines, an empty reference adds its edits and no length: (2 + 0) / (0 + 4).
        assert_eq!(cer(&["ab", "abcd"], &["", "abcd"]).unwrap().score, 50.0);
    }

    #[test]
    fn an_empty_hypothesis_misses_everything() {
        assert_eq!(cer(&[""], &["abcd"]).unwrap().score, 100.0);
        assert_eq!(wer(&[""], &["a b"]).unwrap().score, 100.0);
    }

    /// `Well , no` and `well no` differ in the mark, in case, and in the space that the mark
    /// leaves.
    #[test]
    fn case_and_punctuation_can_be_left_out() {
        for (lowercase, no_punct, characters, words) in
            [(false, false, 3, 2), (true, false, 2, 1), (false, true, 1, 1), (true, true, 0, 0)]
        {
            let found = [Unit::Character, Unit::Word].map(|unit| {
                let rate = ErrorRate { lowercase, no_punct, ..ErrorRate::new(unit) };
                rate.corpus_score(&["Well , no"], &["well no"]).unwrap().edits
            });
            assert_eq!(found, [characters, words], "{lowercase} {no_punct}");
        }
    }

    #[test]
    fn unequal_line_counts_are_refused() {
        let nothing: [&str; 0] = [];
        assert_eq!(cer(&nothing, &nothing), Err(ScoreError::NoLines));
        let uneven = ScoreError::LineCount { hypotheses: 2, references: 1 };
        assert_eq!(wer(&["a", "b"], &["a"]), Err(uneven.clone()));
        assert_eq!(exact_match(&["a", "b"], &["a"]), Err(uneven));
    }

    #[test]
    fn names_and_signatures_contain_unit_and_settings() {
        let score = wer(&["a"], &["b"]).unwrap().summary();
        assert_eq!(score.to_string(), "WER = 100.00 (edits = 1 ref_len = 1)");
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            score.signature.to_string(),
            format!("nrefs:1|case:mixed|punct:yes|unit:word|version:tx-{version}")
        );
        let bare = ErrorRate { lowercase: true, no_punct: true, ..ErrorRate::new(Unit::Character) };
        assert_eq!(
            bare.corpus_score(&["a"], &["a"]).unwrap().signature.to_string(),
            format!("nrefs:1|case:lc|punct:no|unit:character|version:tx-{version}")
        );
        let score = exact_match(&["a"], &["b"]).unwrap();
        assert_eq!(score.to_string(), "exact match = 0.00 (matches = 0 lines = 1)");
    }
}
