//! Batches, learning rate, optimizer and regularization.

use serde::{Deserialize, Serialize};
use tx_data::{BatchSize, Grouping};
use tx_model::ProductPrecision;

use super::{
    distillation::DistillationConfig,
    fine_tuning::{LoraConfig, RateFactor},
    guided_alignment::GuidedAlignmentConfig,
    problems::Problems,
};

/// Optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Adam (Kingma and Ba 2015), with weight decay added to the gradient.
    Adam,
    /// AdamW (Loshchilov and Hutter 2019), with weight decay applied to the weight itself.
    AdamW,
    /// Lion (Chen et al. 2023): the sign of a moving average. Needs a learning rate about a tenth of
    /// that of AdamW.
    Lion,
    /// LAMB (You et al. 2020): Adam with a step in proportion to the norm of each weight.
    Lamb,
    /// Adafactor (Shazeer and Stern 2018), whose moments of a matrix are one row and one column, with
    /// steps relative to the magnitude of each weight, and without momentum.
    Adafactor,
    /// Muon (Jordan et al. 2024) for the matrices of the layers, with steps as large as those of AdamW,
    /// which updates the other weights. `beta1` is its momentum.
    Muon,
    /// Stochastic gradient descent with the momentum `beta1`; 0 disables the momentum.
    Sgd,
}

/// Learning-rate schedule. All but `noam` rise linearly to the peak during the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Stays at the peak.
    Constant,
    /// `factor · d_model^-½ · min(step^-½, step · warmup^-1.5)` (equation 3).
    Noam,
    /// `peak · √(warmup / step)`: the same curve, given by its peak.
    InverseSqrt,
    /// Falls linearly, to the minimum one update after the last.
    Linear,
    /// Falls like a power of the fraction of updates that remain, to the minimum one update after
    /// the last.
    Polynomial,
    /// Falls along half a cosine, to the minimum one update after the last, or repeatedly with warm
    /// restarts (Loshchilov and Hutter 2017).
    Cosine,
    /// Stays at the peak, but is multiplied by `plateau_factor` after every `plateau_patience`
    /// validations without a better model.
    ReduceOnPlateau,
    /// Grows geometrically from `min_learning_rate` at the first update to the peak at the last: a range
    /// test (Smith 2017).
    RangeTest,
}

impl Schedule {
    /// Returns `true` if the curve is undefined without a warm-up.
    pub fn needs_warmup(self) -> bool {
        matches!(self, Self::Noam | Self::InverseSqrt)
    }

    /// Returns `true` if the curve falls to a minimum that can be set.
    fn has_minimum(self) -> bool {
        match self {
            Self::Linear | Self::Polynomial | Self::Cosine | Self::RangeTest => true,
            Self::Constant | Self::Noam | Self::InverseSqrt | Self::ReduceOnPlateau => false,
        }
    }
}

