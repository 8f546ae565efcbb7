//! Bundle with the averaged weights of several checkpoints.

use std::path::Path;

use burn::tensor::Device;
use tx_infer::{BundleInfo, ModuleBundle, TaskKind};

use crate::{
    classification::TrainedClassifier,
    error::TrainError,
    fine_tuning::selection::select_weights,
    language_modeling::TrainedLanguageModel,
    masked_language_modeling::TrainedMaskedLanguageModel,
    recording::{
        average::{CheckpointSelection, average_weights},
        checkpoint::Checkpoints,
    },
    task::Trainable,
    translation::seq2seq::Seq2Seq,
};

/// Writes a bundle into the folder `output`: that of the run in `run`, with the average of the
/// selected checkpoints as weights. Returns the updates of these checkpoints.
///
/// # Errors
///
/// If `run` contains no bundle or too few checkpoints, a checkpoint is damaged, or a file cannot be
/// written.
pub fn average(
    run: &Path,
    selection: CheckpointSelection,
    output: &Path,
) -> Result<Vec<usize>, TrainError> {
    match BundleInfo::read(run)?.task.kind() {
        TaskKind::Translate => write::<Seq2Seq>(run, selection, output),
        TaskKind::Classify => write::<TrainedClassifier>(run, selection, output),
        TaskKind::Generate => write::<TrainedLanguageModel>(run, selection, output),
        TaskKind::FillMask => write::<TrainedMaskedLanguageModel>(run, selection, output),
    }
}

fn write<M: Trainable>(
    run: &Path,
    selection: CheckpointSelection,
    output: &Path,
) -> Result<Vec<usize>, TrainError> {
    let mut bundle = ModuleBundle::<M::Plain>::open(run, &Device::flex())?;
    let steps = selection.steps(run)?;
    // Checkpoints store the model as it is trained.
    let Some(&last) = steps.last() else { return Ok(steps) };
    let config = Checkpoints::of(run).state(last)?.config;
    let model = M::of_plain(select_weights(bundle.model, &config));
    bundle.model = average_weights(run, &steps, model)?.into_plain();
    let names: Vec<toml::Value> = steps.iter().map(|&step| (step as i64).into()).collect();
    bundle.provenance.insert("average_of_steps".into(), names.into());
    // The recorded scores belong to other weights.
    bundle.provenance.remove("validation");
    bundle.save(output)?;
    Ok(steps)
}
