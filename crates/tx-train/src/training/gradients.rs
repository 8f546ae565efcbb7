//! Gradients of an update: loss, backward pass, gradient norm and clipping.

use std::{iter::once, vec};

use burn::{
    backend::{Dispatch, tensor::FloatTensor},
    module::{Module, ModuleVisitor, Param},
    optim::{GradientsAccumulator, GradientsParams},
    tensor::{Device, Tensor, TensorData, Transaction},
};
use tx_model::kernels::{
    FlatTensors, has_gpu_kernels,
    launches::{Phase, count_readback},
    sum_of_squares,
};

use super::{flat_gradients::FlatGradients, update_seeds::UpdateSeeds};
use crate::{
    ranks::{Alone, Ranks},
    task::{Batch, BatchLoss, BatchOf, StepOutput, Trainable},
};

/// Gradients of the batches of an update, with loss and counts.
#[derive(Debug)]
pub struct UpdateGradients {
    /// Gradients of the loss per target token, clipped.
    pub gradients: GradientsParams,
    /// Loss and counts of all batches.
    pub output: StepOutput,
    /// Gradient norm over all weights together, before clipping.
    pub norm: f64,
    /// Seconds in which the gradients of all ranks were added up, including the wait for them.
    pub reducing: f64,
}

/// Settings for the gradients of an update.
#[derive(Debug, Clone, Copy)]
pub struct UpdateSettings<'a> {
    /// Devices to which the batches are assigned in turn, of which the first holds the model. An
    /// empty list means the model's own device.
    pub devices: &'a [Device],
    /// Maximum gradient norm; 0 disables clipping.
    pub clip_norm: f64,
    /// Ranks that compute the batches of the update together.
    pub ranks: &'a dyn Ranks,
    /// Numbers of tokens in the batches of all ranks; loss and correct tokens are 0.
    pub counts: StepOutput,
    /// Seeds of the random numbers of each batch; `None` leaves the generators as they are.
    pub seeds: Option<UpdateSeeds>,
}

impl UpdateSettings<'_> {
    /// Returns the seed of the batch of this rank with this index.
    fn seed_of(&self, index: usize) -> Option<u64> {
        let index = index * self.ranks.count() + self.ranks.rank();
        self.seeds.map(|seeds| seeds.of_batch(index))
    }
}

/// Gradients of the batches of an update that the device may still be computing.
#[derive(Debug)]
pub struct QueuedGradients {
    /// Gradients of the loss, not clipped.
    pub gradients: GradientsParams,
    /// Vectors of which the gradients are views, on devices that have kernels for them.
    flat: Option<FlatTensors>,
    losses: Vec<BatchLoss>,
    /// Sum of squared gradients over all weights: `[1]`; `None` without gradients.
    squares: Option<Tensor<1>>,
    /// Factor of the gradients for those of the loss per target token.
    factor: f64,
    /// Numbers of tokens; loss and correct tokens are 0.
    counts: StepOutput,
}

/// Computes the gradients of the loss per target token of all `batches` together, as
/// [`compute_update`] does on one rank, without new seeds.
pub fn compute_gradients<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    devices: &[Device],
    clip_norm: f64,
) -> UpdateGradients {
    let counts = count_tokens::<M>(&batches);
    let settings = UpdateSettings { devices, clip_norm, ranks: &Alone, counts, seeds: None };
    compute_update(model, batches, &settings)
}

