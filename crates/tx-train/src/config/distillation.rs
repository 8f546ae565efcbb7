//! Distillation from a teacher.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Table `train.distill`: word-level knowledge distillation (Kim and Rush 2016, section 3.1).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DistillationConfig {
    /// Bundle of the teacher. A new model uses its tokenizers.
    pub teacher: PathBuf,
    /// Weight of the divergence from the teacher; that of the references is one minus this weight.
    #[serde(default = "default_weight")]
    pub weight: f64,
    /// Divisor of the logits of both models (Hinton et al. 2015).
    #[serde(default = "default_temperature")]
    pub temperature: f64,
}

fn default_weight() -> f64 {
    0.5
}

fn default_temperature() -> f64 {
    1.0
}

impl DistillationConfig {
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Self { weight, temperature, .. } = self;
        if !(*weight > 0.0 && *weight <= 1.0) {
            problems.push(format!("`distill.weight` = {weight} must be more than 0 and at most 1"));
        }
        if !(*temperature > 0.0 && temperature.is_finite()) {
            problems.push(format!("`distill.temperature` = {temperature} must be more than 0"));
        }
        problems
    }
}
