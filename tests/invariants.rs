//! Invariants of the model: properties that hold for every variant with any weights.
//!
//! Weights are computed from a hash of their path, because the device's random numbers are one
//! stream for all tests of a process, and its order depends on the scheduler. No weight is zero or
//! one, so a fault cannot be hidden by such values.
//!
//! The *difference* of two tensors is `max |found - expected| / max |expected|`.

use std::collections::BTreeSet;

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tx_data::{batch::padded, mask};
use tx_model::{
    Activation, Autoregression, DecoderStart, DropoutConfig, EmbeddingScale, ModelConfig,
    NormPlacement, Normalization, Positions, SinusoidFormula, SinusoidLayout, Sinusoids,
    Transformer, TransformerInput, Tying, VocabSizes,
};
use tx_text::special::PAD;

use crate::support::{devices, largest, values, with_weights};

// Scores: invariance to padding and batching, cached decoding, causality.
mod forward;

// Packed engine against tensors.
mod packed;

// First input of the decoder.
mod decoder_start;

// Decoder alone: documents in one row, causality, cached decoding, packed engine, gradients.
mod language_model;

// Encoder alone: padding, empty texts, packed engine, gradients.
mod encoder_only;

// Other devices against the CPU.
mod conformance;

// Half precision.
mod precision;

// Gradients: finite, zero where required, equal to finite differences, and sufficient for training.
mod backward;

/// Vocabulary size of both sides, including special tokens.
const VOCABULARY: usize = 11;

/// Maximum difference between two computations of the same value in single precision.
const LIMIT: f64 = 1e-5;

/// Sources of different lengths, each with `<eos>`; the first is the longest.
fn sources() -> Vec<Vec<u32>> {
    vec![vec![5, 9, 4, 10, 2], vec![6, 2], vec![8, 3, 7, 2]]
}

/// Decoder inputs, beginning with `<bos>`; the second is the longest.
fn targets() -> Vec<Vec<u32>> {
    vec![vec![1, 7, 5], vec![1, 4, 10, 9, 9, 6], vec![1, 8, 5, 3]]
}

/// Expected decoder outputs for [`targets`].
fn answers() -> Vec<Vec<u32>> {
    vec![vec![7, 5, 2], vec![4, 10, 9, 9, 6, 2], vec![8, 5, 3, 2]]
}

/// Model variant on a device.
struct Subject {
    /// Device and variant, for messages.
    name: String,
    config: ModelConfig,
    device: Device,
}

impl Subject {
    /// Model with the weights of [`pattern`].
    fn model(&self) -> Transformer {
        with_weights(self.untrained(&self.device), pattern)
    }

    /// Same as [`model`](Self::model), with autodiff.
    fn trainable(&self) -> Transformer {
        with_weights(self.untrained(&self.device.clone().autodiff()), pattern)
    }

    /// Model with the initialization of the configuration.
    fn untrained(&self, device: &Device) -> Transformer {
        let vocab = VocabSizes { source: VOCABULARY, target: VOCABULARY };
        Transformer::new(&self.config, vocab, device).unwrap()
    }

    /// Batch of [`sources`] and [`targets`].
    fn input(&self) -> TransformerInput {
        input(&sources(), &targets(), 0, &self.device)
    }

    /// Returns the difference of two tensors.
    ///
    /// # Panics
    ///
    /// If the difference exceeds [`LIMIT`].
    fn assert_close(&self, what: &str, found: &TensorData, expected: &TensorData) -> f64 {
        let Self { name, .. } = self;
        assert_eq!(found.shape(), expected.shape(), "{name}: {what}");
        let difference = difference(&values(found), &values(expected));
        assert!(difference <= LIMIT, "{name}: {what} differs by {difference:.1e}");
        difference
    }
}

/// Every variant on every device.
fn subjects() -> impl Iterator<Item = Subject> {
    devices().into_iter().flat_map(|(device_name, device)| {
        variants().into_iter().map(move |(variant, config)| Subject {
            name: format!("{device_name}, {variant}"),
            config,
            device: device.clone(),
        })
    })
}

/// Those of [`subjects`] whose configuration a language model can have.
fn subjects_with_attention() -> impl Iterator<Item = Subject> {
    subjects().filter(|subject| subject.config.autoregression.is_attention())
}

