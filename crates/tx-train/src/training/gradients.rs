//! Gradients of an update: loss, backward pass, gradient norm and clipping.

use std::iter::once;

use burn::{
    module::{Module, ModuleVisitor, Param},
    optim::{GradientsAccumulator, GradientsParams},
    tensor::{Device, Tensor, TensorData, Transaction},
};
use tx_model::kernels::sum_of_squares;

use crate::task::{Batch, BatchLoss, BatchOf, StepOutput, Trainable};

/// Gradients of the batches of an update, with loss and counts.
#[derive(Debug)]
pub struct UpdateGradients {
    /// Gradients of the loss per target token, clipped.
    pub gradients: GradientsParams,
    /// Loss and counts of all batches.
    pub output: StepOutput,
    /// Gradient norm over all weights together, before clipping.
    pub norm: f64,
}

/// Gradients of the batches of an update that the device may still be computing.
#[derive(Debug)]
pub struct QueuedGradients {
    /// Gradients of the loss per target token, not clipped.
    pub gradients: GradientsParams,
    losses: Vec<BatchLoss>,
    /// Sum of squared gradients over all weights: `[1]`; `None` without gradients.
    squares: Option<Tensor<1>>,
    /// Numbers of tokens; loss and correct tokens are 0.
    counts: StepOutput,
}

/// Computes the gradients of the loss per target token of all `batches` together, clipped to
/// `clip_norm` (0 disables clipping). Up to rounding, they equal those of one batch with all
/// examples.
///
/// The batches are assigned to `devices` in turn, of which the first holds the model. An empty list
/// means the model's own device. One device computes its batches one after the other, in the memory
/// of the largest. This thread drives all devices, so random numbers do not depend on scheduling,
/// and a thread pool of one thread cannot deadlock; GPUs queue their work and compute in parallel.
///
/// Losses, counts and the gradient norm are read back together at the end, which is the only
/// synchronization of an update. It precedes the optimizer step because a result that is not finite
/// must not change the weights; a GPU then runs the optimizer step while the caller reports.
pub fn compute_gradients<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    devices: &[Device],
    clip_norm: f64,
) -> UpdateGradients {
    let QueuedGradients { mut gradients, losses, squares, counts } =
        queue_gradients(model, batches, devices);
    let (read, squares) = read(losses, squares);
    let norm = squares.sqrt();
    clip(model, &mut gradients, norm, clip_norm);
    let output = StepOutput { loss_sum: read.loss_sum, correct: read.correct, ..counts };
    UpdateGradients { gradients, output, norm }
}

/// Does the work of [`compute_gradients`] without clipping and without reading anything back. With
/// one device that queues its work, nothing here waits for the device; with several devices, copies
/// between them do.
pub fn queue_gradients<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    devices: &[Device],
) -> QueuedGradients {
    let mut counts = StepOutput::default();
    for batch in &batches {
        counts.add(&batch.token_counts());
    }
    let tokens = counts.target_tokens.max(1);
    let others = devices.iter().skip(1).take(batches.len().saturating_sub(1));
    let mut replicas: Vec<Replica<M>> = once(Replica::new(model.clone()))
        .chain(others.map(|device| Replica::new(model.clone().fork(device))))
        .collect();
    // A copy to another device waits for the work queued before it. Therefore all copies to other
    // devices come first, and all copies back come last.
    let count = replicas.len();
    let batches: Vec<_> = (batches.into_iter().enumerate())
        .map(|(index, batch)| match index % count {
            0 => (0, batch),
            replica => (replica, batch.to_device(&devices[replica])),
        })
        .collect();
    let mut losses = Vec::with_capacity(batches.len());
    for (index, batch) in batches {
        let Replica { model, gradients } = &mut replicas[index];
        let loss = model.loss(batch);
        let backward = (loss.sum.clone() / tokens as f64).backward();
        gradients.accumulate(model, GradientsParams::from_grads(backward, model));
        losses.push((index, loss.without_autodiff()));
    }

    let mut sum = GradientsAccumulator::new();
    for (index, mut replica) in replicas.into_iter().enumerate() {
        let part = replica.gradients.grads();
        sum.accumulate(model, if index == 0 { part } else { part.to_device(&devices[0], model) });
    }
    let losses = (losses.into_iter())
        .map(|(index, loss)| if index == 0 { loss } else { loss.on_device(&devices[0]) })
        .collect();
    let gradients = sum.grads();
    let squares = squared_norm(model, &gradients);
    QueuedGradients { gradients, losses, squares, counts }
}

