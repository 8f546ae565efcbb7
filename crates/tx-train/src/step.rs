//! One update: loss, gradients, clipping.

use std::{panic::resume_unwind, thread};

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::{GradientsAccumulator, GradientsParams},
    tensor::{Device, ExecutionError, Tensor},
    train::{InferenceStep, ItemLazy, TrainOutput, TrainStep},
};
use tx_data::Seq2SeqBatch;
use tx_model::{Transformer, TransformerInput, kernels::sum_of_squares};

use crate::loss::smoothed_cross_entropy;

/// A Transformer with what Burn's Learner must know to train it.
#[derive(Module, Debug)]
pub struct Seq2Seq {
    /// The model.
    pub model: Transformer,
    #[module(skip)]
    label_smoothing: f64,
    #[module(skip)]
    clip_norm: f64,
}

/// What a batch gave.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StepOutput {
    /// Loss in nats, summed over the target tokens that are not padding.
    pub loss_sum: f64,
    /// Target tokens that had the highest logit.
    pub correct: usize,
    /// Target tokens that are not padding.
    pub target_tokens: usize,
    /// Source tokens that are not padding.
    pub source_tokens: usize,
}

impl StepOutput {
    /// Joins what two batches gave.
    pub fn add(&mut self, other: &Self) {
        self.loss_sum += other.loss_sum;
        self.correct += other.correct;
        self.target_tokens += other.target_tokens;
        self.source_tokens += other.source_tokens;
    }

    /// Nats per target token; 0 of nothing.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.target_tokens.max(1) as f64
    }

    /// Share of target tokens that were right; 0 of nothing.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.target_tokens.max(1) as f64
    }
}

impl ItemLazy for StepOutput {
    fn sync(self) -> Result<Self, ExecutionError> {
        Ok(self)
    }
}

impl Seq2Seq {
    /// Wraps a model for training; `clip_norm` 0 is no clipping.
    pub fn new(model: Transformer, label_smoothing: f64, clip_norm: f64) -> Self {
        Self { model, label_smoothing, clip_norm }
    }

    /// The gradient of the loss per target token of all `batches` together: that of one batch of
    /// all their pairs, to rounding.
    ///
    /// They are shared out among `devices`, of which the first is the model's own, and come one
    /// after the other on each, in the memory of the largest. No devices are the model's own.
    pub fn gradients(
        &self,
        batches: Vec<Seq2SeqBatch>,
        devices: &[Device],
    ) -> TrainOutput<StepOutput> {
        let tokens: usize = batches.iter().map(|batch| batch.target_tokens).sum();
        let mut shares = vec![Vec::new(); devices.len().max(1)];
        for (index, batch) in batches.into_iter().enumerate() {
            let share = index % shares.len();
            shares[share].push(batch);
        }
        let own = shares.remove(0);
        thread::scope(|scope| {
            let others: Vec<_> = shares
                .into_iter()
                .zip(devices.iter().skip(1))
                .map(|(share, device)| {
                    scope.spawn(move || {
                        let share = share.into_iter().map(|batch| batch.to_device(device));
                        self.clone().fork(device).gradients_here(share, tokens)
                    })
                })
                .collect();
            let TrainOutput { grads, mut item } = self.gradients_here(own.into_iter(), tokens);
            let mut sum = GradientsAccumulator::new();
            sum.accumulate(self, grads);
            for other in others {
                let output = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                sum.accumulate(self, output.grads.to_device(&devices[0], self));
                item.add(&output.item);
            }
            TrainOutput { grads: sum.grads(), item }
        })
    }

    /// Of the loss of `batches`, divided by `tokens`.
    fn gradients_here(
        &self,
        batches: impl Iterator<Item = Seq2SeqBatch>,
        tokens: usize,
    ) -> TrainOutput<StepOutput> {
        let mut sum = GradientsAccumulator::new();
        let mut item = StepOutput::default();
        for batch in batches {
            let (loss, output) = self.loss(batch, self.label_smoothing);
            let gradients = (loss / tokens.max(1) as f64).backward();
            sum.accumulate(self, GradientsParams::from_grads(gradients, self));
            item.add(&output);
        }
        TrainOutput { grads: sum.grads(), item }
    }

    /// The length of the gradient, over all weights together. A longer one than `clip_norm` is
    /// scaled down to that; Burn's own clipping goes weight by weight.
    pub fn clip(&self, gradients: &mut GradientsParams) -> f64 {
        let mut squares = Squares { gradients, sum: None };
        self.visit(&mut squares);
        let norm = squares.sum.map_or(0.0, |sum| sum.into_scalar::<f64>().sqrt());
        if self.clip_norm > 0.0 && norm > self.clip_norm && norm.is_finite() {
            self.visit(&mut Scale { gradients, factor: self.clip_norm / norm });
        }
        norm
    }

    /// The summed loss `[1]` and what to report of it.
    fn loss(&self, batch: Seq2SeqBatch, smoothing: f64) -> (Tensor<1>, StepOutput) {
        let logits = self.model.forward(TransformerInput {
            source: batch.source,
            source_blocked: batch.source_blocked,
            target: batch.target_in,
            target_blocked: batch.target_blocked,
        });
        let loss = smoothed_cross_entropy(logits, batch.target_out, smoothing);
        let output = StepOutput {
            loss_sum: loss.sum.clone().into_scalar::<f64>(),
            correct: loss.correct.into_scalar::<i64>() as usize,
            target_tokens: batch.target_tokens,
            source_tokens: batch.source_tokens,
        };
        (loss.sum, output)
    }
}

