//! Data of a run, and the state of a resumed run reconciled with it.

use tx_data::prepared::ShardPart;
use tx_infer::BundleInfo;

use super::{
    resume::{OnMismatch, reconcile, run_tokenizers},
    settings::RunSettings,
};
use crate::{
    config::DistillationConfig,
    data::{DataAccess, Known},
    error::TrainError,
    fine_tuning::lineage::Lineage,
    recording::run_state::RunState,
    task_run::TaskRun,
};

/// Data and state of a run, before a model exists.
pub(super) struct Prepared<R> {
    pub data: R,
    pub state: RunState,
    /// Whether configuration or data have changed since the checkpoint.
    pub is_changed: bool,
    /// Ancestors of the model, if the run starts from a bundle.
    pub lineage: Option<Lineage>,
}

/// Reads, tokenizes and encodes the data, and reconciles the state of a resumed run with it.
///
/// # Errors
///
/// If the data cannot be used, or has changed and `on_mismatch` does not allow that;
/// [`TrainError::Interrupted`] if the run is interrupted.
pub(super) fn prepare<R: TaskRun>(
    settings: &RunSettings,
    mut state: RunState,
    is_resumed: bool,
    on_mismatch: Option<OnMismatch>,
) -> Result<Prepared<R>, TrainError> {
    let RunSettings { config, run, corpora, stop, .. } = settings;
    let print = |line: &str| settings.print(line);
    let (known, lineage) = match (&config.from, is_resumed) {
        (from, true) => {
            let lineage = from.is_some().then(|| Lineage::read(run)).transpose()?;
            let languages = lineage.as_ref().and_then(|lineage| lineage.languages.clone());
            (Known::Both(run_tokenizers(run, config.task)?, languages), lineage)
        }
        (Some(parent), false) => {
            let info = parent.read()?;
            let lineage = Lineage::new(parent, &info);
            (Known::Both(info.tokenizers, info.languages), Some(lineage))
        }
        (None, false) => match config.train.distill.as_ref().and_then(DistillationConfig::first) {
            Some(teacher) => {
                let info = BundleInfo::read(teacher)?;
                (Known::Both(info.tokenizers, info.languages), None)
            }
            None => (Known::of_encoder(config)?, None),
        },
    };
    // Together, the ranks verify prepared data. No rank starts to train before all have.
    let part = ShardPart { index: settings.ranks.rank(), count: settings.ranks.count() };
    let access = DataAccess { cache: corpora.as_ref(), part, stop, print: &print };
    let data = R::prepare(config, known, &access)?;
    let summary = data.summary();
    let is_changed = is_resumed && reconcile(&mut state, config, summary, on_mismatch, &print)?;
    state.data = summary.fingerprints.training.clone();
    state.validation_data = summary.fingerprints.validation.clone();
    state.labels = summary.labels.clone();
    state.config = config.clone();
    Ok(Prepared { data, state, is_changed, lineage })
}
