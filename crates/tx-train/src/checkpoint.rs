//! Going on after a stop: weights, optimizer, schedule, and where the run stands.
//!
//! A checkpoint is a folder `checkpoints/step-N` of the run: three files of Burn's `burnpack`
//! format, and `state.toml` with their hashes. It is written aside, brought to disk and renamed:
//! it is whole or absent, and the one before stays until then.

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

use crate::{config::TrainConfig, error::TrainError, step::Seq2Seq};

/// In the folder of a run.
const FOLDER: &str = "checkpoints";
/// The name of a checkpoint, before the number of its update.
const PREFIX: &str = "step-";
/// Of a checkpoint that is being written.
const PARTIAL: &str = ".partial";
const STATE: &str = "state.toml";
/// The files of every checkpoint: `model-N.bpk` and so on.
const PARTS: [&str; 3] = ["model", "optim", "scheduler"];
/// The moving average of the weights, of a run that has one.
const AVERAGE: &str = "average";

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunState {
    /// Whole epochs done.
    pub epoch: usize,
    /// Batches done of the next epoch.
    pub batch: usize,
    /// Updates made.
    pub step: usize,
    /// Seconds of training and validation so far.
    pub seconds: f64,
    /// Fingerprint of the training data: pairs and a hash of their text.
    pub data: String,
    /// Fingerprint of the validation data. Empty in checkpoints that have both in one.
    #[serde(default)]
    pub validation_data: String,
    /// The update after which the model was last validated.
    pub validated: Option<usize>,
    /// Validations since the best model.
    pub since_best: usize,
    /// How often `reduce-on-plateau` has reduced the learning rate.
    pub reductions: usize,
    /// The best model so far.
    pub best: Option<Best>,
    /// The best models that a checkpoint is kept of, the best first.
    pub kept: Vec<Best>,
    /// What the run was told.
    pub config: TrainConfig,
}

impl RunState {
    /// Forgets the best models: they were chosen by another figure, or on other data.
    pub fn forget_best(&mut self) {
        (self.best, self.since_best, self.validated) = (None, 0, None);
        self.kept.clear();
    }

    /// Notes a model if it is among the best `count`; says whether it is.
    pub fn keep(&mut self, model: Best, count: usize) -> bool {
        let place = self.kept.partition_point(|other| other.rank >= model.rank);
        self.kept.insert(place, model);
        self.kept.truncate(count);
        place < count
    }
}

/// The best model of a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Best {
    /// In which epoch.
    pub epoch: usize,
    /// After which update.
    pub step: usize,
    /// The figure that it is best by, higher is better, and its negated loss.
    pub rank: (f64, f64),
}

/// `state.toml`.
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

    /// The file's own hash, of all that follows.
    fn first_line(text: &str) -> String {
        format!("# SHA-256 of what follows: {}", hexadecimal(&Sha256::digest(text)))
    }

    fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
        match text.split_once('\n') {
            Some((line, text)) if line == Self::first_line(text) => {
                toml::from_str(text).map_err(|error| error.to_string())
            }
            _ => Err("it does not have the hash that it gives".into()),
        }
    }
}

/// The checkpoints of a run.
#[derive(Debug, Clone)]
pub struct Checkpoints {
    folder: PathBuf,
}

impl Checkpoints {
    /// Those of the run in the folder `run`; there may be none yet.
    pub fn of(run: &Path) -> Self {
        Self { folder: run.join(FOLDER) }
    }

