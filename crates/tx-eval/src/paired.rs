//! Whether one system is better than another, or was lucky: two tests that compare both on the same
//! lines. Figures are those of sacreBLEU 2.6.0 with numpy 2, from the same seed.
//!
//! The p-value is about how likely the difference found, or a greater one, would be if the two
//! systems were equally good. Below 0.05 it is called significant. It says nothing about how large
//! the difference is.
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
//! // sacreBLEU says 0.0300 and 0.2478: three lines are few.
//! assert_eq!(found.systems[1].p_value, Some(30.0 / 1_001.0));
//! let found = paired::randomization(&chrf, &systems, Resampling::RANDOMIZATION, None)?;
//! assert_eq!(found.systems[1].p_value, Some(2_478.0 / 10_001.0));
//! # Ok::<(), tx_eval::ScoreError>(())
//! ```

use crate::{
    Metric, ScoreError, Signature, Statistics,
    confidence::{Interval, Mean, Resampling, Scores},
    numpy_random::Pcg64,
};

/// Systems compared with the first of them, the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// The baseline and the others, in the order given.
    pub systems: Vec<Compared>,
    /// The metric's signature with the numbers of samples and the seed.
    pub signature: Signature,
}

/// A system beside the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The score in percent.
    pub score: f64,
    /// How likely the difference to the baseline is by chance; nothing for the baseline itself.
    pub p_value: Option<f64>,
    /// Where the true score is likely to be, if that was asked for.
    pub interval: Option<Interval>,
}

/// Paired bootstrap resampling (Koehn 2004), `sacrebleu --paired-bs`: draws the same lines for both
/// systems, and looks how often their difference is as far from its mean as the one found is from 0.
///
/// # Errors
///
/// When no sample is asked for, there is no system, or their numbers of lines differ.
pub fn bootstrap(
    metric: &dyn Metric,
    systems: &[Statistics],
    resampling: Resampling,
) -> Result<Paired, ScoreError> {
    resampling.check()?;
    let baseline = check_systems(systems)?;
    let draw = |statistics| {
        Scores::draw(metric, statistics, resampling.samples, &mut Pcg64::new(resampling.seed))
    };
    let value = |statistics: &Statistics| metric.formula(&statistics.sum());

    let (baseline_score, baseline_samples) = (value(baseline), draw(baseline));
    let mut compared = vec![Compared {
        score: baseline_score,
        p_value: None,
        interval: Some(baseline_samples.interval(Mean::Pairwise)),
    }];
    for system in &systems[1..] {
        let (score, samples) = (value(system), draw(system));
        let difference = (baseline_score - score).abs();
        let above = samples.distances(&baseline_samples).above_mean_by(difference);
        compared.push(Compared {
            score,
            p_value: Some(p_value(above, resampling.samples)),
            interval: Some(samples.interval(Mean::Pairwise)),
        });
    }
    let Resampling { samples, seed } = resampling;
    let signature = metric
        .signature(baseline.n_references())
        .resampled(&[("bs", samples.to_string()), ("seed", seed.to_string())]);
    Ok(Paired { systems: compared, signature })
}

/// Approximate randomization (Riezler & Maxwell 2005, "On Some Pitfalls in Automatic Evaluation and
/// Significance Testing for MT"), `sacrebleu --paired-ar`: swaps the lines of both systems by the
/// toss of a coin, and looks how often the two mixtures differ more than the systems do.
///
/// `interval_samples`, if any, draws as many samples for confidence intervals too.
///
/// # Errors
///
/// When no trial or sample is asked for, there is no system, or their numbers of lines differ.
pub fn randomization(
    metric: &dyn Metric,
    systems: &[Statistics],
    trials: Resampling,
    interval_samples: Option<usize>,
) -> Result<Paired, ScoreError> {
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

    let mut compared = vec![Compared {
        score: baseline_score,
        p_value: None,
        interval: interval(baseline, &mut Pcg64::new(trials.seed)),
    }];
    for system in &systems[1..] {
        let mut random = Pcg64::new(trials.seed);
        let sum = system.sum();
        let score = metric.formula(&sum);
        let difference = (baseline_score - score).abs();
        // What a line adds to the system's sum, and takes from the baseline's, when it is swapped.
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
        compared.push(Compared {
            score,
            p_value: Some(p_value(above, trials.samples)),
            interval: interval(system, &mut random),
        });
    }
    let mut keys = Vec::new();
    keys.extend(interval_samples.map(|samples| ("bs", samples.to_string())));
    keys.extend([("ar", trials.samples.to_string()), ("seed", trials.seed.to_string())]);
    let signature = metric.signature(baseline.n_references()).resampled(&keys);
    Ok(Paired { systems: compared, signature })
}

