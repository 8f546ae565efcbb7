//! Parallel corpora, labeled texts and documents to padded batches of token ids.
//!
//! A sentence pair passes through one module a step:
//! [`source`] reads or generates it (and, with the feature `sources`, [`tx_fetch`] downloads its file),
//! [`clean`] normalizes or drops it, [`split`] selects a validation part, [`context`] adds the sentences before it,
//! [`noise`] adds changed copies, [`encode`] applies the
//! tokenizers of [`tx_text`] and handles pairs that are empty or too long, [`prepared`] stores a corpus
//! on disk that is larger than memory, [`sampler`] groups sentences of similar length, [`batch`] pads
//! them and shifts the target by one, [`mask`] marks padding and later positions, [`loader`] is Burn's
//! `DataLoader` over the batches.
//!
//! A labeled text passes through the same modules; its target is a label, which [`labels`] maps to a class.
//! [`annotation`] reads weights and word alignments of pairs from other files.
//! [`documents`] reads and encodes the documents of a language model, [`packing`] packs them into rows of
//! one length, and [`masking`] chooses the tokens that a masked language model predicts.
//!
//! ```
//! use burn::{data::dataloader::DataLoader, tensor::Device};
//! use tx_data::{
//!     BatchSize, LongPolicy, PairLoader, encode_corpus, make_batch::MakeSeq2SeqBatch,
//!     source::generated,
//! };
//! use tx_text::{TokenizerConfig, TokenizerKind, Tokenizers};
//!
//! let pairs = generated::reverse(100, 1);
//! let config = TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
//! let tokenizers = Tokenizers::train(&config, &pairs)?;
//! let (encoded, report) = encode_corpus(&pairs, &tokenizers, 32, LongPolicy::Skip, "words")?;
//! assert_eq!(report.longest_target, 19 + 2);
//!
//! let (make, size) = (MakeSeq2SeqBatch::default(), BatchSize::Sentences(64));
//! let loader = PairLoader::new(encoded, make, size, Device::flex()).shuffled(1);
//! assert_eq!(loader.iter().count(), 2);
//! # Ok::<(), tx_data::DataError>(())
//! ```

pub mod clean;
pub mod context;
pub mod near_duplicate;
pub mod noise;
pub mod source;
pub mod split;
pub mod subset;

pub mod annotation;
pub mod encode;
mod encoded_pair;
pub mod labels;

pub mod documents;
pub mod masking;
pub mod packing;

pub mod mixture;
pub mod pipeline;
pub mod prepared;
pub mod store;

pub mod batch;
pub mod dataset;
pub mod examples;
pub mod loader;
pub mod make_batch;
pub mod mask;
pub mod sampler;

pub mod error;

pub use annotation::Annotations;
pub use batch::{ClassificationBatch, LanguageModelBatch, MaskedBatch, Seq2SeqBatch};
pub use clean::{CleanConfig, Cleaner, CleaningReport};
pub use context::Context;
pub use documents::{DocumentEnd, DocumentStore, TextParts};
pub use encode::{EncodingReport, LongPolicy, TargetSide, encode_corpus, encode_labeled};
pub use encoded_pair::{EncodedPair, Link, PairAnnotation};
pub use error::DataError;
pub use examples::Examples;
pub use labels::Labels;
pub use loader::{
    BatchLoader, ClassificationLoader, LanguageModelLoader, MaskedLoader, PairLoader,
};
pub use masking::Masking;
pub use mixture::{AddedIds, Mixture, MixturePart};
pub use noise::{Noise, NoiseConfig};
pub use packing::PackedDocuments;
pub use sampler::{BatchSize, Grouping};
pub use split::{Split, SplitBy};
pub use store::PairStore;
#[cfg(feature = "sources")]
pub use tx_fetch;
