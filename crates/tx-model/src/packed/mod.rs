//! The packed engine: inference on a CPU, without tensors.
//!
//! A step of decoding is a few hundred products of small matrices. As tensor operations, each of
//! them is allocated and dispatched separately, which costs more than the arithmetic. Here the
//! weights are packed once in the order in which a product reads them, sentences are stored one
//! after another without padding, and a step writes into existing buffers.
//!
//! [`PackedTransformer`] computes the scores of the `Transformer` with the same weights, up to
//! rounding, for every variant of [`ModelConfig`](crate::ModelConfig), and [`PackedClassifier`],
//! [`PackedMaskedLanguageModel`] and [`PackedLanguageModel`] those of the models with one stack;
//! `tests/invariants` checks that.

mod transformer;

mod classifier;
mod language_model;
mod masked_language_model;

mod decoder;
mod encoder;

mod attention;
mod embedding;
mod feed_forward;
mod history;
mod residual;
mod self_attention;

mod attention_maps;
mod linear;
mod matrix;
mod panels;
mod prefetch;
mod restriction;
mod top_tokens;

mod int8_kernel;
mod quantized_layout;
mod quantized_matrix;
mod quantized_rows;
mod quantized_weight;
mod shared_bytes;

#[cfg(feature = "burn")]
mod module_weights;
mod source;

pub use crate::formulas::{add_softmax, log_softmax};
pub use attention_maps::{Map, PackedAttentionMaps};
pub use classifier::PackedClassifier;
pub use int8_kernel::Int8Kernel;
pub use language_model::{LanguageModelDecoding, PackedLanguageModel};
pub use masked_language_model::PackedMaskedLanguageModel;
pub use quantized_layout::QuantizedLayout;
pub use quantized_weight::{MAX_INPUTS, QuantizedTable, QuantizedWeight};
pub use shared_bytes::SharedBytes;
pub use source::{InBytes, WeightSource};
pub use transformer::{Decoding, PackedTransformer};

use linear::Linear;

/// Buffers of intermediate results, shared by all layers.
#[derive(Debug, Default)]
struct Scratch {
    /// `[rows, d_model]`
    normalized: Vec<f32>,
    attention: attention::AttentionScratch,
    /// `[rows, 2 d_model]`
    keys_values: Vec<f32>,
    hidden: feed_forward::Hidden,
    /// `[rows, d_model]`
    output: Vec<f32>,
}
