//! Invariants of language models.

use tx_engine::PackedLanguageModel;
use tx_kernels::formulas::log_softmax;
use tx_text::special::{BOS, UNK};

use super::{CheckResult, Inputs, deviation, largest};
use crate::{
    attention::Attention, bundle::Bundle, cancellation::Cancellation, device::Device,
    error::InferError, precision::Precision, search::Engine, tokens::Tokens, weights::Weights,
};

/// Checks all invariants of scores, attention and search.
pub(super) fn check(
    bundle: &Bundle,
    device: &Device,
    limit: f64,
) -> Result<Vec<CheckResult>, InferError> {
    let inputs = Inputs::new(bundle.vocabulary(), bundle.config.max_len, BOS).without_sources();
    let subject = Subject::new(bundle, device, &inputs)?;
    let result = |invariant, deviation| CheckResult::new(invariant, deviation, limit);
    let results = vec![
        result("scores are finite", subject.finite()),
        result("attention sums to 1 and is 0 at blocked positions", subject.attention()),
        result("a later token changes nothing before it", subject.causality()),
        result("cached decoding in a batch equals full decoding", subject.cache()),
        result("greedy search selects the likeliest token", subject.greedy()),
        result("beam search reports the model's scores", subject.beam()),
    ];
    #[cfg(feature = "burn")]
    let results = {
        // The packed engine, or for it the module on the same device.
        let other = match device {
            Device::Cpu => Device::Burn(device.to_burn()),
            Device::Burn(_) => Device::Cpu,
        };
        let other = Subject::new(bundle, &other, &inputs)?;
        let texts = inputs.pairs.iter().map(|pair| &pair.target[..]);
        let worst = texts
            .map(|text| deviation(&other.logits(text), &subject.logits(text)))
            .fold(0.0, f64::max);
        let agreement = result("the packed engine gives the same scores", worst);
        [results, vec![agreement]].concat()
    };
    Ok(results)
}

/// A language model with its inputs.
struct Subject<'a> {
    weights: Weights<PackedLanguageModel>,
    engine: Engine,
    inputs: &'a Inputs,
}

impl<'a> Subject<'a> {
    fn new(bundle: &Bundle, device: &Device, inputs: &'a Inputs) -> Result<Self, InferError> {
        let weights = bundle.weights::<PackedLanguageModel>(Precision::F32, device)?;
        Ok(Self { engine: bundle.parts().engine(weights.clone()), weights, inputs })
    }

    fn texts(&self) -> impl Iterator<Item = &[u32]> {
        self.inputs.pairs.iter().map(|pair| &pair.target[..])
    }

    fn finite(&self) -> f64 {
        let is_finite = self.texts().all(|text| self.logits(text).iter().all(|x| x.is_finite()));
        if is_finite { 0.0 } else { f64::INFINITY }
    }

    fn attention(&self) -> f64 {
        let mut worst = 0.0_f64;
        for text in self.texts() {
            // `<bos>` is added, and the last token is only predicted.
            let ids = [&text[1..], &[UNK]].concat();
            let tokens = Tokens { ids, ..Tokens::default() };
            let attention = Attention::of(&self.engine, Tokens::default(), tokens);
            for map in attention.decoder.concat() {
                for (position, row) in map.rows().enumerate() {
                    let sum = row.iter().sum::<f32>() - 1.0;
                    worst = worst.max(largest(&[sum])).max(largest(&row[position + 1..]));
                }
            }
        }
        worst
    }

    fn causality(&self) -> f64 {
        let mut worst = 0.0_f64;
        for text in self.texts() {
            let before = self.logits(text);
            let width = before.len() / text.len();
            for position in 1..text.len() {
                let mut other = text.to_vec();
                other[position] = UNK;
                let after = self.logits(&other);
                let earlier = ..position * width;
                worst = worst.max(deviation(&after[earlier], &before[earlier]));
            }
        }
        worst
    }

    /// Compares the scores of texts that are decoded step by step in a batch, which they leave as they
    /// end, with those of each text alone in one pass.
    fn cache(&self) -> f64 {
        let pairs: Vec<(&[u32], &[u32])> = self.texts().map(|text| (&[][..], &text[1..])).collect();
        let Ok(found) = self.engine.log_probabilities(&pairs, &Cancellation::new()) else {
            return f64::INFINITY;
        };
        let alone = pairs.iter().map(|(_, ids)| {
            let scores = self.log_probs(ids);
            let rows = scores.chunks_exact((scores.len() / ids.len().max(1)).max(1));
            rows.zip(*ids).map(|(row, &id)| row[id as usize]).collect::<Vec<f32>>()
        });
        found.iter().zip(alone).map(|(found, alone)| deviation(found, &alone)).fold(0.0, f64::max)
    }

    fn greedy(&self) -> f64 {
        self.inputs.greedy(&self.engine, self.width(), |_, ids| self.log_probs(ids))
    }

    fn beam(&self) -> f64 {
        self.inputs.beam(&self.engine, self.width(), |_, ids| self.log_probs(ids))
    }

    /// Size of the padded vocabulary.
    fn width(&self) -> usize {
        self.logits(&[BOS]).len()
    }

    /// Log-probabilities `[ids.len(), V]` at each position of the given `ids`.
    fn log_probs(&self, ids: &[u32]) -> Vec<f32> {
        let input = [&[BOS], &ids[..ids.len().saturating_sub(1)]].concat();
        let mut scores = self.logits(&input);
        let width = scores.len() / input.len();
        scores.chunks_exact_mut(width.max(1)).for_each(log_softmax);
        scores
    }

    /// Logits `[tokens, V]` after each token of `text`, which begins with `<bos>`: on tensors in one
    /// pass without a cache, on the packed engine step by step.
    fn logits(&self, text: &[u32]) -> Vec<f32> {
        match &self.weights {
            Weights::Packed(model) => {
                let mut decoding = model.start(1);
                text.iter().flat_map(|&token| decoding.step_logits(&[token])).collect()
            }
            #[cfg(feature = "burn")]
            Weights::Module(model, device) => {
                let input = tx_model::LanguageModelInput {
                    ids: tx_data::batch::padded(&[text], device),
                    positions: None,
                    blocked: tx_data::mask::causal(text.len(), device),
                };
                model.forward(input).into_data().iter::<f32>().collect()
            }
        }
    }
}
