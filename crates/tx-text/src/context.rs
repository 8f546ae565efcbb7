//! Context: the sentences before a sentence in its document, which the model reads with it.
//!
//! The source of a model with context is `sentence <sep> sentence <sep> text`, and its target is the
//! translation of the text alone (Tiedemann and Scherrer 2017: 2-to-1). An empty line ends a document.
//!
//! ```
//! use tx_text::{
//!     SentencePair, TokenizerConfig, Tokenizers,
//!     context::{ContextTokenizer, SEPARATOR, before},
//! };
//!
//! let pairs = [SentencePair::new("A table. It is new.", "Un tavolo. È nuovo.")];
//! let trained = Tokenizers::train(&TokenizerConfig::default(), &pairs)?.source;
//! let source = trained.with_special_tokens(&[SEPARATOR.into()])?;
//! let lines = ["A table.", "It is new."].map(str::to_owned);
//! let context = ContextTokenizer::new(&source).ok_or("no separator")?;
//! let mut ids = source.encode(&lines[1])?;
//! let added = context.add(&mut ids, before(&lines, 1, 3), 100)?;
//! assert_eq!(ids[added - 1], source.special_id(SEPARATOR).ok_or("no separator")?);
//! assert_eq!(source.decode(&ids[..added])?, "A table.");
//! assert_eq!(ids[added..], source.encode("It is new.")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::{
    Ends, Tokenizer,
    error::TextError,
    special::{BOS, EOS},
};

/// Special token after each sentence of the context. No text is encoded to it.
pub const SEPARATOR: &str = "<sep>";

/// Returns the sentences before line `index` in its document, the most recent ones, at most `most`. A line of
/// white space ends a document.
///
/// ```
/// use tx_text::context::before;
///
/// let lines = ["a", "", "b", "c", "d"].map(str::to_owned);
/// assert_eq!(before(&lines, 4, 1), ["c"]);
/// assert_eq!(before(&lines, 4, 9), ["b", "c"]);
/// assert!(before(&lines, 2, 9).is_empty());
/// ```
///
/// # Panics
///
/// If `index` is larger than the number of lines.
pub fn before(lines: &[String], index: usize, most: usize) -> &[String] {
    let lines = &lines[index.saturating_sub(most)..index];
    let border = lines.iter().rposition(|line| line.trim().is_empty());
    &lines[border.map_or(0, |at| at + 1)..]
}

/// Tokenizer of the sentences before a source.
#[derive(Debug, Clone, Copy)]
pub struct ContextTokenizer<'a> {
    tokenizer: &'a Tokenizer,
    separator: u32,
}

impl<'a> ContextTokenizer<'a> {
    /// Creates a tokenizer of context; `None` if the vocabulary has no [`SEPARATOR`].
    pub fn new(tokenizer: &'a Tokenizer) -> Option<Self> {
        Some(Self { tokenizer, separator: tokenizer.special_id(SEPARATOR)? })
    }

    /// Adds `sentences`, the oldest first, before the text of `ids`: the most recent ones that fit into
    /// `max_len` tokens as a whole. Returns the number of added tokens.
    ///
    /// # Errors
    ///
    /// If a sentence cannot be tokenized.
    pub fn add<S: AsRef<str>>(
        &self,
        ids: &mut Vec<u32>,
        sentences: &[S],
        max_len: usize,
    ) -> Result<usize, TextError> {
        let mut encoded = Vec::new();
        let mut room = max_len.saturating_sub(ids.len());
        for sentence in sentences.iter().rev() {
            if room == 0 {
                break;
            }
            let sentence = self.tokenizer.encode(sentence.as_ref())?;
            room = room.saturating_sub(sentence.len() + 1);
            encoded.push(sentence);
        }
        encoded.reverse();
        Ok(self.insert(ids, &encoded, max_len))
    }

    /// Adds sentences that are encoded with the tokenizer, as [`add`](Self::add) does.
    pub fn insert(&self, ids: &mut Vec<u32>, encoded: &[Vec<u32>], max_len: usize) -> usize {
        let context = self.ids(encoded, max_len.saturating_sub(ids.len()));
        let start = start_of_text(ids);
        let added = context.len();
        ids.splice(start..start, context);
        added
    }

