//! Metrics for programs: `metrics.jsonl` in the run folder, with a line of JSON for every so many
//! updates, for those before a checkpoint and for every validation; and the same for TensorBoard.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    mem,
    path::{Path, PathBuf},
};

use burn::tensor::Device;
use serde::{Deserialize, Deserializer, Serialize};
use tx_infer::{
    bench::{device_megabytes, peak_megabytes},
    file::write_whole,
};

use crate::{
    checkpoint::RunState, error::TrainError, sample::Sample, step::StepOutput,
    tensorboard::EventFile, validate::Validation,
};

/// In the folder of a run.
const FILE: &str = "metrics.jsonl";
/// The folder of event files there.
const EVENTS: &str = "tensorboard";

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record {
    /// What the updates since the last such line gave, together.
    Training {
        /// The last of these updates.
        step: usize,
        /// Its epoch, from 1.
        epoch: usize,
        /// Seconds of training and validation so far.
        seconds: f64,
        /// Nats per target token, with smoothing and dropout.
        #[serde(deserialize_with = "number")]
        loss: f64,
        /// `e^loss`
        #[serde(deserialize_with = "number")]
        perplexity: f64,
        /// Share of target tokens that had the highest logit.
        accuracy: f64,
        /// Of the last update.
        learning_rate: f64,
        /// Of the last update, before clipping.
        gradient_norm: f64,
        /// Batches skipped since the last such line, for a loss or gradient that is not finite.
        #[serde(default)]
        skipped: usize,
        /// Without padding; validation is not counted.
        source_tokens_per_second: f64,
        /// The same of the target.
        target_tokens_per_second: f64,
        /// Share of the updates' time in which they waited for their batches.
        #[serde(default)]
        waiting_for_data: f64,
        /// The most memory that the process has held, in 10⁶ bytes; only where the system tells.
        peak_megabytes: Option<f64>,
        /// What the device holds for the run after these updates, in 10⁶ bytes; only where it tells, as
        /// GPUs do.
        #[serde(default)]
        device_megabytes: Option<f64>,
    },
    /// What a validation found.
    Validation {
        /// After this update.
        step: usize,
        /// Its epoch, from 1.
        epoch: usize,
        /// Seconds of training and validation so far.
        seconds: f64,
        /// Whether this is the best model so far.
        best: bool,
        /// What was found.
        #[serde(flatten)]
        found: Validation,
        /// `e^loss`
        #[serde(deserialize_with = "number")]
        perplexity: f64,
    },
}

/// A number that JSON has as `null` when it is infinite or none.
pub(crate) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

impl Record {
    fn to_tensorboard(&self, events: &mut EventFile) -> io::Result<()> {
        match self {
            Self::Training {
                step,
                loss,
                perplexity,
                accuracy,
                learning_rate,
                gradient_norm,
                target_tokens_per_second,
                ..
            } => events.scalars(
                *step,
                &[
                    ("training/loss", *loss),
                    ("training/perplexity", *perplexity),
                    ("training/accuracy", *accuracy),
                    ("training/learning_rate", *learning_rate),
                    ("training/gradient_norm", *gradient_norm),
                    ("training/target_tokens_per_second", *target_tokens_per_second),
                ],
            ),
            Self::Validation { step, found, perplexity, .. } => {
                events.scalars(
                    *step,
                    &[
                        ("validation/loss", found.loss),
                        ("validation/perplexity", *perplexity),
                        ("validation/accuracy", found.accuracy),
                        ("validation/bleu", found.bleu),
                        ("validation/chrf", found.chrf),
                        ("validation/exact_match", found.exact_match),
                    ],
                )?;
                if found.samples.is_empty() {
                    return Ok(());
                }
                let cell = |text: &str| text.replace('|', "\\|");
                let mut table = "| source | reference | hypothesis |\n|---|---|---|\n".to_owned();
                for Sample { source, reference, hypothesis, .. } in &found.samples {
                    table += &format!(
                        "| {} | {} | {} |\n",
                        cell(source),
                        cell(reference),
                        cell(hypothesis)
                    );
                }
                events.text(*step, "validation/samples", &table)
            }
        }
    }

    /// The update it stands behind.
    pub fn step(&self) -> usize {
        match self {
            Self::Training { step, .. } | Self::Validation { step, .. } => *step,
        }
    }
}

/// The file, and what it has not been told yet.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    file: File,
    events: EventFile,
    device: Device,
    /// Updates from one line to the next.
    every: usize,
    sum: StepOutput,
    /// Seconds of the updates in `sum`.
    took: f64,
    /// Of which they waited for their batches.
    waited: f64,
    /// Batches skipped since the last line.
    skipped: usize,
    /// The last update in `sum`.
    last: Option<Update>,
}

/// What an update was made with.
#[derive(Debug, Clone, Copy)]
pub struct Update {
    /// Its number, from 1.
    pub step: usize,
    /// Its epoch, from 1.
    pub epoch: usize,
    /// Seconds of training and validation so far.
    pub seconds: f64,
    /// Seconds it took, those for its batches included.
    pub took: f64,
    /// Seconds it waited for its batches.
    pub waited: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// The length of the gradient, before clipping.
    pub gradient_norm: f64,
}

