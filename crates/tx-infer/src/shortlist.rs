//! Vocabulary shortlists: target tokens that a translation of given source tokens may have.
//!
//! The output projection of a large vocabulary is a large part of a decoding step. With a shortlist,
//! it computes the candidates only: those of each source token, the most frequent target tokens,
//! `<eos>`, `<unk>`, and given tokens such as those of a prefix. Other tokens have probability 0, so
//! translations and scores can differ.
//!
//! A [`ShortlistBuilder`] learns the candidates from the cross-attention of a model on text and its
//! translations. A shortlist belongs to the vocabularies of its model, which it identifies by a hash.

mod builder;
mod cross_attention;
mod file;

use sha2::{Digest, Sha256};
use tx_text::{
    Tokenizer, Tokenizers,
    hash::hexadecimal,
    special::{EOS, UNK},
};

pub use builder::{ShortlistBuilder, ShortlistOptions};

use crate::error::InferError;

/// Candidates of each source token, and those of every source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortlist {
    /// [`vocabulary_hash`] of the tokenizers.
    vocabulary_sha256: String,
    /// Candidates of every source, ascending.
    frequent: Vec<u32>,
    /// Start of the candidates of each source token in `candidates`, and the end of the last.
    offsets: Vec<u32>,
    /// Candidates of each source token, ascending.
    candidates: Vec<u32>,
}

impl Shortlist {
    /// Creates a shortlist for models with these tokenizers: candidates of every source, and those of each
    /// source token in the order of the ids. Ids of targets that do not exist are left out.
    pub fn new(
        tokenizers: &Tokenizers,
        frequent: Vec<u32>,
        candidates: impl IntoIterator<Item = Vec<u32>>,
    ) -> Self {
        let (sources, targets) = (tokenizers.source.vocab_size(), tokenizers.target.vocab_size());
        let in_order = |mut list: Vec<u32>| {
            list.retain(|&id| (id as usize) < targets);
            list.sort_unstable();
            list.dedup();
            list
        };
        let mut all = Vec::new();
        let mut offsets = vec![0];
        let lists = candidates.into_iter().chain(std::iter::repeat_with(Vec::new));
        for list in lists.take(sources) {
            all.extend(in_order(list));
            // So many candidates would be larger than the largest file.
            offsets.push(all.len() as u32);
        }
        Self {
            vocabulary_sha256: vocabulary_hash(tokenizers),
            frequent: in_order(frequent),
            offsets,
            candidates: all,
        }
    }

    /// Returns the number of source tokens.
    pub fn source_tokens(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Returns the candidates of every source.
    pub fn frequent(&self) -> &[u32] {
        &self.frequent
    }

    /// Returns the candidates of a source token; none for an id that is not in the vocabulary.
    pub fn of_token(&self, source: u32) -> &[u32] {
        let bounds = self.offsets.get(source as usize).zip(self.offsets.get(source as usize + 1));
        let range = bounds.map(|(start, end)| *start as usize..*end as usize);
        range.and_then(|range| self.candidates.get(range)).unwrap_or(&[])
    }

    /// Returns the candidates of a source whose target has the tokens `given`, in ascending order.
    pub fn candidates(&self, source: &[u32], given: &[u32]) -> Vec<u32> {
        let of_source = source.iter().flat_map(|&token| self.of_token(token));
        let of_all = [EOS, UNK].iter().chain(given).chain(&self.frequent);
        let mut candidates: Vec<u32> = of_all.chain(of_source).copied().collect();
        candidates.sort_unstable();
        candidates.dedup();
        candidates
    }

    /// Checks that the shortlist is for a model with these tokenizers.
    ///
    /// # Errors
    ///
    /// [`InferError::ShortlistVocabulary`] otherwise.
    pub fn check(&self, tokenizers: &Tokenizers) -> Result<(), InferError> {
        let problem = |problem| InferError::ShortlistVocabulary { problem };
        let expected = vocabulary_hash(tokenizers);
        let found = &self.vocabulary_sha256;
        if *found != expected {
            return Err(problem(format!("SHA-256 {found}, expected {expected}")));
        }
        let (source, target) = (tokenizers.source.vocab_size(), tokenizers.target.vocab_size());
        if self.source_tokens() != source {
            let found = self.source_tokens();
            return Err(problem(format!("{found} source tokens, expected {source}")));
        }
        match self.frequent.iter().chain(&self.candidates).find(|id| **id as usize >= target) {
            Some(id) => Err(problem(format!("candidate {id} of {target} target tokens"))),
            None => Ok(()),
        }
    }
}

/// SHA-256 of the tokens of both sides in the order of their ids, each terminated by a zero byte, with
/// their number before those of each side.
fn vocabulary_hash(tokenizers: &Tokenizers) -> String {
    let mut hasher = Sha256::new();
    let mut add = |tokenizer: &Tokenizer| {
        let count = tokenizer.vocab_size();
        hasher.update((count as u64).to_le_bytes());
        for id in 0..count as u32 {
            hasher.update(tokenizer.token(id).unwrap_or_default());
            hasher.update([0]);
        }
    };
    add(&tokenizers.source);
    add(&tokenizers.target);
    hexadecimal(&hasher.finalize())
}

#[cfg(test)]
mod tests;
