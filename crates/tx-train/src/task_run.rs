//! Interface between a run and its task, before the training loop starts: data, loaders, model.

use std::sync::Arc;

use burn::{data::dataloader::DataLoader, tensor::Device};
use tx_data::{BatchLoader, make_batch::MakeBatch};
use tx_infer::ModelTask;

use crate::{
    bundle_parts::BundleParts,
    config::TrainConfig,
    data::{DataAccess, DataSummary, Known},
    error::TrainError,
    task::{BatchOf, Task, Trainable},
};

/// Model of a run.
pub(crate) type ModelOf<R> = <<R as TaskRun>::Task as Task>::Model;
/// Model of a run without the settings of its loss.
pub(crate) type PlainOf<R> = <ModelOf<R> as Trainable>::Plain;

/// Data of a run, from which its other parts are built.
pub(crate) trait TaskRun: Sized {
    /// Task of the training loop.
    type Task: Task;
    /// Construction of batches.
    type Make: MakeBatch<Batch = BatchOf<ModelOf<Self>>>;

    /// Reads, tokenizes and encodes the data of `config`. Tokenizers are learned unless they are
    /// `known`.
    ///
    /// # Errors
    ///
    /// If the data cannot be used; [`TrainError::Interrupted`] if the run is interrupted.
    fn prepare(
        config: &TrainConfig,
        known: Known,
        access: &DataAccess<'_>,
    ) -> Result<Self, TrainError>;

    /// Returns facts about the data.
    fn summary(&self) -> &DataSummary;

    /// Returns the task of the model.
    fn model_task(&self, config: &TrainConfig) -> ModelTask;

    /// Creates the loader of the training examples, from the first epoch.
    ///
    /// # Errors
    ///
    /// If the tokenizer does not support an option.
    fn training_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<BatchLoader<Self::Make>, TrainError>;

    /// Creates the loader of the validation examples.
    ///
    /// # Errors
    ///
    /// If the tokenizer does not support an option.
    fn validation_loader(
        &self,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<BatchLoader<Self::Make>, TrainError>;

    /// Initializes a model.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid.
    fn init(&self, config: &TrainConfig, device: &Device) -> Result<PlainOf<Self>, TrainError>;

    /// Adds the settings of the training loss to a model on `device`.
    ///
    /// # Errors
    ///
    /// If a teacher cannot be opened or does not fit.
    fn with_loss(
        &self,
        model: PlainOf<Self>,
        config: &TrainConfig,
        device: &Device,
    ) -> Result<ModelOf<Self>, TrainError>;

    /// Returns the first validation inputs, to try the bundle with.
    fn examples(&self, config: &TrainConfig) -> Vec<String>;

    /// Creates the task of the training loop.
    ///
    /// # Errors
    ///
    /// If a sample cannot be tokenized.
    fn into_task(
        self,
        config: &TrainConfig,
        parts: TaskParts<Self>,
    ) -> Result<Self::Task, TrainError>;
}

/// Parts of a run that its task needs.
pub(crate) struct TaskParts<R: TaskRun> {
    /// Batches of the validation examples, on `device`.
    pub validation: Arc<dyn DataLoader<BatchOf<ModelOf<R>>>>,
    /// Tokens of the largest training batch, padding included: those of the source or only text.
    pub batch_tokens: usize,
    pub bundle: BundleParts,
    /// Device without autodiff.
    pub device: Device,
}
