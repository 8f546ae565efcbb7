//! Invariants of a module on a device of Burn.

use std::slice;

use burn::tensor::{Device, Int, Tensor, TensorData, activation::log_softmax};
use tx_data::{batch::padded, mask};
use tx_engine::PackedTransformer;
use tx_model::{AttentionMaps, Transformer, TransformerInput};
use tx_text::special::{PAD, UNK};

use super::{CheckResult, Inputs, Pair, deviation, largest};
use crate::search::Engine;

/// Checks all invariants of scores and attention.
pub(super) fn check(
    engine: &Engine,
    model: &Transformer,
    device: &Device,
    inputs: &Inputs,
    limit: f64,
) -> Vec<CheckResult> {
    let subject = Subject { engine, model, device, inputs };
    let result = |invariant, deviation| CheckResult::new(invariant, deviation, limit);
    vec![
        result("scores are finite", subject.finite()),
        result("attention sums to 1 and is 0 at blocked positions", subject.attention()),
        result("a later token changes nothing before it", subject.causality()),
        result("padding changes no score", subject.padding()),
        result("batching changes no score", subject.batch()),
        result("cached decoding equals full decoding", subject.cache()),
        result("greedy search selects the likeliest token", subject.greedy()),
        result("beam search reports the model's scores", subject.beam()),
    ]
}

/// Compares the scores of the packed engine with those of the module on `device`.
pub(super) fn agreement(
    model: &Transformer,
    device: &Device,
    packed: &PackedTransformer,
    inputs: &Inputs,
    limit: f64,
) -> CheckResult {
    let scores = |pair: &Pair| {
        let mut decoding = packed.start(&[&pair.source]);
        let found = pair.target.iter().flat_map(|&token| decoding.step_logits(&[token]));
        let input = batch(slice::from_ref(pair), 0, 0, device);
        deviation(&found.collect::<Vec<_>>(), &read(model.forward(input)))
    };
    let worst = inputs.pairs.iter().map(scores).fold(0.0, f64::max);
    CheckResult::new("the packed engine gives the same scores", worst, limit)
}

/// A module with its inputs.
struct Subject<'a> {
    engine: &'a Engine,
    model: &'a Transformer,
    device: &'a Device,
    inputs: &'a Inputs,
}

