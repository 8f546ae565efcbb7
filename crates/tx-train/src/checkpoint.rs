//! Going on after a stop: weights, optimizer and schedule after a whole epoch, and where the run
//! stands.
//!
//! A run folder holds `state.toml`, written last, and the checkpoint that it names in
//! `checkpoint/`: three files of Burn's `burnpack` format. A checkpoint without its state does not
//! count.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use burn::{
    lr_scheduler::LrSchedulerRecord,
    module::Module,
    optim::OptimizerRecord,
    store::ModuleRecord,
    train::{
        Interrupter, Learner, LearningCheckpointer,
        checkpoint::{
            AsyncCheckpointer, CheckpointingAction, CheckpointingStrategy, FileCheckpointer,
        },
        metric::store::EventStoreClient,
    },
};
use serde::{Deserialize, Serialize};
use tx_infer::file::write_whole;

use crate::{error::TrainError, step::Seq2Seq};

const STATE: &str = "state.toml";
const FOLDER: &str = "checkpoint";
/// The files of a checkpoint: `model-N.bpk` and so on.
const PARTS: [&str; 3] = ["model", "optim", "scheduler"];

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    /// Whole epochs done; the number of the checkpoint.
    pub epoch: usize,
    /// Updates made.
    pub step: usize,
    /// Seconds of training and validation so far.
    pub seconds: f64,
    /// What tells whether the data is the same: pairs and a hash of their text.
    pub data: String,
    /// The best model so far.
    pub best: Option<Best>,
}

/// The best model of a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// After which epoch.
    pub epoch: usize,
    /// After which update.
    pub step: usize,
    /// The figure that it is best by, higher is better, and its negated loss.
    pub rank: (f64, f64),
}

impl RunState {
    /// Reads the state of the run in `run`.
    ///
    /// # Errors
    ///
    /// When there is none, or it cannot be read.
    pub fn read(run: &Path) -> Result<Self, TrainError> {
        let path = run.join(STATE);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => TrainError::NothingToResume {
                path: run.into(),
                reason: format!("`{STATE}` is written after the first epoch"),
            },
            _ => TrainError::Read { path: path.clone(), source: error },
        })?;
        toml::from_str(&text)
            .map_err(|error| TrainError::Checkpoint { path, problem: error.to_string() })
    }

    /// Notes where the run stands, beside the checkpoint that [`save`] wrote.
    pub(crate) fn write(&self, run: &Path) -> Result<(), TrainError> {
        let text = toml::to_string(self).map_err(io::Error::other);
        let path = run.join(STATE);
        text.and_then(|text| write_whole(&path, text.as_bytes()))
            .map_err(|source| TrainError::Write { path, source })
    }
}

/// Saves a checkpoint, then the state that names it, then drops the checkpoints before it.
///
/// # Errors
///
/// When a file cannot be written; the checkpoint before stays usable.
pub fn save(
    learner: &Learner<Seq2Seq>,
    state: &RunState,
    run: &Path,
    events: &EventStoreClient,
) -> Result<(), TrainError> {
    let folder = run.join(FOLDER);
    fs::create_dir_all(&folder)
        .map_err(|source| TrainError::Write { path: folder.clone(), source })?;
    let interrupter = Interrupter::new();
    let [model, optim, scheduler] = PARTS.map(|part| FileCheckpointer::new(&folder, part));
    let mut checkpointer = LearningCheckpointer::new(
        AsyncCheckpointer::new(model).with_interrupter(interrupter.clone()),
        AsyncCheckpointer::new(optim).with_interrupter(interrupter.clone()),
        AsyncCheckpointer::new(scheduler).with_interrupter(interrupter.clone()),
        Box::new(Save),
    );
    checkpointer.checkpoint(learner, state.epoch, events);
    // The files are written by threads, which end with the checkpointer.
    drop(checkpointer);
    if let Some(error) = interrupter.error() {
        return Err(TrainError::Write { path: folder, source: io::Error::other(error) });
    }
    state.write(run)?;
    prune(&folder, state.epoch).map_err(|source| TrainError::Write { path: folder, source })
}

/// Puts the checkpoint of `state` into `learner`.
///
/// # Errors
///
/// When a file is missing, damaged, or of another model.
pub fn load(
    learner: &mut Learner<Seq2Seq>,
    state: &RunState,
    run: &Path,
) -> Result<(), TrainError> {
    let [model, optim, scheduler] = PARTS.map(|part| file(&run.join(FOLDER), part, state.epoch));
    let problem = |path: &Path| {
        let path = path.to_owned();
        move |error: burn::store::RecordError| TrainError::Checkpoint {
            path,
            problem: error.to_string(),
        }
    };
    // The Learner takes only what fits, so whether it does is found out first.
    let fits =
        ModuleRecord::load(&model).and_then(|record| learner.model().try_load_record(record));
    fits.map_err(problem(&model))?;
    let model_record = ModuleRecord::load(&model).map_err(problem(&model))?;
    let optim_record = OptimizerRecord::load(&optim).map_err(problem(&optim))?;
    let scheduler_record = LrSchedulerRecord::load(&scheduler).map_err(problem(&scheduler))?;
    learner.load_model(model_record);
    learner.load_optim(optim_record);
    learner.load_scheduler(scheduler_record);
    Ok(())
}

/// Saves whenever asked.
struct Save;

impl CheckpointingStrategy for Save {
    fn checkpointing(&mut self, _: usize, _: &EventStoreClient) -> Vec<CheckpointingAction> {
        vec![CheckpointingAction::Save]
    }
}

fn file(folder: &Path, part: &str, epoch: usize) -> PathBuf {
    folder.join(format!("{part}-{epoch}.bpk"))
}

/// Removes the checkpoints of other epochs.
fn prune(folder: &Path, epoch: usize) -> io::Result<()> {
    let keep = PARTS.map(|part| file(folder, part, epoch));
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "bpk") && !keep.contains(&path) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