/// All values of an option. Does not compile if one is missing.
macro_rules! every {
    ($option:ident: $($value:ident),+) => {{
        let _ = |value: $option| match value {
            $($option::$value => {})+
        };
        [$($option::$value),+]
    }};
}

/// All combinations of norm placement, positional encoding, activation and tying, and the remaining
/// options.
fn variants() -> Vec<(String, ModelConfig)> {
    variants_with(|_| true)
}

/// Same as [`variants`] with fewer combinations, in which any two values of different options still occur
/// together.
fn pairwise_variants() -> Vec<(String, ModelConfig)> {
    variants_with(|[norm, positions, activation, tying]| {
        norm == (positions + activation) % 4 && tying == (positions + 2 * activation) % 3
    })
}

/// Combinations for whose indices of norm placement, positional encoding, activation and tying
/// `is_included` holds, and the remaining options.
fn variants_with(is_included: impl Fn([usize; 4]) -> bool) -> Vec<(String, ModelConfig)> {
    let base = ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        encoder_layers: 2,
        decoder_layers: 2,
        max_len: 16,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    let mut variants = Vec::new();
    let norms = every!(NormPlacement: Pre, Post, PostFinal, SublayerOutput);
    let positions = every!(Positions: Sinusoidal, Learned, Rotary, Relative, Alibi, None);
    let activations = every!(Activation: Relu, Gelu, Swish, Gated);
    let tyings = every!(Tying: None, Decoder, All);
    for (n, norm) in norms.into_iter().enumerate() {
        for (p, positions) in positions.into_iter().enumerate() {
            for (a, activation) in activations.into_iter().enumerate() {
                for (t, tying) in tyings.into_iter().enumerate() {
                    if !is_included([n, p, a, t]) {
                        continue;
                    }
                    let config = ModelConfig { norm, positions, activation, tying, ..base.clone() };
                    let name = format!("{norm:?} {positions:?} {activation:?} {tying:?}");
                    variants.push((name, config));
                }
            }
        }
    }
    for norm in norms {
        let config = ModelConfig {
            norm,
            attention_bias: false,
            feed_forward_bias: false,
            output_bias: false,
            ..base.clone()
        };
        variants.push((format!("{norm:?} without biases"), config));
    }
    for embedding_scale in every!(EmbeddingScale: Both, Source, None) {
        let config = ModelConfig { embedding_scale, ..base.clone() };
        variants.push((format!("scale {embedding_scale:?}"), config));
    }
    variants.extend(variants_of_other_programs(&base));
    variants
}

/// All combinations of the sinusoids' options, and an epsilon and a decoder's start that differ from
/// those of the base model, with each norm placement and each positional encoding.
fn variants_of_other_programs(base: &ModelConfig) -> Vec<(String, ModelConfig)> {
    let base = ModelConfig { activation: Activation::Swish, tying: Tying::Decoder, ..base.clone() };
    let mut variants = Vec::new();
    for layout in every!(SinusoidLayout: Interleaved, Halves) {
        for formula in every!(SinusoidFormula: Paper, Tensor2tensor) {
            for first in 0..=2 {
                let sinusoids = Sinusoids { layout, formula, first };
                let config = ModelConfig { sinusoids, ..base.clone() };
                variants.push((format!("{layout:?} {formula:?} {first}"), config));
            }
        }
    }
    for norm in every!(NormPlacement: Pre, Post, PostFinal, SublayerOutput) {
        let config = ModelConfig { norm, norm_epsilon: 0.05, ..base.clone() };
        variants.push((format!("{norm:?} epsilon"), config));
        let config = ModelConfig { norm, decoder_start: DecoderStart::Zero, ..base.clone() };
        variants.push((format!("{norm:?} zero start"), config));
        let kinds = every!(Normalization: Layer, Rms);
        for (autoregression, normalization) in
            every!(Autoregression: SelfAttention, Ssru).into_iter().zip(kinds.into_iter().rev())
        {
            let config = ModelConfig { norm, autoregression, normalization, ..base.clone() };
            variants.push((format!("{norm:?} {autoregression:?} {normalization:?}"), config));
        }
    }
    for positions in every!(Positions: Sinusoidal, Learned, Rotary, Relative, Alibi, None) {
        for decoder_start in every!(DecoderStart: Bos, Eos, Pad, Zero) {
            let config = ModelConfig { positions, decoder_start, ..base.clone() };
            variants.push((format!("{positions:?} {decoder_start:?}"), config));
        }
    }
    variants
}

