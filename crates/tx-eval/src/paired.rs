//! Significance tests: two tests that compare systems with a baseline on the same lines. Results
//! are those of sacreBLEU 2.6.0 with numpy 2, for the same seed.
//!
//! The p-value approximates the probability of a difference at least as large as the observed one
//! if the systems were equally good. Below 0.05 a difference is called significant. The p-value
//! does not measure the size of the difference.
//!
//! ```
//! use tx_eval::{Chrf, Corpus, Metric, confidence::Resampling, paired};
//!
//! let references = [["the cat sat", "two dogs", "rain falls"]];
//! let chrf = Chrf::default();
//! let statistics = |hypotheses| chrf.statistics(&Corpus::new(hypotheses, &references)?);
//! let baseline = statistics(&["a cat sat", "two dogs", "it rains"])?;
//! let system = statistics(&["the cat sat", "dogs", "rain falls"])?;
//! let systems = [baseline, system];
//! let found = paired::bootstrap(&chrf, &systems, Resampling::BOOTSTRAP)?;
//! assert_eq!(found.systems[0].p_value, None);
//! // sacreBLEU gives 0.0300 and 0.2478.
//! assert_eq!(found.systems[1].p_value, Some(30.0 / 1_001.0));
//! let found = paired::randomization(&chrf, &systems, Resampling::RANDOMIZATION, None)?;
//! assert_eq!(found.systems[1].p_value, Some(2_478.0 / 10_001.0));
//! # Ok::<(), tx_eval::ScoreError>(())
//! ```

use crate::{
    Metric, ScoreError, SegmentStatistics, Signature,
    confidence::{Interval, Mean, Resampling, Scores},
    numpy_random::Pcg64,
};

/// Systems compared with the first of them, the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Baseline and other systems, in the given order.
    pub systems: Vec<SystemResult>,
    /// Signature of the metric with the numbers of samples and the seed.
    pub signature: Signature,
}

/// Score of one system, compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SystemResult {
    /// Score in percent.
    pub score: f64,
    /// p-value of the difference to the baseline; `None` for the baseline itself.
    pub p_value: Option<f64>,
    /// Confidence interval of the score, if requested.
    pub interval: Option<Interval>,
}

/// Runs paired bootstrap resampling (Koehn 2004), as `sacrebleu --paired-bs`: draws the same lines
/// for both systems, and counts the samples whose difference exceeds the mean difference by more
/// than the observed difference.
///
/// # Errors
///
/// If the number of samples is 0, there is no system, or line counts differ.
pub fn bootstrap(
    metric: &dyn Metric,
    systems: &[SegmentStatistics],
    resampling: Resampling,
) -> Result<Comparison, ScoreError> {
    resampling.check()?;
    let baseline = check_systems(systems)?;
    let draw = |statistics| {
        Scores::draw(metric, statistics, resampling.samples, &mut Pcg64::new(resampling.seed))
    };
    let value = |statistics: &SegmentStatistics| metric.formula(&statistics.sum());

    let (baseline_score, baseline_samples) = (value(baseline), draw(baseline));
    let mut compared = vec![SystemResult {
        score: baseline_score,
        p_value: None,
        interval: Some(baseline_samples.interval(Mean::Pairwise)),
    }];
    for system in &systems[1..] {
        let (score, samples) = (value(system), draw(system));
        let difference = (baseline_score - score).abs();
        let above = samples.distances(&baseline_samples).above_mean_by(difference);
        compared.push(SystemResult {
            score,
            p_value: Some(p_value(above, resampling.samples)),
            interval: Some(samples.interval(Mean::Pairwise)),
        });
    }
    let Resampling { samples, seed } = resampling;
    let signature = metric
        .signature(baseline.n_references())
        .resampled(&[("bs", samples.to_string()), ("seed", seed.to_string())]);
    Ok(Comparison { systems: compared, signature })
}

