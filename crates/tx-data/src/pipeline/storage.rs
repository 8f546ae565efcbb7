//! Storage of a corpus between the steps of the pipeline: text, and the encoded result.

use std::borrow::Cow;

use tx_text::SentencePair;

use crate::{
    encode::TargetSide,
    encoded_pair::EncodedPair,
    error::DataError,
    split::{SplitBy, held_out},
};

/// Pairs in the order of the corpus, borrowed from memory or read from disk.
pub type StoredPairs<'a> =
    Box<dyn Iterator<Item = Result<Cow<'a, SentencePair>, DataError>> + Send + 'a>;

/// Storage of cleaned text: appended to once, read several times.
pub trait TextStore {
    /// Appends a pair.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn append(&mut self, pair: SentencePair) -> Result<(), DataError>;

    /// Ends appending, before the first read.
    ///
    /// # Errors
    ///
    /// If buffered text cannot be written.
    fn seal(&mut self) -> Result<(), DataError>;

    /// Number of stored pairs.
    fn pair_count(&self) -> usize;

    /// Reads all pairs in order.
    ///
    /// # Errors
    ///
    /// If the storage cannot be opened.
    fn read(&self) -> Result<StoredPairs<'_>, DataError>;

    /// Selects about `fraction` of the pairs for validation, as [`split`](crate::split::split) does.
    /// Returns for each pair whether it is selected. Targets that are labels are not compared.
    ///
    /// # Errors
    ///
    /// If the storage cannot be read.
    fn held_out(
        &self,
        target: TargetSide,
        fraction: f64,
        by: SplitBy,
        seed: u64,
    ) -> Result<Vec<bool>, DataError>;
}

impl TextStore for Vec<SentencePair> {
    fn append(&mut self, pair: SentencePair) -> Result<(), DataError> {
        self.push(pair);
        Ok(())
    }

    fn seal(&mut self) -> Result<(), DataError> {
        Ok(())
    }

    fn pair_count(&self) -> usize {
        self.len()
    }

    fn read(&self) -> Result<StoredPairs<'_>, DataError> {
        Ok(Box::new(self.iter().map(|pair| Ok(Cow::Borrowed(pair)))))
    }

    fn held_out(
        &self,
        target: TargetSide,
        fraction: f64,
        by: SplitBy,
        seed: u64,
    ) -> Result<Vec<bool>, DataError> {
        Ok(held_out(self, target, fraction, by, seed))
    }
}

/// Destination of an encoded corpus.
pub trait CorpusSink {
    /// Appends an encoded training pair.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn training(&mut self, pair: EncodedPair) -> Result<(), DataError>;

    /// Appends a validation pair, as text.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn validation(&mut self, pair: &SentencePair) -> Result<(), DataError>;
}

/// Encoded corpus in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryCorpus {
    /// Training pairs as ids.
    pub training: Vec<EncodedPair>,
    /// Validation pairs as text.
    pub validation: Vec<SentencePair>,
}

impl CorpusSink for MemoryCorpus {
    fn training(&mut self, pair: EncodedPair) -> Result<(), DataError> {
        self.training.push(pair);
        Ok(())
    }

    fn validation(&mut self, pair: &SentencePair) -> Result<(), DataError> {
        self.validation.push(pair.clone());
        Ok(())
    }
}
