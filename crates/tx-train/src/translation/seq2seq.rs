//! Transformer with its training loss, as Burn's Learner and the training loop require it.

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use tx_data::Seq2SeqBatch;
use tx_model::{Transformer, TransformerInput};

use super::teacher::Teacher;
use crate::{
    loss::{distillation, r_drop, smoothed_cross_entropy},
    task::{Batch, BatchLoss, StepOutput, Trainable, learner_steps},
};

/// Transformer with the parameters of its training loss.
#[derive(Module, Debug)]
pub struct Seq2Seq {
    /// Model.
    pub model: Transformer,
    #[module(skip)]
    label_smoothing: f64,
    #[module(skip)]
    r_drop: f64,
    #[module(skip)]
    teacher: Option<Teacher>,
}

impl Seq2Seq {
    /// Wraps a model for training.
    pub fn new(model: Transformer, label_smoothing: f64) -> Self {
        Self { model, label_smoothing, r_drop: 0.0, teacher: None }
    }

    /// Sets the weight α of R-Drop; 0 disables it.
    pub fn with_r_drop(self, alpha: f64) -> Self {
        Self { r_drop: alpha, ..self }
    }

    /// Sets the teacher of distillation.
    pub fn with_teacher(self, teacher: Option<Teacher>) -> Self {
        Self { teacher, ..self }
    }

    fn distillation_loss(&self, batch: Seq2SeqBatch, teacher: &Teacher) -> BatchLoss {
        let wanted = teacher.logits(&batch);
        let target = batch.target_out.clone();
        let logits = self.model.forward(input(batch));
        let Teacher { weight, temperature, .. } = *teacher;
        distillation(logits, wanted, target, self.label_smoothing, weight, temperature)
    }

    fn loss_with(&self, batch: Seq2SeqBatch, smoothing: f64) -> BatchLoss {
        let target = batch.target_out.clone();
        smoothed_cross_entropy(self.model.forward(input(batch)), target, smoothing)
    }

    /// Computes the batch twice in one pass, each time with other dropout masks.
    fn r_drop_loss(&self, batch: Seq2SeqBatch) -> BatchLoss {
        let logits = self.model.forward(TransformerInput {
            source: Tensor::cat(vec![batch.source.clone(), batch.source], 0),
            source_blocked: Tensor::cat(
                vec![batch.source_blocked.clone(), batch.source_blocked],
                0,
            ),
            target: Tensor::cat(vec![batch.target_in.clone(), batch.target_in], 0),
            target_blocked: batch.target_blocked,
        });
        r_drop(logits, batch.target_out, self.label_smoothing, self.r_drop)
    }
}

fn input(batch: Seq2SeqBatch) -> TransformerInput {
    TransformerInput {
        source: batch.source,
        source_blocked: batch.source_blocked,
        target: batch.target_in,
        target_blocked: batch.target_blocked,
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
        match &self.teacher {
            Some(teacher) => self.distillation_loss(batch, teacher),
            None if self.r_drop > 0.0 => self.r_drop_loss(batch),
            None => self.loss_with(batch, self.label_smoothing),
        }
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

#[cfg(test)]
mod tests {
    use tx_data::EncodedPair;
    use tx_model::{DropoutConfig, ModelConfig, VocabSizes};
    use tx_text::special::BOS;

    use super::*;
    use crate::training::gradients::tests::device_with_own_generator;

    fn model(dropout: DropoutConfig, device: &Device) -> Seq2Seq {
        device.seed(1);
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 16,
            encoder_layers: 1,
            decoder_layers: 1,
            max_len: 16,
            dropout,
            ..ModelConfig::default()
        };
        let vocab = VocabSizes { source: 12, target: 12 };
        Seq2Seq::new(Transformer::new(&config, vocab, device).unwrap(), 0.1)
    }

    fn batch(device: &Device) -> Seq2SeqBatch {
        let pairs = [
            EncodedPair { source: vec![5, 6, 7, 2], target: vec![1, 7, 2] },
            EncodedPair { source: vec![8, 2], target: vec![1, 9, 10, 4, 2] },
        ];
        Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, device)
    }

    fn value(loss: BatchLoss) -> f32 {
        loss.sum.into_scalar::<f32>()
    }

    /// Without dropout, both passes are equal: no divergence, and the mean of two equal losses.
    #[test]
    fn r_drop_without_dropout_changes_nothing() {
        let device = Device::flex().autodiff();
        let model = model(DropoutConfig::none(), &device);
        let plain = model.loss(batch(&device));
        let twice = model.clone().with_r_drop(5.0).loss(batch(&device));
        assert_eq!(twice.correct.into_scalar::<i64>(), plain.correct.into_scalar::<i64>());
        let (plain, twice) = (plain.sum.into_scalar::<f32>(), twice.sum.into_scalar::<f32>());
        assert!((twice - plain).abs() < 1e-5 * plain, "{twice}, {plain}");
    }

    /// With dropout, the loss rises in proportion to α. Validation has neither.
    #[test]
    fn r_drop_penalizes_differences_between_dropout_masks() {
        let (device, _guard) = device_with_own_generator();
        let model = model(DropoutConfig::default(), &device);
        let loss = |alpha: f64| {
            device.seed(3);
            value(model.clone().with_r_drop(alpha).loss(batch(&device)))
        };
        let [first, second, third] = [1e-9, 1.0, 2.0].map(loss);
        assert!(second > first, "{second}, {first}");
        assert!((third - second - (second - first)).abs() < 1e-4, "{first}, {second}, {third}");
        let batch = batch(&device);
        let validation = |alpha: f64| {
            let model = model.clone().with_r_drop(alpha).valid();
            value(model.validation_loss(batch.clone().to_device(&device.clone().inner())))
        };
        assert_eq!(validation(5.0), validation(0.0));
    }
}