/// Among so many samples, and one more: the difference found itself.
fn p_value(above: usize, samples: usize) -> f64 {
    (above as f64 + 1.0) / (samples as f64 + 1.0)
}

/// The baseline, if all have as many lines.
fn check_systems(systems: &[Statistics]) -> Result<&Statistics, ScoreError> {
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
    use crate::{Corpus, Exact};

    const REFERENCE: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    fn statistics(hypotheses: &[&str]) -> Statistics {
        let references = &REFERENCE[..hypotheses.len()];
        Exact.statistics(&Corpus::new(hypotheses, &[references]).unwrap()).unwrap()
    }

    fn both(systems: &[Statistics]) -> [Paired; 2] {
        [
            bootstrap(&Exact, systems, Resampling::BOOTSTRAP).unwrap(),
            randomization(&Exact, systems, Resampling::RANDOMIZATION, None).unwrap(),
        ]
    }

    /// No mixture of the two differs more than they do, nor does any sample.
    #[test]
    fn all_right_against_all_wrong_is_no_chance() {
        let systems = [statistics(&["x"; 8]), statistics(&REFERENCE)];
        let [bootstrap, randomization] = both(&systems);
        assert_eq!(bootstrap.systems[1].p_value, Some(1.0 / 1_001.0));
        assert_eq!(randomization.systems[1].p_value, Some(1.0 / 10_001.0));
        assert_eq!((randomization.systems[0].score, randomization.systems[1].score), (0.0, 100.0));
    }

    /// A difference of nothing is never exceeded by nothing.
    #[test]
    fn a_system_does_not_differ_from_itself() {
        let half = statistics(&["a", "x", "c", "x"]);
        for paired in both(&[half.clone(), half]) {
            let p_value = paired.systems[1].p_value.unwrap();
            assert!(p_value < 0.001, "sacreBLEU has it so too: {p_value}");
        }
    }

    /// One right line in two, the first or the second: the systems do not differ, and of four ways
    /// to swap two differ by all. So p is about one half.
    #[test]
    fn a_difference_by_chance_is_likely() {
        let systems = [statistics(&["a", "x"]), statistics(&["x", "b"])];
        let [_, randomization] = both(&systems);
        let p_value = randomization.systems[1].p_value.unwrap();
        assert!((p_value - 0.5).abs() < 0.02, "{p_value}");
    }

    #[test]
    fn systems_must_have_as_many_lines() {
        let systems = [statistics(&["a", "b"]), statistics(&["a"])];
        let error = bootstrap(&Exact, &systems, Resampling::BOOTSTRAP).unwrap_err();
        assert_eq!(error, ScoreError::UnequalSystems { baseline: 2, system: 1 });
        assert_eq!(error.to_string(), "the baseline has 2 lines, but the system has 1");
        let error = randomization(&Exact, &systems, Resampling::RANDOMIZATION, None).unwrap_err();
        assert_eq!(error, ScoreError::UnequalSystems { baseline: 2, system: 1 });
    }

    #[test]
    fn signatures_say_what_was_drawn() {
        let systems = [statistics(&["a"]), statistics(&["a"])];
        let found = randomization(&Exact, &systems, Resampling::RANDOMIZATION, Some(7)).unwrap();
        assert!(
            found.signature.to_string().starts_with("nrefs:1|bs:7|ar:10000|seed:12345|case:mixed|")
        );
    }
}