/// Computes the gradients of the loss per target token of all batches of an update together, clipped
/// to the maximum norm. `batches` are those of this rank. Up to rounding, the gradients equal those
/// of one batch with all examples of all ranks.
///
/// The batches are assigned to the devices in turn. One device computes its batches one after the
/// other, in the memory of the largest. This thread drives all devices, so random numbers do not
/// depend on scheduling, and a thread pool of one thread cannot deadlock; GPUs queue their work and
/// compute in parallel.
///
/// On one rank, losses, counts and the gradient norm are read back together at the end, which is the
/// only synchronization of an update. It precedes the optimizer step because a result that is not
/// finite must not change the weights; a GPU then runs the optimizer step while the caller reports.
/// On several ranks, all gradients are read back and added up in one vector.
pub fn compute_update<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    settings: &UpdateSettings<'_>,
) -> UpdateGradients {
    if settings.ranks.count() > 1 {
        return compute_on_ranks(model, batches, settings);
    }
    let QueuedGradients { mut gradients, flat, losses, squares, factor, counts } =
        queue(model, batches, settings);
    let (read, squares) = read(losses, squares);
    let norm = squares.sqrt() * factor;
    let factor = factor * clip_factor(norm, settings.clip_norm).unwrap_or(1.0);
    if factor != 1.0 {
        match flat {
            Some(flat) => flat.scale(factor as f32),
            None => model.visit(&mut Scale { gradients: &mut gradients, factor }),
        }
    }
    let output = read.with_counts(&counts);
    UpdateGradients { gradients, output, norm, reducing: 0.0 }
}

/// Does the work of [`compute_update`] on several ranks.
fn compute_on_ranks<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    settings: &UpdateSettings<'_>,
) -> UpdateGradients {
    let (sum, losses, of_gradients) = accumulate(model, batches, settings);
    let gradients = sum.all.unwrap_or_default();
    let (read, _) = read(losses, None);
    let mut flat = FlatGradients::read(model, &gradients, read);
    drop(gradients);
    let reducing = flat.reduce(settings.ranks);
    let norm = flat.norm() * of_gradients;
    let factor = of_gradients * clip_factor(norm, settings.clip_norm).unwrap_or(1.0);
    let gradients = flat.scaled(model, factor);
    let output = flat.output().with_counts(&settings.counts);
    UpdateGradients { gradients, output, norm, reducing }
}

/// Does the work of [`compute_gradients`] without clipping and without reading anything back. With
/// one device that queues its work, nothing here waits for the device; with several devices, copies
/// between them do.
pub fn queue_gradients<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    devices: &[Device],
) -> QueuedGradients {
    let counts = count_tokens::<M>(&batches);
    let settings = UpdateSettings { devices, clip_norm: 0.0, ranks: &Alone, counts, seeds: None };
    queue(model, batches, &settings)
}

/// Does the work of [`queue_gradients`] with the batches of this rank.
fn queue<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    settings: &UpdateSettings<'_>,
) -> QueuedGradients {
    let (Sum { all, flat }, losses, factor) = accumulate(model, batches, settings);
    let gradients = all.unwrap_or_default();
    Phase::Norm.begin();
    let squares = match &flat {
        Some(flat) => Some(flat.sum_of_squares()),
        None => squared_norm(model, &gradients),
    };
    QueuedGradients { gradients, flat, losses, squares, factor, counts: settings.counts }
}

/// Adds up the numbers of tokens of `batches`.
pub(crate) fn count_tokens<M: Trainable>(batches: &[BatchOf<M>]) -> StepOutput {
    let mut counts = StepOutput::default();
    for batch in batches {
        counts.add(&batch.token_counts());
    }
    counts
}

