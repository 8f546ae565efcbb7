//! Language model with its training loss, as Burn's Learner and the training loop require it.

use burn::{module::Module, tensor::Device};
use tx_data::LanguageModelBatch;
use tx_model::{LanguageModel, LanguageModelInput};

use crate::{
    learner_steps::learner_steps,
    loss::Labels,
    task::{Batch, BatchLoss, StepOutput, Trainable},
};

/// Language model with the smoothing of its training loss.
#[derive(Module, Debug)]
pub struct TrainedLanguageModel {
    /// Model.
    pub model: LanguageModel,
    #[module(skip)]
    label_smoothing: f64,
}

impl TrainedLanguageModel {
    /// Wraps a model for training.
    pub fn new(model: LanguageModel, label_smoothing: f64) -> Self {
        Self { model, label_smoothing }
    }

    fn loss_with(&self, batch: LanguageModelBatch, smoothing: f64) -> BatchLoss {
        let input = LanguageModelInput {
            ids: batch.ids,
            positions: Some(batch.positions),
            blocked: batch.blocked,
        };
        let (targets, config) = Labels::new(batch.labels, smoothing).flat();
        self.model.cross_entropy(input, targets, config).into()
    }
}

impl Trainable for TrainedLanguageModel {
    type Plain = LanguageModel;

    fn of_plain(model: LanguageModel) -> Self {
        Self::new(model, 0.0)
    }

    fn into_plain(self) -> LanguageModel {
        self.model
    }

    fn loss(&self, batch: LanguageModelBatch) -> BatchLoss {
        self.loss_with(batch, self.label_smoothing)
    }

    fn validation_loss(&self, batch: LanguageModelBatch) -> BatchLoss {
        self.loss_with(batch, 0.0)
    }
}

learner_steps!(TrainedLanguageModel, LanguageModelBatch);

impl Batch for LanguageModelBatch {
    fn token_counts(&self) -> StepOutput {
        let tokens = self.tokens;
        StepOutput { source_tokens: tokens, target_tokens: tokens, ..StepOutput::default() }
    }

    fn to_device(self, device: &Device) -> Self {
        Self::to_device(self, device)
    }
}