/// Reads the loss and the number of correct tokens of one batch without autodiff.
pub(crate) fn read_loss(loss: BatchLoss) -> StepOutput {
    read(vec![loss], None).0
}

/// Model on one device, with the gradients of its batches.
struct Replica<M> {
    model: M,
    gradients: GradientsAccumulator<M>,
}

impl<M: Trainable> Replica<M> {
    fn new(model: M) -> Self {
        Self { model, gradients: GradientsAccumulator::new() }
    }
}

/// Reads losses, counts and the sum of squares (0 if there is none) with one synchronization. All
/// tensors have no autodiff and are on one device.
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

/// Sum of squared gradients over all weights: `[1]`; `None` without gradients.
fn squared_norm<M: Module>(model: &M, gradients: &GradientsParams) -> Option<Tensor<1>> {
    let mut squares = Squares { gradients, sum: None };
    model.visit(&mut squares);
    squares.sum
}

/// Scales gradients whose `norm` exceeds `clip_norm` down to `clip_norm`. The norm is taken over
/// all weights together, whereas Burn's own clipping treats each weight separately.
fn clip<M: Module>(model: &M, gradients: &mut GradientsParams, norm: f64, clip_norm: f64) {
    if clip_norm > 0.0 && norm > clip_norm && norm.is_finite() {
        model.visit(&mut Scale { gradients, factor: clip_norm / norm });
    }
}

/// Visitor that adds up the squares of all gradients.
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

/// Visitor that multiplies all gradients by one factor.
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
    use tx_data::{EncodedPair, Seq2SeqBatch};
    use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};
    use tx_text::special::BOS;

    use super::*;
    use crate::translation::seq2seq::Seq2Seq;

    /// Visitor that compares the gradients of all weights.
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

    fn model(device: &Device) -> Seq2Seq {
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
        Seq2Seq::new(Transformer::new(&config, vocab, device).unwrap(), 0.1)
    }

    /// Visitor that gives every weight the same gradient.
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

    /// N weights with the gradient -0.5 each have the norm 0.5 √N, which is 1 once each is -1/√N.
    #[test]
    fn gradients_above_the_clip_norm_are_scaled_down_and_others_unchanged() {
        let device = Device::flex().autodiff();
        for (clip_norm, clipped) in [(1.0, true), (1e6, false), (0.0, false)] {
            let model = model(&device);
            let root = (model.num_params() as f64).sqrt();
            let mut gradients = GradientsParams::new();
            model.visit(&mut Fill { gradients: &mut gradients, value: -0.5 });
            let (_, squares) = read(Vec::new(), squared_norm(&model, &gradients));
            let norm = squares.sqrt();
            clip(&model, &mut gradients, norm, clip_norm);
            assert!((norm - 0.5 * root).abs() < 1e-4 * root, "{norm}");
            let mut expected = GradientsParams::new();
            let value = if clipped { -1.0 / root } else { -0.5 };
            model.visit(&mut Fill { gradients: &mut expected, value });
            let mut same = Same { one: &expected, other: &gradients, compared: 0 };
            model.visit(&mut same);
            assert!(same.compared > 30, "{}", same.compared);
        }
    }

    /// Batches of different numbers of tokens, so that a mean of means would give another gradient.
    #[test]
    fn accumulated_batches_equal_one_large_batch_on_one_device_or_several() {
        let device = Device::flex().autodiff();
        let model = model(&device);
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
        let batch = |pairs: &[EncodedPair]| {
            Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, &device)
        };
        let whole = compute_gradients(&model, vec![batch(&pairs)], &[], 0.0);
        for devices in [0, 1, 2, 5] {
            let devices = vec![device.clone(); devices];
            let parts = vec![batch(&pairs[..1]), batch(&pairs[1..3]), batch(&pairs[3..])];
            let parts = compute_gradients(&model, parts, &devices, 0.0);
            assert_eq!(parts.output.target_tokens, whole.output.target_tokens);
            assert!((parts.output.loss() - whole.output.loss()).abs() < 1e-6);
            let mut same = Same { one: &whole.gradients, other: &parts.gradients, compared: 0 };
            model.visit(&mut same);
            assert!(same.compared > 30, "{}", same.compared);
        }
    }
}