    /// The updates after which there is one, in order.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read.
    pub fn steps(&self) -> Result<Vec<usize>, TrainError> {
        let read = |source| TrainError::Read { path: self.folder.clone(), source };
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(read)?,
        };
        let mut steps = Vec::new();
        for entry in entries {
            let name = entry.map_err(read)?.file_name();
            steps.extend(
                name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<usize>().ok()),
            );
        }
        steps.sort_unstable();
        Ok(steps)
    }

    /// Where the run stood after update `step`. All files of the checkpoint are read and compared
    /// with their hashes.
    ///
    /// # Errors
    ///
    /// When a file is missing or damaged; the error says which checkpoint before is left.
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
            return Err(problem(&path, format!("it does not name `{missing}`")));
        }
        for (name, expected) in &contents.files {
            let path = folder.join(name);
            let hash = hash(&path).map_err(|error| problem(&path, error.to_string()))?;
            if hash != *expected {
                return Err(problem(&path, format!("it is not the file that `{STATE}` names")));
            }
        }
        Ok(contents)
    }

    /// Saves a checkpoint, and drops those before but the last `keep` and the best models'.
    ///
    /// # Errors
    ///
    /// When a file cannot be written; the checkpoints before stay.
    pub fn save(
        &self,
        learner: &Learner<Seq2Seq>,
        average: Option<&Seq2Seq>,
        state: &RunState,
        keep: usize,
        events: &EventStoreClient,
    ) -> Result<(), TrainError> {
        let folder = self.at(state.step);
        let partial = self.folder.join(format!("{PREFIX}{}{PARTIAL}", state.step));
        let write = |source| TrainError::Write { path: folder.clone(), source };
        // The weights are there already when only a validation came in between.
        if folder.is_dir() && self.note(state).is_ok() {
            return self.prune(state, keep);
        }
        remove(&partial).and_then(|()| fs::create_dir_all(&partial)).map_err(write)?;
        let written = write_parts(learner, average, state.step, &partial, events)
            .and_then(|parts| write_contents(state, &parts, &partial))
            // What has the name is damaged.
            .and_then(|()| remove(&folder))
            .and_then(|()| fs::rename(&partial, &folder))
            .and_then(|()| sync_folder(&self.folder));
        if let Err(error) = written {
            // A full disk should not stay full of this.
            drop(remove(&partial));
            return Err(write(error));
        }
        self.prune(state, keep)
    }

    /// Notes another state in the checkpoint after update `state.step`, whose weights stay. They are
    /// not compared with their hashes: this process wrote them, or compared them when it resumed.
    ///
    /// # Errors
    ///
    /// When there is no such checkpoint, its state is damaged, or cannot be written.
    pub fn note(&self, state: &RunState) -> Result<(), TrainError> {
        let path = self.at(state.step);
        let Contents { files, .. } = Contents::read(&path.join(STATE)).map_err(|problem| {
            TrainError::Checkpoint { path: path.clone(), problem, before: None }
        })?;
        let contents = Contents { state: state.clone(), files };
        contents.write(&path).map_err(|source| TrainError::Write { path, source })
    }

    /// Puts the checkpoint after update `step` into `learner`, which needs its files no longer.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or is of another model.
    pub fn load(&self, step: usize, learner: &mut Learner<Seq2Seq>) -> Result<(), TrainError> {
        let [model, optim, scheduler] = PARTS.map(|part| self.part(part, step));
        // The Learner takes only what fits, so whether it does is found out first.
        self.model(step, learner.model())?;
        let model_record = ModuleRecord::from_bytes(read(&model)?).map_err(unusable(&model))?;
        let optim_record = OptimizerRecord::from_bytes(read(&optim)?).map_err(unusable(&optim))?;
        let scheduler_record =
            LrSchedulerRecord::from_bytes(read(&scheduler)?).map_err(unusable(&scheduler))?;
        learner.load_model(model_record);
        learner.load_optim(optim_record);
        learner.load_scheduler(scheduler_record);
        Ok(())
    }

    /// `model` with the weights of the checkpoint after update `step`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is of another model.
    pub fn model(&self, step: usize, model: Seq2Seq) -> Result<Seq2Seq, TrainError> {
        self.weights(PARTS[0], step, model)
    }

    /// `model` with the moving average of the weights at update `step`; none if the run had none.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, or is of another model.
    pub fn average(&self, step: usize, model: Seq2Seq) -> Result<Option<Seq2Seq>, TrainError> {
        let there = self.part(AVERAGE, step).is_file();
        there.then(|| self.weights(AVERAGE, step, model)).transpose()
    }

    fn weights(&self, part: &str, step: usize, model: Seq2Seq) -> Result<Seq2Seq, TrainError> {
        let path = self.part(part, step);
        let record = ModuleRecord::from_bytes(read(&path)?);
        record.and_then(|record| model.try_load_record(record)).map_err(unusable(&path))
    }

    /// Drops the checkpoints after update `step`: the run goes on from there in another way.
    ///
    /// # Errors
    ///
    /// When one cannot be removed.
    pub fn drop_after(&self, step: usize) -> Result<(), TrainError> {
        self.drop_all(|other| other > step)
    }

    /// Removes all but the last `keep` and the best models', and what was left half written.
    fn prune(&self, state: &RunState, keep: usize) -> Result<(), TrainError> {
        let steps = self.steps()?;
        let old = steps.iter().filter(|&&other| other <= state.step).rev().nth(keep).copied();
        let is_best = |step| state.kept.iter().any(|best| best.step == step);
        self.drop_all(|other| old.is_some_and(|old| other <= old) && !is_best(other))?;
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
        clean().map_err(|source| TrainError::Write { path: self.folder.clone(), source })
    }

    fn drop_all(&self, which: impl Fn(usize) -> bool) -> Result<(), TrainError> {
        for step in self.steps()?.into_iter().filter(|&step| which(step)) {
            let path = self.at(step);
            remove(&path).map_err(|source| TrainError::Write { path, source })?;
        }
        Ok(())
    }

    /// The last whole checkpoint before update `step`.
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

