//! Invariants of the packed engine. It decodes step by step and has no padding.

use tx_engine::{Decoding, PackedTransformer};
use tx_kernels::formulas::log_softmax;
use tx_text::special::UNK;

use super::{CheckResult, Inputs, Pair, deviation, largest};
use crate::{cancellation::Cancellation, search::Engine};

/// Checks all invariants of scores and attention.
pub(super) fn check(
    engine: &Engine,
    model: &PackedTransformer,
    inputs: &Inputs,
    limit: f64,
) -> Vec<CheckResult> {
    let subject = Subject { engine, model, inputs };
    let result = |invariant, deviation| CheckResult::new(invariant, deviation, limit);
    vec![
        result("scores are finite", subject.finite()),
        result("attention sums to 1 and is 0 at blocked positions", subject.attention()),
        result("a later token changes nothing before it", subject.causality()),
        result("batching changes no score", subject.batch()),
        result("forced decoding equals step-by-step decoding", subject.target_scores()),
        result("greedy search selects the likeliest token", subject.greedy()),
        result("beam search reports the model's scores", subject.beam()),
    ]
}

/// A packed model with its inputs.
struct Subject<'a> {
    engine: &'a Engine,
    model: &'a PackedTransformer,
    inputs: &'a Inputs,
}

impl Subject<'_> {
    fn finite(&self) -> f64 {
        let mut pairs = self.inputs.pairs.iter();
        let finite =
            pairs.all(|pair| self.logits(&pair.source, &pair.target).iter().all(|x| x.is_finite()));
        if finite { 0.0 } else { f64::INFINITY }
    }

    fn attention(&self) -> f64 {
        let mut worst = 0.0_f64;
        for Pair { source, target } in &self.inputs.pairs {
            let maps = self.model.attention_maps(source, target);
            let layers = maps.encoder.iter().chain(&maps.decoder).chain(&maps.cross);
            let rows = layers.flat_map(|layer| layer.values.chunks_exact(layer.keys.max(1)));
            let sums: Vec<f32> = rows.map(|row| row.iter().sum::<f32>() - 1.0).collect();
            worst = worst.max(largest(&sums));
            for layer in &maps.decoder {
                for (row, weights) in layer.values.chunks_exact(layer.keys.max(1)).enumerate() {
                    let position = row % layer.queries.max(1);
                    let future = weights.get(position + 1..).unwrap_or_default();
                    worst = worst.max(largest(future));
                }
            }
        }
        worst
    }

    /// Compares the cross-attention at every position of targets that differ later.
    fn causality(&self) -> f64 {
        let mut worst = 0.0_f64;
        for Pair { source, target } in &self.inputs.pairs {
            let before = self.cross(source, target);
            for position in 1..target.len() {
                let mut other = target.clone();
                other[position] = UNK;
                let after = self.cross(source, &other);
                for (after, before) in after.iter().zip(&before) {
                    worst = worst
                        .max(deviation(&after[..position].concat(), &before[..position].concat()));
                }
            }
        }
        worst
    }

    /// Rows of the cross-attention of each head of each layer.
    fn cross(&self, source: &[u32], target: &[u32]) -> Vec<Vec<Vec<f32>>> {
        let mut heads = Vec::new();
        for layer in self.model.attention_maps(source, target).cross {
            let rows: Vec<Vec<f32>> =
                layer.values.chunks_exact(layer.keys.max(1)).map(<[f32]>::to_vec).collect();
            heads.extend(rows.chunks_exact(layer.queries.max(1)).map(<[_]>::to_vec));
        }
        heads
    }

    /// Compares sentences decoded in a batch with each alone. Rows leave the batch meanwhile, as in
    /// a search.
    fn batch(&self) -> f64 {
        let pairs = &self.inputs.pairs;
        let mut together: Vec<Vec<f32>> = vec![Vec::new(); pairs.len()];
        let mut decoding = self.model.start(&self.inputs.sources());
        let mut rows: Vec<usize> = (0..pairs.len()).collect();
        for position in 0.. {
            let live: Vec<usize> = (0..rows.len())
                .filter(|&row| position < pairs[rows[row]].target.len())
                .rev()
                .collect();
            if live.is_empty() {
                break;
            }
            decoding.select(&live);
            rows = live.into_iter().map(|row| rows[row]).collect();
            let tokens: Vec<u32> = rows.iter().map(|&row| pairs[row].target[position]).collect();
            let logits = decoding.step_logits(&tokens);
            for (&row, logits) in rows.iter().zip(logits.chunks_exact(self.width())) {
                together[row].extend(logits);
            }
        }
        let alone = pairs.iter().map(|pair| self.logits(&pair.source, &pair.target));
        together
            .iter()
            .zip(alone)
            .map(|(found, alone)| deviation(found, &alone))
            .fold(0.0, f64::max)
    }

    /// Compares the scores of targets in a batch, which targets leave as they end, with those of
    /// each target alone.
    fn target_scores(&self) -> f64 {
        let pairs = self.inputs.pairs.iter();
        let pairs: Vec<(&[u32], &[u32])> =
            pairs.map(|pair| (&pair.source[..], &pair.target[1..])).collect();
        let Ok(found) = self.engine.log_probabilities(&pairs, &Cancellation::new()) else {
            return f64::INFINITY;
        };
        let alone = pairs.iter().map(|(source, ids)| {
            let scores = self.log_probs(source, ids);
            let rows = scores.chunks_exact(scores.len() / ids.len());
            rows.zip(*ids).map(|(row, &id)| row[id as usize]).collect::<Vec<f32>>()
        });
        found.iter().zip(alone).map(|(found, alone)| deviation(found, &alone)).fold(0.0, f64::max)
    }

    fn greedy(&self) -> f64 {
        let log_probs = |source: &[u32], ids: &[u32]| self.log_probs(source, ids);
        self.inputs.greedy(self.engine, self.width(), log_probs)
    }

    fn beam(&self) -> f64 {
        let log_probs = |source: &[u32], ids: &[u32]| self.log_probs(source, ids);
        self.inputs.beam(self.engine, self.width(), log_probs)
    }

    /// Size of the padded target vocabulary.
    fn width(&self) -> usize {
        self.model.start(&[&self.inputs.pairs[0].source]).step_logits(&[self.engine.start()]).len()
    }

    /// Logits `[tokens of the target, V]` after each token of `target`, which begins with the start.
    fn logits(&self, source: &[u32], target: &[u32]) -> Vec<f32> {
        let mut decoding: Decoding<'_> = self.model.start(&[source]);
        target.iter().flat_map(|&token| decoding.step_logits(&[token])).collect()
    }

    /// Returns the log-probabilities `[ids.len(), V]` at each position of the given target `ids`.
    fn log_probs(&self, source: &[u32], ids: &[u32]) -> Vec<f32> {
        let target = [&[self.engine.start()], &ids[..ids.len() - 1]].concat();
        let mut scores = self.logits(source, &target);
        scores.chunks_exact_mut(self.width()).for_each(log_softmax);
        scores
    }
}
