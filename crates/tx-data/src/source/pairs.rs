//! Stream of sentence pairs, the result of every reader.

use tx_text::SentencePair;

use crate::error::DataError;

/// Pairs in the order of the source; nothing follows an error.
pub type Pairs = Box<dyn Iterator<Item = Result<SentencePair, DataError>> + Send>;
