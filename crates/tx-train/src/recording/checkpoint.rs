//! Checkpoints: weights, optimizer, learning rate and state of a run.
//!
//! A checkpoint is a folder `checkpoints/step-N` of the run: files in Burn's `burnpack` format, and
//! `state.toml` with their hashes. It is written under another name, synchronized to disk and
//! renamed. Therefore it is complete or absent, and the previous checkpoint stays until then.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs::{self, File},
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
};

use burn::{
    lr_scheduler::LrSchedulerRecord,
    module::Module,
    optim::OptimizerRecord,
    store::ModuleRecord,
    tensor::Bytes,
    train::{
        Interrupter, Learner, LearningCheckpointer,
        checkpoint::{
            AsyncCheckpointer, CheckpointingAction, CheckpointingStrategy, FileCheckpointer,
        },
        metric::store::EventStoreClient,
    },
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tx_infer::file::write_whole;
use tx_text::hash::hexadecimal;

use super::{
    part_writer::{PartWriter, catching, quietly},
    run_state::RunState,
};
use crate::{error::TrainError, task::Trainable};

/// Name of the folder of checkpoints in a run folder.
const FOLDER: &str = "checkpoints";
/// Name of a checkpoint, without the number of its update.
const PREFIX: &str = "step-";
/// Suffix of a checkpoint that is being written.
const PARTIAL: &str = ".partial";
/// Name of the file with state and hashes.
const STATE: &str = "state.toml";
/// Files of every checkpoint, as in `model-N.bpk`.
const PARTS: [&str; 3] = ["model", "optim", "scheduler"];
/// File with the moving average of the weights, if the run keeps one.
const AVERAGE: &str = "average";

/// Contents of `state.toml`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    state: RunState,
    /// SHA-256 of each file, in hexadecimal.
    files: BTreeMap<String, String>,
}

impl Contents {
    fn write(&self, folder: &Path) -> io::Result<()> {
        let text = toml::to_string(self).map_err(io::Error::other)?;
        let text = format!("{}\n{text}", Self::first_line(&text));
        write_whole(&folder.join(STATE), text.as_bytes())?;
        sync_folder(folder)
    }

    /// Returns the first line of the file, a comment with the hash of the other lines.
    fn first_line(text: &str) -> String {
        format!("# SHA-256 of what follows: {}", hexadecimal(&Sha256::digest(text)))
    }

    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        match text.split_once('\n') {
            Some((line, text)) if line == Self::first_line(text) => {
                toml::from_str(text).map_err(|error| error.to_string())
            }
            _ => Err("checksum mismatch".into()),
        }
    }
}

