//! Decisions about checkpoints: when one is due, and whether the last one is up to date.

use std::path::Path;

use burn::train::{Learner, metric::store::EventStoreClient};

use crate::{
    config::{CheckpointConfig, Interval},
    error::TrainError,
    recording::{checkpoint::Checkpoints, run_state::RunState},
    task::Trainable,
};

/// Checkpoints of a run in progress.
pub(crate) struct Checkpointing {
    checkpoints: Checkpoints,
    config: CheckpointConfig,
    /// State of the last checkpoint.
    saved: RunState,
}

impl Checkpointing {
    /// Continues after the checkpoint with `state`, or starts a run with it.
    pub fn new(run: &Path, config: CheckpointConfig, state: RunState) -> Self {
        Self { checkpoints: Checkpoints::of(run), config, saved: state }
    }

    /// Returns `true` if a checkpoint is due after update `step` and `seconds` of the run.
    pub fn is_due_after_update(&self, step: usize, seconds: f64) -> bool {
        match self.config.every {
            Interval::Steps(every) => step.is_multiple_of(every),
            Interval::Minutes(every) => seconds - self.saved.seconds >= 60.0 * every,
            Interval::Epochs(_) => false,
        }
    }

    /// Returns `true` if a checkpoint is due after `epoch`.
    pub fn is_due_after_epoch(&self, epoch: usize) -> bool {
        match self.config.every {
            Interval::Epochs(every) => epoch.is_multiple_of(every),
            Interval::Steps(_) | Interval::Minutes(_) => false,
        }
    }

    /// Returns `true` if `state` is that of the last checkpoint, except for its time.
    pub fn is_saved(&self, state: &RunState) -> bool {
        RunState { seconds: self.saved.seconds, ..state.clone() } == self.saved
    }

    /// Returns the number of updates of the last checkpoint, if there is one.
    pub fn saved_step(&self) -> Option<usize> {
        (self.saved.step > 0).then_some(self.saved.step)
    }

    /// Saves a checkpoint.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn save<M: Trainable>(
        &mut self,
        learner: &Learner<M>,
        average: Option<&M>,
        state: &RunState,
        events: &EventStoreClient,
    ) -> Result<(), TrainError> {
        self.checkpoints.save(learner, average, state, self.config.keep_last, events)?;
        self.saved = state.clone();
        Ok(())
    }
}
