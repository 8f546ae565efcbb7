//! Text for machine translation, without tensors: special token ids, tokenizers, lines of files.
//!
//! [`special`] fixes the ids of `<pad>`, `<bos>`, `<eos>`, `<unk>` and `<mask>`. [`tokenizer`] learns,
//! imports and applies tokenizers. [`normalization`] prepares text in training and inference alike.
//! [`bpe_dropout`] segments words randomly for training; [`word_table`] finds the words of a text in its
//! ids, [`text_words`] those of its tokens. [`sentences`] divides text into sentences, which [`spacing`] joins. [`context`] adds the sentences before
//! a text to its ids. [`lines`] reads text files, with [`compression`] and [`encoding`]; [`not_text`]
//! recognizes other files, such as pointers of [`git_lfs`]. [`json`] rejects repeated keys.
//!
//! ```
//! use tx_text::{SentencePair, TokenizerConfig, Tokenizers, special::EOS};
//!
//! let pairs = [SentencePair::new("Ein Hund läuft.", "A dog is running.")];
//! let tokenizers = Tokenizers::train(&TokenizerConfig::default(), &pairs)?;
//! let ids = tokenizers.source.encode("Ein Hund läuft.")?;
//! assert_eq!(ids.last(), Some(&EOS));
//! assert_eq!(tokenizers.source.decode(&ids)?, "Ein Hund läuft.");
//! # Ok::<(), tx_text::TextError>(())
//! ```

pub mod pair;
pub mod special;

pub mod bpe_dropout;
pub mod context;
pub mod normalization;
pub mod segmentation;
pub mod sentences;
pub mod spacing;
pub mod terminology;
pub mod text_words;
pub mod tokenizer;
pub mod unigram_sampling;
pub mod word_table;

pub mod compression;
pub mod encoding;
pub mod git_lfs;
pub mod json;
pub mod lines;
pub mod not_text;

pub mod error;
pub mod hash;

pub use bpe_dropout::BpeDropout;
pub use error::TextError;
pub use lines::{InvalidUtf8, Lines};
pub use normalization::{NormalForm, Normalization, is_blank};
pub use not_text::NotText;
pub use pair::SentencePair;
pub use segmentation::Segmentation;
pub use tokenizer::{
    Digits, Ends, Lowercase, SentencePieceVocabulary, Tokenizer, TokenizerConfig, TokenizerKind,
    Tokenizers, VocabularyReport, WordSplit, sentencepiece_pieces,
};
pub use unigram_sampling::UnigramSampling;
pub use word_table::WordTable;
