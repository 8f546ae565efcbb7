//! Transformer with its training loss, as Burn's Learner and the training loop require it.

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use tx_data::Seq2SeqBatch;
use tx_model::{Transformer, TransformerInput, kernels};

use super::teachers::Teachers;
use crate::{
    learner_steps::learner_steps,
    loss::{Labels, guided_alignment, smoothed_cross_entropy},
    task::{Batch, BatchLoss, StepOutput, Trainable},
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
    teachers: Option<Teachers>,
    #[module(skip)]
    guided_alignment: Option<GuidedAlignment>,
}

/// Settings of guided alignment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GuidedAlignment {
    /// Decoder layer whose cross-attention learns the alignment, from 0.
    pub layer: usize,
    /// Weight of its loss.
    pub weight: f64,
}

impl Seq2Seq {
    /// Wraps a model for training.
    pub fn new(model: Transformer, label_smoothing: f64) -> Self {
        Self { model, label_smoothing, r_drop: 0.0, teachers: None, guided_alignment: None }
    }

    /// Sets the weight α of R-Drop; 0 disables it.
    pub fn with_r_drop(self, alpha: f64) -> Self {
        Self { r_drop: alpha, ..self }
    }

    /// Sets the teachers of distillation.
    pub fn with_teachers(self, teachers: Option<Teachers>) -> Self {
        Self { teachers, ..self }
    }

    /// Sets guided alignment, which changes the loss of batches with links.
    pub fn with_guided_alignment(self, guided_alignment: Option<GuidedAlignment>) -> Self {
        Self { guided_alignment, ..self }
    }

    /// Computes the hidden states `[B, T, d_model]`, and the weighted loss of guided alignment if there
    /// are links.
    fn forward(
        &self,
        input: TransformerInput,
        alignment: Option<Tensor<3>>,
    ) -> (Tensor<3>, Option<Tensor<1>>) {
        let (Some(GuidedAlignment { layer, weight }), Some(alignment)) =
            (self.guided_alignment, alignment)
        else {
            return (self.model.hidden_states(input), None);
        };
        let (hidden, weights) = self.model.hidden_states_with_cross_attention(input, layer);
        (hidden, weights.map(|weights| guided_alignment(weights, alignment) * weight))
    }

    fn training_loss(&self, batch: Seq2SeqBatch) -> BatchLoss {
        let labels = labels(&batch, self.label_smoothing);
        let alignment = batch.alignment.clone();
        let (loss, guided) = match &self.teachers {
            Some(teachers) => {
                let wanted = Tensor::from_inner(teachers.logits(&batch));
                let (hidden, guided) = self.forward(input(batch), alignment);
                let logits = self.model.project(hidden).flatten::<2>(0, 1);
                let (targets, config) = labels.flat();
                let settings = teachers.settings();
                let loss = kernels::distillation(logits, wanted, targets, config, settings);
                (BatchLoss::from(loss), guided)
            }
            None if self.r_drop > 0.0 => {
                let alignment = alignment.map(twice);
                let (hidden, guided) = self.forward(input_twice(batch), alignment);
                let (targets, config) = labels.flat();
                let loss = self.model.r_drop(hidden, targets, config, self.r_drop);
                (loss.into(), guided.map(|guided| guided * 0.5))
            }
            None => {
                let (hidden, guided) = self.forward(input(batch), alignment);
                let (targets, config) = labels.flat();
                (self.model.cross_entropy(hidden, targets, config).into(), guided)
            }
        };
        match guided {
            Some(guided) => BatchLoss { sum: loss.sum + guided, ..loss },
            None => loss,
        }
    }
}

fn labels(batch: &Seq2SeqBatch, smoothing: f64) -> Labels {
    Labels { target: batch.target_out.clone(), weights: batch.pair_weights.clone(), smoothing }
}

/// Repeats the rows of a tensor.
fn twice<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    Tensor::cat(vec![x.clone(), x], 0)
}