impl TrainStep for Seq2Seq {
    type Input = Seq2SeqBatch;
    type Output = StepOutput;

    fn step(&self, batch: Seq2SeqBatch) -> TrainOutput<StepOutput> {
        self.gradients(vec![batch], &[])
    }
}

impl InferenceStep for Seq2Seq {
    type Input = Seq2SeqBatch;
    type Output = StepOutput;

    /// Without smoothing: the loss is then the negative log-likelihood, and its exponential per
    /// token the perplexity.
    fn step(&self, batch: Seq2SeqBatch) -> StepOutput {
        self.loss(batch, 0.0).1
    }
}

/// Adds up the squares of all gradients.
struct Squares<'a> {
    gradients: &'a GradientsParams,
    /// `[1]`
    sum: Option<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.get::<D>(param.id) {
            let square = sum_of_squares(gradient);
            self.sum = Some(match self.sum.take() {
                Some(sum) => sum + square,
                None => square,
            });
        }
    }
}

/// Multiplies all gradients by the same number.
struct Scale<'a> {
    gradients: &'a mut GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scale<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(gradient) = self.gradients.remove::<D>(param.id) {
            self.gradients.register::<D>(param.id, gradient * self.factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tolerance;
    use tx_data::EncodedPair;
    use tx_model::{DropoutConfig, ModelConfig, VocabSizes};

    use super::*;

    /// Compares the gradients of all weights.
    struct Same<'a> {
        one: &'a GradientsParams,
        other: &'a GradientsParams,
        compared: usize,
    }

    impl ModuleVisitor for Same<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let [one, other] = [self.one, self.other]
                .map(|gradients| gradients.get::<D>(param.id).unwrap().into_data());
            one.assert_approx_eq::<f32>(&other, Tolerance::absolute(1e-6));
            self.compared += 1;
        }
    }

    fn model(clip_norm: f64, device: &Device) -> Seq2Seq {
        device.seed(1);
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 16,
            encoder_layers: 1,
            decoder_layers: 2,
            max_len: 16,
            dropout: DropoutConfig::none(),
            ..ModelConfig::default()
        };
        let vocab = VocabSizes { source: 12, target: 12 };
        Seq2Seq::new(Transformer::new(&config, vocab, device).unwrap(), 0.1, clip_norm)
    }

    /// Gives every weight the same gradient.
    struct Fill<'a> {
        gradients: &'a mut GradientsParams,
        value: f64,
    }

    impl ModuleVisitor for Fill<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = param.val().inner().full_like(self.value);
            self.gradients.register::<D>(param.id, gradient);
        }
    }

    /// N weights with the gradient -0.5 each: together 0.5 √N long, which is 1 once each is -1/√N.
    #[test]
    fn a_long_gradient_is_scaled_down_and_a_short_one_let_be() {
        let device = Device::flex().autodiff();
        for (clip_norm, clipped) in [(1.0, true), (1e6, false), (0.0, false)] {
            let model = model(clip_norm, &device);
            let root = (model.num_params() as f64).sqrt();
            let mut gradients = GradientsParams::new();
            model.visit(&mut Fill { gradients: &mut gradients, value: -0.5 });
            let norm = model.clip(&mut gradients);
            assert!((norm - 0.5 * root).abs() < 1e-4 * root, "{norm}");
            let mut expected = GradientsParams::new();
            let value = if clipped { -1.0 / root } else { -0.5 };
            model.visit(&mut Fill { gradients: &mut expected, value });
            let mut same = Same { one: &expected, other: &gradients, compared: 0 };
            model.visit(&mut same);
            assert!(same.compared > 30, "{}", same.compared);
        }
    }

    /// Batches of different numbers of tokens, so that a mean of means would be another gradient.
    #[test]
    fn batches_one_after_the_other_or_on_several_devices_are_one_large_batch() {
        let device = Device::flex().autodiff();
        let model = model(0.0, &device);
        let pairs: Vec<EncodedPair> = (0..6_u32)
            .map(|i| EncodedPair {
                source: (0..i + 2).map(|j| 4 + (i + j) % 8).chain([2]).collect(),
                target: [1]
                    .into_iter()
                    .chain((0..2 * i).map(|j| 4 + (i * j) % 8))
                    .chain([2])
                    .collect(),
            })
            .collect();
        let batch =
            |pairs: &[EncodedPair]| Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), &device);
        let whole = model.gradients(vec![batch(&pairs)], &[]);
        for devices in [0, 1, 2, 5] {
            let devices = vec![device.clone(); devices];
            let parts = vec![batch(&pairs[..1]), batch(&pairs[1..3]), batch(&pairs[3..])];
            let parts = model.gradients(parts, &devices);
            assert_eq!(parts.item.target_tokens, whole.item.target_tokens);
            assert!((parts.item.loss() - whole.item.loss()).abs() < 1e-6);
            let mut same = Same { one: &whole.grads, other: &parts.grads, compared: 0 };
            model.visit(&mut same);
            assert!(same.compared > 30, "{}", same.compared);
        }
    }
}
