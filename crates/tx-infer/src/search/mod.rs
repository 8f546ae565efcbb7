//! Finding a likely target for a source: greedy and beam search over anything that decodes a batch
//! token by token.
//!
//! Axis letters: `R` rows of the batch (sentences, or hypotheses under way), `S` source tokens,
//! `V` target vocabulary.

mod engine;

mod beam;
mod greedy;

mod candidates;
mod decoder;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use tx_data::special::{BOS, EOS, PAD};
use tx_model::Transformer;

pub use engine::Engine;

/// How targets are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SearchOptions {
    /// Hypotheses kept per sentence; 1 is greedy search.
    pub beam: usize,
    /// `α`: hypotheses are ranked by log-probability / length^α. 0 favours short ones, 1 ranks by
    /// the mean per token. Greedy search has one hypothesis and ranks nothing.
    pub length_penalty: f32,
    /// Hypotheses given back per sentence, best first; at most `beam`.
    pub n_best: usize,
    /// A target has at most `max_len_ratio` · source tokens + `max_len_extra` tokens, and never
    /// more than the model's `max_len`.
    pub max_len_ratio: f32,
    /// See `max_len_ratio`.
    pub max_len_extra: usize,
    /// A target has at least so many tokens before it ends with `<eos>`; the limit above holds all
    /// the same.
    pub min_len: usize,
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self {
            beam: 4,
            length_penalty: 1.0,
            n_best: 1,
            max_len_ratio: 2.0,
            max_len_extra: 10,
            min_len: 0,
        }
    }
}

impl SearchOptions {
    /// One hypothesis, the likeliest token at each step.
    pub fn greedy() -> Self {
        Self { beam: 1, ..Self::default() }
    }

    /// The rules that are broken; empty when all is well.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.beam == 0 {
            problems.push("`beam` must be at least 1".into());
        }
        if self.n_best == 0 || self.n_best > self.beam.max(1) {
            problems.push(format!(
                "`n_best` = {} must be at least 1 and at most `beam` = {}",
                self.n_best, self.beam
            ));
        }
        if !self.length_penalty.is_finite() {
            problems.push(format!("`length_penalty` = {} is not a number", self.length_penalty));
        }
        if !(self.max_len_ratio >= 0.0 && self.max_len_ratio.is_finite()) {
            problems.push(format!("`max_len_ratio` = {} must be at least 0", self.max_len_ratio));
        }
        problems
    }

    /// Most tokens of a target, `<eos>` included.
    fn limit(&self, source_tokens: usize, max_len: usize) -> usize {
        let wanted = (source_tokens as f32 * self.max_len_ratio).ceil() as usize;
        (wanted + self.max_len_extra).clamp(1, max_len)
    }

    /// What a target of `len` tokens cannot go on with. Padding and `<bos>` are never a right
    /// answer; a model that has not learned that yet may think so.
    fn never(&self, len: usize) -> &'static [u32] {
        const NEVER: [u32; 3] = [PAD, BOS, EOS];
        if len < self.min_len { &NEVER } else { &NEVER[..2] }
    }
}

/// A target that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Hypothesis {
    /// Token ids without `<bos>`; ends with `<eos>` unless the length limit came first.
    pub ids: Vec<u32>,
    /// Natural logarithm of the hypothesis's probability.
    pub log_probability: f32,
    /// What hypotheses of one sentence are ranked by: `log_probability / ids.len()^α`.
    pub score: f32,
}

impl Hypothesis {
    fn new(ids: Vec<u32>, log_probability: f32, options: &SearchOptions) -> Self {
        let length = (ids.len().max(1) as f32).powf(options.length_penalty);
        Self { score: log_probability / length, ids, log_probability }
    }
}

/// Finds targets for one batch of sources with `model`, which is on `device`; see
/// [`Engine::search`]. For more than one batch, make an [`Engine`] once.
pub fn search(
    model: &Transformer,
    sources: &[&[u32]],
    max_len: usize,
    options: &SearchOptions,
    device: &Device,
) -> Vec<Vec<Hypothesis>> {
    Engine::new(model.clone(), device).search(sources, max_len, options)
}

#[cfg(test)]
mod tests;
