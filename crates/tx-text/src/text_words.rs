//! Words of a text, separated by white space, and the word of each token.
//!
//! Word alignments count words in this way, as by `str::split_whitespace`, whatever the words of the
//! tokenizer are.

use std::ops::Range;

use crate::tokenizer::Tokenizer;

/// Byte ranges of the first words of `text`, at most `max`.
pub fn word_ranges(text: &str, max: usize) -> Vec<Range<usize>> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    let words = text.split_whitespace().take(max);
    words.map(|word| start(word)..start(word) + word.len()).collect()
}

/// Index in `words` of the word that each token is part of; `None` for special tokens and white space.
///
/// `spans` are the ids and byte ranges of [`Tokenizer::encode_with_spans`], and `words` the ranges of
/// [`word_ranges`] in the same text.
///
/// ```
/// use tx_text::{
///     SentencePair, TokenizerConfig, Tokenizers,
///     text_words::{word_of_tokens, word_ranges},
/// };
///
/// let tokenizer = Tokenizers::train(&TokenizerConfig::default(), &[SentencePair::new("Dov'è", "a")])?.source;
/// let spans = tokenizer.encode_with_spans("Dov'è Dov'è")?;
/// let words = word_of_tokens(&tokenizer, &spans, &word_ranges("Dov'è Dov'è", 9));
/// assert_eq!((words.first(), words.last()), (Some(&Some(0)), Some(&None)));
/// assert_eq!(words.iter().filter(|word| **word == Some(1)).count(), words.len() / 2);
/// # Ok::<(), tx_text::TextError>(())
/// ```
pub fn word_of_tokens(
    tokenizer: &Tokenizer,
    spans: &[(u32, Range<usize>)],
    words: &[Range<usize>],
) -> Vec<Option<usize>> {
    let word_of = |(id, span): &(u32, Range<usize>)| {
        // The first word that ends after the start of the token.
        let word = words.partition_point(|word| word.end <= span.start);
        let is_part = words.get(word).is_some_and(|word| share_bytes(word, span));
        (is_part && !is_space(tokenizer, *id)).then_some(word)
    };
    spans.iter().map(word_of).collect()
}

/// Returns `true` if a token is only the mark of a space, which is not part of a word.
fn is_space(tokenizer: &Tokenizer, id: u32) -> bool {
    tokenizer.token(id).is_some_and(|token| token.trim_matches('▁').trim().is_empty())
}

fn share_bytes(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}
