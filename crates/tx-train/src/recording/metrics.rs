//! Metrics for programs: `metrics.jsonl` in the run folder, and event files for TensorBoard.
//!
//! `metrics.jsonl` has one JSON object per line: for every `metrics.every_steps` updates, for the
//! updates before a checkpoint, and for every validation.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    marker::PhantomData,
    mem,
    path::{Path, PathBuf},
};

use burn::tensor::Device;
use serde::{Deserialize, Deserializer, Serialize};
use tx_infer::{
    bench::{device_megabytes, peak_megabytes},
    file::write_whole,
};

use super::{run_state::RunState, tensorboard::EventFile};
use crate::{
    error::TrainError, task::StepOutput, training::layer_norms::LayerNorms,
    validation_report::ValidationReport,
};

/// Name of the metrics file in a run folder.
const FILE: &str = "metrics.jsonl";
/// Name of the folder of event files in a run folder.
const EVENTS: &str = "tensorboard";

/// Line of the metrics file; `R` is the validation report of the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Record<R> {
    /// Mean over the updates since the last such line.
    Training {
        /// Last of these updates.
        step: usize,
        /// Epoch of that update, from 1.
        epoch: usize,
        /// Seconds of training and validation so far.
        seconds: f64,
        /// Loss in nats per target token, with smoothing and dropout.
        #[serde(deserialize_with = "null_as_nan")]
        loss: f64,
        /// Negative log-likelihood in nats per target token, with dropout: the loss without smoothing and
        /// other terms. NaN in files of earlier versions, which lack it.
        #[serde(default = "nan", deserialize_with = "null_as_nan")]
        nll: f64,
        /// `e^nll`
        #[serde(deserialize_with = "null_as_nan")]
        perplexity: f64,
        /// Fraction of target tokens predicted correctly.
        accuracy: f64,
        /// Learning rate of the last update.
        learning_rate: f64,
        /// Gradient norm of the last update, before clipping.
        gradient_norm: f64,
        /// Batches skipped since the last such line because of a loss or gradient that is not
        /// finite.
        #[serde(default)]
        skipped: usize,
        /// Source tokens per second without padding; validation time is excluded.
        source_tokens_per_second: f64,
        /// Target tokens per second without padding; validation time is excluded.
        target_tokens_per_second: f64,
        /// Fraction of training time spent waiting for batches.
        #[serde(default)]
        waiting_for_data: f64,
        /// Peak memory of the process in 10⁶ bytes, where the system reports it.
        peak_megabytes: Option<f64>,
        /// Device memory after these updates in 10⁶ bytes, where the device reports it, as GPUs do.
        #[serde(default)]
        device_megabytes: Option<f64>,
    },
    /// Validation of a model.
    Validation {
        /// Update of the model.
        step: usize,
        /// Epoch of that update, from 1.
        epoch: usize,
        /// Seconds of training and validation so far.
        seconds: f64,
        /// Whether this is the best model so far.
        best: bool,
        /// Report of the validation.
        #[serde(flatten)]
        report: R,
        /// `e^loss`
        #[serde(deserialize_with = "null_as_nan")]
        perplexity: f64,
    },
}

/// Deserializes a number for which JSON has `null` if it is infinite or NaN.
pub(crate) fn null_as_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn nan() -> f64 {
    f64::NAN
}

impl<R> Record<R> {
    /// Returns the update after which the record was written.
    pub fn step(&self) -> usize {
        match self {
            Self::Training { step, .. } | Self::Validation { step, .. } => *step,
        }
    }
}