/// Checkpoints of a run.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Refers to the checkpoints of the run in the folder `run`, which may have none yet.
    pub fn of(run: &Path) -> Self {
        Self { folder: run.join(FOLDER) }
    }

    /// Updates after which there is a checkpoint, in ascending order.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<usize>, TrainError> {
        let read = || TrainError::reading(&self.folder);
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(read())?,
        };
        let mut steps = Vec::new();
        for entry in entries {
            let name = entry.map_err(read())?.file_name();
            steps.extend(
                name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<usize>().ok()),
            );
        }
        steps.sort_unstable();
        Ok(steps)
    }

    /// Returns the state of the run after update `step`. All files of the checkpoint are read and
    /// compared with their hashes.
    ///
    /// # Errors
    ///
    /// If a file is missing or damaged; the error names the last intact checkpoint before.
    pub fn state(&self, step: usize) -> Result<RunState, TrainError> {
        Ok(self.contents(step)?.state)
    }

    fn contents(&self, step: usize) -> Result<Contents, TrainError> {
        let folder = self.at(step);
        let problem = |path: &Path, problem: String| TrainError::Checkpoint {
            path: path.into(),
            problem,
            before: self.before(step),
        };
        let path = folder.join(STATE);
        let contents = Contents::read(&path).map_err(|reason| problem(&path, reason))?;
        let parts = PARTS.map(|part| part_name(part, step));
        if let Some(missing) = parts.iter().find(|name| !contents.files.contains_key(*name)) {
            return Err(problem(&path, format!("`{missing}` is not listed")));
        }
        for (name, expected) in &contents.files {
            let path = folder.join(name);
            let hash = hash(&path).map_err(|error| problem(&path, error.to_string()))?;
            if hash != *expected {
                return Err(problem(&path, format!("checksum differs from that in `{STATE}`")));
            }
        }
        Ok(contents)
    }

    /// Saves a checkpoint, and removes earlier ones except for the last `keep` and the best
    /// models'.
    ///
    /// # Errors
    ///
    /// If a file cannot be written; earlier checkpoints stay.
    pub fn save<M: Trainable>(
        &self,
        learner: &Learner<M>,
        average: Option<&M>,
        state: &RunState,
        keep: usize,
        events: &EventStoreClient,
    ) -> Result<(), TrainError> {
        let folder = self.at(state.step);
        let partial = self.folder.join(format!("{PREFIX}{}{PARTIAL}", state.step));
        let write = || TrainError::writing(&folder);
        // The weights are already saved if there was only a validation since.
        if folder.is_dir() && self.update_state(state).is_ok() {
            return self.prune(state, keep);
        }
        remove(&partial).and_then(|()| fs::create_dir_all(&partial)).map_err(write())?;
        let written = write_parts(learner, average, state.step, &partial, events)
            .and_then(|parts| write_contents(state, &parts, &partial))
            // An existing folder of that name is damaged.
            .and_then(|()| remove(&folder))
            .and_then(|()| fs::rename(&partial, &folder))
            .and_then(|()| sync_folder(&self.folder));
        if let Err(error) = written {
            // Frees space, because the disk may be full.
            drop(remove(&partial));
            return Err(write()(error));
        }
        self.prune(state, keep)
    }

    /// Replaces the state in the checkpoint after update `state.step`. Its weights stay. They are
    /// not compared with their hashes, because this process wrote them, or compared them when it
    /// resumed.
    ///
    /// # Errors
    ///
    /// If there is no such checkpoint, or its state is damaged or cannot be written.
    pub fn update_state(&self, state: &RunState) -> Result<(), TrainError> {
        let path = self.at(state.step);
        let Contents { files, .. } = Contents::read(&path.join(STATE)).map_err(|problem| {
            TrainError::Checkpoint { path: path.clone(), problem, before: None }
        })?;
        let contents = Contents { state: state.clone(), files };
        contents.write(&path).map_err(TrainError::writing(&path))
    }

    /// Loads the optimizer and the learning rate of the checkpoint after update `step` into `learner`. Its
    /// files may be removed afterwards.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or belongs to another model.
    pub fn load_optimizer<M: Trainable>(
        &self,
        step: usize,
        learner: &mut Learner<M>,
    ) -> Result<(), TrainError> {
        let [_, optim, scheduler] = PARTS.map(|part| self.part(part, step));
        let optim_record = OptimizerRecord::from_bytes(read(&optim)?).map_err(unusable(&optim))?;
        let scheduler_record =
            LrSchedulerRecord::from_bytes(read(&scheduler)?).map_err(unusable(&scheduler))?;
        loading(&optim, || learner.load_optim(optim_record))?;
        loading(&scheduler, || learner.load_scheduler(scheduler_record))
    }

    /// Loads the weights of the checkpoint after update `step` into `model`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or belongs to another model.
    pub fn model<M: Module>(&self, step: usize, model: M) -> Result<M, TrainError> {
        self.weights(PARTS[0], step, model)
    }

    /// Loads the moving average of the weights at update `step` into `model`; `None` if the run had
    /// none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or belongs to another model.
    pub fn average<M: Module>(&self, step: usize, model: M) -> Result<Option<M>, TrainError> {
        let exists = self.part(AVERAGE, step).is_file();
        exists.then(|| self.weights(AVERAGE, step, model)).transpose()
    }

    fn weights<M: Module>(&self, part: &str, step: usize, model: M) -> Result<M, TrainError> {
        let path = self.part(part, step);
        let record = ModuleRecord::from_bytes(read(&path)?);
        record.and_then(|record| model.try_load_record(record)).map_err(unusable(&path))
    }

    /// Removes the checkpoints after update `step`, because the resumed run will differ from them.
    ///
    /// # Errors
    ///
    /// If one cannot be removed.
    pub fn remove_after(&self, step: usize) -> Result<(), TrainError> {
        self.remove_all(|other| other > step)
    }

    /// Removes all checkpoints except for the last `keep` and the best models', and incomplete
    /// ones.
    fn prune(&self, state: &RunState, keep: usize) -> Result<(), TrainError> {
        let steps = self.steps()?;
        let old = steps.iter().filter(|&&other| other <= state.step).rev().nth(keep).copied();
        let is_best = |step| state.kept.iter().any(|best| best.step == step);
        self.remove_all(|other| old.is_some_and(|old| other <= old) && !is_best(other))?;
        let partial = |path: &Path| path.to_str().is_some_and(|path| path.ends_with(PARTIAL));
        let clean = || -> io::Result<()> {
            for entry in fs::read_dir(&self.folder)? {
                let path = entry?.path();
                if partial(&path) {
                    remove(&path)?;
                }
            }
            Ok(())
        };
        clean().map_err(TrainError::writing(&self.folder))
    }

    fn remove_all(&self, is_removed: impl Fn(usize) -> bool) -> Result<(), TrainError> {
        for step in self.steps()?.into_iter().filter(|&step| is_removed(step)) {
            let path = self.at(step);
            remove(&path).map_err(TrainError::writing(&path))?;
        }
        Ok(())
    }

    /// Returns the last intact checkpoint before update `step`.
    fn before(&self, step: usize) -> Option<usize> {
        let mut steps = self.steps().ok()?;
        steps.retain(|&other| other < step);
        steps.into_iter().rev().find(|&step| self.state(step).is_ok())
    }

    fn part(&self, part: &str, step: usize) -> PathBuf {
        self.at(step).join(part_name(part, step))
    }

    fn at(&self, step: usize) -> PathBuf {
        self.folder.join(format!("{PREFIX}{step}"))
    }
}

