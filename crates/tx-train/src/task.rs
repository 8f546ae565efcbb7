//! Interface between the training loop and a learning task.
//!
//! A [`Task`] has a model with a loss ([`Trainable`]), validates it ([`ValidationReport`]) and
//! saves the best one. The loop, checkpoints, the moving average, metrics, progress and the report
//! page are generic over it.

use std::{
    fmt::Display,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

use burn::{
    data::dataloader::DataLoader,
    module::Module,
    tensor::{Device, ExecutionError, Int, Tensor},
    train::{InferenceStep, ItemLazy, TrainStep},
};

use tx_infer::bundle::BundleModel;

use crate::{
    bundle_parts::BundleParts, error::TrainError, interrupt::check,
    validation_report::ValidationReport,
};

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

    /// Returns the parts of the run's bundle besides the model.
    fn bundle(&self) -> &BundleParts;

    /// Completes the bundle of the best model in the folder `run` at the end of a run. Returns lines
    /// for the log.
    ///
    /// # Errors
    ///
    /// [`TrainError::Interrupted`] once `stop` is set; otherwise as the task documents.
    fn complete(&self, run: &Path, stop: &Arc<AtomicBool>) -> Result<Vec<String>, TrainError> {
        let _ = (run, stop);
        Ok(Vec::new())
    }
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
    /// Model without the settings of its loss, as a bundle stores it.
    type Plain: BundleModel;

    /// Wraps a model for a checkpoint, without settings of the loss.
    fn of_plain(model: Self::Plain) -> Self;

    /// Returns the model without the settings of its loss.
    fn into_plain(self) -> Self::Plain;

    /// Computes the training loss of a batch.
    fn loss(&self, batch: BatchOf<Self>) -> BatchLoss;

    /// Computes the validation loss of a batch, the negative log-likelihood: its exponential per
    /// predicted token is the perplexity.
    fn validation_loss(&self, batch: BatchOf<Self>) -> BatchLoss;
}

/// Computes loss and counts of all batches of `loader`.
///
/// # Errors
///
/// If a batch cannot be read; [`TrainError::Interrupted`] once `stop` is set.
pub(crate) fn evaluate<M: Trainable>(
    model: &M,
    loader: &dyn DataLoader<BatchOf<M>>,
    stop: &AtomicBool,
) -> Result<StepOutput, TrainError> {
    let mut total = StepOutput::default();
    for batch in loader.iter() {
        check(stop)?;
        let batch = batch.map_err(|error| TrainError::Learner(Arc::new(error.into())))?;
        total.add(&InferenceStep::step(model, batch));
    }
    Ok(total)
}

/// Batch type of a model.
pub type BatchOf<M> = <M as TrainStep>::Input;

/// Batch of training examples on a device.
pub trait Batch: Send + 'static {
    /// Returns the numbers of input tokens and of predicted tokens or labels, without padding; loss
    /// and correct tokens are 0 in the result.
    fn token_counts(&self) -> StepOutput;

    /// Copies the batch to another device.
    fn to_device(self, device: &Device) -> Self;
}

/// Loss of a batch, still on the device.
#[derive(Debug, Clone)]
pub struct BatchLoss {
    /// Loss in nats, summed over the predicted tokens or labels: `[1]`. A sum allows batches of any
    /// size to be combined exactly, because the batch has their number.
    pub sum: Tensor<1>,
    /// Negative log-likelihood in nats, summed likewise: the loss without label smoothing, weights and other
    /// terms: `[1]`. It has no gradient.
    pub nll: Tensor<1>,
    /// Number of predicted tokens or labels with the highest logit: `[1]`.
    pub correct: Tensor<1, Int>,
}

impl BatchLoss {
    /// Detaches the tensors from the autodiff graph.
    pub(crate) fn without_autodiff(self) -> Self {
        let Self { sum, nll, correct } = self;
        Self { sum: sum.inner(), nll: nll.inner(), correct: correct.inner() }
    }

    /// Copies the tensors to another device.
    pub(crate) fn on_device(self, device: &Device) -> Self {
        let Self { sum, nll, correct } = self;
        Self {
            sum: sum.to_device(device),
            nll: nll.to_device(device),
            correct: correct.to_device(device),
        }
    }
}

/// Loss and counts of one or more batches.
///
/// Target tokens are the tokens that a model predicts: those of the target in translation, all but
/// the first of a document in language modeling, the masked ones in masked language modeling. In
/// classification, they are the labels.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepOutput {
    /// Loss in nats, summed over the target tokens.
    pub loss_sum: f64,
    /// Negative log-likelihood in nats, summed over the target tokens: the loss without label smoothing,
    /// weights and other terms.
    pub nll_sum: f64,
    /// Target tokens with the highest logit.
    pub correct: usize,
    /// Target tokens, without padding.
    pub target_tokens: usize,
    /// Tokens of the source, or of the only text, without padding.
    pub source_tokens: usize,
}

impl StepOutput {
    /// Returns this loss with the numbers of tokens of `counts`.
    pub(crate) fn with_counts(self, counts: &Self) -> Self {
        let Self { loss_sum, nll_sum, correct, .. } = self;
        Self { loss_sum, nll_sum, correct, ..*counts }
    }

    /// Adds loss and counts of further batches.
    pub fn add(&mut self, other: &Self) {
        self.loss_sum += other.loss_sum;
        self.nll_sum += other.nll_sum;
        self.correct += other.correct;
        self.target_tokens += other.target_tokens;
        self.source_tokens += other.source_tokens;
    }

    /// Returns the loss in nats per target token; 0 without tokens.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.target_tokens.max(1) as f64
    }

    /// Returns the negative log-likelihood in nats per target token; 0 without tokens.
    pub fn nll(&self) -> f64 {
        self.nll_sum / self.target_tokens.max(1) as f64
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