impl Metrics {
    /// Goes on with the file of the run in `run`, which stands at `state`; lines of what comes later,
    /// and is done again, are dropped. A line for each `every` updates on `device`.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or written.
    pub fn open(
        run: &Path,
        state: &RunState,
        every: usize,
        device: Device,
    ) -> Result<Self, TrainError> {
        let path = run.join(FILE);
        let kept = match File::open(&path) {
            Ok(file) => lines_until(file, state)
                .map_err(|source| TrainError::Read { path: path.clone(), source })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(source) => return Err(TrainError::Read { path, source }),
        };
        let open = || {
            fs::create_dir_all(run)?;
            write_whole(&path, kept.as_bytes())?;
            OpenOptions::new().append(true).open(&path)
        };
        let file = open().map_err(|source| TrainError::Write { path: path.clone(), source })?;
        let folder = run.join(EVENTS);
        let events = EventFile::create(&folder, state.step)
            .map_err(|source| TrainError::Write { path: folder, source })?;
        let sum = StepOutput::default();
        let (took, waited, skipped, last) = (0.0, 0.0, 0, None);
        Ok(Self { path, file, events, device, every, sum, took, waited, skipped, last })
    }

    /// Notes an update.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn update(&mut self, output: &StepOutput, update: Update) -> Result<(), TrainError> {
        self.sum.add(output);
        self.took += update.took;
        self.waited += update.waited;
        self.last = Some(update);
        if update.step.is_multiple_of(self.every) { self.flush() } else { Ok(()) }
    }

    /// Counts a skipped batch.
    pub fn skip(&mut self) {
        self.skipped += 1;
    }

    /// Writes a line for the updates since the last one, if there are any.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn flush(&mut self) -> Result<(), TrainError> {
        let Some(update) = self.last.take() else { return Ok(()) };
        let sum = mem::take(&mut self.sum);
        let (took, waited) = (mem::take(&mut self.took), mem::take(&mut self.waited));
        let skipped = mem::take(&mut self.skipped);
        let per_second = |tokens: usize| tokens as f64 / took.max(1e-9);
        self.write(&Record::Training {
            step: update.step,
            epoch: update.epoch,
            seconds: update.seconds,
            loss: sum.loss(),
            perplexity: sum.loss().exp(),
            accuracy: sum.accuracy(),
            learning_rate: update.learning_rate,
            gradient_norm: update.gradient_norm,
            skipped,
            source_tokens_per_second: per_second(sum.source_tokens),
            target_tokens_per_second: per_second(sum.target_tokens),
            waiting_for_data: waited / took.max(1e-9),
            peak_megabytes: peak_megabytes(),
            device_megabytes: device_megabytes(&self.device.clone().into()),
        })
    }

    /// Notes a line.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write(&mut self, record: &Record) -> Result<(), TrainError> {
        let line = serde_json::to_string(record).map_err(io::Error::other);
        line.and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()))
            .and_then(|()| record.to_tensorboard(&mut self.events))
            .map_err(|source| TrainError::Write { path: self.path.clone(), source })
    }
}

/// What the file of the run in `run` says.
///
/// # Errors
///
/// When the file cannot be read.
pub fn read(run: &Path) -> Result<Vec<Record>, TrainError> {
    let path = run.join(FILE);
    let text = fs::read_to_string(&path).map_err(|source| TrainError::Read { path, source })?;
    // The last line may be under way.
    Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect())
}

