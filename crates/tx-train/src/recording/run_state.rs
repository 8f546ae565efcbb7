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
}
