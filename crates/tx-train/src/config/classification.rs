//! Pooling and class weights of a classifier.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tx_model::Pooling;

/// Section `[classification]`: settings of `task = "classify"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ClassificationConfig {
    /// Reduction of the encoder's output to one vector: by the `first` token or the `mean`.
    pub pooling: Pooling,
    /// Weights of the classes in the training loss: `"none"`, `"balanced"`, or a table of weights by
    /// label such as `{ spam = 2.0 }`, in which other labels have 1.
    pub class_weights: ClassWeights,
}

impl Default for ClassificationConfig {
    fn default() -> Self {
        Self { pooling: Pooling::Mean, class_weights: ClassWeights::Named(NamedWeights::None) }
    }
}

/// Weights of the classes in the training loss.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected \"none\", \"balanced\" or a table of weights by label")]
pub enum ClassWeights {
    /// Weights by a rule.
    Named(NamedWeights),
    /// Weights by label; other labels have 1.
    ByLabel(BTreeMap<String, f32>),
}

/// Rule for the weights of the classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedWeights {
    /// Every text counts once.
    None,
    /// Every class counts the same, whatever its number of texts.
    Balanced,
}

impl ClassificationConfig {
    pub(super) fn problems(&self) -> Vec<String> {
        let ClassWeights::ByLabel(weights) = &self.class_weights else { return Vec::new() };
        let invalid = weights.iter().filter(|(_, weight)| !(weight.is_finite() && **weight >= 0.0));
        invalid
            .map(|(label, weight)| {
                format!("`class_weights.{label}` = {weight} must be a number of at least 0")
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_named_or_given_by_label() {
        let parse = |text: &str| toml::from_str::<ClassificationConfig>(text);
        let weights = |text: &str| parse(text).unwrap().class_weights;
        assert_eq!(weights(""), ClassWeights::Named(NamedWeights::None));
        assert_eq!(
            weights("class_weights = \"balanced\""),
            ClassWeights::Named(NamedWeights::Balanced)
        );
        let given = parse("pooling = \"first\"\nclass_weights = { spam = 2.0, ham = -1 }").unwrap();
        assert_eq!(given.pooling, Pooling::First);
        assert_eq!(given.problems(), ["`class_weights.ham` = -1 must be a number of at least 0"]);
        let error = parse("class_weights = \"equal\"").unwrap_err().to_string();
        assert!(error.contains("\"balanced\" or a table of weights"), "{error}");
    }
}
