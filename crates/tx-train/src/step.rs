//! One update: loss, gradients, clipping.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use burn::{
    lr_scheduler::module_lr_scheduler::ModuleLearningRate,
    module::{Module, ModuleVisitor, Param},
    optim::{GradientsParams, ModuleOptimizer},
    tensor::{ExecutionError, Tensor},
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
    #[module(skip)]
    gradient_norm: GradientNorm,
}

/// The length of the last gradient, over all weights together, before clipping. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct GradientNorm(Arc<AtomicU64>);

impl GradientNorm {
    /// The length; 0 before the first update.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, norm: f64) {
        self.0.store(norm.to_bits(), Ordering::Relaxed);
    }
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
        Self { model, label_smoothing, clip_norm, gradient_norm: GradientNorm::default() }
    }

    /// The length of the last gradient.
    pub fn gradient_norm(&self) -> GradientNorm {
        self.gradient_norm.clone()
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
        let (loss, output) = self.loss(batch, self.label_smoothing);
        let gradients = (loss / output.target_tokens.max(1) as f64).backward();
        TrainOutput::new(self, gradients, output)
    }

    /// Scales the gradient to `clip_norm` if it is longer, over all weights together; Burn's own
    /// clipping goes weight by weight. A gradient that is not finite changes nothing.
    fn optimize(
        self,
        optimizer: &mut ModuleOptimizer,
        learning_rate: ModuleLearningRate,
        mut gradients: GradientsParams,
    ) -> Self {
        let mut squares = Squares { gradients: &gradients, sum: None };
        self.visit(&mut squares);
        let norm = squares.sum.map_or(0.0, |sum| sum.into_scalar::<f64>().sqrt());
        self.gradient_norm.set(norm);
        if !norm.is_finite() {
            return self;
        }
        if self.clip_norm > 0.0 && norm > self.clip_norm {
            self.visit(&mut Scale { gradients: &mut gradients, factor: self.clip_norm / norm });
        }
        optimizer.step(learning_rate, self, gradients)
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