/// Returns gradients and losses of the batches of this rank, without waiting for a device that
/// queues its work, and the factor of the gradients for those of the loss per target token.
fn accumulate<M: Trainable>(
    model: &M,
    batches: Vec<BatchOf<M>>,
    settings: &UpdateSettings<'_>,
) -> (Sum, Vec<BatchLoss>, f64) {
    let devices = settings.devices;
    let tokens = settings.counts.target_tokens.max(1) as f64;
    // The gradients of a mean are outside the range of f16, and a sum needs no launches for its division.
    let is_averaged_later = match devices.first() {
        Some(device) => has_gpu_kernels(device),
        None => model.devices().first().is_some_and(has_gpu_kernels),
    };
    let of_gradients = if is_averaged_later { 1.0 / tokens } else { 1.0 };
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
    for (number, (index, batch)) in batches.into_iter().enumerate() {
        if let (Some(device), Some(seed)) = (devices.get(index), settings.seed_of(number)) {
            tx_model::dropout::seed(device, seed);
        }
        let Replica { model, gradients } = &mut replicas[index];
        Phase::Forward.begin();
        let loss = model.loss(batch);
        Phase::Backward.begin();
        let objective = match is_averaged_later {
            true => loss.sum.clone(),
            false => loss.sum.clone() / tokens,
        };
        // If LayerDrop skips all layers with trained weights, the loss depends on none.
        if objective.is_tracked() {
            let found = objective.backward();
            gradients.add(model, GradientsParams::from_grads(found, model));
        }
        losses.push((index, loss.without_autodiff()));
    }

    let mut replicas = replicas.into_iter();
    let mut sum = replicas.next().map(|replica| replica.gradients).unwrap_or_default();
    for replica in replicas {
        let part = replica.gradients.all.unwrap_or_default();
        sum.add(model, part.to_device(&devices[0], model));
    }
    let losses = (losses.into_iter())
        .map(|(index, loss)| if index == 0 { loss } else { loss.on_device(&devices[0]) })
        .collect();
    (sum, losses, of_gradients)
}

/// Reads the loss and the number of correct tokens of one batch without autodiff.
pub(crate) fn read_loss(loss: BatchLoss) -> StepOutput {
    read(vec![loss], None).0
}

/// Model on one device, with the gradients of its batches.
struct Replica<M> {
    model: M,
    gradients: Sum,
}

impl<M: Trainable> Replica<M> {
    fn new(model: M) -> Self {
        Self { model, gradients: Sum::default() }
    }
}

/// Sum of the gradients of several batches.
#[derive(Default)]
struct Sum {
    /// `None` before the first batch.
    all: Option<GradientsParams>,
    /// Vectors of which the gradients are views, on devices that have kernels for them.
    flat: Option<FlatTensors>,
}

impl Sum {
    fn add<M: Module>(&mut self, model: &M, mut gradients: GradientsParams) {
        Phase::Norm.begin();
        let flat = flatten(model, &mut gradients);
        if let (Some(sum), Some(flat)) = (&self.flat, &flat)
            && sum.add(flat)
        {
            return;
        }
        let Some(all) = self.all.take() else {
            *self = Self { all: Some(gradients), flat };
            return;
        };
        let mut sum = GradientsAccumulator::new();
        sum.accumulate(model, all);
        sum.accumulate(model, gradients);
        let mut all = sum.grads();
        self.flat = flatten(model, &mut all);
        self.all = Some(all);
    }
}

/// Reads losses, counts and the sum of squares (0 if there is none) with one synchronization. All
/// tensors have no autodiff and are on one device. If it has failed, the loss is NaN.
fn read(losses: Vec<BatchLoss>, squares: Option<Tensor<1>>) -> (StepOutput, f64) {
    let mut transaction = Transaction::default();
    let count = losses.len();
    for BatchLoss { sum, nll, correct } in losses {
        transaction = transaction.register(sum).register(nll).register(correct);
    }
    if let Some(squares) = squares {
        transaction = transaction.register(squares);
    }
    count_readback();
    let Ok(data) = transaction.try_execute() else {
        return (StepOutput { loss_sum: f64::NAN, ..StepOutput::default() }, f64::NAN);
    };
    let (losses, squares) = data.split_at(3 * count);
    let number = |data: &TensorData| data.iter::<f64>().next().unwrap_or_default();
    let mut output = StepOutput::default();
    for numbers in losses.chunks_exact(3) {
        if let [sum, nll, correct] = numbers {
            output.loss_sum += number(sum);
            output.nll_sum += number(nll);
            output.correct += number(correct) as usize;
        }
    }
    (output, squares.first().map_or(0.0, number))
}