/// Input of two passes in one, each with other dropout masks.
fn input_twice(batch: Seq2SeqBatch) -> TransformerInput {
    let (source, blocked, target) = (batch.source, batch.source_blocked, batch.target_in);
    TransformerInput {
        source: Tensor::cat(vec![source.clone(), source], 0),
        source_blocked: Tensor::cat(vec![blocked.clone(), blocked], 0),
        target: Tensor::cat(vec![target.clone(), target], 0),
        target_blocked: batch.target_blocked,
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
        self.training_loss(batch)
    }

    fn validation_loss(&self, batch: Seq2SeqBatch) -> BatchLoss {
        let labels = labels(&batch, 0.0);
        smoothed_cross_entropy(self.model.forward(input(batch)), labels)
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
    use tx_data::{EncodedPair, Link, PairAnnotation};
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

    fn pairs() -> [EncodedPair; 2] {
        [
            EncodedPair::new(vec![5, 6, 7, 2], vec![1, 7, 2]),
            EncodedPair::new(vec![8, 2], vec![1, 9, 10, 4, 2]),
        ]
    }

    fn batch(device: &Device) -> Seq2SeqBatch {
        Seq2SeqBatch::new(&pairs().iter().collect::<Vec<_>>(), BOS, device)
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

    /// A batch of two pairs with weights 3 and 1/2, the first with the given links.
    fn annotated(links: &[(usize, usize)], device: &Device) -> Seq2SeqBatch {
        let links = links.iter().map(|&(source, target)| Link { source, target }).collect();
        let annotation = |weight, links| Some(Box::new(PairAnnotation { weight, links }));
        let mut pairs = pairs();
        pairs[0].annotation = annotation(3.0, links);
        pairs[1].annotation = annotation(0.5, Vec::new());
        Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), BOS, device)
    }

    /// The loss is the weighted sum of the losses of the pairs; their tokens count equally.
    #[test]
    fn weights_are_factors_of_the_losses_of_pairs() {
        let device = Device::flex().autodiff();
        let model = model(DropoutConfig::none(), &device);
        let alone = |pair: &EncodedPair| model.loss(Seq2SeqBatch::new(&[pair], BOS, &device));
        let expected: f32 =
            pairs().iter().zip([3.0, 0.5]).map(|(pair, weight)| weight * value(alone(pair))).sum();
        let both = annotated(&[], &device);
        for r_drop in [0.0, 5.0] {
            let model = model.clone().with_r_drop(r_drop);
            let found = value(model.loss(both.clone()));
            assert!((found - expected).abs() < 1e-5 * expected, "{found}, {expected}");
        }
        let nll = |batch| model.loss(batch).nll.into_scalar::<f32>();
        assert_eq!(nll(both), nll(batch(&device)));
    }

    /// The loss of the links is added with its weight, to that of one pass and to that of R-Drop; without
    /// links there is none.
    #[test]
    fn guided_alignment_adds_the_loss_of_the_links() {
        let device = Device::flex().autodiff();
        let model = model(DropoutConfig::none(), &device);
        let batch = annotated(&[(0, 1), (2, 1)], &device);
        let guided = |weight| {
            model.clone().with_guided_alignment(Some(GuidedAlignment { layer: 0, weight }))
        };
        let plain = value(model.loss(batch.clone()));
        let (_, weights) = model.model.hidden_states_with_cross_attention(input(batch.clone()), 0);
        let weights = weights.unwrap().mean_dim(1).into_data().iter::<f32>().collect::<Vec<_>>();
        // Weight 3 of the pair, half of it for each link of the first label.
        let expected = -1.5 * (weights[0].ln() + weights[2].ln());
        for r_drop in [0.0, 5.0] {
            for weight in [0.5, 2.0] {
                let found = value(guided(weight).with_r_drop(r_drop).loss(batch.clone())) - plain;
                let expected = weight as f32 * expected;
                assert!((found - expected).abs() < 1e-4, "{r_drop} {weight}: {found}, {expected}");
            }
        }
        let without = annotated(&[], &device);
        assert_eq!(value(guided(2.0).loss(without.clone())), value(model.loss(without)));
        let validation = |model: Seq2Seq| {
            let batch = super::tests::batch(&device).to_device(&device.clone().inner());
            value(model.valid().validation_loss(batch))
        };
        assert_eq!(validation(guided(2.0)), validation(model.clone()));
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