/// Four, six, four and three values: the 24 combinations are as few as any set of them can have.
#[test]
fn pairwise_variants_have_every_two_values_together() {
    let found = |variants: Vec<(String, ModelConfig)>| {
        let mut found = BTreeSet::new();
        for (_, config) in variants {
            let ModelConfig { norm, positions, activation, tying, .. } = config;
            let values = [
                format!("{norm:?}"),
                format!("{positions:?}"),
                format!("{activation:?}"),
                format!("{tying:?}"),
            ];
            for first in 0..values.len() {
                for second in first + 1..values.len() {
                    let pair = [(first, values[first].clone()), (second, values[second].clone())];
                    found.insert(pair);
                }
            }
        }
        found
    };
    let (few, all) = (pairwise_variants(), variants());
    assert_eq!(all.len() - few.len(), 4 * 6 * 4 * 3 - 24);
    assert_eq!(found(few), found(all));
}

/// Weight at `path`: about as large as after training, and never a special value.
pub fn pattern(path: &str, shape: &[usize]) -> TensorData {
    // Rows of a table are separate vectors; rows of a matrix are summed.
    let is_table = path.contains("embedding") || path.contains("learned");
    let size = match shape {
        [rows, columns] => 1.7 / (if is_table { *columns } else { *rows } as f64).sqrt(),
        _ => 0.4,
    };
    let size = if path.ends_with("relative") { 1.0 } else { size };
    let center = if path.ends_with("gamma") { 1.0 } else { 0.0 };
    let values = noise(path, shape.iter().product()).map(|noise| (center + size * noise) as f32);
    TensorData::new(values.collect::<Vec<_>>(), shape.to_vec())
}

/// Numbers in -1..1 that depend on `key` only: SplitMix64 (Steele et al. 2014), seeded with the FNV
/// hash of the key.
fn noise(key: &str, count: usize) -> impl Iterator<Item = f64> + use<> {
    let start = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (1..=count as u64).map(move |index| {
        let z = start.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as f64 / (u64::MAX / 2) as f64 - 1.0
    })
}

/// Batch of sentences, with `extra` columns of padding on both sides.
fn input(
    sources: &[Vec<u32>],
    targets: &[Vec<u32>],
    extra: usize,
    device: &Device,
) -> TransformerInput {
    let source = ids(sources, extra, device);
    let target = ids(targets, extra, device);
    let [_, target_len] = target.dims();
    TransformerInput {
        source_blocked: mask::padding(&source),
        source,
        target,
        target_blocked: mask::causal(target_len, device),
    }
}

/// Padded rows of ids, `[B, L + extra]`.
fn ids(rows: &[Vec<u32>], extra: usize, device: &Device) -> Tensor<2, Int> {
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0) + extra;
    let full: Vec<Vec<u32>> = rows
        .iter()
        .map(|row| row.iter().copied().chain([PAD].repeat(longest - row.len())).collect())
        .collect();
    padded(&full.iter().map(Vec::as_slice).collect::<Vec<_>>(), device)
}

/// Element `index` of a batch without its padding: the first `len` rows of `[B, L, N]`.
fn sentence(batch: &Tensor<3>, index: usize, len: usize) -> TensorData {
    batch.clone().slice([index..index + 1, 0..len]).into_data()
}

fn difference(found: &[f32], expected: &[f32]) -> f64 {
    let gaps: Vec<f32> =
        found.iter().zip(expected).map(|(found, expected)| found - expected).collect();
    // `largest` ignores NaN, the sum does not.
    if gaps.iter().sum::<f32>().is_finite() {
        largest(&gaps) / largest(expected)
    } else {
        f64::INFINITY
    }
}

/// Blocked positions of a mask broadcast to `shape`.
fn blocked(mask: &Tensor<4, Bool>, shape: [usize; 4]) -> Vec<bool> {
    mask.clone().expand(shape).into_data().iter::<bool>().collect()
}