/// Replaces the gradients by views of few vectors, if the device has kernels for them.
fn flatten<M: Module>(model: &M, gradients: &mut GradientsParams) -> Option<FlatTensors> {
    let mut collect = Collect { gradients, found: Vec::new() };
    model.visit(&mut collect);
    let mut found = collect.found;
    let flat = FlatTensors::replacing(&mut found)?;
    model.visit(&mut Replace { gradients, views: found.into_iter() });
    Some(flat)
}

/// Sum of squared gradients over all weights: `[1]`; `None` without gradients.
fn squared_norm<M: Module>(model: &M, gradients: &GradientsParams) -> Option<Tensor<1>> {
    let mut squares = Squares { gradients, sum: None };
    model.visit(&mut squares);
    squares.sum
}

/// Returns the factor that scales gradients whose `norm` exceeds `clip_norm` down to `clip_norm`;
/// `None` for others. The norm is taken over all weights together, whereas Burn's own clipping treats
/// each weight separately.
pub(super) fn clip_factor(norm: f64, clip_norm: f64) -> Option<f64> {
    (clip_norm > 0.0 && norm > clip_norm && norm.is_finite()).then(|| clip_norm / norm)
}

/// Visitor that collects all gradients.
struct Collect<'a> {
    gradients: &'a GradientsParams,
    found: Vec<FloatTensor<Dispatch>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.extend(self.gradients.get::<D>(param.id).map(Tensor::into_dispatch));
    }
}

/// Visitor that replaces all gradients, in the order of [`Collect`].
struct Replace<'a> {
    gradients: &'a mut GradientsParams,
    views: vec::IntoIter<FloatTensor<Dispatch>>,
}

