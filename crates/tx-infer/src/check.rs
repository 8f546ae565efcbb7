//! Checks of the invariants of every model, with a bundle on a device.
//!
//! An invariant needs no expected number: two computations of the same scores are compared. The
//! inputs are ids of the bundle's own vocabulary, the same in every run. The *deviation* of two
//! tensors is `max |found - expected| / max |expected|`.

use tx_engine::PackedTransformer;
use tx_model::VocabSizes;
use tx_text::{
    Tokenizers,
    special::{BOS, EOS, PAD, UNK},
};

use crate::{
    bundle::Bundle,
    device::Device,
    error::InferError,
    precision::Precision,
    search::{Engine, Hypothesis, SearchOptions},
    task::TaskKind,
    weights::Weights,
};

mod encoder;
mod language_model;
mod packed;
#[cfg(feature = "burn")]
mod tensors;
mod tokenizers;

/// Largest deviation that counts as rounding. A wrong mask or position deviates far more, and
/// single precision far less, but some GPUs multiply in lower precision.
pub const LIMIT: f64 = 1e-3;

/// Result of the check of one invariant.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CheckResult {
    /// Short description of the invariant.
    pub invariant: &'static str,
    /// Deviation from the invariant; `None` if it was not checked.
    pub deviation: Option<f64>,
    /// Largest deviation that passes.
    pub limit: f64,
    /// Description of the failure, or the reason why the invariant was not checked.
    pub detail: Option<String>,
}

impl CheckResult {
    /// Returns `true` if the check passed or was skipped.
    pub fn passed(&self) -> bool {
        self.deviation.is_none_or(|deviation| deviation <= self.limit)
    }

    fn new(invariant: &'static str, deviation: f64, limit: f64) -> Self {
        Self { invariant, deviation: Some(deviation), limit, detail: None }
    }
}

/// Checks every invariant of `bundle` on `device`; `limit` is the largest deviation of scores that
/// passes.
///
/// # Errors
///
/// If the model cannot be built on the device.
pub fn check(bundle: &Bundle, device: &Device, limit: f64) -> Result<Vec<CheckResult>, InferError> {
    let Tokenizers { source, target } = &bundle.tokenizers;
    let one_text = || vec![("texts round-trip through their tokens", target)];
    let (mut results, tokenizers) = match bundle.task.kind() {
        TaskKind::Translate => {
            let tokenizers = vec![
                ("source texts round-trip through their tokens", source),
                ("target texts round-trip through their tokens", target),
            ];
            (translation(bundle, device, limit)?, tokenizers)
        }
        TaskKind::Classify => (encoder::check_classifier(bundle, device, limit)?, one_text()),
        TaskKind::Generate => (language_model::check(bundle, device, limit)?, one_text()),
        TaskKind::FillMask => (encoder::check_fill_mask(bundle, device, limit)?, one_text()),
    };
    for (invariant, tokenizer) in tokenizers {
        results.push(tokenizers::round_trip(invariant, tokenizer));
    }
    Ok(results)
}

/// Checks a model for translation.
fn translation(
    bundle: &Bundle,
    device: &Device,
    limit: f64,
) -> Result<Vec<CheckResult>, InferError> {
    let weights = bundle.weights::<PackedTransformer>(Precision::F32, device)?;
    let engine = bundle.parts().engine(weights.clone());
    let inputs = Inputs::new(bundle.vocabulary(), bundle.config.max_len, engine.start());
    Ok(match &weights {
        Weights::Packed(model) => {
            let results = packed::check(&engine, model, &inputs, limit);
            #[cfg(feature = "burn")]
            let results = {
                let flex = device.to_burn();
                let module: tx_model::Transformer = bundle.module(&flex)?;
                let agreement = tensors::agreement(&module, &flex, model, &inputs, limit);
                [results, vec![agreement]].concat()
            };
            results
        }
        #[cfg(feature = "burn")]
        Weights::Module(model, device) => {
            let results = tensors::check(&engine, model, device, &inputs, limit);
            let packed = bundle.pack(Precision::F32)?;
            let agreement = tensors::agreement(model, device, &packed, &inputs, limit);
            [results, vec![agreement]].concat()
        }
    })
}

/// A source and a target.
struct Pair {
    /// Ends with `<eos>`; empty for language models.
    source: Vec<u32>,
    /// Input of the decoder: begins with its start.
    target: Vec<u32>,
}

/// Sources and targets of different lengths; the first source is the longest.
struct Inputs {
    pairs: Vec<Pair>,
    /// Number of ids of the target tokenizer.
    target_ids: usize,
}

impl Inputs {
    /// Creates inputs of a model whose decoder starts with the id `start`.
    fn new(vocabulary: VocabSizes, max_len: usize, start: u32) -> Self {
        let mut words = Words { state: 1 };
        // At least one word, and room for `<eos>` or `<bos>`.
        let mut words =
            |count: usize, vocabulary| words.take(count.clamp(1, max_len - 1), vocabulary);
        let pairs = [(14, 11), (1, 5), (6, 1), (9, 16)]
            .into_iter()
            .map(|(source, target)| Pair {
                source: [&words(source, vocabulary.source)[..], &[EOS]].concat(),
                target: [&[start], &words(target, vocabulary.target)[..]].concat(),
            })
            .collect();
        Self { pairs, target_ids: vocabulary.target }
    }

