//! How a run trains: batches, learning rate, update rule, regularisation.

use serde::{Deserialize, Serialize};
use tx_data::{BatchSize, Grouping};

use crate::training::schedule::Schedule;

/// Which update rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Adam (Kingma and Ba 2015); weight decay is added to the gradient.
    Adam,
    /// AdamW (Loshchilov and Hutter 2019); weight decay shrinks the weight itself.
    AdamW,
}

/// How to train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizationConfig {
    /// Decides the first weights, the order of the data and dropout.
    pub seed: u64,
    /// Passes over the training pairs, at most.
    pub epochs: usize,
    /// Updates, at most.
    pub max_steps: Option<usize>,
    /// Minutes of training and validation, at most; those before a resume count.
    pub max_minutes: Option<f64>,
    /// How large a batch is: `{ tokens = 4096 }` or `{ sentences = 64 }`.
    pub batch: BatchSize,
    /// Batches that make an update together, one after the other: as one batch so many times as
    /// large, without its memory.
    pub accumulate: usize,
    /// Which sentences share a batch: those of like `length`, or `random` ones.
    pub grouping: Grouping,
    /// Which update rule.
    pub optimizer: OptimizerKind,
    /// Peak learning rate, or the factor of `schedule = "noam"`.
    pub learning_rate: f64,
    /// How the learning rate goes.
    pub schedule: Schedule,
    /// Updates until the peak; 0 starts there.
    pub warmup_steps: usize,
    /// Adam's decay of the mean of gradients. Paper: 0.9.
    pub beta1: f32,
    /// Adam's decay of the mean of squared gradients. Paper: 0.98.
    pub beta2: f32,
    /// Adam's guard against division by zero. Paper: 1e-9.
    pub epsilon: f32,
    /// Weight decay; 0 is none.
    pub weight_decay: f32,
    /// `schedule = "reduce-on-plateau"`: validations without a better model until the learning rate
    /// is reduced.
    pub plateau_patience: usize,
    /// `schedule = "reduce-on-plateau"`: what it is multiplied by then.
    pub plateau_factor: f64,
    /// Decay of a moving average of the weights, which then is what is validated and saved; 0 is
    /// none.
    pub ema_decay: f64,
    /// Share of the words read by encoder and decoder that are replaced by `<unk>`.
    pub word_dropout: f64,
    /// `tokenizer.kind = "bpe"`: share of the merges left out when words are segmented, other ones
    /// each epoch (Provilkov et al. 2020: 0.1).
    pub bpe_dropout: f64,
    /// Share of probability spread evenly over the vocabulary, `ε_ls` (section 5.4). Paper: 0.1.
    pub label_smoothing: f64,
    /// Longest gradient, as the norm over all weights together; longer ones are scaled down. 0 lets
    /// every gradient be.
    pub clip_norm: f64,
    /// What happens when a loss or a gradient is not a finite number.
    pub on_nonfinite: OnNonFinite,
}

/// What happens when a loss or a gradient is not a finite number. The weights stay as they were in
/// either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNonFinite {
    /// The run ends with an error.
    Stop,
    /// The batch is left out, with a warning.
    Skip,
}

impl Default for OptimizationConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            epochs: 10,
            max_steps: None,
            max_minutes: None,
            batch: BatchSize::Tokens(4_096),
            accumulate: 1,
            grouping: Grouping::Length,
            optimizer: OptimizerKind::Adam,
            learning_rate: 1e-3,
            schedule: Schedule::InverseSqrt,
            warmup_steps: 400,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.0,
            plateau_patience: 3,
            plateau_factor: 0.5,
            ema_decay: 0.0,
            word_dropout: 0.0,
            bpe_dropout: 0.0,
            label_smoothing: 0.1,
            clip_norm: 1.0,
            on_nonfinite: OnNonFinite::Stop,
        }
    }
}

impl OptimizationConfig {
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut rule = |holds: bool, problem: String| {
            if !holds {
                problems.push(problem);
            }
        };
        rule(self.epochs > 0, "`epochs` must be at least 1".into());
        rule(self.max_steps != Some(0), "`max_steps` must be at least 1".into());
        let minutes = self.max_minutes;
        rule(
            minutes.is_none_or(|minutes| minutes > 0.0),
            format!("`max_minutes` = {} must be more than 0", minutes.unwrap_or_default()),
        );
        let (BatchSize::Tokens(size) | BatchSize::Sentences(size)) = self.batch;
        rule(size > 0, "`batch` must hold at least 1".into());
        rule(self.accumulate > 0, "`accumulate` must be at least 1".into());
        rule(
            self.learning_rate > 0.0 && self.learning_rate.is_finite(),
            format!("`learning_rate` = {} must be more than 0", self.learning_rate),
        );
        rule(
            self.warmup_steps > 0 || !self.schedule.needs_warmup(),
            "`warmup_steps` must be at least 1 for this `schedule`".into(),
        );
        for (key, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            rule(
                (0.0..1.0).contains(&beta),
                format!("`{key}` = {beta} must be at least 0 and below 1"),
            );
        }
        rule(self.epsilon > 0.0, format!("`epsilon` = {} must be more than 0", self.epsilon));
        rule(
            self.weight_decay >= 0.0,
            format!("`weight_decay` = {} must be at least 0", self.weight_decay),
        );
        for (key, share) in [
            ("ema_decay", self.ema_decay),
            ("word_dropout", self.word_dropout),
            ("bpe_dropout", self.bpe_dropout),
            ("label_smoothing", self.label_smoothing),
        ] {
            rule(
                (0.0..1.0).contains(&share),
                format!("`{key}` = {share} must be at least 0 and below 1"),
            );
        }
        rule(self.plateau_patience > 0, "`plateau_patience` must be at least 1".into());
        let factor = self.plateau_factor;
        rule(
            factor > 0.0 && factor < 1.0,
            format!("`plateau_factor` = {factor} must be between 0 and 1"),
        );
        rule(self.clip_norm >= 0.0, format!("`clip_norm` = {} must be at least 0", self.clip_norm));
        problems
    }
}
