//! Inference of Transformers on a CPU, without tensors.
//!
//! A step of decoding is a few hundred products of small matrices. As tensor operations, each of
//! them is allocated and dispatched separately, which costs more than the arithmetic. Here the
//! weights are packed once in the order in which a product reads them, sentences are stored one
//! after another without padding, and a step writes into existing buffers.
//!
//! [`PackedTransformer`] computes the scores of the `Transformer` of `tx-model` with the same
//! weights, up to rounding, for every variant of [`ModelConfig`](tx_model::ModelConfig), and
//! [`PackedClassifier`], [`PackedMaskedLanguageModel`] and [`PackedLanguageModel`] those of the
//! models with one stack; the tests of the workspace check that. The crate opens no file and
//! prints nothing.

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
mod ssru;

mod ablation;
mod linear;
mod probe;
mod restriction;
mod scratch;
mod top_tokens;
mod trace;
mod tracing;

#[cfg(feature = "burn")]
mod module_weights;
mod quantized_layout;
mod source;

pub use ablation::{Ablation, UnknownPart};
pub use classifier::PackedClassifier;
pub use language_model::{LanguageModelDecoding, PackedLanguageModel};
pub use masked_language_model::PackedMaskedLanguageModel;
pub use quantized_layout::QuantizedLayout;
pub use source::{InBytes, WeightSource};
pub use trace::{
    AttentionTrace, LayerTrace, Map, Stack, StackTrace, Sublayer, SublayerTrace, Trace,
};
pub use tracing::PackedAttentionMaps;
pub use transformer::{Decoding, PackedTransformer};
