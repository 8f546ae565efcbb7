//! Resuming a run: choice of the checkpoint, and changes since.

use std::path::Path;

use tx_infer::{
    TaskKind,
    bundle::{saved_tokenizers, tokenizer_files},
};
use tx_text::Tokenizers;

use crate::{
    config::TrainConfig,
    data::DataSummary,
    error::TrainError,
    recording::{checkpoint::Checkpoints, run_state::RunState},
};

/// Checkpoint to resume from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeFrom {
    /// Last checkpoint.
    Last,
    /// Checkpoint after this update. Later ones are removed.
    Step(usize),
}

/// Choice between the old and the new configuration and data if they have changed since the
/// checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnMismatch {
    /// Configuration of the checkpoint. Changed data is refused, because the old data is not
    /// available.
    Old,
    /// Current configuration and data. The tokenizers of the run stay.
    New,
}

/// Loads the state of the run in `run` at one of its checkpoints.
pub(super) fn load_state(run: &Path, from: ResumeFrom) -> Result<RunState, TrainError> {
    let checkpoints = Checkpoints::of(run);
    let steps = checkpoints.steps()?;
    let nothing = |reason| TrainError::NothingToResume { path: run.into(), reason };
    let step = match from {
        ResumeFrom::Last => {
            *steps.last().ok_or_else(|| nothing("it has no checkpoint yet".into()))?
        }
        ResumeFrom::Step(step) if steps.contains(&step) => step,
        ResumeFrom::Step(step) => {
            let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
            return Err(nothing(format!(
                "it has no checkpoint of update {step}; available: {}",
                steps.join(", ")
            )));
        }
    };
    checkpoints.state(step)
}

/// Reads the tokenizers of a run to resume. New tokenizers could assign other ids than those that
/// the weights were trained with.
pub(super) fn run_tokenizers(run: &Path, task: TaskKind) -> Result<Tokenizers, TrainError> {
    saved_tokenizers(run, task)?.ok_or_else(|| TrainError::NothingToResume {
        path: run.into(),
        reason: format!("its tokenizers (`{}`) are missing", tokenizer_files(task).join("`, `")),
    })
}

/// Adapts the state of a checkpoint to the current configuration and data. Returns whether they
/// have changed.
///
/// # Errors
///
/// If the data has changed and `on_mismatch` does not allow that.
pub(super) fn reconcile(
    state: &mut RunState,
    config: &TrainConfig,
    data: &DataSummary,
    on_mismatch: Option<OnMismatch>,
    print: &dyn Fn(&str),
) -> Result<bool, TrainError> {
    let now = &data.fingerprints;
    // Old checkpoints have one fingerprint of both parts.
    let is_old = state.validation_data.is_empty();
    let training = if is_old { &now.together } else { &now.training };
    let same_training = state.data == *training;
    let same_validation =
        if is_old { same_training } else { state.validation_data == now.validation };
    for (part, is_same, found, expected) in [
        ("training", same_training, training, &state.data),
        ("validation", same_validation, &now.validation, &state.validation_data),
    ] {
        if !is_same && on_mismatch != Some(OnMismatch::New) {
            let (found, expected) = (found.clone(), expected.clone());
            return Err(TrainError::DataChanged { part, found, expected });
        }
    }
    let before = &state.config;
    if state.labels != data.labels {
        let (found, expected) = (data.labels.join(", "), state.labels.join(", "));
        return Err(TrainError::LabelsChanged { found, expected });
    }
    let same_batches = same_training
        && before.train.batch == config.train.batch
        && before.train.grouping == config.train.grouping
        && before.data.replay.as_ref().map(|replay| replay.fraction)
            == config.data.replay.as_ref().map(|replay| replay.fraction)
        && before.data.train == config.data.train
        && before.data.temperature == config.data.temperature
        && before.train.seed == config.train.seed
        && before.max_len() == config.max_len()
        && before.data.long == config.data.long;
    // Documents are divided by length, and masks are chosen, also for validation.
    let same_examples = config.task == TaskKind::Translate
        || before.max_len() == config.max_len()
            && before.data.long == config.data.long
            && before.masking == config.masking;
    // The seed selects the examples in use.
    let same_subset =
        data.validation.used == data.validation.available || before.train.seed == config.train.seed;
    let is_comparable = same_validation
        && same_examples
        && same_subset
        && before.validation.is_comparable(
            &config.validation,
            config.task,
            data.validation.available,
        );
    let is_changed = !same_training || !same_validation || before != config;
    if !same_batches && state.batch > 0 {
        print(&format!(
            "batches differ from those of the checkpoint: epoch {} starts over",
            state.epoch + 1
        ));
        state.batch = 0;
    }
    if before.train.optimizer != config.train.optimizer {
        print("the optimizer differs from that of the checkpoint: its state starts over");
    }
    if !is_comparable && state.best.is_some() {
        print(
            "validation differs from that of the checkpoint: the best model so far is reset, and \
             the next validated model replaces it",
        );
        state.reset_best();
    }
    Ok(is_changed)
}
