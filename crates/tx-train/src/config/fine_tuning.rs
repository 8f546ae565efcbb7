//! Learning rates of some weights, and LoRA.

use serde::{Deserialize, Serialize};
use tx_model::weights::WeightShape;

use super::weight_selection::selects;

/// Factor of the learning rate of some weights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateFactor {
    /// Group, or parts of names, as in
    /// [`OptimizationConfig::freeze`](super::OptimizationConfig::freeze).
    pub weights: String,
    /// Factor of the scheduled learning rate. A weight that several entries select has the product.
    pub factor: f64,
}

/// Low-rank adaptation (Hu et al. 2022): a matrix `W` becomes `W + alpha / rank · A B`, of which
/// `A` and `B` are trained, and all other weights are frozen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoraConfig {
    /// Number of columns of `A` and rows of `B`.
    pub rank: usize,
    /// Numerator of the factor of `A B`.
    pub alpha: f64,
    /// Matrices that are adapted: groups, or parts of names, as in
    /// [`OptimizationConfig::freeze`](super::OptimizationConfig::freeze).
    pub targets: Vec<String>,
}

impl Default for LoraConfig {
    fn default() -> Self {
        let targets = ["query", "value"].map(str::to_owned).to_vec();
        Self { rank: 8, alpha: 16.0, targets }
    }
}

impl LoraConfig {
    /// Returns `true` if the weight is adapted. Only matrices are.
    pub(crate) fn adapts(&self, weight: &WeightShape) -> bool {
        weight.shape.len() == 2 && self.targets.iter().any(|target| selects(target, &weight.name))
    }
}