fn unusable<E: Display>(path: &Path) -> impl FnOnce(E) -> TrainError {
    let path = path.to_owned();
    move |error| TrainError::Checkpoint { path, problem: error.to_string(), before: None }
}

/// Loads a part. Burn panics if the content of a record, whose file is intact, does not fit; the learner
/// must not be used afterwards.
fn loading(path: &Path, load: impl FnOnce()) -> Result<(), TrainError> {
    // The error takes the place of the message.
    quietly(|| catching(load)).map_err(unusable(path))
}

/// Reads a whole file. Records loaded from a path read it when a tensor is first used, and panic if
/// it has been removed by then.
fn read(path: &Path) -> Result<Bytes, TrainError> {
    fs::read(path).map(Bytes::from_bytes_vec).map_err(unusable(path))
}

fn part_name(part: &str, step: usize) -> String {
    format!("{part}-{step}.bpk")
}

/// Writes the parts, and returns their names.
fn write_parts<M: Trainable>(
    learner: &Learner<M>,
    average: Option<&M>,
    step: usize,
    folder: &Path,
    events: &EventStoreClient,
) -> io::Result<Vec<String>> {
    let interrupter = Interrupter::new();
    let [model, optim, scheduler] =
        PARTS.map(|part| PartWriter(FileCheckpointer::new(folder, part)));
    let mut checkpointer = LearningCheckpointer::new(
        AsyncCheckpointer::new(model).with_interrupter(interrupter.clone()),
        AsyncCheckpointer::new(optim).with_interrupter(interrupter.clone()),
        AsyncCheckpointer::new(scheduler).with_interrupter(interrupter.clone()),
        Box::new(Save),
    );
    quietly(|| {
        checkpointer.checkpoint(learner, step, events);
        // Dropping the checkpointer waits for the threads that write the files.
        drop(checkpointer);
    });
    if let Some(error) = interrupter.error() {
        return Err(io::Error::other(error));
    }
    let mut names = PARTS.map(|part| part_name(part, step)).to_vec();
    if let Some(average) = average {
        let name = part_name(AVERAGE, step);
        let record = average.clone().into_record();
        let saved = quietly(|| catching(|| record.save(folder.join(&name))));
        saved.map_err(io::Error::other)?.map_err(io::Error::other)?;
        names.push(name);
    }
    Ok(names)
}

/// Synchronizes the files to disk, and writes their hashes and the state.
fn write_contents(state: &RunState, parts: &[String], folder: &Path) -> io::Result<()> {
    let mut files = BTreeMap::new();
    for name in parts {
        let path = folder.join(name);
        // Opened for writing, because Windows synchronizes no other files.
        File::options().write(true).open(&path)?.sync_all()?;
        files.insert(name.clone(), hash(&path)?);
    }
    Contents { state: state.clone(), files }.write(folder)
}