    /// Inputs of a language model: targets only.
    fn without_sources(mut self) -> Self {
        self.pairs.iter_mut().for_each(|pair| pair.source.clear());
        self
    }

    fn sources(&self) -> Vec<&[u32]> {
        self.pairs.iter().map(|pair| &pair.source[..]).collect()
    }

    /// Returns the translations that are not empty. `width` is the padded target vocabulary.
    fn search(
        &self,
        engine: &Engine,
        width: usize,
        options: &SearchOptions,
    ) -> Result<Vec<Translated>, InferError> {
        let engine = engine.clone().with_padding(self.target_ids as u32..width as u32);
        let sources = self.sources();
        let found = engine.search(&sources, options)?;
        let mut all = Vec::new();
        for (source, hypotheses) in sources.into_iter().zip(found) {
            for found in hypotheses.into_iter().filter(|found| !found.ids.is_empty()) {
                let Hypothesis { ids, log_probability, .. } = found;
                all.push(Translated { source: source.to_vec(), ids, log_probability });
            }
        }
        Ok(all)
    }

    /// Limit of the length of found targets. Without a source, nothing else than the model limits it.
    fn max_target_len(&self, engine: &Engine) -> Option<usize> {
        (!engine.has_source()).then_some(32)
    }

    /// Returns the largest difference in log-probability by which another token is likelier than
    /// the one that greedy search selects. `log_probs` returns those of all tokens, `[target, V]`,
    /// for a source and a given target.
    fn greedy(
        &self,
        engine: &Engine,
        width: usize,
        log_probs: impl Fn(&[u32], &[u32]) -> Vec<f32>,
    ) -> f64 {
        let max_len = self.max_target_len(engine);
        let options = SearchOptions { max_repeats: 0, max_len, ..SearchOptions::greedy() };
        let Ok(found) = self.search(engine, width, &options) else { return f64::INFINITY };
        let mut worst = 0.0_f64;
        for Translated { source, ids, .. } in found {
            let scores = log_probs(&source, &ids);
            let rows = scores.chunks_exact(scores.len() / ids.len());
            for (row, &id) in rows.zip(&ids) {
                let tokens = (0_u32..).zip(row).take(self.target_ids);
                let possible = tokens.filter(|(id, _)| ![PAD, BOS].contains(id));
                let best = possible.map(|(_, &score)| score).fold(f32::NEG_INFINITY, f32::max);
                let missed = f64::from(best - row[id as usize]);
                worst = worst.max(missed / largest(row).max(f64::MIN_POSITIVE));
            }
        }
        worst
    }

    /// Returns the largest difference between the log-probability of a hypothesis of beam search
    /// and that of its tokens by `log_probs`, as in [`greedy`](Self::greedy).
    fn beam(
        &self,
        engine: &Engine,
        width: usize,
        log_probs: impl Fn(&[u32], &[u32]) -> Vec<f32>,
    ) -> f64 {
        let max_len = self.max_target_len(engine);
        let options = SearchOptions { beam: 4, n_best: 4, max_len, ..SearchOptions::default() };
        let Ok(found) = self.search(engine, width, &options) else { return f64::INFINITY };
        let mut worst = 0.0_f64;
        for Translated { source, ids, log_probability } in found {
            let scores = log_probs(&source, &ids);
            let rows = scores.chunks_exact(scores.len() / ids.len());
            let expected: f32 = rows.zip(&ids).map(|(row, &id)| row[id as usize]).sum();
            let gap = f64::from((log_probability - expected).abs());
            worst = worst.max(gap / f64::from(expected.abs()).max(1.0));
        }
        worst
    }
}

/// A source with its translation.
struct Translated {
    source: Vec<u32>,
    ids: Vec<u32>,
    log_probability: f32,
}

/// Pseudo-random ids from a linear congruential generator (Knuth, MMIX) with a fixed seed.
struct Words {
    state: u64,
}

impl Words {
    fn take(&mut self, count: usize, vocabulary: usize) -> Vec<u32> {
        let first = UNK + 1;
        let words = (vocabulary as u64).saturating_sub(u64::from(first));
        let mut next = || {
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            if words == 0 { UNK } else { first + ((self.state >> 33) % words) as u32 }
        };
        (0..count).map(|_| next()).collect()
    }
}

/// Returns the largest absolute value; infinity if one is not finite.
fn largest(values: &[f32]) -> f64 {
    let larger = |largest: f64, value: &f32| {
        if value.is_finite() { largest.max(f64::from(value.abs())) } else { f64::INFINITY }
    };
    values.iter().fold(0.0, larger)
}

fn deviation(found: &[f32], expected: &[f32]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let gaps: Vec<f32> = found.iter().zip(expected).map(|(a, b)| a - b).collect();
    match largest(&gaps) {
        0.0 => 0.0,
        gap => gap / largest(expected).max(f64::MIN_POSITIVE),
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
