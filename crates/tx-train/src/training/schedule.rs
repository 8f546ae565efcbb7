//! Learning rate of each update: section 5.3 of the paper and other schedules.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::lr_scheduler::{LrScheduler, LrSchedulerRecord};

use crate::config::{Budget, Schedule, TrainConfig};

/// Learning rate as a function of the update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve {
    /// Shape of the curve.
    pub schedule: Schedule,
    /// Peak, or the factor of `noam`.
    pub peak: f64,
    /// Updates until the peak.
    pub warmup_steps: usize,
    /// Updates of the whole run.
    pub total_steps: usize,
    /// Features per token.
    pub d_model: usize,
    /// Parameters of the curves that fall to a minimum.
    pub decay: Decay,
}

/// Parameters of `linear`, `polynomial` and `cosine`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decay {
    /// Learning rate at the end.
    pub minimum: f64,
    /// Exponent of `polynomial`.
    pub power: f64,
    /// Updates from the warm-up to the first restart of `cosine`; `None` without restarts.
    pub restart_steps: Option<usize>,
    /// Factor of the length of each period between restarts, at least 1.
    pub restart_factor: f64,
}

impl Default for Decay {
    /// A decay to zero without restarts.
    fn default() -> Self {
        Self { minimum: 0.0, power: 1.0, restart_steps: None, restart_factor: 1.0 }
    }
}

impl Decay {
    /// Returns the part of the current period of `cosine` that is over, `after` updates from the
    /// warm-up on; `None` without restarts.
    fn period_over(&self, after: f64) -> Option<f64> {
        let (mut length, mut after) = (self.restart_steps? as f64, after);
        if self.restart_factor <= 1.0 {
            return Some(after % length / length);
        }
        while after >= length {
            after -= length;
            length *= self.restart_factor;
        }
        Some(after / length)
    }
}

impl Curve {
    /// Returns the learning rate of update `step`, from 1. `reduction` is the product of all
    /// reductions so far, which only `reduce-on-plateau` applies.
    pub fn at(&self, step: usize, reduction: f64) -> f64 {
        let (step, warmup) = (step as f64, self.warmup_steps as f64);
        if self.schedule == Schedule::Noam {
            let scale = (self.d_model as f64).powf(-0.5);
            return self.peak * scale * step.powf(-0.5).min(step * warmup.powf(-1.5));
        }
        if self.schedule == Schedule::RangeTest {
            let done = (step - 1.0) / (self.total_steps as f64 - 1.0).max(1.0);
            return self.decay.minimum * (self.peak / self.decay.minimum).powf(done.min(1.0));
        }
        if step < warmup {
            return self.peak * step / warmup;
        }
        // The decay reaches the minimum one update after the last, because an update with a rate of
        // 0 would have no effect.
        let end = self.total_steps as f64 + 1.0;
        let decayed = ((step - warmup) / (end - warmup).max(1.0)).min(1.0);
        let falling = |part: f64| self.decay.minimum + (self.peak - self.decay.minimum) * part;
        match self.schedule {
            Schedule::Constant | Schedule::Noam | Schedule::RangeTest => self.peak,
            Schedule::ReduceOnPlateau => self.peak * reduction,
            Schedule::InverseSqrt => self.peak * (warmup / step).sqrt(),
            Schedule::Linear => falling(1.0 - decayed),
            Schedule::Polynomial => falling((1.0 - decayed).powf(self.decay.power)),
            Schedule::Cosine => {
                let over = self.decay.period_over(step - warmup).unwrap_or(decayed);
                falling(0.5 * (1.0 + (std::f64::consts::PI * over).cos()))
            }
        }
    }
}

/// Learning rate of a run, the only source of the rate of an update.
///
/// Clones share their state. Burn's Learner holds one, steps it before each update, and saves and
/// restores it with checkpoints; the training loop reads another and reduces it at a plateau.
#[derive(Debug, Clone)]
pub struct LearningRate {
    curve: Curve,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Updates made.
    step: usize,
    /// Product of all reductions so far.
    reduction: f64,
}

