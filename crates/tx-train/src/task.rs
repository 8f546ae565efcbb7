//! Interface between the training loop and a learning task.
//!
//! A [`Task`] has a model with a loss ([`Trainable`]), validates it ([`ValidationReport`]) and
//! saves the best one. The loop, checkpoints, the moving average, metrics and progress are generic
//! over it.

use std::{
    fmt::Display,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use burn::{
    module::Module,
    tensor::{Device, ExecutionError, Int, Tensor},
    train::{InferenceStep, ItemLazy, TrainStep},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::TrainError;

/// Learning task, as the training loop uses it.
pub trait Task: Send + 'static {
    /// Model to train.
    type Model: Trainable;
    /// Result of a validation.
    type Report: ValidationReport;

    /// Validates `model`, which has no autodiff. Also returns loss and counts of the validation
    /// set.
    ///
    /// # Errors
    ///
    /// [`TrainError::Interrupted`] once `stop` is set; otherwise as the task documents.
    fn validate(
        &self,
        model: &Self::Model,
        stop: &Arc<AtomicBool>,
    ) -> Result<(Self::Report, StepOutput), TrainError>;

    /// Returns the sort key of a validated model, higher is better: the configured metric, then the
    /// negated loss.
    fn rank(&self, report: &Self::Report) -> (f64, f64);

    /// Saves `model`, the best so far, into the run folder.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    fn save_best(
        &self,
        model: &Self::Model,
        report: &Self::Report,
        position: Position,
        run: &Path,
    ) -> Result<(), TrainError>;

    /// Writes the report page of the run folder from its metrics.
    ///
    /// # Errors
    ///
    /// If a file cannot be read or written.
    fn write_page(&self, run: &Path) -> Result<(), TrainError>;
}

/// Position in training at which a model was validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Update, from 1.
    pub step: usize,
}

/// Module with a training loss.
///
/// [`TrainStep`] and [`InferenceStep`] are what Burn's Learner requires; the loop itself calls
/// [`loss`](Self::loss) through
/// [`compute_gradients`](crate::training::gradients::compute_gradients).
pub trait Trainable:
    TrainStep<Input: Batch, Output = StepOutput>
    + InferenceStep<Input = <Self as TrainStep>::Input, Output = StepOutput>
    + Module
    + Display
    + 'static
{
    /// Computes the training loss of a batch.
    fn loss(&self, batch: BatchOf<Self>) -> BatchLoss;
}

/// Batch type of a model.
pub type BatchOf<M> = <M as TrainStep>::Input;

/// Batch of training examples on a device.
pub trait Batch: Send + 'static {
    /// Returns the numbers of source and target tokens without padding; loss and correct tokens are
    /// 0 in the result.
    fn token_counts(&self) -> StepOutput;

    /// Copies the batch to another device.
    fn to_device(self, device: &Device) -> Self;
}

/// Loss of a batch, still on the device.
#[derive(Debug, Clone)]
pub struct BatchLoss {
    /// Loss in nats, summed over the target tokens: `[1]`. A sum allows batches of any size to be
    /// combined exactly, because the batch has the number of tokens.
    pub sum: Tensor<1>,
    /// Number of target tokens with the highest logit: `[1]`.
    pub correct: Tensor<1, Int>,
}

impl BatchLoss {
    /// Detaches the tensors from the autodiff graph.
    pub(crate) fn without_autodiff(self) -> Self {
        Self { sum: self.sum.inner(), correct: self.correct.inner() }
    }

    /// Copies the tensors to another device.
    pub(crate) fn on_device(self, device: &Device) -> Self {
        Self { sum: self.sum.to_device(device), correct: self.correct.to_device(device) }
    }
}

/// Loss and counts of one or more batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepOutput {
    /// Loss in nats, summed over the target tokens.
    pub loss_sum: f64,
    /// Target tokens with the highest logit.
    pub correct: usize,
    /// Target tokens, without padding.
    pub target_tokens: usize,
    /// Source tokens, without padding.
    pub source_tokens: usize,
}

impl StepOutput {
    /// Adds loss and counts of further batches.
    pub fn add(&mut self, other: &Self) {
        self.loss_sum += other.loss_sum;
        self.correct += other.correct;
        self.target_tokens += other.target_tokens;
        self.source_tokens += other.source_tokens;
    }

    /// Returns the loss in nats per target token; 0 without tokens.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.target_tokens.max(1) as f64
    }

    /// Returns the fraction of target tokens predicted correctly; 0 without tokens.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.target_tokens.max(1) as f64
    }
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

/// Result of a validation, for metrics, progress and the dashboard.
pub trait ValidationReport: Clone + Serialize + DeserializeOwned + Send + 'static {
    /// Name of the metric that the dashboard plots besides loss and accuracy.
    const FIGURE: &'static str;

    /// Returns the value of [`FIGURE`](Self::FIGURE); higher is better.
    fn figure(&self) -> f64;

    /// Returns the perplexity of the validation set.
    fn perplexity(&self) -> f64;

    /// Returns the seconds that the validation took.
    fn seconds(&self) -> f64;

    /// Returns named values for TensorBoard.
    fn scalars(&self) -> Vec<(&'static str, f64)>;

    /// Returns all metrics in one line of text.
    fn summary(&self) -> String;

    /// Returns sample outputs as lines of text.
    fn sample_lines(&self) -> Vec<String>;

    /// Returns sample outputs as a Markdown table; `None` without samples.
    fn sample_table(&self) -> Option<String>;
}
