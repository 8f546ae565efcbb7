//! TER: Snover et al. (2006), "A Study of Translation Edit Rate with Targeted Human Annotation".
//!
//! ```text
//! TER = edits / words of the reference, over all lines
//! ```
//!
//! Edits are insertions, deletions and substitutions of words, and shifts of a word sequence to
//! another position; each counts one. Finding the minimum number of edits with shifts is
//! NP-complete, so Tercom, the original program, searches greedily within limits, and its search is
//! part of the definition. With several references, each line takes the fewest edits and the mean
//! length.

use std::fmt;

use crate::{
    Corpus, Metric, ReferenceLine, Score, ScoreError, SegmentStatistics, Signature,
    metric::{ResampleScore, SACREBLEU_VERSION},
    ngram::Vocabulary,
    real::{Real, Single},
    tokenizer::{is_space, words},
};

mod edit_distance;
mod shift;
mod tercom;

/// Corpus TER and its settings. The default is sacreBLEU's: lower case, words separated by white
/// space.
///
/// ```
/// use tx_eval::Ter;
///
/// // One shift of "on the mat": 1 edit for 6 words.
/// let ter = Ter::default().corpus_score(&["on the mat sat the cat"], &[["sat the cat on the mat"]])?;
/// assert_eq!(ter.to_string(), "TER = 16.67");
/// assert_eq!(
///     ter.signature.to_string(),
///     "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:2.6.0",
/// );
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ter {
    /// Split off Western punctuation and unescape XML entities. Shown as `norm:yes`.
    pub normalized: bool,
    /// Remove punctuation. Shown as `punct:no`.
    pub no_punct: bool,
    /// Split Chinese characters and punctuation if text is [`normalized`](Self::normalized), and
    /// remove East Asian punctuation too with [`no_punct`](Self::no_punct). No effect without one
    /// of the two. Shown as `asian:yes`.
    pub asian_support: bool,
    /// Compare case-sensitively. Shown as `case:mixed`.
    pub case_sensitive: bool,
}

impl Ter {
    /// Scores a corpus against one or more references.
    ///
    /// `references` is a list of references, each with one line per hypothesis.
    ///
    /// # Errors
    ///
    /// If line counts differ, or there is no line or no reference.
    pub fn corpus_score<H, R, L>(
        &self,
        hypotheses: &[H],
        references: &[R],
    ) -> Result<TerScore, ScoreError>
    where
        H: AsRef<str>,
        R: AsRef<[L]>,
        L: ReferenceLine,
    {
        let statistics = self.statistics(&Corpus::new(hypotheses, references)?)?;
        let sum = statistics.sum();
        Ok(TerScore {
            score: self.formula(&sum),
            edits: sum[0] as usize,
            reference_len: sum[1],
            signature: self.signature(statistics.n_references()),
        })
    }

    /// Scores one sentence against its references.
    ///
    /// # Errors
    ///
    /// If there is no reference.
    pub fn sentence_score<R: ReferenceLine>(
        &self,
        hypothesis: &str,
        references: &[R],
    ) -> Result<TerScore, ScoreError> {
        let references: Vec<&[R]> = references.chunks(1).collect();
        self.corpus_score(&[hypothesis], &references)
    }

    /// Word ids of one hypothesis.
    fn words(&self, line: &str, vocabulary: &mut Vocabulary) -> Vec<u32> {
        let text = tercom::tokenize(self, line.trim_end_matches(is_space));
        words(&text).map(|word| vocabulary.id(word)).collect()
    }

    /// Word ids of one reference. sacreBLEU tokenizes references twice, and the second pass splits
    /// marks such as those of `,.5` once more.
    fn reference_words(&self, line: &str, vocabulary: &mut Vocabulary) -> Vec<u32> {
        if !self.normalized {
            return self.words(line, vocabulary);
        }
        let text = tercom::tokenize(self, line.trim_end_matches(is_space));
        self.words(&words(&text).collect::<Vec<_>>().join(" "), vocabulary)
    }

    fn value<N: Real>(&self, [edits, reference_len]: [N; 2]) -> N {
        let zero = N::literal(0.0);
        let rate = if reference_len > zero {
            edits / reference_len
        } else {
            N::literal(if edits > zero { 1.0 } else { 0.0 })
        };
        N::literal(100.0) * rate
    }
}

impl Metric for Ter {
    fn name(&self) -> String {
        "TER".to_owned()
    }

    fn higher_is_better(&self) -> bool {
        false
    }

    fn signature(&self, n_references: Option<usize>) -> Signature {
        let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let pairs = vec![
            ("case", if self.case_sensitive { "mixed" } else { "lc" }.to_owned()),
            ("tok", "tercom".to_owned()),
            ("norm", yes_or_no(self.normalized)),
            ("punct", yes_or_no(!self.no_punct)),
            ("asian", yes_or_no(self.asian_support)),
        ];
        Signature::new(n_references, pairs, SACREBLEU_VERSION)
    }

    fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError> {
        let statistics =
            corpus.statistics(2, Vocabulary::default, |vocabulary, hypothesis, references, row| {
                vocabulary.clear();
                let hypothesis = self.words(hypothesis, vocabulary);
                let mut fewest = usize::MAX;
                let mut length = 0;
                for reference in references {
                    let reference = self.reference_words(reference, vocabulary);
                    fewest = fewest.min(shift::edits(&hypothesis, &reference));
                    length += reference.len();
                }
                row[0] = fewest as f64;
                row[1] = length as f64 / references.len() as f64;
            });
        Ok(statistics)
    }

    fn formula(&self, sum: &[f64]) -> f64 {
        self.value([sum[0], sum[1]])
    }

    fn resample_score(&self, sum: &[f32]) -> Option<ResampleScore> {
        Some(ResampleScore(self.value([Single::Float(sum[0]), Single::Float(sum[1])])))
    }
}

/// Corpus TER with its components.
///
/// `Display` prints sacreBLEU's line, with two digits or the given precision.
#[derive(Debug, Clone, PartialEq)]
pub struct TerScore {
    /// `edits / reference_len` in percent; may exceed 100. If no reference contains a word, 100
    /// with edits and 0 without.
    pub score: f64,
    /// Insertions, deletions, substitutions and shifts over all lines.
    pub edits: usize,
    /// Words of the references; for several references, the sum over lines of the mean length.
    pub reference_len: f64,
    /// sacreBLEU's signature for these settings.
    pub signature: Signature,
}

impl TerScore {
    /// Returns the result in the format shared by all metrics.
    pub fn summary(&self) -> Score {
        Score {
            name: "TER".to_owned(),
            value: self.score,
            verbose: String::new(),
            signature: self.signature.clone(),
        }
    }
}

impl fmt::Display for TerScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.summary().fmt(f)
    }
}

#[cfg(test)]
mod tests;
