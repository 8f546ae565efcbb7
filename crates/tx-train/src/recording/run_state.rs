//! State of a run, as a checkpoint stores it.

use serde::{Deserialize, Serialize};

use crate::config::TrainConfig;

/// State of a run after an update.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    /// Completed epochs.
    pub epoch: usize,
    /// Number of batches of the next epoch that were used.
    pub batch: usize,
    /// Updates made.
    pub step: usize,
    /// Seconds of training and validation.
    pub seconds: f64,
    /// Fingerprint of the training data: number of pairs and a hash of their text.
    pub data: String,
    /// Fingerprint of the validation data. Empty in old checkpoints, whose `data` covers both.
    #[serde(default)]
    pub validation_data: String,
    /// Labels of a classifier, in the order of the classes; empty for other tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Update after which the model was last validated.
    pub validated: Option<usize>,
    /// Validations since the best model.
    pub since_best: usize,
    /// Number of times that `reduce-on-plateau` has reduced the learning rate.
    pub reductions: usize,
    /// Best model so far.
    pub best: Option<Best>,
    /// Best models that keep a checkpoint, the best first.
    pub kept: Vec<Best>,
    /// Configuration of the run.
    pub config: TrainConfig,
}

/// Validated model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Update, from 1.
    pub step: usize,
    /// Metric that ranks models, higher is better, and the negated loss.
    pub rank: (f64, f64),
}

impl RunState {
    /// Returns `true` if the model was validated after the last update.
    pub fn is_validated(&self) -> bool {
        self.validated == Some(self.step)
    }

    /// Resets the best models, for example because validation data has changed.
    pub fn reset_best(&mut self) {
        (self.best, self.since_best, self.validated) = (None, 0, None);
        self.kept.clear();
    }

    /// Inserts `model` among the best `count` models. Returns whether it is one of them.
    pub fn keep(&mut self, model: Best, count: usize) -> bool {
        let position = self.kept.partition_point(|other| other.rank >= model.rank);
        self.kept.insert(position, model);
        self.kept.truncate(count);
        position < count
    }

    /// Returns the setting with which a run goes on that has ended by its budget while validation still improved: the
    /// key, and twice the budget. `None` if an earlier epoch was better, or there is only one.
    pub fn longer_budget(&self) -> Option<String> {
        let improved = self.best.is_some_and(|best| best.step == self.step && best.epoch > 1);
        let train = &self.config.train;
        let minutes = train.max_minutes.filter(|minutes| self.seconds >= 60.0 * minutes);
        let steps = train.max_steps.filter(|&steps| self.step >= steps);
        let setting = match (minutes, steps) {
            (Some(minutes), _) => format!("train.max_minutes={}", 2.0 * minutes),
            (None, Some(steps)) => format!("train.max_steps={}", steps.saturating_mul(2)),
            (None, None) if self.epoch >= train.epochs => {
                format!("train.epochs={}", train.epochs.saturating_mul(2))
            }
            (None, None) => return None,
        };
        improved.then_some(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_still_improves_can_go_on() {
        let mut state = RunState {
            epoch: 5,
            step: 500,
            seconds: 599.0,
            best: Some(Best { epoch: 5, step: 500, rank: (30.0, -1.0) }),
            ..RunState::default()
        };
        state.config.train.epochs = 5;
        assert_eq!(state.longer_budget().as_deref(), Some("train.epochs=10"));
        state.config.train.epochs = 6;
        state.config.train.max_minutes = Some(10.0);
        assert_eq!(state.longer_budget(), None);
        state.seconds = 600.5;
        assert_eq!(state.longer_budget().as_deref(), Some("train.max_minutes=20"));
        state.config.train.max_minutes = None;
        state.config.train.max_steps = Some(500);
        assert_eq!(state.longer_budget().as_deref(), Some("train.max_steps=1000"));
        for best in [None, Some((4, 400)), Some((1, 500))] {
            state.best = best.map(|(epoch, step)| Best { epoch, step, rank: (30.0, -1.0) });
            assert_eq!(state.longer_budget(), None, "{best:?}");
        }
    }
}
