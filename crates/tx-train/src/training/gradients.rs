//! One update: loss, gradients, clipping.

use std::iter::once;

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::{GradientsAccumulator, GradientsParams},
    tensor::{Device, ExecutionError, Tensor, TensorData, Transaction},
    train::{InferenceStep, ItemLazy, TrainOutput, TrainStep},
};
use tx_data::Seq2SeqBatch;
use tx_model::{Transformer, TransformerInput, kernels::sum_of_squares};

use crate::translation::loss::{BatchLoss, smoothed_cross_entropy};

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

    /// Gradients of the loss per target token of all `batches` together, clipped: those of one batch
    /// of all their pairs, to rounding.
    ///
    /// The batches are assigned to `devices` in turn, of which the first is the model's own. An
    /// empty list means the model's own device alone. One device computes its batches one after
    /// the other, in the memory of the largest. This thread drives all devices, so random numbers
    /// do not depend on scheduling, and a thread pool of one thread cannot deadlock; GPUs queue
    /// their work and compute at the same time.
    ///
    /// Losses, counts and the gradient norm are read back together at the end: the only
    /// synchronization of an update. It comes before the optimizer's part because a result that is
    /// not finite must not change the weights; a GPU then works on the optimizer's part while the
    /// caller reports the results.
    pub fn gradients(&self, batches: Vec<Seq2SeqBatch>, devices: &[Device]) -> UpdateGradients {
        let QueuedGradients { mut gradients, losses, squares, tokens } =
            self.queue_gradients(batches, devices);
        let (found, squares) = read(losses, squares);
        let norm = squares.sqrt();
        self.clip(&mut gradients, norm);
        let output = StepOutput { loss_sum: found.loss_sum, correct: found.correct, ..tokens };
        UpdateGradients { gradients, output, norm }
    }

    /// Computes [`gradients`](Self::gradients) without reading any of it back. With one device,
    /// nothing here waits for it if it queues its work; with several, copies between them do.
    pub fn queue_gradients(
        &self,
        batches: Vec<Seq2SeqBatch>,
        devices: &[Device],
    ) -> QueuedGradients {
        let mut counts = StepOutput::default();
        for batch in &batches {
            counts.target_tokens += batch.target_tokens;
            counts.source_tokens += batch.source_tokens;
        }
        let tokens = counts.target_tokens.max(1);
        let others = devices.iter().skip(1).take(batches.len().saturating_sub(1));
        let mut shares: Vec<Share> = once(Share::new(self.clone()))
            .chain(others.map(|device| Share::new(self.clone().fork(device))))
            .collect();
        // A copy to another device waits for the work queued before it: all copies there come before
        // that work, and all copies back after it.
        let count = shares.len();
        let batches: Vec<_> = (batches.into_iter().enumerate())
            .map(|(index, batch)| match index % count {
                0 => (0, batch),
                share => (share, batch.to_device(&devices[share])),
            })
            .collect();
        let mut losses = Vec::with_capacity(batches.len());
        for (index, batch) in batches {
            let Share { model, gradients } = &mut shares[index];
            let loss = model.loss(batch, self.label_smoothing);
            let backward = (loss.sum.clone() / tokens as f64).backward();
            gradients.accumulate(model, GradientsParams::from_grads(backward, model));
            losses.push((index, loss.without_autodiff()));
        }

        let mut sum = GradientsAccumulator::new();
        for (index, mut share) in shares.into_iter().enumerate() {
            let part = share.gradients.grads();
            sum.accumulate(self, if index == 0 { part } else { part.to_device(&devices[0], self) });
        }
        let losses = (losses.into_iter())
            .map(|(index, loss)| if index == 0 { loss } else { loss.moved_to(&devices[0]) })
            .collect();
        let gradients = sum.grads();
        let squares = self.sum_of_squares(&gradients);
        QueuedGradients { gradients, losses, squares, tokens: counts }
    }

    /// The sum of squares over the gradients of all weights: `[1]`; none without gradients.
    fn sum_of_squares(&self, gradients: &GradientsParams) -> Option<Tensor<1>> {
        let mut squares = Squares { gradients, sum: None };
        self.visit(&mut squares);
        squares.sum
    }

    /// Scales gradients with a norm above `clip_norm` down to that norm, which is taken over all
    /// weights together; Burn's own clipping goes weight by weight.
    fn clip(&self, gradients: &mut GradientsParams, norm: f64) {
        if self.clip_norm > 0.0 && norm > self.clip_norm && norm.is_finite() {
            self.visit(&mut Scale { gradients, factor: self.clip_norm / norm });
        }
    }

    /// The summed loss and the number of correct tokens, both still on the device.
    fn loss(&self, batch: Seq2SeqBatch, smoothing: f64) -> BatchLoss {
        let logits = self.model.forward(TransformerInput {
            source: batch.source,
            source_blocked: batch.source_blocked,
            target: batch.target_in,
            target_blocked: batch.target_blocked,
        });
        smoothed_cross_entropy(logits, batch.target_out, smoothing)
    }
}