/// The lines up to where the run stands. A line that is no record, such as one cut short by a crash,
/// ends them.
fn lines_until(file: File, state: &RunState) -> io::Result<String> {
    // The model may have been validated after the checkpoint of the same update.
    let is_known = |record: &Record| match record {
        Record::Training { step, .. } => *step <= state.step,
        Record::Validation { step, .. } => {
            *step < state.step || state.validated.is_some_and(|validated| *step <= validated)
        }
    };
    let mut kept = String::new();
    for line in BufReader::new(file).lines() {
        let line = line?;
        match serde_json::from_str::<Record>(&line) {
            Ok(record) if is_known(&record) => kept += &(line + "\n"),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(step: usize) -> Update {
        Update {
            step,
            epoch: 1,
            seconds: step as f64,
            took: 0.5,
            waited: 0.125,
            learning_rate: 0.1,
            gradient_norm: 2.0,
        }
    }

    fn at(step: usize, validated: Option<usize>) -> RunState {
        RunState { step, validated, ..RunState::default() }
    }

    fn open(run: &tempfile::TempDir, state: &RunState, every: usize) -> Metrics {
        Metrics::open(run.path(), state, every, Device::flex()).unwrap()
    }

    fn steps(run: &Path) -> Vec<usize> {
        let text = fs::read_to_string(run.join(FILE)).unwrap();
        text.lines().map(|line| serde_json::from_str::<Record>(line).unwrap().step()).collect()
    }

    /// Two updates: 10 and 30 nats over 10 target tokens each, 0.5 seconds each.
    #[test]
    fn a_line_is_the_mean_of_its_updates() {
        let run = tempfile::tempdir().unwrap();
        let mut metrics = open(&run, &RunState::default(), 2);
        for (step, loss_sum) in [(1, 10.0), (2, 30.0), (3, 99.0)] {
            let output = StepOutput { loss_sum, correct: 4, target_tokens: 10, source_tokens: 20 };
            metrics.update(&output, update(step)).unwrap();
        }
        let text = fs::read_to_string(run.path().join(FILE)).unwrap();
        let Record::Training {
            step,
            loss,
            accuracy,
            source_tokens_per_second,
            target_tokens_per_second,
            waiting_for_data,
            ..
        } = serde_json::from_str(text.trim_end()).unwrap()
        else {
            panic!("{text}")
        };
        assert_eq!((step, loss, accuracy), (2, 2.0, 0.4));
        assert_eq!((source_tokens_per_second, target_tokens_per_second), (40.0, 20.0));
        assert_eq!(waiting_for_data, 0.25);
    }

    /// Lines after every 50 updates: 20 updates and a checkpoint, then 30 and one more.
    #[test]
    fn no_update_is_lost_between_two_lines() {
        let run = tempfile::tempdir().unwrap();
        let output = StepOutput { loss_sum: 2.0, target_tokens: 1, ..StepOutput::default() };
        let mut metrics = open(&run, &RunState::default(), 50);
        (1..=20).for_each(|step| metrics.update(&output, update(step)).unwrap());
        metrics.skip();
        metrics.flush().unwrap();
        metrics.flush().unwrap();
        drop(metrics);
        let mut metrics = open(&run, &at(20, None), 50);
        (21..=51).for_each(|step| metrics.update(&output, update(step)).unwrap());
        metrics.flush().unwrap();
        assert_eq!(steps(run.path()), [20, 50, 51]);
        let skipped = read(run.path()).unwrap().into_iter().map(|record| match record {
            Record::Training { skipped, .. } => skipped,
            Record::Validation { .. } => 0,
        });
        assert_eq!(skipped.collect::<Vec<_>>(), [1, 0, 0]);
    }

    /// A loss of 800 nats has a perplexity beyond every number, which JSON cannot hold.
    #[test]
    fn figures_that_are_not_finite_do_not_end_the_file() {
        let run = tempfile::tempdir().unwrap();
        let mut metrics = open(&run, &RunState::default(), 1);
        for (step, loss_sum) in [(1, 800.0), (2, f64::NAN), (3, 1.0)] {
            let output = StepOutput { loss_sum, target_tokens: 1, ..StepOutput::default() };
            metrics.update(&output, update(step)).unwrap();
        }
        let lost = Validation { loss: f64::NAN, ..validation() };
        let perplexity = lost.perplexity();
        let (step, epoch, seconds, best) = (3, 1, 3.0, true);
        metrics
            .write(&Record::Validation { step, epoch, seconds, best, found: lost, perplexity })
            .unwrap();
        drop(metrics);
        assert_eq!(read(run.path()).unwrap().len(), 4);
        drop(open(&run, &at(3, Some(3)), 1));
        let records = read(run.path()).unwrap();
        assert_eq!(records.iter().map(Record::step).collect::<Vec<_>>(), [1, 2, 3, 3]);
        let Record::Training { loss, perplexity, .. } = records[0] else { panic!("{records:?}") };
        assert!(loss == 800.0 && perplexity.is_nan());
    }

    fn validation() -> Validation {
        Validation {
            loss: 1.0,
            accuracy: 0.5,
            bleu: 10.0,
            bleu_signature: String::new(),
            chrf: 0.0,
            exact_match: 0.0,
            samples: Vec::new(),
            seconds: 1.0,
        }
    }

    #[test]
    fn what_is_done_again_is_noted_once() {
        let run = tempfile::tempdir().unwrap();
        let output = StepOutput { target_tokens: 1, ..StepOutput::default() };
        let mut metrics = open(&run, &RunState::default(), 1);
        (1..=5).for_each(|step| metrics.update(&output, update(step)).unwrap());
        let found = Record::Validation {
            step: 3,
            epoch: 1,
            seconds: 3.0,
            best: true,
            found: validation(),
            perplexity: 1.0,
        };
        let mut metrics = open(&run, &at(3, None), 1);
        metrics.write(&found).unwrap();
        // Killed within a line.
        metrics.file.write_all(b"{\"kind\":\"training\",\"st").unwrap();
        // The checkpoint is of after that validation, or of before it.
        drop(open(&run, &at(3, Some(3)), 1));
        assert_eq!(steps(run.path()), [1, 2, 3, 3]);
        let mut metrics = open(&run, &at(3, None), 1);
        assert_eq!(steps(run.path()), [1, 2, 3]);
        (4..=6).for_each(|step| metrics.update(&output, update(step)).unwrap());
        assert_eq!(steps(run.path()), [1, 2, 3, 4, 5, 6]);
    }
}