impl ModuleVisitor for Replace<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.gradients.remove::<D>(param.id).is_some()
            && let Some(view) = self.views.next()
        {
            self.gradients.register::<D>(param.id, Tensor::from_dispatch(view));
        }
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
pub(crate) mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use burn::tensor::Tolerance;
    use tx_data::{EncodedPair, Seq2SeqBatch};
    use tx_model::{DropoutConfig, ModelConfig, Transformer, VocabSizes};
    use tx_text::special::BOS;

    use super::*;
    use crate::{ranks::tests::Threads, translation::seq2seq::Seq2Seq};

    /// Returns a device whose random numbers no other test reads before the guard is dropped. The
    /// generator is one for all devices of a backend, and other tests use that of `flex`.
    #[allow(deprecated)]
    pub(crate) fn device_with_own_generator() -> (Device, MutexGuard<'static, ()>) {
        static GENERATOR: Mutex<()> = Mutex::new(());
        let guard = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
        (Device::ndarray().autodiff(), guard)
    }

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
        model_with(DropoutConfig::none(), device)
    }

    fn model_with(dropout: DropoutConfig, device: &Device) -> Seq2Seq {
        device.seed(1);
        let config = ModelConfig {
            d_model: 8,
            n_heads: 2,
            d_ff: 16,
            encoder_layers: 1,
            decoder_layers: 2,
            max_len: 16,
            dropout,
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
            if let Some(factor) = clip_factor(norm, clip_norm) {
                model.visit(&mut Scale { gradients: &mut gradients, factor });
            }
            assert!((norm - 0.5 * root).abs() < 1e-4 * root, "{norm}");
            let mut expected = GradientsParams::new();
            let value = if clipped { -1.0 / root } else { -0.5 };
            model.visit(&mut Fill { gradients: &mut expected, value });
            let mut same = Same { one: &expected, other: &gradients, compared: 0 };
            model.visit(&mut same);
            assert!(same.compared > 30, "{}", same.compared);
        }
    }

    /// Six pairs of different lengths.
    fn pairs() -> Vec<EncodedPair> {
        let pair = |i: u32| {
            let source = (0..i + 2).map(|j| 4 + (i + j) % 8).chain([2]).collect();
            let target = (0..2 * i).map(|j| 4 + (i * j) % 8);
            EncodedPair::new(source, [1].into_iter().chain(target).chain([2]).collect())
        };
        (0..6).map(pair).collect()
    }

    fn batch(pairs: &[EncodedPair], device: &Device) -> Seq2SeqBatch {
        Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, device)
    }

    fn assert_same(model: &Seq2Seq, one: &UpdateGradients, other: &UpdateGradients) {
        assert_eq!(other.output.target_tokens, one.output.target_tokens);
        assert_eq!(other.output.source_tokens, one.output.source_tokens);
        assert_eq!(other.output.correct, one.output.correct);
        assert!((other.output.loss() - one.output.loss()).abs() < 1e-6);
        assert!((other.norm - one.norm).abs() < 1e-5 * one.norm, "{} {}", other.norm, one.norm);
        let mut same = Same { one: &one.gradients, other: &other.gradients, compared: 0 };
        model.visit(&mut same);
        assert!(same.compared > 30, "{}", same.compared);
    }

    /// Batches of different numbers of tokens, so that a mean of means would give another gradient.
    #[test]
    fn accumulated_batches_equal_one_large_batch_on_one_device_or_several() {
        let device = Device::flex().autodiff();
        let (model, pairs) = (model(&device), pairs());
        let whole = compute_gradients(&model, vec![batch(&pairs, &device)], &[], 0.0);
        for devices in [0, 1, 2, 5] {
            let devices = vec![device.clone(); devices];
            let parts = [&pairs[..1], &pairs[1..3], &pairs[3..]];
            let parts = Vec::from(parts.map(|pairs| batch(pairs, &device)));
            assert_same(&model, &whole, &compute_gradients(&model, parts, &devices, 0.0));
        }
    }

    /// The third of three ranks has no batch, as at the end of an epoch.
    #[test]
    fn ranks_add_up_to_one_large_batch_also_when_clipped() {
        let device = Device::flex().autodiff();
        let (model, pairs) = (model(&device), pairs());
        for clip_norm in [0.0, 0.1] {
            let whole = compute_gradients(&model, vec![batch(&pairs, &device)], &[], clip_norm);
            assert!(whole.norm > 0.1);
            let counts = StepOutput { loss_sum: 0.0, nll_sum: 0.0, correct: 0, ..whole.output };
            let update = |ranks: Threads| {
                let batches = match ranks.rank() {
                    0 => vec![batch(&pairs[..1], &device), batch(&pairs[3..], &device)],
                    1 => vec![batch(&pairs[1..3], &device)],
                    _ => Vec::new(),
                };
                let devices = std::slice::from_ref(&device);
                let settings =
                    UpdateSettings { devices, clip_norm, ranks: &ranks, counts, seeds: None };
                compute_update(&model, batches, &settings)
            };
            let found = Threads::run(3, update);
            found.iter().for_each(|found| assert_same(&model, &whole, found));
        }
    }

    #[test]
    fn dropout_masks_depend_on_the_batch_and_not_on_its_device() {
        let (device, _guard) = device_with_own_generator();
        let (model, pairs) = (model_with(DropoutConfig::default(), &device), pairs());
        let gradients = |devices: usize, step: usize| {
            let batches = [&pairs[..1], &pairs[1..3], &pairs[3..4], &pairs[4..]];
            let batches = Vec::from(batches.map(|pairs| batch(pairs, &device)));
            let settings = UpdateSettings {
                devices: &vec![device.clone(); devices],
                clip_norm: 0.0,
                ranks: &Alone,
                counts: count_tokens::<Seq2Seq>(&batches),
                seeds: Some(UpdateSeeds { seed: 1, step }),
            };
            compute_update(&model, batches, &settings)
        };
        let one = gradients(1, 1);
        assert_same(&model, &one, &gradients(2, 1));
        assert_same(&model, &one, &gradients(4, 1));
        assert!((gradients(1, 2).output.loss() - one.output.loss()).abs() > 1e-4);
    }
}
