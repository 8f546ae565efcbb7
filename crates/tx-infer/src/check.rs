//! Does a bundle obey, on this very device, the laws that every model must obey?
//!
//! A law needs no expected number: two roads to the same scores are compared. The inputs are made of
//! the bundle's own vocabulary, always the same ones. The *deviation* of two tensors is
//! `max |found - expected| / max |expected|`.

use burn::tensor::{Device, Int, Tensor, TensorData, activation::log_softmax};
use tx_data::{
    EncodedPair, Seq2SeqBatch,
    batch::padded,
    mask,
    special::{BOS, EOS, PAD, UNK},
};
use tx_model::{AttentionMaps, Transformer, TransformerInput};

use crate::{
    bundle::Bundle,
    error::InferError,
    search::{Engine, Hypothesis, SearchOptions},
};

mod tokenizers;

/// Largest deviation that counts as rounding: a wrong mask or a wrong place is far above it, single
/// precision far below; some GPUs multiply with fewer digits.
pub const LIMIT: f64 = 1e-3;

/// What a law found.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// What should hold, in a few words.
    pub law: &'static str,
    /// How far it does not; none where the law could not be tried.
    pub deviation: Option<f64>,
    /// The largest deviation that is allowed.
    pub limit: f64,
    /// What went wrong, or why it was not tried.
    pub detail: Option<String>,
}

impl Verdict {
    /// Whether nothing is wrong; what was not tried is not wrong.
    pub fn passed(&self) -> bool {
        self.deviation.is_none_or(|deviation| deviation <= self.limit)
    }

    fn of(law: &'static str, deviation: f64, limit: f64) -> Self {
        Self { law, deviation: Some(deviation), limit, detail: None }
    }
}

/// Tries every law on `bundle`, whose weights are on `device`; `limit` is for those of the scores.
pub fn check(bundle: &Bundle, device: &Device, limit: f64) -> Vec<Verdict> {
    let subject = Subject::new(bundle, device);
    let law = |name, deviation| Verdict::of(name, deviation, limit);
    vec![
        law("scores are finite", subject.finite()),
        law("attention sums to 1 and sees nothing it must not", subject.attention()),
        law("a later token changes nothing before it", subject.causality()),
        law("padding changes no score", subject.padding()),
        law("a batch is its sentences one by one", subject.batch()),
        law("decoding step by step is decoding at once", subject.cache()),
        law("greedy search takes the likeliest token each time", subject.greedy()),
        law("beam search's scores are the model's", subject.beam()),
        subject.packed(limit),
        tokenizers::round_trip(
            "source texts come back from their tokens",
            &bundle.tokenizers.source,
        ),
        tokenizers::round_trip(
            "target texts come back from their tokens",
            &bundle.tokenizers.target,
        ),
    ]
}

/// A source with its translation.
struct Found {
    source: Vec<u32>,
    ids: Vec<u32>,
    log_probability: f32,
}

/// A model with something to read and write.
struct Subject<'a> {
    model: &'a Transformer,
    device: &'a Device,
    max_len: usize,
    /// Ids of the target's tokens.
    target_ids: usize,
    /// Sentences of different lengths; the first is the longest.
    pairs: Vec<EncodedPair>,
}

impl<'a> Subject<'a> {
    fn new(bundle: &'a Bundle, device: &'a Device) -> Self {
        let max_len = bundle.config.max_len;
        let vocabulary = bundle.vocabulary();
        let mut words = Words { state: 1 };
        // One word at least, and room for `<eos>` or `<bos>`.
        let mut words =
            |count: usize, vocabulary| words.take(count.clamp(1, max_len - 1), vocabulary);
        let pairs = [(14, 11), (1, 5), (6, 1), (9, 16)]
            .into_iter()
            .map(|(source, target)| EncodedPair {
                source: [&words(source, vocabulary.source)[..], &[EOS]].concat(),
                target: [&[BOS], &words(target, vocabulary.target)[..], &[EOS]].concat(),
            })
            .collect();
        let target_ids = vocabulary.target;
        Self { model: &bundle.model, device, max_len, target_ids, pairs }
    }

