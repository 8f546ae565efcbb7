//! Limits of a run: epochs, updates and time.

use super::train_config::TrainConfig;

/// Limits of a run; the first one reached ends it.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Passes over the data.
    pub epochs: usize,
    /// Updates in an epoch.
    pub batches: usize,
    /// Updates from one validation to the next.
    pub steps_per_validation: usize,
    /// Updates of the whole run.
    pub max_steps: Option<usize>,
    /// Seconds of the whole run.
    pub max_seconds: Option<f64>,
}

impl Budget {
    /// Creates the limits of `config`, with epochs of `batches` updates.
    pub fn new(config: &TrainConfig, batches: usize) -> Self {
        let epochs = batches.saturating_mul(config.validation.every_epochs);
        Self {
            epochs: config.train.epochs,
            batches,
            steps_per_validation: config.validation.every_steps.unwrap_or(epochs).min(epochs),
            max_steps: config.train.max_steps,
            max_seconds: config.train.max_minutes.map(|minutes| minutes * 60.0),
        }
    }

    /// Returns the number of updates of a run that does not reach the time limit.
    pub fn steps(&self) -> usize {
        self.epochs.saturating_mul(self.batches).min(self.max_steps.unwrap_or(usize::MAX))
    }

    /// Returns `true` if no further update may be made. Epochs are not counted here, because with
    /// batches of random sentences their numbers of updates differ.
    pub fn is_spent(&self, step: usize, seconds: f64) -> bool {
        self.max_steps.is_some_and(|limit| step >= limit)
            || self.max_seconds.is_some_and(|limit| seconds >= limit)
    }

    /// Estimates the seconds to the end of the run after `step` updates and `seconds`.
    pub(crate) fn seconds_left(
        &self,
        step: usize,
        seconds: f64,
        per_step: f64,
        per_validation: f64,
    ) -> f64 {
        let steps = self.steps().saturating_sub(step);
        let validations = steps.div_ceil(self.steps_per_validation.max(1));
        let work = steps as f64 * per_step + validations as f64 * per_validation;
        match self.max_seconds {
            Some(limit) => work.min((limit - seconds).max(0.0) + per_validation),
            None => work,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `usize::MAX` stands for "no limit".
    #[test]
    fn a_budget_without_a_limit_does_not_overflow() {
        let mut config = TrainConfig::default();
        config.train.epochs = usize::MAX;
        config.validation.every_epochs = usize::MAX;
        let budget = Budget::new(&config, 100);
        assert_eq!((budget.steps(), budget.steps_per_validation), (usize::MAX, usize::MAX));
        assert!(budget.seconds_left(20, 10.0, 0.5, 4.0).is_finite());
    }

    /// 3 epochs of 100 updates, of which 20 are made; 0.5 s an update, 4 s a validation.
    #[test]
    fn the_limit_reached_first_decides_the_time_left() {
        let budget = Budget {
            epochs: 3,
            batches: 100,
            steps_per_validation: 100,
            max_steps: None,
            max_seconds: None,
        };
        assert_eq!(budget.seconds_left(20, 10.0, 0.5, 4.0), 280.0 * 0.5 + 3.0 * 4.0);
        let steps = Budget { max_steps: Some(60), ..budget };
        assert_eq!(steps.seconds_left(20, 10.0, 0.5, 4.0), 40.0 * 0.5 + 4.0);
        let often = Budget { steps_per_validation: 10, ..budget };
        assert_eq!(often.seconds_left(20, 10.0, 0.5, 4.0), 280.0 * 0.5 + 28.0 * 4.0);
        // The time limit ends training; the last validation still runs.
        let time = Budget { max_seconds: Some(30.0), ..budget };
        assert_eq!(time.seconds_left(20, 10.0, 0.5, 4.0), 20.0 + 4.0);
        assert!(!time.is_spent(20, 29.9) && time.is_spent(20, 30.0) && steps.is_spent(60, 0.0));
    }
}
