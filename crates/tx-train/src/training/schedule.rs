//! How the learning rate goes, as a function of the update: section 5.3 of the paper and others.

use burn::lr_scheduler::{LrScheduler, LrSchedulerRecord};
use serde::{Deserialize, Serialize};

/// The shape of the learning rate over training. All but `noam` rise linearly to the peak over
/// the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Stays at the peak.
    Constant,
    /// `factor · d_model^-½ · min(step^-½, step · warmup^-1.5)` (equation 3).
    Noam,
    /// `peak · √(warmup / step)`: the same curve, given by its peak.
    InverseSqrt,
    /// Falls in a straight line, to zero one update after the last.
    Linear,
    /// Falls along half a cosine, to zero one update after the last (Loshchilov and Hutter 2017).
    Cosine,
    /// Stays until so many validations found no better model, then is multiplied by a factor, and
    /// so on.
    ReduceOnPlateau,
}

impl Schedule {
    /// Whether the curve is not defined without a warm-up.
    pub fn needs_warmup(self) -> bool {
        matches!(self, Self::Noam | Self::InverseSqrt)
    }
}

/// A schedule with its numbers; Burn's Learner steps it once per update.
#[derive(Debug, Clone)]
pub struct LearningRate {
    /// The shape.
    pub schedule: Schedule,
    /// Peak, or the factor of `noam`.
    pub peak: f64,
    /// Updates until the peak.
    pub warmup_steps: usize,
    /// Updates in all.
    pub total_steps: usize,
    /// Features per token.
    pub d_model: usize,
    /// Updates made.
    pub step: usize,
    /// The product of all reductions so far, for `reduce-on-plateau`.
    pub reduction: f64,
}

impl LearningRate {
    /// The learning rate of update `step`, from 1.
    pub fn at(&self, step: usize) -> f64 {
        let (step, warmup) = (step as f64, self.warmup_steps as f64);
        if self.schedule == Schedule::Noam {
            let scale = (self.d_model as f64).powf(-0.5);
            return self.peak * scale * step.powf(-0.5).min(step * warmup.powf(-1.5));
        }
        if step < warmup {
            return self.peak * step / warmup;
        }
        // Fraction of the decay that is over. It ends after the last update: one with a rate of 0 would
        // change nothing.
        let end = self.total_steps as f64 + 1.0;
        let way = ((step - warmup) / (end - warmup).max(1.0)).min(1.0);
        self.peak
            * match self.schedule {
                Schedule::Constant | Schedule::Noam => 1.0,
                Schedule::ReduceOnPlateau => self.reduction,
                Schedule::InverseSqrt => (warmup / step).sqrt(),
                Schedule::Linear => 1.0 - way,
                Schedule::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * way).cos()),
            }
    }
}

impl LrScheduler for LearningRate {
    fn step(&mut self) -> f64 {
        self.step += 1;
        self.at(self.step)
    }

    fn to_record(&self) -> LrSchedulerRecord {
        LrSchedulerRecord::new()
            .with_scalar("step", self.step as u64)
            .with_scalar("reduction", self.reduction)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        if let Some(step) = record.scalar::<u64>("step") {
            self.step = step as usize;
        }
        if let Some(reduction) = record.scalar::<f64>("reduction") {
            self.reduction = reduction;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(schedule: Schedule) -> LearningRate {
        LearningRate {
            schedule,
            peak: 2.0,
            warmup_steps: 100,
            total_steps: 1_099,
            d_model: 16,
            step: 0,
            reduction: 1.0,
        }
    }

    /// Peak 2, warm-up 100, 1,099 updates, d_model 16:
    ///
    /// ```text
    /// update        50     100    400         600   1,100
    /// constant      1      2      2           2     2
    /// inverse-sqrt  1      2      1           2√⅙   2√(1/11)
    /// linear        1      2      2 · 0.7     1     0
    /// cosine        1      2      1 + cos 0.3π  1   0
    /// noam          2/4 · 50/1000, 2/4 · 1/10, 2/4 · 1/20, 2/4 · 1/√600, …
    /// ```
    #[test]
    fn every_curve_by_hand() {
        let check = |schedule, expected: [f64; 5]| {
            for (step, expected) in [50, 100, 400, 600, 1_100].into_iter().zip(expected) {
                let found = rate(schedule).at(step);
                assert!((found - expected).abs() < 1e-12, "{schedule:?} at {step}: {found}");
            }
        };
        check(Schedule::Constant, [1.0, 2.0, 2.0, 2.0, 2.0]);
        let sqrt = f64::sqrt;
        check(
            Schedule::InverseSqrt,
            [1.0, 2.0, 1.0, 2.0 * sqrt(1.0 / 6.0), 2.0 * sqrt(1.0 / 11.0)],
        );
        check(Schedule::Linear, [1.0, 2.0, 1.4, 1.0, 0.0]);
        let cos = (0.3 * std::f64::consts::PI).cos();
        check(Schedule::Cosine, [1.0, 2.0, 1.0 + cos, 1.0, 0.0]);
        check(Schedule::Noam, [0.025, 0.05, 0.025, 0.5 / sqrt(600.0), 0.5 / sqrt(1_100.0)]);
    }

    /// A run of a single update is its last one, too.
    #[test]
    fn every_update_has_a_rate() {
        for schedule in [Schedule::Linear, Schedule::Cosine] {
            assert!(rate(schedule).at(1_099) > 0.0, "{schedule:?}");
            let one = LearningRate { warmup_steps: 0, total_steps: 1, ..rate(schedule) };
            assert!(one.at(1) > 0.9, "{schedule:?}: {}", one.at(1));
        }
    }

    #[test]
    fn stepping_counts_from_one_and_survives_a_record() {
        let mut first = LearningRate { reduction: 0.25, ..rate(Schedule::ReduceOnPlateau) };
        for _ in 0..30 {
            let _ = LrScheduler::step(&mut first);
        }
        let mut second = rate(Schedule::ReduceOnPlateau);
        second.load_record(first.to_record());
        assert_eq!(LrScheduler::step(&mut second), first.at(31));
        assert_eq!(second.at(200), 0.5);
    }
}
