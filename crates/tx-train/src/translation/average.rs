//! Bundle with the averaged weights of several checkpoints.

use std::path::Path;

use burn::tensor::Device;
use tx_infer::ModuleBundle;

use super::seq2seq::Seq2Seq;
use crate::{
    error::TrainError,
    recording::average::{CheckpointSelection, average_weights},
};

/// Opens the bundle of the run in `run` with the average of the selected checkpoints as weights.
/// Also returns the updates of these checkpoints.
///
/// # Errors
///
/// If `run` contains no bundle or too few checkpoints, or a checkpoint is damaged.
pub fn average(
    run: &Path,
    selection: CheckpointSelection,
    device: &Device,
) -> Result<(ModuleBundle, Vec<usize>), TrainError> {
    let mut bundle = ModuleBundle::open(run, device)?;
    let steps = selection.steps(run)?;
    // Checkpoints store the model as it is trained.
    bundle.model = average_weights(run, &steps, Seq2Seq::new(bundle.model, 0.0))?.model;
    let names: Vec<toml::Value> = steps.iter().map(|&step| (step as i64).into()).collect();
    bundle.provenance.insert("average_of_steps".into(), names.into());
    // The recorded scores belong to other weights.
    bundle.provenance.remove("validation");
    Ok((bundle, steps))
}
