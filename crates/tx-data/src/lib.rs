//! Parallel text to padded batches of token ids.
//!
//! The road of a sentence pair, one module a step:
//! [`source`] reads or generates it (and, with the feature `sources`, `fetch` brings its file),
//! [`clean`] mends it or leaves it out, [`split`] sets some aside for validation, [`tokenizer`] turns
//! text into ids and back, [`encode`] applies it to a corpus and treats what does not fit,
//! [`prepared`] keeps a corpus on disk that is larger than memory,
//! [`sampler`] puts sentences of like length together, [`batch`] pads them and shifts the target by
//! one, [`mask`] says what must not be seen, [`loader`] hands all that to Burn.
//!
//! ```
//! use burn::{data::dataloader::DataLoader, tensor::Device};
//! use tx_data::{
//!     BatchSize, LongPolicy, PairLoader, TokenizerConfig, TokenizerKind, Tokenizers,
//!     encode_corpus, source::generated,
//! };
//!
//! let pairs = generated::reverse(100, 1);
//! let config = TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
//! let tokenizers = Tokenizers::train(&config, &pairs)?;
//! let (encoded, report) = encode_corpus(&pairs, &tokenizers, 32, LongPolicy::Skip, "words")?;
//! assert_eq!(report.longest_target, 19 + 2);
//!
//! let loader = PairLoader::training(encoded, BatchSize::Sentences(64), 1, Device::flex());
//! assert_eq!(loader.iter().count(), 2);
//! # Ok::<(), tx_data::DataError>(())
//! ```

pub mod clean;
#[cfg(feature = "sources")]
pub mod fetch;
pub mod near_duplicate;
pub mod pair;
#[cfg(feature = "sources")]
pub mod remedy;
pub mod source;
pub mod split;

pub mod bpe_dropout;
pub mod encode;
pub mod special;
pub mod tokenizer;

pub mod prepared;
pub mod store;

pub mod batch;
pub mod loader;
pub mod mask;
pub mod sampler;

pub mod error;
pub mod hash;

pub use batch::Seq2SeqBatch;
pub use bpe_dropout::BpeDropout;
pub use clean::{CleanConfig, Cleaner, CleaningReport};
pub use encode::{EncodedPair, EncodingReport, LongPolicy, encode_corpus};
pub use error::DataError;
pub use loader::PairLoader;
pub use pair::SentencePair;
pub use sampler::{BatchSize, Grouping};
pub use split::{Split, SplitBy};
pub use store::PairStore;
pub use tokenizer::{
    Lowercase, Tokenizer, TokenizerConfig, TokenizerKind, Tokenizers, VocabularyReport, WordSplit,
};
