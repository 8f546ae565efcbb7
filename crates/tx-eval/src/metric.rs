//! `Metric`: statistics per line that add up, and a formula over their sum.

use crate::{Corpus, Score, ScoreError, SegmentStatistics, Signature, real::Single};

/// Release of sacreBLEU whose numbers and signatures are reproduced.
pub(crate) const SACREBLEU_VERSION: &str = "2.6.0";

/// Version in the signature of metrics that sacreBLEU does not have.
pub(crate) const TX_VERSION: &str = concat!("tx-", env!("CARGO_PKG_VERSION"));

/// Metric with its settings: scores a corpus, its lines, or samples of them.
///
/// ```
/// use tx_eval::{Bleu, Chrf, Corpus, Metric, Ter};
///
/// let (hypotheses, references) = (["a cat sat"], [["the cat sat"]]);
/// let corpus = Corpus::new(&hypotheses, &references)?;
/// let metrics: [&dyn Metric; 3] = [&Bleu::default(), &Chrf::default(), &Ter::default()];
/// for metric in metrics {
///     println!("{}", metric.evaluate(&corpus)?);
/// }
/// assert_eq!(Ter::default().evaluate(&corpus)?.to_string(), "TER = 33.33");
/// # Ok::<(), tx_eval::ScoreError>(())
/// ```
///
/// Other crates can add metrics, and get confidence intervals and significance tests for them. A
/// metric needs statistics per line that add up, and a formula over their sum:
///
/// ```
/// use tx_eval::{
///     Corpus, Metric, ScoreError, Signature, SegmentStatistics,
///     confidence::{self, Resampling},
/// };
///
/// /// Characters of the hypotheses in percent of those of the first reference.
/// struct Length;
///
/// impl Metric for Length {
///     fn name(&self) -> String {
///         "length".into()
///     }
///
///     fn higher_is_better(&self) -> bool {
///         true
///     }
///
///     fn signature(&self, n_references: Option<usize>) -> Signature {
///         Signature::new(n_references, vec![("unit", "character".into())], "1.0")
///     }
///
///     fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError> {
///         let len = |line: &str| line.chars().count() as f64;
///         SegmentStatistics::new(corpus, corpus.lines().map(|(hypothesis, references)| {
///             vec![len(hypothesis), len(references[0])]
///         }))
///     }
///
///     fn formula(&self, sum: &[f64]) -> f64 {
///         100.0 * sum[0] / sum[1]
///     }
/// }
///
/// let corpus = Corpus::new(&["ab", "abcd"], &[["abcd", "abcd"]])?;
/// assert_eq!(Length.evaluate(&corpus)?.value, 75.0);
/// let statistics = Length.statistics(&corpus)?;
/// assert_eq!(Length.line_scores(&statistics), [50.0, 100.0]);
/// let found = confidence::estimate(&Length, &statistics, Resampling::BOOTSTRAP)?;
/// assert!((found.interval.mean - 75.0).abs() < 2.0);
/// # Ok::<(), ScoreError>(())
/// ```
pub trait Metric: Send + Sync {
    /// Returns the usual name of the metric, such as `BLEU` or `chrF2++`.
    fn name(&self) -> String;

    /// Returns `true` if a higher score is better.
    fn higher_is_better(&self) -> bool;

    /// Returns the signature of the settings for a corpus with this number of references per line,
    /// or `None` if the number varies.
    fn signature(&self, n_references: Option<usize>) -> Signature;

    /// Computes the statistics of each line.
    ///
    /// # Errors
    ///
    /// If a setting of the metric is out of range.
    fn statistics(&self, corpus: &Corpus<'_>) -> Result<SegmentStatistics, ScoreError>;

    /// Computes the score in percent from statistics summed over lines.
    fn formula(&self, sum: &[f64]) -> f64;

    /// Returns the components of the score as text; may be empty.
    fn verbose(&self, _sum: &[f64]) -> String {
        String::new()
    }

    /// Computes the score of a resample from sums in single precision, as sacreBLEU does with numpy.
    /// `None`, the default, scores resamples by [`formula`](Self::formula) in double precision.
    fn resample_score(&self, _sum: &[f32]) -> Option<ResampleScore> {
        None
    }

    /// Computes the score of the whole corpus.
    fn score(&self, statistics: &SegmentStatistics) -> Score {
        let sum = statistics.sum();
        Score {
            name: self.name(),
            value: self.formula(&sum),
            verbose: self.verbose(&sum),
            signature: self.signature(statistics.n_references()),
        }
    }

    /// Computes the score of each line. BLEU should have
    /// [`effective_order`](crate::Bleu::effective_order) set for this.
    fn line_scores(&self, statistics: &SegmentStatistics) -> Vec<f64> {
        statistics.lines().map(|line| self.formula(line)).collect()
    }

    /// Computes the statistics and the score of a corpus.
    ///
    /// # Errors
    ///
    /// If a setting of the metric is out of range.
    fn evaluate(&self, corpus: &Corpus<'_>) -> Result<Score, ScoreError> {
        Ok(self.score(&self.statistics(corpus)?))
    }
}

/// Score of a resample in the precision of its formula: in single precision unless the formula has a
/// logarithm.
#[derive(Debug, Clone, Copy)]
pub struct ResampleScore(pub(crate) Single);

impl From<f32> for ResampleScore {
    fn from(score: f32) -> Self {
        Self(Single::Float(score))
    }
}

impl From<f64> for ResampleScore {
    fn from(score: f64) -> Self {
        Self(Single::Literal(score))
    }
}

/// Sums as numpy's single-precision numbers.
pub(crate) fn singles<const N: usize>(sum: &[f32]) -> [Single; N] {
    let mut numbers = [Single::Literal(0.0); N];
    for (number, &value) in numbers.iter_mut().zip(sum) {
        *number = Single::Float(value);
    }
    numbers
}