impl<R: ValidationReport> Record<R> {
    fn to_tensorboard(&self, events: &mut EventFile) -> io::Result<()> {
        match self {
            Self::Training {
                step,
                loss,
                nll,
                perplexity,
                accuracy,
                learning_rate,
                gradient_norm,
                target_tokens_per_second,
                ..
            } => events.scalars(
                *step,
                "training",
                &[
                    ("loss", *loss),
                    ("nll", *nll),
                    ("perplexity", *perplexity),
                    ("accuracy", *accuracy),
                    ("learning_rate", *learning_rate),
                    ("gradient_norm", *gradient_norm),
                    ("target_tokens_per_second", *target_tokens_per_second),
                ],
            ),
            Self::Validation { step, report, .. } => {
                let scalars = report.scalars();
                let scalars: Vec<(&str, f64)> =
                    scalars.iter().map(|(key, value)| (&**key, *value)).collect();
                events.scalars(*step, "validation", &scalars)?;
                match report.sample_table() {
                    Some(table) => events.text(*step, "validation/samples", &table),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Metrics file that is being written, with the updates that are not written yet.
pub(crate) struct Metrics<R> {
    path: PathBuf,
    file: File,
    events: EventFile,
    device: Device,
    /// Number of updates per line.
    every: usize,
    sum: StepOutput,
    /// Seconds of the updates in `sum`.
    took: f64,
    /// Seconds of those updates spent waiting for batches.
    waited: f64,
    /// Batches skipped since the last line.
    skipped: usize,
    /// Last update in `sum`.
    last: Option<Update>,
    report: PhantomData<fn() -> R>,
}

/// Metrics of an update.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Update {
    /// Number of the update, from 1.
    pub step: usize,
    /// Epoch, from 1.
    pub epoch: usize,
    /// Seconds of training and validation so far.
    pub seconds: f64,
    /// Seconds that the update took, including waiting for its batches.
    pub took: f64,
    /// Seconds spent waiting for its batches.
    pub waited: f64,
    /// Seconds in which the gradients of all ranks were added up, including the wait for them.
    pub reducing: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Gradient norm, before clipping.
    pub gradient_norm: f64,
}

impl<R: ValidationReport> Metrics<R> {
    /// Continues the file of the run in `run` from `state`: lines of later updates and validations,
    /// which will be repeated, are removed. Writes a line for each `every` updates on `device`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written.
    pub fn open(
        run: &Path,
        state: &RunState,
        every: usize,
        device: Device,
    ) -> Result<Self, TrainError> {
        let path = run.join(FILE);
        let kept = match File::open(&path) {
            Ok(file) => lines_until::<R>(file, state).map_err(TrainError::reading(&path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(TrainError::reading(&path)(error)),
        };
        let open = || {
            fs::create_dir_all(run)?;
            write_whole(&path, kept.as_bytes())?;
            OpenOptions::new().append(true).open(&path)
        };
        let file = open().map_err(TrainError::writing(&path))?;
        let folder = run.join(EVENTS);
        let events =
            EventFile::create(&folder, state.step).map_err(TrainError::writing(&folder))?;
        let sum = StepOutput::default();
        let (took, waited, skipped, last) = (0.0, 0.0, 0, None);
        let report = PhantomData;
        Ok(Self { path, file, events, device, every, sum, took, waited, skipped, last, report })
    }

    /// Records an update.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn update(&mut self, output: &StepOutput, update: Update) -> Result<(), TrainError> {
        self.sum.add(output);
        self.took += update.took;
        self.waited += update.waited;
        self.last = Some(update);
        if self.is_line_due(update.step) { self.flush() } else { Ok(()) }
    }

    /// Returns `true` if the update `step` ends the updates of a line.
    pub fn is_line_due(&self, step: usize) -> bool {
        step.is_multiple_of(self.every)
    }

    /// Adds the norms of the layers in an update to the event files.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn layers(&mut self, step: usize, layers: &[LayerNorms]) -> Result<(), TrainError> {
        let scalars = |of: fn(&LayerNorms) -> f64| -> Vec<(&str, f64)> {
            layers.iter().map(|layer| (&*layer.name, of(layer))).collect()
        };
        self.events
            .scalars(step, "gradient_norm", &scalars(|layer| layer.gradient))
            .and_then(|()| self.events.scalars(step, "weight_norm", &scalars(|layer| layer.weight)))
            .map_err(TrainError::writing(&self.path))
    }

    /// Counts a skipped batch.
    pub fn count_skipped(&mut self) {
        self.skipped += 1;
    }

    /// Writes a line for the updates since the last one, if there are any.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<(), TrainError> {
        let Some(update) = self.last.take() else { return Ok(()) };
        let sum = mem::take(&mut self.sum);
        let (took, waited) = (mem::take(&mut self.took), mem::take(&mut self.waited));
        let skipped = mem::take(&mut self.skipped);
        let per_second = |tokens: usize| tokens as f64 / took.max(1e-9);
        tracing::debug!(
            step = update.step,
            loss = sum.loss(),
            nll = sum.nll(),
            accuracy = sum.accuracy(),
            learning_rate = update.learning_rate,
            gradient_norm = update.gradient_norm,
            target_tokens_per_second = per_second(sum.target_tokens),
            "updates"
        );
        self.write(&Record::Training {
            step: update.step,
            epoch: update.epoch,
            seconds: update.seconds,
            loss: sum.loss(),
            nll: sum.nll(),
            perplexity: sum.nll().exp(),
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

    /// Writes a line.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&mut self, record: &Record<R>) -> Result<(), TrainError> {
        let line = serde_json::to_string(record).map_err(io::Error::other);
        line.and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()))
            .and_then(|()| record.to_tensorboard(&mut self.events))
            .map_err(TrainError::writing(&self.path))
    }
}

/// Reads the metrics of the run in `run`.
///
/// # Errors
///
/// If the file cannot be read.
pub fn read<R: ValidationReport>(run: &Path) -> Result<Vec<Record<R>>, TrainError> {
    let path = run.join(FILE);
    let text = fs::read_to_string(&path).map_err(TrainError::reading(&path))?;
    // The last line may be incomplete.
    Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect())
}

/// Returns the lines up to the update of `state`, or up to the first line that is not a record,
/// such as one truncated by a crash.
fn lines_until<R: ValidationReport>(file: File, state: &RunState) -> io::Result<String> {
    // The model may have been validated after the checkpoint of the same update.
    let is_known = |record: &Record<R>| match record {
        Record::Training { step, .. } => *step <= state.step,
        Record::Validation { step, .. } => {
            *step < state.step || state.validated.is_some_and(|validated| *step <= validated)
        }
    };
    let mut kept = String::new();
    for line in BufReader::new(file).lines() {
        let line = line?;
        match serde_json::from_str::<Record<R>>(&line) {
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
    use crate::translation::validation::Validation;

    fn update(step: usize) -> Update {
        Update {
            step,
            epoch: 1,
            seconds: step as f64,
            took: 0.5,
            waited: 0.125,
            reducing: 0.0,
            learning_rate: 0.1,
            gradient_norm: 2.0,
        }
    }

    fn at(step: usize, validated: Option<usize>) -> RunState {
        RunState { step, validated, ..RunState::default() }
    }

    fn open(run: &tempfile::TempDir, state: &RunState, every: usize) -> Metrics<Validation> {
        Metrics::open(run.path(), state, every, Device::flex()).unwrap()
    }

    fn steps(run: &Path) -> Vec<usize> {
        let text = fs::read_to_string(run.join(FILE)).unwrap();
        text.lines()
            .map(|line| serde_json::from_str::<Record<Validation>>(line).unwrap().step())
            .collect()
    }

    /// Two updates of 10 and 30 nats over 10 target tokens each, and 0.5 seconds each.
    #[test]
    fn a_line_is_the_mean_of_its_updates() {
        let run = tempfile::tempdir().unwrap();
        let mut metrics = open(&run, &RunState::default(), 2);
        for (step, loss_sum) in [(1, 10.0), (2, 30.0), (3, 99.0)] {
            let nll_sum = loss_sum / 4.0;
            let (target_tokens, source_tokens) = (10, 20);
            let output = StepOutput { loss_sum, nll_sum, correct: 4, target_tokens, source_tokens };
            metrics.update(&output, update(step)).unwrap();
        }
        let text = fs::read_to_string(run.path().join(FILE)).unwrap();
        let Record::Training {
            step,
            loss,
            nll,
            perplexity,
            accuracy,
            source_tokens_per_second,
            target_tokens_per_second,
            waiting_for_data,
            ..
        } = serde_json::from_str::<Record<Validation>>(text.trim_end()).unwrap()
        else {
            panic!("{text}")
        };
        assert_eq!((step, loss, nll, accuracy), (2, 2.0, 0.5, 0.4));
        assert!((perplexity - 0.5_f64.exp()).abs() < 1e-12);
        assert_eq!((source_tokens_per_second, target_tokens_per_second), (40.0, 20.0));
        assert_eq!(waiting_for_data, 0.25);
    }

    /// A line for 50 updates: 20 updates and a checkpoint, then 30 and one more.
    #[test]
    fn no_update_is_lost_between_two_lines() {
        let run = tempfile::tempdir().unwrap();
        let output = StepOutput { loss_sum: 2.0, target_tokens: 1, ..StepOutput::default() };
        let mut metrics = open(&run, &RunState::default(), 50);
        (1..=20).for_each(|step| metrics.update(&output, update(step)).unwrap());
        metrics.count_skipped();
        metrics.flush().unwrap();
        metrics.flush().unwrap();
        drop(metrics);
        let mut metrics = open(&run, &at(20, None), 50);
        (21..=51).for_each(|step| metrics.update(&output, update(step)).unwrap());
        metrics.flush().unwrap();
        assert_eq!(steps(run.path()), [20, 50, 51]);
        let skipped =
            read::<Validation>(run.path()).unwrap().into_iter().map(|record| match record {
                Record::Training { skipped, .. } => skipped,
                Record::Validation { .. } => 0,
            });
        assert_eq!(skipped.collect::<Vec<_>>(), [1, 0, 0]);
    }

    /// The perplexity of 800 nats is infinite, for which JSON has no number.
    #[test]
    fn values_that_are_not_finite_do_not_end_the_file() {
        let run = tempfile::tempdir().unwrap();
        let mut metrics = open(&run, &RunState::default(), 1);
        for (step, loss_sum) in [(1, 800.0), (2, f64::NAN), (3, 1.0)] {
            let nll_sum = loss_sum;
            let output =
                StepOutput { loss_sum, nll_sum, target_tokens: 1, ..StepOutput::default() };
            metrics.update(&output, update(step)).unwrap();
        }
        let lost = Validation { loss: f64::NAN, ..validation() };
        let perplexity = lost.perplexity();
        let (step, epoch, seconds, best) = (3, 1, 3.0, true);
        metrics
            .write(&Record::Validation { step, epoch, seconds, best, report: lost, perplexity })
            .unwrap();
        drop(metrics);
        assert_eq!(read::<Validation>(run.path()).unwrap().len(), 4);
        drop(open(&run, &at(3, Some(3)), 1));
        let records = read::<Validation>(run.path()).unwrap();
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
            sets: Vec::new(),
            exact_match: 0.0,
            samples: Vec::new(),
            seconds: 1.0,
        }
    }

    #[test]
    fn repeated_updates_and_validations_are_recorded_once() {
        let run = tempfile::tempdir().unwrap();
        let output = StepOutput { target_tokens: 1, ..StepOutput::default() };
        let mut metrics = open(&run, &RunState::default(), 1);
        (1..=5).for_each(|step| metrics.update(&output, update(step)).unwrap());
        let found = Record::Validation {
            step: 3,
            epoch: 1,
            seconds: 3.0,
            best: true,
            report: validation(),
            perplexity: 1.0,
        };
        let mut metrics = open(&run, &at(3, None), 1);
        metrics.write(&found).unwrap();
        // Killed within a line.
        metrics.file.write_all(b"{\"kind\":\"training\",\"st").unwrap();
        // The checkpoint follows that validation, or precedes it.
        drop(open(&run, &at(3, Some(3)), 1));
        assert_eq!(steps(run.path()), [1, 2, 3, 3]);
        let mut metrics = open(&run, &at(3, None), 1);
        assert_eq!(steps(run.path()), [1, 2, 3]);
        (4..=6).for_each(|step| metrics.update(&output, update(step)).unwrap());
        assert_eq!(steps(run.path()), [1, 2, 3, 4, 5, 6]);
    }
}
