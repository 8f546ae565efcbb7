//! Invariants of every variant of the model, for any weights.
//!
//! The weights come from a hash of their path, not from the device's random numbers: those are
//! one stream for all tests of a process, and which test draws first is up to the scheduler.
//! They leave nothing at zero or one, where a fault could hide.
//!
//! The *difference* of two tensors is `max |found - expected| / max |expected|`.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use tx_data::{batch::padded, mask, special::PAD};
use tx_model::{
    Activation, DropoutConfig, EmbeddingScale, ModelConfig, NormPlacement, Positions, Transformer,
    TransformerInput, Tying, VocabSizes,
};

use crate::support::{devices, largest, values, with_weights};

// Same scores by different roads: padding, batching, the cache; what nobody may see.
mod forward;

// The same scores without tensors.
mod packed;

// The same on another device.
mod conformance;

// In half precision.
mod precision;

// Gradients: finite, where they should be, right, and good for learning.
mod backward;

/// Ids on either side, special tokens included.
const VOCABULARY: usize = 11;

/// Largest difference between two roads to the same number in single precision.
const LIMIT: f64 = 1e-5;

/// Sources of different lengths, each with `<eos>`; the first is the longest.
fn sources() -> Vec<Vec<u32>> {
    vec![vec![5, 9, 4, 10, 2], vec![6, 2], vec![8, 3, 7, 2]]
}

/// Inputs of the decoder, `<bos>` first; the second is the longest.
fn targets() -> Vec<Vec<u32>> {
    vec![vec![1, 7, 5], vec![1, 4, 10, 9, 9, 6], vec![1, 8, 5, 3]]
}

/// Expected outputs of the decoder for [`targets`].
fn answers() -> Vec<Vec<u32>> {
    vec![vec![7, 5, 2], vec![4, 10, 9, 9, 6, 2], vec![8, 5, 3, 2]]
}

/// A model of the table below.
struct Subject {
    /// Device and variant, for messages.
    name: String,
    config: ModelConfig,
    device: Device,
}

impl Subject {
    /// With the weights of [`pattern`].
    fn model(&self) -> Transformer {
        with_weights(self.untrained(&self.device), pattern)
    }

    /// As [`model`](Self::model), and able to go back.
    fn trainable(&self) -> Transformer {
        with_weights(self.untrained(&self.device.clone().autodiff()), pattern)
    }

    /// With the first values that the configuration asks for.
    fn untrained(&self, device: &Device) -> Transformer {
        let vocab = VocabSizes { source: VOCABULARY, target: VOCABULARY };
        Transformer::new(&self.config, vocab, device).unwrap()
    }

    /// [`sources`] and [`targets`].
    fn input(&self) -> TransformerInput {
        input(&sources(), &targets(), 0, &self.device)
    }

    /// # Panics
    ///
    /// When the two differ by more than [`LIMIT`]; gives back by how much they do.
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

/// All values of an option. Does not compile if one is missing.
macro_rules! every {
    ($option:ident: $($value:ident),+) => {{
        let _ = |value: $option| match value {
            $($option::$value => {})+
        };
        [$($option::$value),+]
    }};
}

/// Norm placement × positions × activation × tying, and all other options.
fn variants() -> Vec<(String, ModelConfig)> {
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
    let norms = every!(NormPlacement: Pre, Post, SublayerOutput);
    for norm in norms {
        for positions in every!(Positions: Sinusoidal, Learned, Rotary, Relative, None) {
            for activation in every!(Activation: Relu, Gelu, Swish, Gated) {
                for tying in every!(Tying: None, Decoder, All) {
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
    variants
}

/// The weight at `path`: of about the size that training gives, and never a special value.
pub fn pattern(path: &str, shape: &[usize]) -> TensorData {
    // A table's rows are vectors of their own; the rows of a matrix are added up.
    let is_table = path.contains("embedding") || path.contains("learned");
    let size = match shape {
        [rows, columns] => 1.7 / (if is_table { *columns } else { *rows } as f64).sqrt(),
        _ => 0.4,
    };
    let size = if path.ends_with("relative") { 1.0 } else { size };
    let centre = if path.ends_with("gamma") { 1.0 } else { 0.0 };
    let values = noise(path, shape.iter().product()).map(|noise| (centre + size * noise) as f32);
    TensorData::new(values.collect::<Vec<_>>(), shape.to_vec())
}

/// Numbers in -1..1 that are a function of `key` alone: SplitMix64 (Steele et al. 2014), started
/// at the FNV hash of the key.
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

/// Sentences side by side, with `extra` columns more than the longest needs on both sides.
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
    // `largest` skips NaN, the sum does not.
    if gaps.iter().sum::<f32>().is_finite() {
        largest(&gaps) / largest(expected)
    } else {
        f64::INFINITY
    }
}

/// Elements of a mask, broadcast to `shape`.
fn blocked(mask: &Tensor<4, Bool>, shape: [usize; 4]) -> Vec<bool> {
    mask.clone().expand(shape).into_data().iter::<bool>().collect()
}