    /// Returns the most recent of `encoded` sentences that fit into `room` tokens, each with a separator.
    pub fn ids(&self, encoded: &[Vec<u32>], mut room: usize) -> Vec<u32> {
        let mut kept = encoded.len();
        for sentence in encoded.iter().rev() {
            let len = without_ends(sentence, self.tokenizer.ends()).len() + 1;
            if len > room {
                break;
            }
            (room, kept) = (room - len, kept - 1);
        }
        let sentences = encoded[kept..].iter();
        sentences
            .flat_map(|ids| {
                without_ends(ids, self.tokenizer.ends()).iter().copied().chain([self.separator])
            })
            .collect()
    }
}

/// Position of the first token of the text in a source, which starts with `<bos>` only if its tokenizer adds
/// it.
pub fn start_of_text(ids: &[u32]) -> usize {
    usize::from(ids.first() == Some(&BOS))
}

/// Returns ids without the special tokens around the text.
fn without_ends(ids: &[u32], ends: Ends) -> &[u32] {
    let ids = ids.strip_prefix(&[BOS]).filter(|_| ends.bos).unwrap_or(ids);
    ids.strip_suffix(&[EOS]).filter(|_| ends.eos).unwrap_or(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

    fn tokenizer(source_bos: bool) -> Tokenizer {
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let pairs = [SentencePair::new("a b c d", "x")];
        let source = Tokenizers::train(&config, &pairs).unwrap().source;
        let ends = if source_bos { Ends::BOTH } else { Ends::SOURCE };
        source.with_ends(ends).unwrap().with_special_tokens(&[SEPARATOR.into()]).unwrap()
    }

    /// `a b | c | d`: with 5 tokens and `<eos>`, all; with fewer, the oldest sentence is dropped first.
    #[test]
    fn the_most_recent_sentences_that_fit_are_kept() {
        for has_bos in [false, true] {
            let tokenizer = tokenizer(has_bos);
            let context = ContextTokenizer::new(&tokenizer).unwrap();
            let id = |token: &str| tokenizer.id(token).unwrap();
            let sep = id(SEPARATOR);
            let bos = usize::from(has_bos);
            for (max_len, expected) in [
                (7, vec![id("a"), id("b"), sep, id("c"), sep]),
                (6, vec![id("c"), sep]),
                (4, vec![id("c"), sep]),
                (3, vec![]),
                (0, vec![]),
            ] {
                let mut ids = tokenizer.encode("d").unwrap();
                let text = ids.clone();
                let added = context.add(&mut ids, &["a b", "c"], max_len + bos).unwrap();
                assert_eq!(added, expected.len());
                assert_eq!(ids, [&text[..bos], &expected, &text[bos..]].concat());
            }
        }
    }

    /// A sentence that does not fit ends the context, so that no sentence between others is missing.
    #[test]
    fn context_has_no_gap() {
        let tokenizer = tokenizer(false);
        let context = ContextTokenizer::new(&tokenizer).unwrap();
        let mut ids = tokenizer.encode("d").unwrap();
        let max_len = ids.len() + 4;
        let added = context.add(&mut ids, &["a", "a b c d", "c"], max_len).unwrap();
        assert_eq!(ids[..added], [tokenizer.id("c").unwrap(), tokenizer.id(SEPARATOR).unwrap()]);
    }

    #[test]
    fn a_text_cannot_forge_a_separator() {
        let tokenizer = tokenizer(false);
        let separator = tokenizer.special_id(SEPARATOR).unwrap();
        assert!(!tokenizer.encode("a <sep> b").unwrap().contains(&separator));
        let config = TokenizerConfig::default();
        let plain = Tokenizers::train(&config, &[SentencePair::new("a", "b")]).unwrap();
        assert!(ContextTokenizer::new(&plain.source).is_none());
    }

    #[test]
    fn a_document_ends_at_a_line_of_white_space() {
        let lines = ["a", "b", " ", "c", "d"].map(str::to_owned);
        let of = |index, most| before(&lines, index, most).join("");
        assert_eq!([of(0, 2), of(1, 2), of(2, 2), of(3, 2), of(4, 2)], ["", "a", "ab", "", "c"]);
        assert_eq!([of(2, 1), of(4, 0)], ["b", ""]);
    }
}
