//! Validation of a model during training.

use serde::{Deserialize, Serialize};

/// Metric that ranks models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BestBy {
    /// Lowest loss per token on the validation pairs, which is also the lowest perplexity.
    #[serde(alias = "perplexity")]
    Loss,
    /// Highest BLEU of translated validation sources.
    Bleu,
    /// Highest chrF of translated validation sources.
    Chrf,
    /// Most validation sources translated exactly.
    ExactMatch,
}

/// Tokenizer of BLEU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BleuTokenizer {
    /// sacreBLEU's default, for untokenized text.
    #[serde(rename = "13a")]
    V13a,
    /// Split at spaces, for text that is already tokenized.
    #[serde(rename = "none")]
    None,
}

/// Section `[validation]`: validation of a model during training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ValidationConfig {
    /// Epochs from one validation to the next. The last epoch is always validated.
    pub every_epochs: usize,
    /// Updates from one validation to the next, in addition to those after epochs.
    pub every_steps: Option<usize>,
    /// Number of validation pairs for loss and translations, from the first.
    pub sentences: usize,
    /// Beam size of the translations; 1 is greedy search.
    pub beam: usize,
    /// Number of sample translations of each validation.
    pub samples: usize,
    /// Tokenizer of BLEU.
    pub tokenize: BleuTokenizer,
    /// Metric that ranks models; the loss breaks ties.
    pub best_by: BestBy,
    /// Early stopping: number of validations without a better model that ends the run.
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

impl ValidationConfig {
    /// Returns `true` if ranks under this configuration and under `other` are comparable, with
    /// `pairs` available validation pairs.
    pub(crate) fn is_comparable(&self, other: &Self, pairs: usize) -> bool {
        self.best_by == other.best_by
            && self.sentences.min(pairs) == other.sentences.min(pairs)
            && self.beam == other.beam
            && self.tokenize == other.tokenize
    }

    pub(super) fn problems(&self) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validations_with_the_same_metric_and_pairs_are_comparable() {
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
        // Only 1,000 pairs are available in both cases.
        let more = ValidationConfig { sentences: 2_000, ..now.clone() };
        assert!(now.is_comparable(&more, 1_000) && !now.is_comparable(&more, 1_001));
    }
}
