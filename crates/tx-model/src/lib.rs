//! The Transformer: configuration, names and shapes of its weights, and modules on
//! [Burn](https://burn.dev) for translation, classification and language modeling.
//!
//! This crate computes scores of tokens or classes from token ids. It opens no file, prints nothing
//! and does not handle text; `tx-data` makes its batches, `tx-train` trains it, `tx-engine` runs its
//! weights on a CPU without Burn, and `tx-infer` decodes.
//!
//! Without features, the crate contains [`ModelConfig`], the uses of the Transformer
//! ([`Architecture`]), and the names and shapes of a model's weights ([`weights`]).
//!
//! The feature `burn` adds the modules, for training and for all of Burn's devices. The central one
//! is `Transformer`: token embeddings (`embedding`) with positional encoding (`position`), the
//! `encoder`, the `decoder`, and the projection to the vocabulary. Each layer consists of
//! `attention` and `feed_forward`, each in a `residual` connection. Decoding token by token uses a
//! `cache`. `Classifier` and `MaskedLanguageModel` are the encoder alone, and `LanguageModel` is the
//! decoder alone. The feature `flex` adds fused `kernels` for Burn's CPU backend, `wgpu` and `cuda`
//! some for GPUs, `autodiff` their backward passes, and `ndarray` another CPU backend.
//!
//! In masks, `true` means that a key must **not** be attended to; masks broadcast. The device of a
//! model is the one that it was created on; this crate enables no backend by itself.
//!
//! Invalid sizes are rejected before a device is used, and all violated rules are reported at once:
//!
//! ```
//! # use tx_model::{ModelConfig, VocabSizes};
//! let config = ModelConfig { d_model: 30, n_heads: 4, ..ModelConfig::default() };
//! let error = config.check(VocabSizes { source: 100, target: 100 }).unwrap_err();
//! assert_eq!(error.problems, ["`n_heads` = 4 must divide `d_model` = 30 (remainder 2)"]);
//! ```

pub mod architecture;
pub mod config;
pub mod weights;

#[cfg(feature = "burn")]
pub mod embedding;
#[cfg(feature = "burn")]
pub mod position;

#[cfg(feature = "burn")]
pub mod attention;
#[cfg(feature = "burn")]
pub mod dropout;
#[cfg(feature = "burn")]
pub mod feed_forward;
#[cfg(feature = "burn")]
pub mod layer_norm;
#[cfg(feature = "burn")]
pub mod residual;
#[cfg(feature = "burn")]
pub mod ssru;

#[cfg(feature = "burn")]
pub mod decoder;
#[cfg(feature = "burn")]
pub mod encoder;

#[cfg(feature = "burn")]
pub mod cache;
#[cfg(all(feature = "cubecl", not(feature = "fusion")))]
pub mod step_decoder;
#[cfg(feature = "burn")]
pub mod transformer;

#[cfg(feature = "burn")]
pub mod classifier;
#[cfg(feature = "burn")]
pub mod language_model;
#[cfg(feature = "burn")]
pub mod masked_language_model;

#[cfg(feature = "burn")]
mod cast;
#[cfg(feature = "burn")]
mod init;
#[cfg(feature = "burn")]
pub mod kernels;

mod activation;
pub mod position_formulas;
pub mod product_precision;
pub mod random;

pub use architecture::{Architecture, Pooling};
#[cfg(feature = "burn")]
pub use cache::{DecoderCache, LanguageModelCache};
#[cfg(feature = "burn")]
pub use classifier::Classifier;
pub use config::{
    Activation, Autoregression, ConfigError, DecoderStart, DropoutConfig, EmbeddingInit,
    EmbeddingScale, Init, ModelConfig, NormPlacement, Normalization, Positions, SinusoidFormula,
    SinusoidLayout, Sinusoids, Tying, VocabSizes,
};
#[cfg(feature = "burn")]
pub use language_model::{LanguageModel, LanguageModelInput};
#[cfg(feature = "burn")]
pub use masked_language_model::MaskedLanguageModel;
pub use product_precision::ProductPrecision;
#[cfg(feature = "burn")]
pub use transformer::{AttentionMaps, Transformer, TransformerInput};
pub use weights::WeightShape;