    fn finite(&self) -> f64 {
        let scores = read(self.model.forward(self.input(&self.pairs, 0)));
        if scores.iter().all(|score| score.is_finite()) { 0.0 } else { f64::INFINITY }
    }

    fn attention(&self) -> f64 {
        let input = self.input(&self.pairs, 2);
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
        let input = self.input(&self.pairs, 0);
        let before = self.model.forward(input.clone());
        let [rows, len, vocabulary] = before.dims();
        let mut worst = 0.0_f64;
        for place in 1..len {
            let other = Tensor::<2, Int>::full([rows, 1], UNK, self.device);
            let target = input.target.clone().slice_assign([0..rows, place..place + 1], other);
            let after = self.model.forward(TransformerInput { target, ..input.clone() });
            let earlier =
                |scores: &Tensor<3>| read(scores.clone().slice([0..rows, 0..place, 0..vocabulary]));
            worst = worst.max(deviation(&earlier(&after), &earlier(&before)));
        }
        worst
    }

    fn padding(&self) -> f64 {
        let plain = self.model.forward(self.input(&self.pairs, 0));
        let padded = self.model.forward(self.input(&self.pairs, 3));
        self.worst_sentence(|index, len| {
            (sentence(&padded, index, len), sentence(&plain, index, len))
        })
    }

    fn batch(&self) -> f64 {
        let batch = self.model.forward(self.input(&self.pairs, 0));
        self.worst_sentence(|index, len| {
            let alone = self.model.forward(self.input(&self.pairs[index..=index], 0));
            (sentence(&batch, index, len), read(alone))
        })
    }

    fn cache(&self) -> f64 {
        let input = self.input(&self.pairs, 0);
        let full = self.model.forward(input.clone());
        let [rows, len, vocabulary] = full.dims();
        let memory = self.model.encode(input.source, input.source_blocked.clone());
        let mut cache = self.model.start_decoding(memory, input.source_blocked);
        let mut worst = 0.0_f64;
        for place in 0..len {
            let tokens = input.target.clone().narrow(1, place, 1).squeeze_dim(1);
            let found = read(self.model.decode_step(tokens, &mut cache));
            let expected = full.clone().slice([0..rows, place..place + 1, 0..vocabulary]);
            worst = worst.max(deviation(&found, &read(expected)));
        }
        worst
    }