/// Section `[train]`: batches, learning rate, optimizer and regularization.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizationConfig {
    /// Seed of initialization, data order and dropout.
    pub seed: u64,
    /// Maximum number of passes over the training data.
    pub epochs: usize,
    /// Maximum number of updates.
    pub max_steps: Option<usize>,
    /// Maximum minutes of training and validation, including those before a resume.
    pub max_minutes: Option<f64>,
    /// Batch size: `{ tokens = 4096 }` or `{ sentences = 64 }`.
    pub batch: BatchSize,
    /// Number of batches whose gradients are accumulated for an update. This is equivalent to a
    /// larger batch, but takes less memory.
    pub accumulate: usize,
    /// Grouping of sentences into batches: by similar `length`, or `random`.
    pub grouping: Grouping,
    /// Precision of matrix products: `f32`, `bf16`, or `bf16x3`, in which each factor is the sum of
    /// two bf16 numbers. The latter two need the device `cpu` and a CPU with AMX or AVX512-BF16.
    /// Weights, optimizer and everything else are in single precision.
    pub precision: ProductPrecision,
    /// Optimizer.
    pub optimizer: OptimizerKind,
    /// Peak learning rate, or the factor of `schedule = "noam"`.
    pub learning_rate: f64,
    /// Learning-rate schedule.
    pub schedule: Schedule,
    /// Updates until the peak; 0 starts at the peak.
    pub warmup_steps: usize,
    /// `schedule = "linear"`, `"polynomial"` or `"cosine"`: learning rate that the curve falls to.
    pub min_learning_rate: f64,
    /// `schedule = "polynomial"`: exponent; 1 is `linear`.
    pub decay_power: f64,
    /// `schedule = "cosine"`: updates from the warm-up to the first restart; without it, there are no
    /// restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_steps: Option<usize>,
    /// `schedule = "cosine"`: each period between restarts is this many times as long as the one
    /// before.
    pub restart_factor: f64,
    /// Decay of Adam's first moment, β₁, or momentum of other optimizers. Paper: 0.9.
    pub beta1: f32,
    /// Decay of Adam's second moment, β₂. Paper: 0.98.
    pub beta2: f32,
    /// Adam's ε, which avoids division by zero. Paper: 1e-9.
    pub epsilon: f32,
    /// Weight decay; 0 disables it.
    pub weight_decay: f32,
    /// Weights without weight decay, selected as in `freeze`: `["norms", "biases"]`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub no_decay: Vec<String>,
    /// `schedule = "reduce-on-plateau"`: validations without a better model before the learning
    /// rate is reduced.
    pub plateau_patience: usize,
    /// `schedule = "reduce-on-plateau"`: factor of a reduction.
    pub plateau_factor: f64,
    /// Decay of the moving average of the weights, which is then validated and saved; 0 disables
    /// it.
    pub ema_decay: f64,
    /// Word dropout: fraction of encoder and decoder input tokens replaced by `<unk>`.
    pub word_dropout: f64,
    /// `tokenizer.kind = "bpe"`: BPE dropout, the fraction of merges skipped when words are
    /// segmented, sampled anew each epoch (Provilkov et al. 2020: 0.1).
    pub bpe_dropout: f64,
    /// Exponent α of sampled segmentations with a unigram vocabulary (Kudo 2018: 0.1 to 0.5); `None`
    /// disables sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unigram_alpha: Option<f64>,
    /// Number of epochs with BPE dropout or sampled segmentations; later ones have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segmentation_epochs: Option<usize>,
    /// Label smoothing `ε_ls`: probability distributed evenly over the vocabulary (section 5.4).
    /// Paper: 0.1.
    pub label_smoothing: f64,
    /// R-Drop: weight α of the divergence between two passes with different dropout masks, which take
    /// twice the time and memory (Wu et al. 2021: 5); 0 disables it. Needs `task = "translate"`.
    pub r_drop: f64,
    /// Distillation from a teacher. Needs `task = "translate"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distill: Option<DistillationConfig>,
    /// Guided alignment. Needs `task = "translate"` and `data.alignments`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guided_alignment: Option<GuidedAlignmentConfig>,
    /// Maximum gradient norm over all weights together; larger gradients are scaled down. 0
    /// disables clipping.
    pub clip_norm: f64,
    /// Reaction to a loss or gradient that is not finite.
    pub on_nonfinite: OnNonFinite,
    /// Weights that are not trained: groups (`embeddings`, `positions`, `norms`, `biases`), or parts
    /// of names, such as `encoder` or `self_attention.query`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub freeze: Vec<String>,
    /// Factors of the learning rate of some weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub learning_rates: Vec<RateFactor>,
    /// Low-rank adaptation instead of training the weights themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraConfig>,
}

/// Reaction to a loss or gradient that is not finite. The weights stay unchanged in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnNonFinite {
    /// The run ends with an error.
    Stop,
    /// The batch is skipped with a warning.
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
            precision: ProductPrecision::F32,
            optimizer: OptimizerKind::Adam,
            learning_rate: 1e-3,
            schedule: Schedule::InverseSqrt,
            warmup_steps: 400,
            min_learning_rate: 0.0,
            decay_power: 1.0,
            restart_steps: None,
            restart_factor: 1.0,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-9,
            weight_decay: 0.0,
            no_decay: Vec::new(),
            plateau_patience: 3,
            plateau_factor: 0.5,
            ema_decay: 0.0,
            word_dropout: 0.0,
            bpe_dropout: 0.0,
            unigram_alpha: None,
            segmentation_epochs: None,
            label_smoothing: 0.1,
            r_drop: 0.0,
            distill: None,
            guided_alignment: None,
            clip_norm: 1.0,
            on_nonfinite: OnNonFinite::Stop,
            freeze: Vec::new(),
            learning_rates: Vec::new(),
            lora: None,
        }
    }
}