impl LearningRate {
    /// Starts before the first update of `curve`.
    pub fn new(curve: Curve) -> Self {
        Self { curve, state: Arc::new(Mutex::new(State { step: 0, reduction: 1.0 })) }
    }

    /// Starts before the first update of a run with `config` and `budget`.
    pub(crate) fn of_run(config: &TrainConfig, budget: &Budget) -> Self {
        Self::new(Curve {
            schedule: config.train.schedule,
            peak: config.train.learning_rate,
            warmup_steps: config.train.warmup_steps,
            total_steps: budget.steps(),
            d_model: config.model.d_model,
            decay: Decay {
                minimum: config.train.min_learning_rate,
                power: config.train.decay_power,
                restart_steps: config.train.restart_steps,
                restart_factor: config.train.restart_factor,
            },
        })
    }

    /// Returns the learning rate of the last update.
    pub fn of_last_update(&self) -> f64 {
        let State { step, reduction } = *self.state();
        self.curve.at(step, reduction)
    }

    /// Returns the learning rate of the next update.
    pub fn of_next_update(&self) -> f64 {
        let State { step, reduction } = *self.state();
        self.curve.at(step + 1, reduction)
    }

    /// Multiplies the curve of `reduce-on-plateau` by `reduction` from the next update on, instead
    /// of the reductions before.
    pub fn set_reduction(&self, reduction: f64) {
        self.state().reduction = reduction;
    }

    /// Locks the state. Poisoning is ignored, because a panic cannot leave it half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LrScheduler for LearningRate {
    fn step(&mut self) -> f64 {
        self.state().step += 1;
        self.of_last_update()
    }

    fn to_record(&self) -> LrSchedulerRecord {
        let State { step, reduction } = *self.state();
        LrSchedulerRecord::new()
            .with_scalar("step", step as u64)
            .with_scalar("reduction", reduction)
    }

