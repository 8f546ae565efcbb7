//! Confidence intervals by bootstrap resampling: Koehn (2004), "Statistical Significance Tests for
//! Machine Translation Evaluation".
//!
//! A test set is one sample of all possible sentences. Bootstrap resampling creates other samples
//! from it: each one draws as many lines as the test set has, with replacement. The interval
//! contains the scores of 95 % of the samples. Samples are those of sacreBLEU 2.6.0 with numpy 2:
//! the same seed gives the same numbers.
//!
//! ```
//! use tx_eval::{Chrf, Corpus, Metric, confidence::{self, Resampling}};
//!
//! let hypotheses = ["a cat sat", "two dogs", "it rains"];
//! let references = [["the cat sat", "two dogs", "rain falls"]];
//! let chrf = Chrf::default();
//! let statistics = chrf.statistics(&Corpus::new(&hypotheses, &references)?)?;
//! let found = confidence::estimate(&chrf, &statistics, Resampling::BOOTSTRAP)?;
//! assert!(found.interval.mean > 0.0 && found.interval.half_width > 0.0);
//! assert!(found.signature.to_string().starts_with("nrefs:1|bs:1000|seed:12345|"));
//! # Ok::<(), tx_eval::ScoreError>(())
//! ```

use std::{fmt, ops::AddAssign};

use crate::{
    Metric, ScoreError, SegmentStatistics, Signature,
    numpy_random::Pcg64,
    real::{Real, Single, pairwise_sum},
};

/// Number of samples and seed of the random number generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Resampling {
    /// Number of samples.
    pub samples: usize,
    /// Seed of the random number generator.
    pub seed: u64,
}

impl Resampling {
    /// Default seed of sacreBLEU.
    pub const SEED: u64 = 12_345;
    /// Default of sacreBLEU for the bootstrap: 1,000 samples.
    pub const BOOTSTRAP: Self = Self { samples: 1_000, seed: Self::SEED };
    /// Default of sacreBLEU for approximate randomization: 10,000 trials.
    pub const RANDOMIZATION: Self = Self { samples: 10_000, seed: Self::SEED };

    pub(crate) fn check(self) -> Result<(), ScoreError> {
        if self.samples == 0 { Err(ScoreError::NoSamples) } else { Ok(()) }
    }
}

/// Confidence interval of a score: 95 % of the resampled scores.
///
/// `Display` prints `μ = 38.70 ± 0.81`, with two digits or the given precision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Mean of the resampled scores.
    pub mean: f64,
    /// Half the distance between the 2.5th and the 97.5th percentile.
    pub half_width: f64,
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "μ = {:.digits$} ± {:.digits$}", self.mean, self.half_width)
    }
}

/// Confidence interval with its signature.
#[derive(Debug, Clone, PartialEq)]
pub struct Confidence {
    /// Confidence interval.
    pub interval: Interval,
    /// Signature of the metric with the number of samples and the seed.
    pub signature: Signature,
}

/// Estimates the confidence interval of one system's score, as `sacrebleu --confidence`.
///
/// # Errors
///
/// If the number of samples is 0.
pub fn estimate(
    metric: &dyn Metric,
    statistics: &SegmentStatistics,
    resampling: Resampling,
) -> Result<Confidence, ScoreError> {
    resampling.check()?;
    let scores =
        Scores::draw(metric, statistics, resampling.samples, &mut Pcg64::new(resampling.seed));
    let Resampling { samples, seed } = resampling;
    let signature = metric
        .signature(statistics.n_references())
        .resampled(&[("bs", samples.to_string()), ("seed", seed.to_string())]);
    Ok(Confidence { interval: scores.interval(Mean::Exact), signature })
}

/// Scores of samples, in numpy's precision.
pub(crate) struct Scores {
    values: Vec<Single>,
    /// Whether all values are 32-bit floats; one other value makes the array 64-bit.
    single: bool,
}

/// Draws as many rows of `columns` numbers as `rows` has, with replacement, and returns their sum.
fn drawn_sum<N: Copy + Default + AddAssign>(
    rows: &[N],
    columns: usize,
    random: &mut Pcg64,
) -> Vec<N> {
    let count = rows.len() / columns;
    let mut sum = vec![N::default(); columns];
    for _ in 0..count {
        let row = random.below(count as u32) as usize * columns;
        sum.iter_mut().zip(&rows[row..]).for_each(|(total, &value)| *total += value);
    }
    sum
}

/// Rounding of the mean of an array of 32-bit floats.
#[derive(Clone, Copy)]
pub(crate) enum Mean {
    /// Rounded once, at the end, as in Python's `statistics.mean`.
    Exact,
    /// Rounded after each addition, as in numpy's `mean`.
    Pairwise,
}