    /// How much likelier another token was than the one taken, at most.
    fn greedy(&self) -> f64 {
        let mut worst = 0.0_f64;
        let options = SearchOptions { max_repeats: 0, ..SearchOptions::greedy() };
        let Ok(found) = self.search(&options) else { return f64::INFINITY };
        for Found { source, ids, .. } in found {
            let scores = self.forced(&source, &ids);
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

    fn beam(&self) -> f64 {
        let mut worst = 0.0_f64;
        let options = SearchOptions { beam: 4, n_best: 4, ..SearchOptions::default() };
        let Ok(found) = self.search(&options) else { return f64::INFINITY };
        for Found { source, ids, log_probability } in found {
            let scores = self.forced(&source, &ids);
            let rows = scores.chunks_exact(scores.len() / ids.len());
            let expected: f32 = rows.zip(&ids).map(|(row, &id)| row[id as usize]).sum();
            let gap = f64::from((log_probability - expected).abs());
            worst = worst.max(gap / f64::from(expected.abs()).max(1.0));
        }
        worst
    }

    /// On the processor: decoding on packed weights beside decoding on this device.
    #[cfg(feature = "cpu")]
    fn packed(&self, limit: f64) -> Verdict {
        use burn::module::Module;
        use tx_model::packed::PackedTransformer;

        let processor = Device::flex();
        let model = if *self.device == processor {
            self.model.clone()
        } else {
            self.model.clone().to_device(&processor)
        };
        let packed = PackedTransformer::from(&model);
        let worst = self.worst_sentence(|index, len| {
            let EncodedPair { source, target } = &self.pairs[index];
            let mut decoding = packed.start(&[source]);
            let found = target[..len].iter().flat_map(|&token| decoding.step_logits(&[token]));
            let alone = self.model.forward(self.input(&self.pairs[index..=index], 0));
            (found.collect(), read(alone))
        });
        Verdict::of(PACKED, worst, limit)
    }

    #[cfg(not(feature = "cpu"))]
    fn packed(&self, limit: f64) -> Verdict {
        let detail = Some("this program was built without `cpu`".into());
        Verdict { law: PACKED, deviation: None, limit, detail }
    }

    /// The largest deviation over all sentences, of what `scores` gives for one by its index and the
    /// number of tokens that its target makes the decoder read.
    fn worst_sentence(&self, scores: impl Fn(usize, usize) -> (Vec<f32>, Vec<f32>)) -> f64 {
        let each = self.pairs.iter().enumerate().map(|(index, pair)| {
            let (found, expected) = scores(index, pair.target.len() - 1);
            deviation(&found, &expected)
        });
        each.fold(0.0, f64::max)
    }

    /// The translations that are not empty.
    fn search(&self, options: &SearchOptions) -> Result<Vec<Found>, InferError> {
        let [.., width] = self.model.forward(self.input(&self.pairs[..1], 0)).dims();
        let engine = Engine::new(self.model.clone(), self.device)
            .with_padding(self.target_ids as u32..width as u32);
        let sources: Vec<&[u32]> = self.pairs.iter().map(|pair| &pair.source[..]).collect();
        let found = engine.search(&sources, self.max_len, options)?;
        let mut all = Vec::new();
        for (source, hypotheses) in sources.into_iter().zip(found) {
            for found in hypotheses.into_iter().filter(|found| !found.ids.is_empty()) {
                let Hypothesis { ids, log_probability, .. } = found;
                all.push(Found { source: source.to_vec(), ids, log_probability });
            }
        }
        Ok(all)
    }

    /// Log-probabilities `[tokens of the target, V]` where the target is given.
    fn forced(&self, source: &[u32], ids: &[u32]) -> Vec<f32> {
        let pair = EncodedPair { source: source.to_vec(), target: [&[BOS], ids].concat() };
        read(log_softmax(self.model.forward(self.input(&[pair], 0)), 2))
    }

    /// A batch with `extra` columns more of padding than the longest sentence needs, as far as the
    /// model has places for them.
    fn input(&self, pairs: &[EncodedPair], extra: usize) -> TransformerInput {
        let batch = Seq2SeqBatch::new(&pairs.iter().collect::<Vec<_>>(), self.device);
        let wider = |ids: Tensor<2, Int>| {
            let [rows, len] = ids.dims();
            let extra = extra.min(self.max_len.saturating_sub(len));
            if extra == 0 {
                return ids;
            }
            let padding = padded(&vec![&[PAD; 3][..extra]; rows], self.device);
            Tensor::cat(vec![ids, padding], 1)
        };
        let (source, target) = (wider(batch.source), wider(batch.target_in));
        let [_, target_len] = target.dims();
        TransformerInput {
            source_blocked: mask::padding(&source),
            source,
            target,
            target_blocked: mask::causal(target_len, self.device),
        }
    }
}

const PACKED: &str = "the processor's packed weights give the same scores";

/// Ids that look random and never change: a linear congruential generator (Knuth, MMIX).
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

/// Sentence `index` of `[B, L, V]` without its padding.
fn sentence(batch: &Tensor<3>, index: usize, len: usize) -> Vec<f32> {
    let [_, _, vocabulary] = batch.dims();
    read(batch.clone().slice([index..index + 1, 0..len, 0..vocabulary]))
}

fn read<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    let data: TensorData = tensor.into_data();
    data.iter::<f32>().collect()
}

/// The largest absolute value; infinity if one is not finite.
fn largest(values: &[f32]) -> f64 {
    let larger = |most: f64, value: &f32| {
        if value.is_finite() { most.max(f64::from(value.abs())) } else { f64::INFINITY }
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
mod tests;
