//! Everything that decides a training run, as plain data.

mod data;
mod interval;
mod optimization;

use serde::{Deserialize, Serialize};
use tx_model::ModelConfig;
use tx_text::{TokenizerConfig, TokenizerKind};

pub use data::{DataConfig, DataSource, OverlapPolicy};
pub use interval::Interval;
pub use optimization::{OnNonFinite, OptimizationConfig, OptimizerKind};

/// One run: what to learn from, which model, how to train and how to check it.
///
/// Read from a recipe, a file or both (see [`recipe`](crate::recipe)); written whole into the run
/// folder as `train.toml`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// The recipe that this came from, for the record. In a file, `recipe` names one to lay the file
    /// over; a whole configuration has `from_recipe` instead, and is laid over nothing.
    #[serde(rename = "from_recipe", alias = "recipe")]
    pub recipe: Option<String>,
    /// What to learn from.
    pub data: DataConfig,
    /// How text becomes tokens.
    pub tokenizer: TokenizerConfig,
    /// The model's shape.
    pub model: ModelConfig,
    /// How to train.
    pub train: OptimizationConfig,
    /// How to check.
    pub validation: ValidationConfig,
    /// What to keep to go on from.
    pub checkpoint: CheckpointConfig,
    /// What to note for programs.
    pub metrics: MetricsConfig,
}

/// Which figure says that a model is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BestBy {
    /// Lowest loss per token on the validation pairs, and so the lowest perplexity.
    #[serde(alias = "perplexity")]
    Loss,
    /// Highest BLEU of translated validation sources.
    Bleu,
    /// Highest chrF of translated validation sources.
    Chrf,
    /// Most validation sources translated exactly.
    ExactMatch,
}

/// How BLEU splits words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BleuTokenizer {
    /// sacreBLEU's default, for text as it is written.
    #[serde(rename = "13a")]
    V13a,
    /// At spaces, for text that is tokenized already.
    #[serde(rename = "none")]
    None,
}

/// How to check a model during training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Epochs from one validation to the next; the last epoch is always validated.
    pub every_epochs: usize,
    /// Updates from one validation to the next, besides those after epochs.
    pub every_steps: Option<usize>,
    /// Validation pairs to check on, from the first: for the loss as for the translations.
    pub sentences: usize,
    /// Hypotheses kept when they are translated; 1 is greedy.
    pub beam: usize,
    /// Translations shown each time.
    pub samples: usize,
    /// How BLEU splits words.
    pub tokenize: BleuTokenizer,
    /// Which figure says that a model is better; the loss decides between equals.
    pub best_by: BestBy,
    /// The run ends after so many validations without a better model.
    pub patience: Option<usize>,
}

impl Default for ValidationConfig {
    fn default() -> Self {
        Self {
            every_epochs: 1,
            every_steps: None,
            sentences: 1_000,
            beam: 1,
            samples: 3,
            tokenize: BleuTokenizer::V13a,
            best_by: BestBy::Bleu,
            patience: None,
        }
    }
}

/// What to keep to go on from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Interval between checkpoints: `"1 epoch"`, `"500 steps"` or `"10 minutes"`. There is one at the
    /// end of a run in any case.
    pub every: Interval,
    /// How many of the last checkpoints are kept.
    pub keep_last: usize,
    /// Of how many of the best models a checkpoint is kept besides; each is made at its validation.
    pub keep_best: usize,
}

impl Default for CheckpointConfig {
    fn default() -> Self {
        Self { every: Interval::Minutes(10.0), keep_last: 1, keep_best: 0 }
    }
}

/// What to note for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetricsConfig {
    /// Updates from one line of `metrics.jsonl` to the next.
    pub every_steps: usize,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { every_steps: 50 }
    }
}

