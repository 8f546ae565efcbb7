//! Tokenizers: text to token ids and back, on the Hugging Face `tokenizers` library.
//!
//! A tokenizer is defined completely by its `tokenizer.json`, so any tool that reads that format yields
//! the same ids, with two exceptions that the format cannot express: text that contains `<eos>` encodes
//! to five characters, not to the special token, and [entities](crate::normalization) are replaced if
//! the training text had none.
//!
//! The file of a SentencePiece model is a JSON object of the model and its vocabulary, which only tx
//! reads, because the library normalizes and segments some texts differently from SentencePiece. Models
//! of Marian, M2M-100 and NLLB have a vocabulary of their own; that of a tokenizer file has its pieces.

mod both_sides;
mod config;
mod ends;
mod one_side;
mod report;

mod build;
mod masked_text;
mod one_text;
mod special_text;
mod stream;
mod unigram;
mod wordpiece;
mod words;

mod charsmap;
mod check;
mod file;
mod import;
mod model_check;
mod recorded;
mod sentencepiece;
mod vocabulary;

pub use both_sides::Tokenizers;
pub use config::{Digits, Lowercase, TokenizerConfig, TokenizerKind, WordSplit};
pub use ends::Ends;
pub(crate) use one_side::{Merges, Pieces};
pub use one_side::{Tokenizer, WordToken};
pub use report::VocabularyReport;
pub use vocabulary::{SentencePieceVocabulary, sentencepiece_pieces};

#[cfg(test)]
mod tests;