impl OptimizationConfig {
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Problems::default();
        problems.require(self.epochs > 0, || "`epochs` must be at least 1".into());
        problems.require(self.max_steps != Some(0), || "`max_steps` must be at least 1".into());
        if let Some(minutes) = self.max_minutes {
            problems.require(minutes > 0.0, || {
                format!("`max_minutes` = {minutes} must be more than 0")
            });
        }
        let (BatchSize::Tokens(size) | BatchSize::Sentences(size)) = self.batch;
        problems.require(size > 0, || "`batch` must hold at least 1".into());
        problems.require(self.accumulate > 0, || "`accumulate` must be at least 1".into());
        problems.require(self.learning_rate > 0.0 && self.learning_rate.is_finite(), || {
            format!("`learning_rate` = {} must be more than 0", self.learning_rate)
        });
        problems.require(self.warmup_steps > 0 || !self.schedule.needs_warmup(), || {
            "`warmup_steps` must be at least 1 for this `schedule`".into()
        });
        problems.0.extend(self.schedule_problems());
        for (key, beta) in [("beta1", self.beta1), ("beta2", self.beta2)] {
            problems.require((0.0..1.0).contains(&beta), || {
                format!("`{key}` = {beta} must be at least 0 and below 1")
            });
        }
        problems.require(self.epsilon > 0.0, || {
            format!("`epsilon` = {} must be more than 0", self.epsilon)
        });
        problems.require(self.weight_decay >= 0.0 && self.weight_decay.is_finite(), || {
            format!("`weight_decay` = {} must be at least 0", self.weight_decay)
        });
        for (key, rate) in [
            ("ema_decay", self.ema_decay),
            ("word_dropout", self.word_dropout),
            ("bpe_dropout", self.bpe_dropout),
            ("label_smoothing", self.label_smoothing),
        ] {
            problems.require((0.0..1.0).contains(&rate), || {
                format!("`{key}` = {rate} must be at least 0 and below 1")
            });
        }
        if let Some(alpha) = self.unigram_alpha {
            problems.require(alpha >= 0.0 && alpha.is_finite(), || {
                format!("`unigram_alpha` = {alpha} must be at least 0")
            });
            problems.require(self.bpe_dropout == 0.0, || {
                "`unigram_alpha` and `bpe_dropout` exclude each other".into()
            });
        }
        problems.require(
            self.segmentation_epochs.is_none()
                || self.unigram_alpha.is_some()
                || self.bpe_dropout > 0.0,
            || "`segmentation_epochs` needs `bpe_dropout` or `unigram_alpha`".into(),
        );
        problems.require(self.r_drop >= 0.0 && self.r_drop.is_finite(), || {
            format!("`r_drop` = {} must be at least 0", self.r_drop)
        });
        problems
            .require(self.plateau_patience > 0, || "`plateau_patience` must be at least 1".into());
        let factor = self.plateau_factor;
        problems.require(factor > 0.0 && factor < 1.0, || {
            format!("`plateau_factor` = {factor} must be between 0 and 1")
        });
        problems.require(self.clip_norm >= 0.0, || {
            format!("`clip_norm` = {} must be at least 0", self.clip_norm)
        });
        problems.0.extend(self.distill.iter().flat_map(DistillationConfig::problems));
        problems.require(self.distill.is_none() || self.r_drop == 0.0, || {
            "`distill` and `r_drop` exclude each other".into()
        });
        problems.0
    }

    fn schedule_problems(&self) -> Vec<String> {
        let mut problems = Problems::default();
        let (schedule, minimum) = (self.schedule, self.min_learning_rate);
        problems.require(
            minimum >= 0.0 && (minimum == 0.0 || minimum < self.learning_rate),
            || {
                format!(
                    "`min_learning_rate` = {minimum} must be at least 0 and below `learning_rate`"
                )
            },
        );
        problems.require(minimum == 0.0 || schedule.has_minimum(), || {
            "`min_learning_rate` needs `schedule` = \"linear\", \"polynomial\", \"cosine\" or \
             \"range-test\""
                .into()
        });
        problems.require(schedule != Schedule::RangeTest || minimum > 0.0, || {
            "`schedule` = \"range-test\" needs `min_learning_rate`".into()
        });
        problems.require(self.decay_power > 0.0 && self.decay_power.is_finite(), || {
            format!("`decay_power` = {} must be more than 0", self.decay_power)
        });
        problems
            .require(self.restart_steps != Some(0), || "`restart_steps` must be at least 1".into());
        problems.require(self.restart_steps.is_none() || schedule == Schedule::Cosine, || {
            "`restart_steps` needs `schedule` = \"cosine\"".into()
        });
        problems.require(self.restart_factor >= 1.0 && self.restart_factor.is_finite(), || {
            format!("`restart_factor` = {} must be at least 1", self.restart_factor)
        });
        problems.0
    }
}
