//! Finding a likely target for a source: greedy and beam search on a cached decoder.
//!
//! Axis letters: `R` rows of the batch (sentences, or hypotheses under way), `S` source tokens,
//! `V` target vocabulary.

mod beam;
mod candidates;
mod greedy;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData, activation::log_softmax};
use serde::{Deserialize, Serialize};
use tx_data::{
    batch::padded,
    mask,
    special::{BOS, PAD},
};
use tx_model::{DecoderCache, Transformer};

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
}

impl Default for SearchOptions {
    fn default() -> Self {
        Self { beam: 4, length_penalty: 1.0, n_best: 1, max_len_ratio: 2.0, max_len_extra: 10 }
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
        let length = (ids.len() as f32).powf(options.length_penalty);
        Self { score: log_probability / length, ids, log_probability }
    }
}

/// Finds targets for a batch of sources: for each, the `n_best` hypotheses, best first.
///
/// `sources` are token ids as the source tokenizer gives them; none may be empty or longer than
/// `max_len`, the model's longest sequence. `options` must have no
/// [`problems`](SearchOptions::problems).
pub fn search(
    model: &Transformer,
    sources: &[&[u32]],
    max_len: usize,
    options: &SearchOptions,
    device: &Device,
) -> Vec<Vec<Hypothesis>> {
    if sources.is_empty() {
        return Vec::new();
    }
    let ids = padded(sources, device);
    let blocked = mask::padding(&ids);
    let memory = model.encode(ids, blocked.clone());
    let limits: Vec<usize> =
        sources.iter().map(|source| options.limit(source.len(), max_len)).collect();
    let job = Job { model, memory, blocked, limits, options, device };
    if options.beam == 1 { greedy::search(job) } else { beam::search(job) }
}

/// A batch whose sources have been read.
struct Job<'a> {
    model: &'a Transformer,
    /// `[R, S, d_model]`
    memory: Tensor<3>,
    /// `[R, 1, 1, S]`; `true` = padding.
    blocked: Tensor<4, Bool>,
    /// Most tokens of each target.
    limits: Vec<usize>,
    options: &'a SearchOptions,
    device: &'a Device,
}

impl Job<'_> {
    /// Feeds the newest token of each row and gives the log-probabilities of the next: `[R, V]`.
    fn step(&self, tokens: &[u32], cache: &mut DecoderCache) -> Tensor<2> {
        let log_probs = log_softmax(self.model.decode_step(self.indices(tokens), cache), 1);
        // Neither is ever a right answer; a model that has not learned that yet may think so.
        let [rows, _] = log_probs.dims();
        [PAD, BOS].into_iter().fold(log_probs, |log_probs, id| {
            let id = id as usize;
            let never = Tensor::full([rows, 1], f32::NEG_INFINITY, self.device);
            log_probs.slice_assign([0..rows, id..id + 1], never)
        })
    }

    /// `[len]` on the device.
    fn indices(&self, indices: &[u32]) -> Tensor<1, Int> {
        let indices: Vec<i32> = indices.iter().map(|&index| index as i32).collect();
        let len = indices.len();
        Tensor::from_data(TensorData::new(indices, [len]), self.device)
    }
}

#[cfg(test)]
mod tests;
