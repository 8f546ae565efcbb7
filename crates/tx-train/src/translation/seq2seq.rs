//! Transformer with its training loss, as Burn's Learner and the training loop require it.

use burn::{module::Module, tensor::Device};
use tx_data::Seq2SeqBatch;
use tx_model::{Transformer, TransformerInput};

use crate::{
    loss::smoothed_cross_entropy,
    task::{Batch, BatchLoss, StepOutput, Trainable, learner_steps},
};

/// Transformer with the smoothing of its training loss.
#[derive(Module, Debug)]
pub struct Seq2Seq {
    /// Model.
    pub model: Transformer,
    #[module(skip)]
    label_smoothing: f64,
}

impl Seq2Seq {
    /// Wraps a model for training.
    pub fn new(model: Transformer, label_smoothing: f64) -> Self {
        Self { model, label_smoothing }
    }

    fn loss_with(&self, batch: Seq2SeqBatch, smoothing: f64) -> BatchLoss {
        let logits = self.model.forward(TransformerInput {
            source: batch.source,
            source_blocked: batch.source_blocked,
            target: batch.target_in,
            target_blocked: batch.target_blocked,
        });
        smoothed_cross_entropy(logits, batch.target_out, smoothing)
    }
}

impl Trainable for Seq2Seq {
    type Plain = Transformer;

    fn of_plain(model: Transformer) -> Self {
        Self::new(model, 0.0)
    }

    fn into_plain(self) -> Transformer {
        self.model
    }

    fn loss(&self, batch: Seq2SeqBatch) -> BatchLoss {
        self.loss_with(batch, self.label_smoothing)
    }

    fn validation_loss(&self, batch: Seq2SeqBatch) -> BatchLoss {
        self.loss_with(batch, 0.0)
    }
}

learner_steps!(Seq2Seq, Seq2SeqBatch);

impl Batch for Seq2SeqBatch {
    fn token_counts(&self) -> StepOutput {
        let Self { source_tokens, target_tokens, .. } = *self;
        StepOutput { source_tokens, target_tokens, ..StepOutput::default() }
    }

    fn to_device(self, device: &Device) -> Self {
        Self::to_device(self, device)
    }
}
