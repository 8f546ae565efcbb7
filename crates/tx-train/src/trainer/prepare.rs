//! Data of a run, and the state of a resumed run reconciled with it.

use super::{
    resume::{OnMismatch, reconcile, run_tokenizers},
    settings::RunSettings,
};
use crate::{data::RunData, error::TrainError, recording::run_state::RunState};

/// Data and state of a run, before a model exists.
pub(super) struct Prepared {
    pub data: RunData,
    pub state: RunState,
    /// Whether configuration or data have changed since the checkpoint.
    pub is_changed: bool,
}

/// Reads, tokenizes and encodes the data, and reconciles the state of a resumed run with it.
///
/// # Errors
///
/// If the data cannot be used, or has changed and `on_mismatch` does not allow that;
/// [`TrainError::Interrupted`] if the run is interrupted.
pub(super) fn prepare(
    settings: &RunSettings,
    mut state: RunState,
    is_resumed: bool,
    on_mismatch: Option<OnMismatch>,
) -> Result<Prepared, TrainError> {
    let RunSettings { config, run, corpora, stop, .. } = settings;
    let print = |line: &str| settings.print(line);
    let tokenizers = is_resumed.then(|| run_tokenizers(run)).transpose()?;
    let data = RunData::new(config, tokenizers, corpora.as_ref(), stop, &print)?;
    let is_changed = is_resumed && reconcile(&mut state, config, &data, on_mismatch, &print)?;
    state.data = data.fingerprints.training.clone();
    state.validation_data = data.fingerprints.validation.clone();
    state.config = config.clone();
    Ok(Prepared { data, state, is_changed })
}
