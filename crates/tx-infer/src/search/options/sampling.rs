//! Options of sampling.

use serde::{Deserialize, Serialize};

/// Maximum number of hypotheses or samples of one sentence.
pub const MAX_ROWS: usize = 10_000;

/// Options of sampling, applied in the order `temperature`, `top_k`, `top_p`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// Targets sampled for each sentence.
    pub samples: usize,
    /// Softmax temperature `T`: takes probabilities to the power `1/T`. Below 1, the distribution
    /// is sharper.
    pub temperature: f32,
    /// Number of likeliest tokens to sample from (Fan et al. 2018); 0 disables the limit.
    pub top_k: usize,
    /// Nucleus sampling: samples from the smallest set of likeliest tokens with at least this
    /// probability (Holtzman et al. 2020); 1 disables the limit.
    pub top_p: f32,
    /// Seed. Samples depend only on it, the number of the sentence and the index of the sample.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { samples: 1, temperature: 1.0, top_k: 0, top_p: 1.0, seed: 0 }
    }
}

impl Sampling {
    /// Adds the broken rules.
    pub(super) fn problems(&self, problems: &mut Vec<String>) {
        if !(1..=MAX_ROWS).contains(&self.samples) {
            let samples = self.samples;
            problems
                .push(format!("`samples` = {samples} must be at least 1 and at most {MAX_ROWS}"));
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            problems.push(format!("`temperature` = {} must be above 0", self.temperature));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            problems.push(format!("`top_p` = {} must be above 0 and at most 1", self.top_p));
        }
    }
}