    fn load_record(&mut self, record: LrSchedulerRecord) {
        let mut state = self.state();
        if let Some(step) = record.scalar::<u64>("step") {
            state.step = step as usize;
        }
        if let Some(reduction) = record.scalar::<f64>("reduction") {
            state.reduction = reduction;
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::lr_scheduler::module_lr_scheduler::ModuleLrScheduler;

    use super::*;

    fn curve(schedule: Schedule) -> Curve {
        let decay = Decay::default();
        Curve { schedule, peak: 2.0, warmup_steps: 100, total_steps: 1_099, d_model: 16, decay }
    }

    /// From 1e-4 to 1 in 5 updates: a factor of 10 for each.
    #[test]
    fn a_range_test_grows_geometrically() {
        let decay = Decay { minimum: 1e-4, ..Decay::default() };
        let curve = Curve {
            schedule: Schedule::RangeTest,
            peak: 1.0,
            warmup_steps: 0,
            total_steps: 5,
            d_model: 16,
            decay,
        };
        for (step, expected) in [(1, 1e-4), (2, 1e-3), (3, 1e-2), (5, 1.0), (6, 1.0)] {
            let found = curve.at(step, 1.0);
            assert!((found / expected - 1.0).abs() < 1e-9, "{step}: {found}, {expected}");
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
    fn every_curve_has_the_values_of_its_formula() {
        let check = |schedule, expected: [f64; 5]| {
            for (step, expected) in [50, 100, 400, 600, 1_100].into_iter().zip(expected) {
                let found = curve(schedule).at(step, 1.0);
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

    /// Peak 2, minimum 1/2, warm-up 100, 1,099 updates: the curves fall by 3/2. At update 400, 0.7 of
    /// the decay remains, at 600 one half. The power is 3. With restarts after 200 updates, then after
    /// 400, the periods are 100 to 300, 300 to 700, and 700 to 1,500.
    #[test]
    fn a_minimum_a_power_and_restarts_change_the_decay() {
        let cos = |part: f64| 0.5 + 0.75 * (1.0 + (std::f64::consts::PI * part).cos());
        let plain = Decay { minimum: 0.5, power: 3.0, ..Decay::default() };
        let restarts = Decay { restart_steps: Some(200), restart_factor: 2.0, ..plain };
        let equal = Decay { restart_factor: 1.0, ..restarts };
        for (schedule, decay, expected) in [
            (Schedule::Linear, plain, [2.0, 0.5 + 1.5 * 0.7, 1.25, 0.5]),
            (Schedule::Polynomial, plain, [2.0, 0.5 + 1.5 * 0.343, 0.5 + 1.5 / 8.0, 0.5]),
            (Schedule::Cosine, plain, [2.0, cos(0.3), 1.25, 0.5]),
            (Schedule::Cosine, restarts, [2.0, cos(0.25), cos(0.75), cos(0.5)]),
            (Schedule::Cosine, equal, [2.0, cos(0.5), cos(0.5), 2.0]),
        ] {
            for (step, expected) in [100, 400, 600, 1_100].into_iter().zip(expected) {
                let found = Curve { decay, ..curve(schedule) }.at(step, 1.0);
                assert!((found - expected).abs() < 1e-12, "{schedule:?} at {step}: {found}");
            }
        }
    }

    /// A run of a single update, too.
    #[test]
    fn every_update_has_a_rate() {
        for schedule in [Schedule::Linear, Schedule::Polynomial, Schedule::Cosine] {
            assert!(curve(schedule).at(1_099, 1.0) > 0.0, "{schedule:?}");
            let one = Curve { warmup_steps: 0, total_steps: 1, ..curve(schedule) };
            assert!(one.at(1, 1.0) > 0.9, "{schedule:?}: {}", one.at(1, 1.0));
        }
    }

    #[test]
    fn stepping_counts_from_one_and_survives_a_record() {
        let curve = curve(Schedule::ReduceOnPlateau);
        let mut first = LearningRate::new(curve);
        first.set_reduction(0.25);
        for _ in 0..30 {
            let _ = LrScheduler::step(&mut first);
        }
        let mut second = LearningRate::new(curve);
        second.load_record(first.to_record());
        assert_eq!(second.of_last_update(), curve.at(30, 0.25));
        assert_eq!(LrScheduler::step(&mut second), curve.at(31, 0.25));
        assert_eq!(curve.at(200, 0.25), 0.5);
    }

    /// Burn's scheduler nests the records of parameter groups, so a record of the rate alone would
    /// have no effect.
    #[test]
    fn a_reduction_applies_to_the_next_update_of_the_learner() {
        let rate = LearningRate::new(Curve { warmup_steps: 0, ..curve(Schedule::ReduceOnPlateau) });
        let mut scheduler = ModuleLrScheduler::from(rate.clone());
        assert_eq!(scheduler.step().base(), 2.0);
        rate.set_reduction(0.5);
        assert_eq!((scheduler.step().base(), rate.of_last_update()), (1.0, 1.0));
        let mut resumed = ModuleLrScheduler::from(LearningRate::new(rate.curve));
        resumed = resumed.load_record(scheduler.to_record());
        assert_eq!(resumed.step().base(), 1.0);
    }

    #[test]
    fn clones_share_step_and_reduction() {
        let rate = LearningRate::new(curve(Schedule::ReduceOnPlateau));
        let mut stepped = rate.clone();
        for _ in 0..200 {
            let _ = LrScheduler::step(&mut stepped);
        }
        assert_eq!((rate.of_last_update(), rate.of_next_update()), (2.0, 2.0));
        rate.set_reduction(0.5);
        assert_eq!((stepped.of_next_update(), LrScheduler::step(&mut stepped)), (1.0, 1.0));
        stepped.load_record(LearningRate::new(rate.curve).to_record());
        assert_eq!(rate.of_next_update(), 0.02);
    }
}
