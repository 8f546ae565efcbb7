//! Context of training pairs: the source sentences before them in their document.
//!
//! An entry of a corpus that is empty on both sides ends a document. All other entries with a source are
//! sentences of their document, also those that cleaning drops.
//!
//! ```
//! use tx_data::context::Documents;
//! use tx_text::SentencePair;
//!
//! let lines = [("a", "A"), ("b", "B"), ("", ""), ("c", "C")];
//! let mut documents = Documents::new(2);
//! let contexts = lines.map(|(source, target)| {
//!     let mut pair = SentencePair::new(source, target);
//!     documents.add_to(&mut pair);
//!     pair.context
//! });
//! assert_eq!(contexts, [vec![], vec!["a".to_owned()], vec![], vec![]]);
//! assert_eq!(documents.count(), 2);
//! ```

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tx_text::{
    SentencePair, Tokenizer,
    context::{ContextTokenizer, start_of_text},
    hash::hash64,
    is_blank,
};

use crate::{encoded_pair::EncodedPair, error::DataError};

/// Mixed into the seed, so that the random numbers differ from those of the split and of noise.
const CONTEXT: u64 = 0x9e6c_63d0_676a_9a99;

/// Context of the pairs of a corpus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Context {
    /// Maximum number of sentences before a pair.
    pub sentences: usize,
    /// Share of the training pairs that are trained without their context, so that the model also
    /// translates single sentences.
    pub dropout: f64,
    /// Seed of the choice of these pairs.
    pub seed: u64,
}

impl Context {
    /// Returns `true` if the training pair at `index` is trained without its context.
    pub fn is_dropped(&self, index: usize, pair: &SentencePair) -> bool {
        let hash = hash64(&[pair.source.as_bytes(), pair.target.as_bytes()]);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed ^ CONTEXT ^ hash);
        random.set_stream(index as u64);
        random.random::<f64>() < self.dropout
    }
}

/// Documents of a stream of pairs, which are read in order.
#[derive(Debug, Clone)]
pub struct Documents {
    most: usize,
    /// Sentences of the current document, the most recent ones.
    previous: Vec<String>,
    count: usize,
    is_open: bool,
}

impl Documents {
    /// Creates documents whose pairs get at most `most` sentences of context.
    pub fn new(most: usize) -> Self {
        Self { most, previous: Vec::new(), count: 0, is_open: false }
    }

    /// Adds the context of the next pair. Returns `true` if it ends a document, as both sides are empty.
    pub fn add_to(&mut self, pair: &mut SentencePair) -> bool {
        let has_source = !is_blank(&pair.source);
        if !has_source && is_blank(&pair.target) {
            self.previous.clear();
            self.is_open = false;
            return true;
        }
        self.count += usize::from(!self.is_open);
        self.is_open = true;
        pair.context.clone_from(&self.previous);
        if has_source && self.most > 0 {
            if self.previous.len() >= self.most {
                self.previous.remove(0);
            }
            self.previous.push(pair.source.trim().to_owned());
        }
        false
    }

    /// Number of documents so far.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Adds the context of given pairs, such as those of a validation set, and removes the ends of documents.
    pub fn of_pairs(most: usize, mut pairs: Vec<SentencePair>) -> Vec<SentencePair> {
        let mut documents = Self::new(most);
        pairs.retain_mut(|pair| !documents.add_to(pair));
        pairs
    }
}

/// Adds context to encoded pairs.
#[derive(Debug)]
pub(crate) struct ContextEncoder<'a> {
    source: &'a Tokenizer,
    /// `None` if the vocabulary has no separator.
    tokenizer: Option<ContextTokenizer<'a>>,
    max_len: usize,
    /// Pairs with context so far.
    pub(crate) pairs: usize,
    /// Tokens of the longest source with context.
    pub(crate) longest: usize,
}

impl<'a> ContextEncoder<'a> {
    /// Creates an encoder for sources of at most `max_len` tokens.
    pub(crate) fn new(source: &'a Tokenizer, max_len: usize) -> Self {
        let tokenizer = ContextTokenizer::new(source);
        Self { source, tokenizer, max_len, pairs: 0, longest: 0 }
    }

    /// Returns the ids of the sentences of each context; nothing if no pair has one.
    pub(crate) fn encode<'p>(
        &self,
        contexts: impl Iterator<Item = &'p [String]> + Clone,
    ) -> Result<Vec<Vec<Vec<u32>>>, DataError> {
        let sentences: Vec<&str> = contexts.clone().flatten().map(String::as_str).collect();
        if self.tokenizer.is_none() || sentences.is_empty() {
            return Ok(Vec::new());
        }
        let mut encoded = self.source.par_encode_batch(&sentences)?.into_iter();
        Ok(contexts.map(|context| encoded.by_ref().take(context.len()).collect()).collect())
    }

    /// Adds the most recent sentences of a context that fit.
    pub(crate) fn add(&mut self, pair: &mut EncodedPair, context: &[Vec<u32>]) {
        let Some(tokenizer) = self.tokenizer else { return };
        let ids = tokenizer.ids(context, self.max_len.saturating_sub(pair.source.len()));
        if !ids.is_empty() {
            pair.insert_source(start_of_text(&pair.source), &ids);
            self.pairs += 1;
            self.longest = self.longest.max(pair.source.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts(most: usize, lines: &[[&str; 2]]) -> Vec<String> {
        let pairs = lines.iter().map(|[source, target]| SentencePair::new(*source, *target));
        let pairs = Documents::of_pairs(most, pairs.collect());
        pairs.iter().map(|pair| pair.context.join("|")).collect()
    }

    #[test]
    fn context_is_of_the_same_document_and_the_most_recent() {
        let lines =
            [["a", "A"], ["b", "B"], ["c", "C"], [" ", "\t"], ["", ""], ["d", "D"], ["e", "E"]];
        assert_eq!(contexts(1, &lines), ["", "a", "b", "", "d"]);
        assert_eq!(contexts(2, &lines), ["", "a", "a|b", "", "d"]);
        assert_eq!(contexts(0, &lines), [""; 5]);
    }

    /// A pair with one empty side, which cleaning drops, does not end a document.
    #[test]
    fn a_pair_with_an_empty_side_is_in_its_document() {
        assert_eq!(contexts(1, &[["a", "A"], ["b", ""], ["c", "C"]]), ["", "a", "b"]);
        assert_eq!(contexts(1, &[["a", "A"], ["", "B"], ["c", "C"]]), ["", "a", "a"]);
    }

    /// Of 10,000 pairs, 2,000 are expected to lose their context, with a standard deviation of 40.
    #[test]
    fn seed_index_and_text_determine_which_context_is_dropped() {
        let context = Context { sentences: 1, dropout: 0.2, seed: 3 };
        let pair = SentencePair::new("a", "b");
        let dropped = |context: Context| -> Vec<bool> {
            (0..10_000).map(|index| context.is_dropped(index, &pair)).collect()
        };
        let first = dropped(context);
        let count = first.iter().filter(|&&is_dropped| is_dropped).count();
        assert!((1_800..2_200).contains(&count), "{count}");
        assert_eq!(first, dropped(context));
        assert_ne!(first, dropped(Context { seed: 4, ..context }));
        assert!(dropped(Context { dropout: 0.0, ..context }).iter().all(|is_dropped| !is_dropped));
        assert!(dropped(Context { dropout: 1.0, ..context }).iter().all(|&is_dropped| is_dropped));
    }
}