/// Runs approximate randomization (Riezler & Maxwell 2005, "On Some Pitfalls in Automatic
/// Evaluation and Significance Testing for MT"), as `sacrebleu --paired-ar`: swaps each line of the
/// two systems with probability 1/2, and counts the trials whose difference exceeds the observed
/// one.
///
/// `interval_samples`, if given, is the number of bootstrap samples for confidence intervals.
///
/// # Errors
///
/// If the number of trials or samples is 0, there is no system, or line counts differ.
pub fn randomization(
    metric: &dyn Metric,
    systems: &[SegmentStatistics],
    trials: Resampling,
    interval_samples: Option<usize>,
) -> Result<Comparison, ScoreError> {
    trials.check()?;
    if interval_samples == Some(0) {
        return Err(ScoreError::NoSamples);
    }
    let baseline = check_systems(systems)?;
    let baseline_sum = baseline.sum();
    let baseline_score = metric.formula(&baseline_sum);
    let interval = |statistics, random: &mut Pcg64| {
        interval_samples.map(|samples| {
            Scores::draw(metric, statistics, samples, random).interval(Mean::Pairwise)
        })
    };

    let mut compared = vec![SystemResult {
        score: baseline_score,
        p_value: None,
        interval: interval(baseline, &mut Pcg64::new(trials.seed)),
    }];
    for system in &systems[1..] {
        let mut random = Pcg64::new(trials.seed);
        let sum = system.sum();
        let score = metric.formula(&sum);
        let difference = (baseline_score - score).abs();
        // Change of the system's sum, and with opposite sign of the baseline's, if a line is
        // swapped.
        let swaps: Vec<Vec<f64>> = baseline
            .lines()
            .zip(system.lines())
            .map(|(baseline, system)| baseline.iter().zip(system).map(|(b, s)| b - s).collect())
            .collect();
        let mut mixed = sum.clone();
        let mut other = sum.clone();
        let mut toss = random.booleans();
        let mut above = 0;
        for _ in 0..trials.samples {
            mixed.copy_from_slice(&sum);
            for swap in &swaps {
                if toss() {
                    for (total, change) in mixed.iter_mut().zip(swap) {
                        *total += change;
                    }
                }
            }
            for (index, other) in other.iter_mut().enumerate() {
                *other = baseline_sum[index] + (sum[index] - mixed[index]);
            }
            above +=
                usize::from((metric.formula(&mixed) - metric.formula(&other)).abs() > difference);
        }
        drop(toss);
        compared.push(SystemResult {
            score,
            p_value: Some(p_value(above, trials.samples)),
            interval: interval(system, &mut random),
        });
    }
    let mut keys = Vec::new();
    keys.extend(interval_samples.map(|samples| ("bs", samples.to_string())));
    keys.extend([("ar", trials.samples.to_string()), ("seed", trials.seed.to_string())]);
    let signature = metric.signature(baseline.n_references()).resampled(&keys);
    Ok(Comparison { systems: compared, signature })
}

/// p-value of `above` out of `samples`; the observed difference counts as one more sample.
fn p_value(above: usize, samples: usize) -> f64 {
    (above as f64 + 1.0) / (samples as f64 + 1.0)
}

/// Returns the baseline if all systems have the same number of lines.
fn check_systems(systems: &[SegmentStatistics]) -> Result<&SegmentStatistics, ScoreError> {
    let baseline = systems.first().ok_or(ScoreError::NoLines)?;
    for system in systems {
        let (baseline, system) = (baseline.len(), system.len());
        if baseline != system {
            return Err(ScoreError::UnequalSystems { baseline, system });
        }
    }
    Ok(baseline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Corpus, ExactMatch};

    const REFERENCE: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    fn statistics(hypotheses: &[&str]) -> SegmentStatistics {
        let references = &REFERENCE[..hypotheses.len()];
        ExactMatch.statistics(&Corpus::new(hypotheses, &[references]).unwrap()).unwrap()
    }

    fn both(systems: &[SegmentStatistics]) -> [Comparison; 2] {
        [
            bootstrap(&ExactMatch, systems, Resampling::BOOTSTRAP).unwrap(),
            randomization(&ExactMatch, systems, Resampling::RANDOMIZATION, None).unwrap(),
        ]
    }

    /// No swap and no sample gives a larger difference than the observed one.
    #[test]
    fn all_right_against_all_wrong_is_significant() {
        let systems = [statistics(&["x"; 8]), statistics(&REFERENCE)];
        let [bootstrap, randomization] = both(&systems);
        assert_eq!(bootstrap.systems[1].p_value, Some(1.0 / 1_001.0));
        assert_eq!(randomization.systems[1].p_value, Some(1.0 / 10_001.0));
        assert_eq!((randomization.systems[0].score, randomization.systems[1].score), (0.0, 100.0));
    }

    /// A difference of 0 is never exceeded.
    #[test]
    fn a_system_does_not_differ_from_itself() {
        let half = statistics(&["a", "x", "c", "x"]);
        for paired in both(&[half.clone(), half]) {
            let p_value = paired.systems[1].p_value.unwrap();
            assert!(p_value < 0.001, "sacreBLEU gives the same: {p_value}");
        }
    }

    /// One correct line of two, the first or the second: the systems have equal scores, and two of
    /// the four possible swaps give the maximum difference. So p is about one half.
    #[test]
    fn a_difference_by_chance_is_likely() {
        let systems = [statistics(&["a", "x"]), statistics(&["x", "b"])];
        let [_, randomization] = both(&systems);
        let p_value = randomization.systems[1].p_value.unwrap();
        assert!((p_value - 0.5).abs() < 0.02, "{p_value}");
    }

    #[test]
    fn systems_must_have_equal_line_counts() {
        let systems = [statistics(&["a", "b"]), statistics(&["a"])];
        let error = bootstrap(&ExactMatch, &systems, Resampling::BOOTSTRAP).unwrap_err();
        assert_eq!(error, ScoreError::UnequalSystems { baseline: 2, system: 1 });
        assert_eq!(error.to_string(), "the baseline has 2 lines, but the system has 1");
        let error =
            randomization(&ExactMatch, &systems, Resampling::RANDOMIZATION, None).unwrap_err();
        assert_eq!(error, ScoreError::UnequalSystems { baseline: 2, system: 1 });
    }

    #[test]
    fn signatures_contain_the_numbers_of_samples() {
        let systems = [statistics(&["a"]), statistics(&["a"])];
        let found =
            randomization(&ExactMatch, &systems, Resampling::RANDOMIZATION, Some(7)).unwrap();
        assert!(
            found.signature.to_string().starts_with("nrefs:1|bs:7|ar:10000|seed:12345|case:mixed|")
        );
    }
}