/// A whole file. Records loaded from a path read it when a tensor is first used, and panic if it has
/// gone by then.
fn read(path: &Path) -> Result<Bytes, TrainError> {
    fs::read(path).map(Bytes::from_bytes_vec).map_err(unusable(path))
}

fn part_name(part: &str, step: usize) -> String {
    format!("{part}-{step}.bpk")
}

/// Writes the parts, and gives their names.
fn write_parts(
    learner: &Learner<Seq2Seq>,
    average: Option<&Seq2Seq>,
    step: usize,
    folder: &Path,
    events: &EventStoreClient,
) -> io::Result<Vec<String>> {
    let interrupter = Interrupter::new();
    let [model, optim, scheduler] = PARTS.map(|part| FileCheckpointer::new(folder, part));
    let mut checkpointer = LearningCheckpointer::new(
        AsyncCheckpointer::new(model).with_interrupter(interrupter.clone()),
        AsyncCheckpointer::new(optim).with_interrupter(interrupter.clone()),
        AsyncCheckpointer::new(scheduler).with_interrupter(interrupter.clone()),
        Box::new(Save),
    );
    checkpointer.checkpoint(learner, step, events);
    // The files are written by threads, which end with the checkpointer.
    drop(checkpointer);
    if let Some(error) = interrupter.error() {
        return Err(io::Error::other(error));
    }
    let mut names = PARTS.map(|part| part_name(part, step)).to_vec();
    if let Some(average) = average {
        let name = part_name(AVERAGE, step);
        average.clone().into_record().save(folder.join(&name)).map_err(io::Error::other)?;
        names.push(name);
    }
    Ok(names)
}

/// Names the files, once they are on the disk.
fn write_contents(state: &RunState, parts: &[String], folder: &Path) -> io::Result<()> {
    let mut files = BTreeMap::new();
    for name in parts {
        let path = folder.join(name);
        // For writing, without which Windows brings nothing to disk.
        File::options().write(true).open(&path)?.sync_all()?;
        files.insert(name.clone(), hash(&path)?);
    }
    Contents { state: state.clone(), files }.write(folder)
}

/// Brings the names in a folder to disk, where a folder can be opened as a file.
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

/// Removes a folder with all that is in it, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Saves whenever asked.
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

    use super::*;
    use crate::{
        adam::Adam,
        config::OptimizationConfig,
        schedule::{LearningRate, Schedule},
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
        Seq2Seq::new(Transformer::new(&config, vocab, device).unwrap(), 0.0, 0.0)
    }

    fn gradients(model: &Seq2Seq, device: &Device) -> GradientsParams {
        let pair = EncodedPair { source: vec![4, 5, 2], target: vec![1, 6, 7, 2] };
        TrainStep::step(model, Seq2SeqBatch::new(&[&pair], device)).grads
    }

    fn weights(model: Seq2Seq) -> Vec<u8> {
        model.into_record().into_bytes().unwrap().to_vec()
    }

    /// A checkpoint after one update, whose files are deleted as soon as it is loaded; the second
    /// update is compared with one that needed no checkpoint.
    #[test]
    fn a_loaded_checkpoint_needs_its_files_no_longer() {
        let device = Device::flex().autodiff();
        device.seed(1);
        let adam = || ModuleOptimizer::from(Adam::new(&OptimizationConfig::default()));
        let mut rate = LearningRate {
            schedule: Schedule::Constant,
            peak: 0.1,
            warmup_steps: 0,
            total_steps: 9,
            d_model: 8,
            step: 0,
            reduction: 1.0,
        };
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

        let mut learner = Learner::new(model(&device), adam(), rate.clone());
        checkpoints.load(1, &mut learner).unwrap();
        fs::remove_dir_all(run.path().join(FOLDER)).unwrap();
        learner.lr_step();
        learner.optimizer_step(gradients(&learner.model(), &device));

        let third = optimizer.step(rate.step(), second.clone(), gradients(&second, &device));
        assert!(weights(learner.model()) == weights(third));
    }

    /// Reading a checkpoint again hashes all of it; noting a state must not.
    #[test]
    fn a_state_is_noted_without_reading_the_weights() {
        let run = tempfile::tempdir().unwrap();
        let checkpoints = Checkpoints::of(run.path());
        let state = RunState { step: 1, ..RunState::default() };
        fs::create_dir_all(checkpoints.at(1)).unwrap();
        let files = BTreeMap::from([("model-1.bpk".into(), "no such file".into())]);
        Contents { state: state.clone(), files: files.clone() }.write(&checkpoints.at(1)).unwrap();
        checkpoints.note(&RunState { since_best: 7, ..state.clone() }).unwrap();
        let contents = Contents::read(&checkpoints.at(1).join(STATE)).unwrap();
        assert_eq!((contents.state.since_best, contents.files), (7, files));
        assert!(checkpoints.note(&RunState { step: 2, ..state }).is_err());
    }
}
