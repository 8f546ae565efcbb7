//! Transformer modules on [Burn](https://burn.dev): encoder-decoder, encoder only, decoder only.
//!
//! This crate turns token ids into scores of next token ids. It opens no file, prints nothing and
//! knows no text; `tx-data` makes its batches, `tx-train` trains it, `tx-infer` decodes with it.
//!
//! The main path is [`Transformer`]: embed ([`embedding`]), say where each token stands
//! ([`position`]), read the source ([`encoder`]), write the target ([`decoder`]), project to the
//! vocabulary. Every layer is [`attention`] and [`feed_forward`], each in a [`residual`]
//! connection. Decoding one token at a time keeps a [`cache`].
//!
//! Masks are `true` where something must **not** be seen, and broadcast. Which device a model runs
//! on is decided by the [`Device`](burn::tensor::Device) it is built on; this crate turns on no
//! backend of Burn.
//!
//! ```
//! use burn::tensor::{Device, Int, Tensor};
//! use tx_model::{ModelConfig, Transformer, VocabSizes};
//!
//! let device = Device::flex();
//! let config = ModelConfig { d_model: 8, n_heads: 2, d_ff: 16, ..ModelConfig::default() };
//! let model = Transformer::new(&config, VocabSizes { source: 11, target: 11 }, &device)?;
//!
//! // Two sources, the second with one token of padding, are read once …
//! let source = Tensor::<2, Int>::from_data([[4, 5, 2], [6, 2, 0]], &device);
//! let padding = source.clone().equal_elem(0).unsqueeze_dims(&[1, 1]);
//! let memory = model.encode(source, padding.clone());
//! // … and each gets scores of its first target token, after `<bos>`.
//! let mut cache = model.start_decoding(memory, padding);
//! let logits = model.decode_step(Tensor::from_data([1, 1], &device), &mut cache);
//! assert_eq!(logits.dims(), [2, 11]);
//! # Ok::<(), tx_model::ConfigError>(())
//! ```
//!
//! Impossible sizes are refused before a device is touched, all broken rules at once:
//!
//! ```
//! # use burn::tensor::Device;
//! # use tx_model::{ModelConfig, Transformer, VocabSizes};
//! let config = ModelConfig { d_model: 30, n_heads: 4, ..ModelConfig::default() };
//! let vocab = VocabSizes { source: 100, target: 100 };
//! let error = Transformer::new(&config, vocab, &Device::flex()).unwrap_err();
//! assert_eq!(error.problems, ["`n_heads` = 4 must divide `d_model` = 30 (remainder 2)"]);
//! ```

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
pub mod residual;

#[cfg(feature = "burn")]
pub mod decoder;
#[cfg(feature = "burn")]
pub mod encoder;

#[cfg(feature = "burn")]
pub mod cache;
#[cfg(feature = "burn")]
pub mod transformer;

#[cfg(feature = "burn")]
pub mod classifier;
#[cfg(feature = "burn")]
pub mod language_model;

#[cfg(feature = "burn")]
mod init;
#[cfg(feature = "burn")]
pub mod kernels;

pub mod packed;

pub mod formulas;
mod position_formulas;
pub mod random;
pub mod vector;

#[cfg(feature = "burn")]
pub use cache::DecoderCache;
#[cfg(feature = "burn")]
pub use classifier::Classifier;
pub use config::{
    Activation, ConfigError, DropoutConfig, EmbeddingInit, EmbeddingScale, Init, ModelConfig,
    NormPlacement, Positions, Tying, VocabSizes,
};
#[cfg(feature = "burn")]
pub use language_model::LanguageModel;
#[cfg(feature = "burn")]
pub use transformer::{AttentionMaps, Transformer, TransformerInput};
pub use weights::WeightShape;