/// Gradients and figures of the batches of an update.
#[derive(Debug)]
pub struct UpdateGradients {
    /// Gradients of the loss per target token, clipped.
    pub gradients: GradientsParams,
    /// Loss and counts of all batches.
    pub output: StepOutput,
    /// Norm of the gradient over all weights together, before clipping.
    pub norm: f64,
}

/// Gradients and figures of the batches of an update, which the device may still be computing.
#[derive(Debug)]
pub struct QueuedGradients {
    /// Gradients of the loss per target token, not clipped.
    pub gradients: GradientsParams,
    losses: Vec<BatchLoss>,
    /// Of the gradients, over all weights: `[1]`; none without gradients.
    squares: Option<Tensor<1>>,
    /// The numbers of tokens alone.
    tokens: StepOutput,
}

/// The part of an update that one device computes.
struct Share {
    model: Seq2Seq,
    gradients: GradientsAccumulator<Seq2Seq>,
}

impl Share {
    fn new(model: Seq2Seq) -> Self {
        Self { model, gradients: GradientsAccumulator::new() }
    }
}

/// Reads losses, counts and the sum of squares (0 if there is none) with one synchronization. All
/// of them are plain tensors of one device.
fn read(losses: Vec<BatchLoss>, squares: Option<Tensor<1>>) -> (StepOutput, f64) {
    let mut transaction = Transaction::default();
    let count = losses.len();
    for BatchLoss { sum, correct } in losses {
        transaction = transaction.register(sum).register(correct);
    }
    if let Some(squares) = squares {
        transaction = transaction.register(squares);
    }
    let data = transaction.execute();
    let (losses, squares) = data.split_at(2 * count);
    let number = |data: &TensorData| data.iter::<f64>().next().unwrap_or_default();
    let output = StepOutput {
        loss_sum: losses.iter().step_by(2).map(number).sum(),
        correct: losses.iter().skip(1).step_by(2).map(|data| number(data) as usize).sum(),
        ..StepOutput::default()
    };
    (output, squares.first().map_or(0.0, number))
}

impl TrainStep for Seq2Seq {
    type Input = Seq2SeqBatch;
    type Output = StepOutput;

    fn step(&self, batch: Seq2SeqBatch) -> TrainOutput<StepOutput> {
        let UpdateGradients { gradients, output, .. } = self.gradients(vec![batch], &[]);
        TrainOutput { grads: gradients, item: output }
    }
}

impl InferenceStep for Seq2Seq {
    type Input = Seq2SeqBatch;
    type Output = StepOutput;

    /// Without smoothing: the loss is then the negative log-likelihood, and its exponential per
    /// token the perplexity.
    fn step(&self, batch: Seq2SeqBatch) -> StepOutput {
        let Seq2SeqBatch { target_tokens, source_tokens, .. } = batch;
        let (found, _) = read(vec![self.loss(batch, 0.0).without_autodiff()], None);
        StepOutput { target_tokens, source_tokens, ..found }
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
            let (_, squares) = read(Vec::new(), model.sum_of_squares(&gradients));
            let norm = squares.sqrt();
            model.clip(&mut gradients, norm);
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
            assert_eq!(parts.output.target_tokens, whole.output.target_tokens);
            assert!((parts.output.loss() - whole.output.loss()).abs() < 1e-6);
            let mut same = Same { one: &whole.gradients, other: &parts.gradients, compared: 0 };
            model.visit(&mut same);
            assert!(same.compared > 30, "{}", same.compared);
        }
    }
}
