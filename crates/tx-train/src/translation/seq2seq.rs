//! Transformer with its training loss, as Burn's Learner and the training loop require it.

use burn::{
    module::Module,
    tensor::Device,
    train::{InferenceStep, TrainOutput, TrainStep},
};
use tx_data::Seq2SeqBatch;
use tx_model::{Transformer, TransformerInput};

use super::loss::smoothed_cross_entropy;
use crate::{
    task::{Batch, BatchLoss, StepOutput, Trainable},
    training::gradients::{UpdateGradients, compute_gradients, read_loss},
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
    fn loss(&self, batch: Seq2SeqBatch) -> BatchLoss {
        self.loss_with(batch, self.label_smoothing)
    }
}

impl TrainStep for Seq2Seq {
    type Input = Seq2SeqBatch;
    type Output = StepOutput;

    fn step(&self, batch: Seq2SeqBatch) -> TrainOutput<StepOutput> {
        let UpdateGradients { gradients, output, .. } =
            compute_gradients(self, vec![batch], &[], 0.0);
        TrainOutput { grads: gradients, item: output }
    }
}

impl InferenceStep for Seq2Seq {
    type Input = Seq2SeqBatch;
    type Output = StepOutput;

    /// Computes the loss without smoothing, which is the negative log-likelihood: its exponential
    /// per token is the perplexity.
    fn step(&self, batch: Seq2SeqBatch) -> StepOutput {
        let counts = batch.token_counts();
        let read = read_loss(self.loss_with(batch, 0.0).without_autodiff());
        StepOutput { loss_sum: read.loss_sum, correct: read.correct, ..counts }
    }
}

impl Batch for Seq2SeqBatch {
    fn token_counts(&self) -> StepOutput {
        let Self { source_tokens, target_tokens, .. } = *self;
        StepOutput { source_tokens, target_tokens, ..StepOutput::default() }
    }

    fn to_device(self, device: &Device) -> Self {
        Self::to_device(self, device)
    }
}