impl Scores {
    /// Draws samples of the size of the corpus and scores each.
    pub(crate) fn draw(
        metric: &dyn Metric,
        statistics: &SegmentStatistics,
        samples: usize,
        random: &mut Pcg64,
    ) -> Self {
        let columns = statistics.sum().len();
        let doubles: Vec<f64> = statistics.lines().flatten().copied().collect();
        let singles: Vec<f32> = doubles.iter().map(|&value| value as f32).collect();
        let values = (0..samples)
            .map(|_| {
                // Metrics of sacreBLEU sum in single precision, as sacreBLEU does.
                let mut before = random.clone();
                let sum = drawn_sum(&singles, columns, random);
                match metric.resample_score(&sum) {
                    Some(score) => score.0,
                    None => {
                        let sum = drawn_sum(&doubles, columns, &mut before);
                        Single::Literal(metric.formula(&sum))
                    }
                }
            })
            .collect();
        Self::new(values)
    }

    pub(crate) fn new(values: Vec<Single>) -> Self {
        let single = values.iter().all(|value| matches!(value, Single::Float(_)));
        Self { values, single }
    }

    /// Rounds a value to the precision of the array.
    fn number(&self, value: f64) -> Single {
        if self.single { Single::Float(value as f32) } else { Single::Literal(value) }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = f64> {
        self.values.iter().map(|value| value.double())
    }

    pub(crate) fn mean(&self, mean: Mean) -> f64 {
        let sum = match mean {
            Mean::Exact => self.iter().sum(),
            Mean::Pairwise => {
                let values: Vec<Single> = self.iter().map(|value| self.number(value)).collect();
                pairwise_sum(self.number(0.0), &values).double()
            }
        };
        self.number(sum / self.values.len() as f64).double()
    }

    pub(crate) fn interval(&self, mean: Mean) -> Interval {
        let mut values = self.values.clone();
        values.sort_by(|a, b| a.double().total_cmp(&b.double()));
        // 2.5 %, one value in 40, lie outside on each side.
        let outside = values.len() / 40;
        let width = values[values.len() - 1 - outside].double() - values[outside].double();
        let half_width = 0.5 * self.number(width).double();
        // numpy sums the sorted values.
        let sorted = Self { values, single: self.single };
        Interval { mean: sorted.mean(mean), half_width }
    }

    /// Returns the absolute differences in numpy's precision.
    pub(crate) fn distances(&self, other: &Self) -> Self {
        let single = self.single && other.single;
        let values = self
            .iter()
            .zip(other.iter())
            .map(|(a, b)| {
                let distance = (a - b).abs();
                if single { Single::Float(distance as f32) } else { Single::Literal(distance) }
            })
            .collect();
        Self { values, single }
    }

    /// Returns the number of values that exceed the mean of all values by more than `bound`.
    pub(crate) fn above_mean_by(&self, bound: f64) -> usize {
        let mean = self.mean(Mean::Pairwise);
        let bound = self.number(bound);
        self.iter().filter(|value| self.number(value - mean) > bound).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chrf, Corpus, ExactMatch};

    /// Forty scores 0…39: one is outside on each side, so the half width is half of 38 − 1.
    #[test]
    fn one_of_forty_is_outside_on_each_side() {
        let scores = Scores::new((0..40).rev().map(|n| Single::Float(n as f32)).collect());
        for mean in [Mean::Exact, Mean::Pairwise] {
            assert_eq!(scores.interval(mean), Interval { mean: 19.5, half_width: 18.5 });
        }
        let scores = Scores::new((0..39).map(|n| Single::Literal(n.into())).collect());
        assert_eq!(scores.interval(Mean::Exact).half_width, 19.0);
    }

    #[test]
    fn constant_scores_have_an_interval_of_zero() {
        let corpus = Corpus::new(&["a", "b", "c"], &[["a", "b", "c"]]).unwrap();
        let statistics = ExactMatch.statistics(&corpus).unwrap();
        let found = estimate(&ExactMatch, &statistics, Resampling::BOOTSTRAP).unwrap();
        assert_eq!(found.interval, Interval { mean: 100.0, half_width: 0.0 });
        assert_eq!(found.interval.to_string(), "μ = 100.00 ± 0.00");
        assert!(found.signature.to_string().starts_with("nrefs:1|bs:1000|seed:12345|case:mixed|"));
    }

    #[test]
    fn zero_samples_are_rejected() {
        let corpus = Corpus::new(&["a"], &[["a"]]).unwrap();
        let statistics = Chrf::default().statistics(&corpus).unwrap();
        let none = Resampling { samples: 0, ..Resampling::BOOTSTRAP };
        let error = estimate(&Chrf::default(), &statistics, none).unwrap_err();
        assert_eq!(error, ScoreError::NoSamples);
    }
}