impl Subject<'_> {
    fn finite(&self) -> f64 {
        let scores = read(self.model.forward(self.all()));
        if scores.iter().all(|score| score.is_finite()) { 0.0 } else { f64::INFINITY }
    }

    fn attention(&self) -> f64 {
        let input = self.input(&self.inputs.pairs, 2);
        let (padding, future) = (input.source_blocked.clone(), input.target_blocked.clone());
        let (_, maps) = self.model.forward_with_attention(input);
        let AttentionMaps { encoder, decoder } = maps;
        let all =
            [(encoder, &padding), (decoder.self_attention, &future), (decoder.cross, &padding)];
        let mut worst = 0.0_f64;
        for (maps, blocked) in all {
            for map in maps {
                let hidden = blocked.clone().expand(map.dims());
                let seen = read(map.clone().abs().mask_fill(hidden.bool_not(), 0.0));
                let sums = read(map.sum_dim(3) - 1.0);
                worst = worst.max(largest(&seen)).max(largest(&sums));
            }
        }
        worst
    }

    fn causality(&self) -> f64 {
        let input = self.all();
        let before = self.model.forward(input.clone());
        let [rows, len, vocabulary] = before.dims();
        let mut worst = 0.0_f64;
        for position in 1..len {
            let other = Tensor::<2, Int>::full([rows, 1], UNK, self.device);
            let range = [0..rows, position..position + 1];
            let target = input.target.clone().slice_assign(range, other);
            let after = self.model.forward(TransformerInput { target, ..input.clone() });
            let earlier = |scores: &Tensor<3>| {
                read(scores.clone().slice([0..rows, 0..position, 0..vocabulary]))
            };
            worst = worst.max(deviation(&earlier(&after), &earlier(&before)));
        }
        worst
    }

    fn padding(&self) -> f64 {
        let plain = self.model.forward(self.all());
        let padded = self.model.forward(self.input(&self.inputs.pairs, 3));
        self.worst_sentence(|index, len| {
            (sentence(&padded, index, len), sentence(&plain, index, len))
        })
    }

    fn batch(&self) -> f64 {
        let batch = self.model.forward(self.all());
        self.worst_sentence(|index, len| {
            let alone = self.model.forward(self.input(&self.inputs.pairs[index..=index], 0));
            (sentence(&batch, index, len), read(alone))
        })
    }

    fn cache(&self) -> f64 {
        let input = self.all();
        let full = self.model.forward(input.clone());
        let [rows, len, vocabulary] = full.dims();
        let memory = self.model.encode(input.source, input.source_blocked.clone());
        let mut cache = self.model.start_decoding(memory, input.source_blocked);
        let mut worst = 0.0_f64;
        for position in 0..len {
            let tokens = input.target.clone().narrow(1, position, 1).squeeze_dim(1);
            let found = read(self.model.decode_step(tokens, &mut cache));
            let expected = full.clone().slice([0..rows, position..position + 1, 0..vocabulary]);
            worst = worst.max(deviation(&found, &read(expected)));
        }
        worst
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
        let [.., width] = self.model.forward(self.input(&self.inputs.pairs[..1], 0)).dims();
        width
    }

    /// Returns the largest deviation over all sentences. `scores` returns the scores found and
    /// expected for a sentence, given its index and the number of target tokens that the decoder
    /// reads.
    fn worst_sentence(&self, scores: impl Fn(usize, usize) -> (Vec<f32>, Vec<f32>)) -> f64 {
        let each = self.inputs.pairs.iter().enumerate().map(|(index, pair)| {
            let (found, expected) = scores(index, pair.target.len());
            deviation(&found, &expected)
        });
        each.fold(0.0, f64::max)
    }

    /// Returns the log-probabilities `[ids.len(), V]` at each position of the given target `ids`.
    fn log_probs(&self, source: &[u32], ids: &[u32]) -> Vec<f32> {
        let target = [&[self.engine.start()], &ids[..ids.len() - 1]].concat();
        let pair = Pair { source: source.to_vec(), target };
        read(log_softmax(self.model.forward(self.input(&[pair], 0)), 2))
    }

    /// Returns all pairs as a batch.
    fn all(&self) -> TransformerInput {
        self.input(&self.inputs.pairs, 0)
    }

    fn input(&self, pairs: &[Pair], extra: usize) -> TransformerInput {
        batch(pairs, extra, self.engine.max_len(), self.device)
    }
}

/// Pads pairs to a batch, with up to `extra` more columns of padding than the longest sentence
/// needs, within `max_len`.
fn batch(pairs: &[Pair], extra: usize, max_len: usize, device: &Device) -> TransformerInput {
    let wider = |rows: Vec<&[u32]>| {
        let ids = padded(&rows, device);
        let [rows, len] = ids.dims();
        let extra = extra.min(max_len.saturating_sub(len));
        if extra == 0 {
            return ids;
        }
        let padding = padded(&vec![&[PAD; 3][..extra]; rows], device);
        Tensor::cat(vec![ids, padding], 1)
    };
    let source = wider(pairs.iter().map(|pair| &pair.source[..]).collect());
    let target = wider(pairs.iter().map(|pair| &pair.target[..]).collect());
    let [_, target_len] = target.dims();
    TransformerInput {
        source_blocked: mask::padding(&source),
        source,
        target,
        target_blocked: mask::causal(target_len, device),
    }
}

/// Scores of sentence `index` of `[B, L, V]` without its padding.
fn sentence(batch: &Tensor<3>, index: usize, len: usize) -> Vec<f32> {
    let [_, _, vocabulary] = batch.dims();
    read(batch.clone().slice([index..index + 1, 0..len, 0..vocabulary]))
}

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data: TensorData = tensor.into_data();
    data.iter::<f32>().collect()
}