impl TrainConfig {
    /// The rules that are broken, as `section.key …`; empty when all is well. Nothing is read and
    /// no device is touched.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut section = |name: &str, list: Vec<String>| {
            problems.extend(list.into_iter().map(|problem| format!("[{name}] {problem}")));
        };
        section("data", self.data.problems(self.model.max_len));
        section("tokenizer", self.tokenizer.problems());
        section("model", self.model.problems());
        section("train", self.train.problems());
        section("validation", self.validation.problems());
        section("checkpoint", self.checkpoint.problems());
        section("metrics", self.metrics.problems());
        if self.model.tying == tx_model::Tying::All
            && !(self.tokenizer.joint || self.tokenizer.file.is_some())
        {
            problems.push(
                "[model] `tying` = \"all\" needs one vocabulary: set `tokenizer.joint` = true"
                    .into(),
            );
        }
        let tokenizer = &self.tokenizer;
        if self.train.bpe_dropout > 0.0
            && tokenizer.kind != TokenizerKind::Bpe
            && !tokenizer.is_imported()
        {
            problems.push("[train] `bpe_dropout` needs `tokenizer.kind` = \"bpe\"".into());
        }
        problems
    }

    /// Longest side of a training pair in tokens, special tokens included.
    pub fn max_len(&self) -> usize {
        self.data.max_len.unwrap_or(self.model.max_len)
    }
}

impl ValidationConfig {
    /// Whether models validated as `other` says can be compared with those validated so, with
    /// `pairs` validation pairs to choose from.
    pub(crate) fn is_comparable(&self, other: &Self, pairs: usize) -> bool {
        self.best_by == other.best_by
            && self.sentences.min(pairs) == other.sentences.min(pairs)
            && self.beam == other.beam
            && self.tokenize == other.tokenize
    }

    fn problems(&self) -> Vec<String> {
        [
            ("every_epochs", self.every_epochs),
            ("every_steps", self.every_steps.unwrap_or(1)),
            ("sentences", self.sentences),
            ("beam", self.beam),
            ("patience", self.patience.unwrap_or(1)),
        ]
        .into_iter()
        .filter(|(_, value)| *value == 0)
        .map(|(key, _)| format!("`{key}` must be at least 1"))
        .collect()
    }
}

impl MetricsConfig {
    fn problems(&self) -> Vec<String> {
        let none = (self.every_steps == 0).then(|| "`every_steps` must be at least 1".into());
        none.into_iter().collect()
    }
}

impl CheckpointConfig {
    fn problems(&self) -> Vec<String> {
        let none = (self.keep_last == 0).then(|| "`keep_last` must be at least 1".into());
        none.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validations_are_comparable_by_the_same_figure_on_the_same_pairs() {
        let now = ValidationConfig::default();
        let other =
            ValidationConfig { patience: Some(3), samples: 9, every_epochs: 2, ..now.clone() };
        assert!(now.is_comparable(&other, 3_000));
        for other in [
            ValidationConfig { best_by: BestBy::Loss, ..now.clone() },
            ValidationConfig { sentences: 2_000, ..now.clone() },
            ValidationConfig { beam: 5, ..now.clone() },
            ValidationConfig { tokenize: BleuTokenizer::None, ..now.clone() },
        ] {
            assert!(!now.is_comparable(&other, 3_000), "{other:?}");
        }
        // There are no more than 1,000 either way.
        let more = ValidationConfig { sentences: 2_000, ..now.clone() };
        assert!(now.is_comparable(&more, 1_000) && !now.is_comparable(&more, 1_001));
    }

    #[test]
    fn every_section_reports_its_problems_at_once() {
        let mut config = TrainConfig::default();
        config.data.train_source = Some("a".into());
        config.data.max_len = Some(9_999);
        config.tokenizer.joint = false;
        config.model.n_heads = 7;
        config.train.learning_rate = 0.0;
        config.train.warmup_steps = 0;
        config.validation.beam = 0;
        assert_eq!(
            config.problems(),
            [
                "[data] `train_source` and `train_target` go together",
                "[data] `max_len` = 9999 is more than `model.max_len` = 512",
                "[model] `n_heads` = 7 must divide `d_model` = 512 (remainder 1)",
                "[train] `learning_rate` = 0 must be more than 0",
                "[train] `warmup_steps` must be at least 1 for this `schedule`",
                "[validation] `beam` must be at least 1",
                "[model] `tying` = \"all\" needs one vocabulary: set `tokenizer.joint` = true",
            ]
        );
    }
}
