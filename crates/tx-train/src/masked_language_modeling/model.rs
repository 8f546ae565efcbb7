//! Masked language model with its training loss, as Burn's Learner and the training loop require
//! it.

use burn::{module::Module, tensor::Device};
use tx_data::MaskedBatch;
use tx_model::MaskedLanguageModel;

use crate::{
    learner_steps::learner_steps,
    loss::{Labels, smoothed_cross_entropy},
    task::{Batch, BatchLoss, StepOutput, Trainable},
};

/// Masked language model with the smoothing of its training loss.
#[derive(Module, Debug)]
pub struct TrainedMaskedLanguageModel {
    /// Model.
    pub model: MaskedLanguageModel,
    #[module(skip)]
    label_smoothing: f64,
}

impl TrainedMaskedLanguageModel {
    /// Wraps a model for training.
    pub fn new(model: MaskedLanguageModel, label_smoothing: f64) -> Self {
        Self { model, label_smoothing }
    }

    fn loss_with(&self, batch: MaskedBatch, smoothing: f64) -> BatchLoss {
        let logits = self.model.forward_at(batch.ids, batch.blocked, batch.positions);
        smoothed_cross_entropy(logits.unsqueeze(), Labels::new(batch.labels.unsqueeze(), smoothing))
    }
}

impl Trainable for TrainedMaskedLanguageModel {
    type Plain = MaskedLanguageModel;

    fn of_plain(model: MaskedLanguageModel) -> Self {
        Self::new(model, 0.0)
    }

    fn into_plain(self) -> MaskedLanguageModel {
        self.model
    }

    fn loss(&self, batch: MaskedBatch) -> BatchLoss {
        self.loss_with(batch, self.label_smoothing)
    }

    fn validation_loss(&self, batch: MaskedBatch) -> BatchLoss {
        self.loss_with(batch, 0.0)
    }
}

learner_steps!(TrainedMaskedLanguageModel, MaskedBatch);

impl Batch for MaskedBatch {
    fn token_counts(&self) -> StepOutput {
        let Self { tokens, predicted, .. } = *self;
        StepOutput { source_tokens: tokens, target_tokens: predicted, ..StepOutput::default() }
    }

    fn to_device(self, device: &Device) -> Self {
        Self::to_device(self, device)
    }
}
