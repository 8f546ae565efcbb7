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
