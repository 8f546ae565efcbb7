//! Observer of a run: a function of the calling program, which can stop the run.

use std::{ops::ControlFlow, sync::Arc};

use crate::{recording::metrics::Update, task::StepOutput, validation_report::Figure};

/// Function that is called after every update and every validation, in the thread of the training
/// loop. [`ControlFlow::Break`] stops the run with a checkpoint, from which it can be resumed exactly.
/// Of several ranks, only the first calls it.
pub type Observer = Arc<dyn Fn(&Event) -> ControlFlow<()> + Send + Sync>;

/// Event of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// An update was made.
    Update(UpdateEvent),
    /// The model was validated.
    Validation(ValidationEvent),
}

/// Update of the weights.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateEvent {
    /// Number of the update, from 1.
    pub step: usize,
    /// Epoch, from 1.
    pub epoch: usize,
    /// Seconds of training and validation so far, over all sessions of the run.
    pub seconds: f64,
    /// Seconds that the update took, including waiting for its batches.
    pub took: f64,
    /// Loss in nats per target token, with smoothing and dropout.
    pub loss: f64,
    /// Negative log-likelihood in nats per target token, with dropout.
    pub nll: f64,
    /// Fraction of target tokens predicted correctly.
    pub accuracy: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Gradient norm, before clipping.
    pub gradient_norm: f64,
    /// Source tokens of the update, without padding.
    pub source_tokens: usize,
    /// Target tokens of the update, without padding.
    pub target_tokens: usize,
}

/// Validation of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationEvent {
    /// Update of the model.
    pub step: usize,
    /// Epoch of that update, from 1.
    pub epoch: usize,
    /// Seconds of training and validation so far, over all sessions of the run.
    pub seconds: f64,
    /// Whether this is the best model so far, which is the bundle in the run folder now.
    pub is_best: bool,
    /// Metrics, of which the first three are loss, perplexity and accuracy.
    pub figures: Vec<Figure>,
}

impl UpdateEvent {
    /// Describes an update with its loss.
    pub(crate) fn new(update: &Update, output: &StepOutput) -> Self {
        Self {
            step: update.step,
            epoch: update.epoch,
            seconds: update.seconds,
            took: update.took,
            loss: output.loss(),
            nll: output.nll(),
            accuracy: output.accuracy(),
            learning_rate: update.learning_rate,
            gradient_norm: update.gradient_norm,
            source_tokens: output.source_tokens,
            target_tokens: output.target_tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Mutex};

    use burn::tensor::Device;

    use super::*;
    use crate::{
        ConfigBuilder, Outcome, ResumeFrom, Trainer, ranks::Alone,
        reporting::progress::ProgressMode,
    };

    /// A run of six updates in three epochs, whose observer stops it after the event `last`.
    fn run(trainer: Trainer, last: Option<usize>) -> (Outcome, Vec<Event>) {
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = events.clone();
        let observer = move |event: &Event| {
            let mut seen = seen.lock().unwrap();
            seen.push(event.clone());
            if Some(seen.len()) == last {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let outcome =
            trainer.with_progress(ProgressMode::Quiet).with_observer(observer).run().unwrap();
        let events = events.lock().unwrap().clone();
        (outcome, events)
    }

    fn new(folder: &Path) -> Trainer {
        let mut builder = ConfigBuilder::from_recipe("reverse").unwrap();
        for setting in [
            "model.d_model=16",
            "model.d_ff=16",
            "train.epochs=3",
            "data.train_pairs=16",
            "data.valid_pairs=4",
            "train.batch={ sentences = 8 }",
            "train.accumulate=1",
        ] {
            builder.set(setting).unwrap();
        }
        Trainer::new(builder.build().unwrap(), folder, Device::flex())
    }

    /// Numbers of an event that do not depend on time.
    fn numbers(event: &Event) -> (usize, usize, Vec<f64>) {
        match event {
            Event::Update(update) => {
                let UpdateEvent { loss, nll, accuracy, learning_rate, gradient_norm, .. } = *update;
                (update.epoch, update.step, vec![loss, nll, accuracy, learning_rate, gradient_norm])
            }
            Event::Validation(validation) => {
                let is_timeless = |it: &&Figure| !it.key.contains("second");
                let figures = validation.figures.iter().filter(is_timeless);
                (validation.epoch, validation.step, figures.map(|figure| figure.value).collect())
            }
        }
    }

    #[test]
    fn a_run_that_its_observer_stops_continues_exactly() {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole");
        let (outcome, all) = run(new(&whole), None);
        assert!(!outcome.interrupted);
        // Two updates and a validation in each epoch.
        let kinds: Vec<bool> = all.iter().map(|it| matches!(it, Event::Update(_))).collect();
        assert_eq!(kinds, [[true, true, false]; 3].concat());
        let weights = |run: &Path| fs::read(run.join("model.safetensors")).unwrap();
        for last in 1..=all.len() {
            let part = folder.path().join(last.to_string());
            let (outcome, first) = run(new(&part), Some(last));
            assert!(outcome.interrupted);
            let from = ResumeFrom::Last;
            let resumed =
                Trainer::resume(&part, from, None, Device::flex(), Arc::new(Alone), |_| Ok(()));
            let (_, rest) = run(resumed.unwrap(), None);
            let parts: Vec<_> = first.iter().chain(&rest).map(numbers).collect();
            assert_eq!(parts, all.iter().map(numbers).collect::<Vec<_>>(), "stopped after {last}");
            assert_eq!(weights(&part), weights(&whole), "stopped after {last}");
        }
    }
}