/// Synchronizes a folder's entries to disk, on systems where a folder can be opened as a file.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn hash(path: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    loop {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        hasher.update(piece);
        let read = piece.len();
        file.consume(read);
    }
    Ok(hexadecimal(&hasher.finalize()))
}

/// Removes a folder with its contents, if it exists.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Checkpointing strategy that saves at every call.
struct Save;

impl CheckpointingStrategy for Save {
    fn checkpointing(&mut self, _: usize, _: &EventStoreClient) -> Vec<CheckpointingAction> {
        vec![CheckpointingAction::Save]
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        lr_scheduler::LrScheduler,
        optim::{GradientsParams, ModuleOptimizer},
        tensor::Device,
        train::TrainStep,
    };
    use tx_data::{EncodedPair, Seq2SeqBatch};
    use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};
    use tx_text::special::BOS;

    use super::*;
    use crate::{
        config::{OptimizationConfig, Schedule},
        training::{
            adam::Adam,
            schedule::{Curve, Decay, LearningRate},
        },
        translation::seq2seq::Seq2Seq,
    };

    fn model(device: &Device) -> Seq2Seq {
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 16,
            encoder_layers: 1,
            decoder_layers: 1,
            max_len: 16,
            dropout: DropoutConfig::none(),
            ..ModelConfig::default()
        };
        let vocab = VocabSizes { source: 12, target: 12 };
        Seq2Seq::new(Transformer::new(&config, vocab, device).unwrap(), 0.0)
    }

    fn gradients(model: &Seq2Seq, device: &Device) -> GradientsParams {
        let pair = EncodedPair::new(vec![4, 5, 2], vec![1, 6, 7, 2]);
        TrainStep::step(model, Seq2SeqBatch::new(&[&pair], BOS, device)).grads
    }

    fn weights(model: Seq2Seq) -> Vec<u8> {
        model.into_record().into_bytes().unwrap().to_vec()
    }

    /// The files of a checkpoint after one update are deleted once it is loaded. The second update
    /// must equal that of a run without a checkpoint.
    #[test]
    fn files_of_a_loaded_checkpoint_may_be_removed() {
        let device = Device::flex().autodiff();
        device.seed(1);
        let adam = || ModuleOptimizer::from(Adam::new(&OptimizationConfig::default()));
        let curve = Curve {
            schedule: Schedule::Constant,
            peak: 0.1,
            warmup_steps: 0,
            total_steps: 9,
            d_model: 8,
            decay: Decay::default(),
        };
        let mut rate = LearningRate::new(curve);
        let first = model(&device);
        let mut optimizer = adam();
        let second = optimizer.step(rate.step(), first.clone(), gradients(&first, &device));

        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::of(run.path());
        let path = |part| checkpoints.part(part, 1);
        fs::create_dir_all(checkpoints.at(1)).unwrap();
        second.clone().into_record().save(path("model")).unwrap();
        optimizer.to_record().save(path("optim")).unwrap();
        rate.to_record().save(path("scheduler")).unwrap();

        let loaded = checkpoints.model(1, model(&device)).unwrap();
        let mut learner = Learner::new(loaded, adam(), LearningRate::new(curve));
        checkpoints.load_optimizer(1, &mut learner).unwrap();
        fs::remove_dir_all(run.path().join(FOLDER)).unwrap();
        learner.lr_step();
        learner.optimizer_step(gradients(&learner.model(), &device));

        let third = optimizer.step(rate.step(), second.clone(), gradients(&second, &device));
        assert!(weights(learner.model()) == weights(third));
    }

    /// Reading a checkpoint hashes all of it; updating its state must not.
    #[test]
    fn a_state_is_updated_without_reading_the_weights() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::of(run.path());
        let state = RunState { step: 1, ..RunState::default() };
        fs::create_dir_all(checkpoints.at(1)).unwrap();
        let files = BTreeMap::from([("model-1.bpk".into(), "no such file".into())]);
        Contents { state: state.clone(), files: files.clone() }.write(&checkpoints.at(1)).unwrap();
        checkpoints.update_state(&RunState { since_best: 7, ..state.clone() }).unwrap();
        let contents = Contents::read(&checkpoints.at(1).join(STATE)).unwrap();
        assert_eq!((contents.state.since_best, contents.files), (7, files));
        assert!(checkpoints.update_state(&RunState { step: 2, ..state }).is_err());
    }
}
