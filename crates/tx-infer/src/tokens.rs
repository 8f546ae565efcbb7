//! Tokens of a text, and the words of the text that they are part of: those of [`tx_text::text_words`].

use std::{collections::HashSet, ops::Range};

use tx_text::{
    Ends, Tokenizer,
    special::{BOS, EOS, MASK_TOKEN, UNK},
    text_words::{word_of_tokens, word_ranges},
};

use crate::error::InferError;

/// Maximum number of bytes that are tokenized, for each token that a model can read, so that a line
/// of many megabytes takes no longer than a long one.
pub(crate) const BYTES_PER_TOKEN: usize = 256;

/// Returns the beginning of `text` that is tokenized for a model that reads `max_len` tokens.
pub(crate) fn readable(text: &str, max_len: usize) -> &str {
    &text[..text.floor_char_boundary(max_len.saturating_mul(BYTES_PER_TOKEN))]
}

/// Tokenizer that reads no more of a text than [`readable`] does, also if it makes texts longer.
fn limited(tokenizer: &Tokenizer, max_len: usize) -> Tokenizer {
    tokenizer.clone().with_max_bytes(max_len.saturating_mul(BYTES_PER_TOKEN))
}

/// Encodes a text for a model that reads `max_len` tokens. Also returns whether the text was truncated
/// to them.
pub(crate) fn encode_truncated(
    tokenizer: &Tokenizer,
    text: &str,
    max_len: usize,
) -> Result<(Vec<u32>, bool), InferError> {
    let readable = readable(text, max_len);
    let mut ids = limited(tokenizer, max_len).encode(readable)?;
    let truncated = readable.len() < text.len() || ids.len() > max_len;
    tokenizer.ends().truncate(&mut ids, max_len);
    Ok((ids, truncated))
}

/// Encodes a text without `<bos>`; `None` if it is too long to be tokenized whole for a model that
/// reads `max_len` tokens.
pub(crate) fn encode_whole(
    tokenizer: &Tokenizer,
    text: &str,
    max_len: usize,
) -> Result<Option<Vec<u32>>, InferError> {
    if readable(text, max_len).len() < text.len() {
        return Ok(None);
    }
    let mut ids = limited(tokenizer, max_len).encode(text)?;
    ids.retain(|id| *id != BOS);
    Ok(Some(ids))
}

/// Encodes the beginning of a target, without `<bos>` and `<eos>`, in line `line`; empty if the text
/// has no words.
///
/// # Errors
///
/// [`InferError::LongPrefix`] if no token fits after it.
pub(crate) fn encode_prefix(
    tokenizer: &Tokenizer,
    text: &str,
    line: u64,
    max_len: usize,
) -> Result<Vec<u32>, InferError> {
    if tokenizer.is_blank(text) {
        return Ok(Vec::new());
    }
    let max = max_len.saturating_sub(1);
    let long = |found| InferError::LongPrefix { line, found, max };
    let Some(mut ids) = encode_whole(tokenizer, text, max_len)? else { return Err(long(None)) };
    ids.retain(|id| *id != EOS);
    if ids.len() > max { Err(long(Some(ids.len()))) } else { Ok(ids) }
}

/// Returns the words of `text`, encoded as `ids`, with a token that is `<unk>`, each once.
pub(crate) fn unknown_words(
    tokenizer: &Tokenizer,
    text: &str,
    ids: &[u32],
) -> Result<Vec<String>, InferError> {
    if !ids.contains(&UNK) {
        return Ok(Vec::new());
    }
    let tokens = limited(tokenizer, ids.len()).encode_with_words(text)?;
    let tokens = tokens.into_iter().take(ids.len()).filter(|token| token.id == UNK);
    let words = tokens.filter_map(|token| text.get(token.word?)).filter(|word| !word.is_empty());
    let mut seen = HashSet::new();
    Ok(words.filter(|word| seen.insert(*word)).map(str::to_owned).collect())
}

/// Replaces characters that end a line or control a terminal by spaces.
pub(crate) fn on_one_line(text: String) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if text.contains(breaks) { text.replace(breaks, " ") } else { text }
}

/// Maximum number of tokens of a text, and its special tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) max_len: usize,
    pub(crate) ends: Ends,
}

/// A text as token ids, special tokens included, with the words that the tokens belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Ids of the tokens, without the `<bos>` that starts a target.
    pub ids: Vec<u32>,
    /// The tokens, as in the vocabulary.
    pub tokens: Vec<String>,
    /// Index of the word of each token; `None` for special tokens and white space.
    pub word_of: Vec<Option<usize>>,
    /// Words of the text, at most as many as the model can read tokens.
    pub words: Vec<String>,
}

impl Tokens {
    /// Tokenizes a source text and truncates it to `max_len` tokens.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn of_source(
        tokenizer: &Tokenizer,
        text: &str,
        max_len: usize,
    ) -> Result<Self, InferError> {
        let text = readable(text, max_len);
        let spans = limited(tokenizer, max_len).encode_with_spans(text)?;
        Self::of_spans(tokenizer, text, spans, max_len)
    }

    /// Tokenizes a text in which `<mask>` is a special token, and truncates it to `max_len` tokens. If
    /// the text has a mask, tokens are not assigned to words.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn of_masked(
        tokenizer: &Tokenizer,
        text: &str,
        max_len: usize,
    ) -> Result<Self, InferError> {
        if !text.contains(MASK_TOKEN) {
            return Self::of_source(tokenizer, text, max_len);
        }
        let text = readable(text, max_len);
        let mut ids = tokenizer.encode_with_masks(text)?;
        tokenizer.ends().truncate(&mut ids, max_len);
        Ok(Self {
            tokens: names(tokenizer, &ids),
            word_of: vec![None; ids.len()],
            ids,
            words: text.split_whitespace().take(max_len).map(str::to_owned).collect(),
        })
    }

    /// Tokenizes a target text and truncates it to `max_len` tokens.
    ///
    /// # Errors
    ///
    /// If the text cannot be tokenized.
    pub fn of_target(
        tokenizer: &Tokenizer,
        text: &str,
        max_len: usize,
    ) -> Result<Self, InferError> {
        let text = readable(text, max_len);
        let mut spans = limited(tokenizer, max_len).encode_with_spans(text)?;
        if spans.first().is_some_and(|(id, _)| *id == BOS) {
            spans.remove(0);
        }
        Self::of_spans(tokenizer, text, spans, max_len)
    }

    /// Returns the tokens of a hypothesis with or without `<eos>`, which is appended if there are
    /// fewer than `max_len` tokens.
    ///
    /// # Errors
    ///
    /// If the ids cannot be decoded.
    pub fn of_hypothesis(
        tokenizer: &Tokenizer,
        ids: &[u32],
        max_len: usize,
    ) -> Result<Self, InferError> {
        Self::of_hidden(tokenizer, ids, max_len, &[])
    }

    /// Returns the tokens of a hypothesis as [`of_hypothesis`](Self::of_hypothesis) does; those of
    /// `hidden` belong to no word.
    pub(crate) fn of_hidden(
        tokenizer: &Tokenizer,
        ids: &[u32],
        max_len: usize,
        hidden: &[u32],
    ) -> Result<Self, InferError> {
        let mut ids = ids.to_vec();
        if ids.last() != Some(&EOS) && ids.len() < max_len {
            ids.push(EOS);
        }
        // A token that adds a letter is part of the last word of the text decoded so far.
        let mut word_of = Vec::with_capacity(ids.len());
        let mut before = String::new();
        let mut shown = Vec::with_capacity(ids.len());
        for id in &ids {
            shown.extend((hidden.binary_search(id).is_err()).then_some(*id));
            let text = tokenizer.decode(&shown)?;
            let grew = text.trim() != before.trim();
            let last = text.split_whitespace().count().checked_sub(1);
            word_of.push(last.filter(|_| grew));
            before = text;
        }
        let words: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
        // A later token can join two words, because the incomplete bytes of a character count as a
        // separator.
        word_of.iter_mut().for_each(|word| *word = word.filter(|&word| word < words.len()));
        Ok(Self { tokens: names(tokenizer, &ids), ids, word_of, words })
    }

    /// Inserts a token that belongs to no word, and truncates the text again.
    pub(crate) fn insert(&mut self, position: usize, id: u32, name: String, limit: Limit) {
        let Limit { max_len, ends } = limit;
        self.ids.insert(position, id);
        self.tokens.insert(position, name);
        self.word_of.insert(position, None);
        if self.ids.len() > max_len {
            let end = self.tokens.pop().unwrap_or_default();
            ends.truncate(&mut self.ids, max_len);
            self.tokens.truncate(max_len);
            self.word_of.truncate(max_len);
            // The last token is `<eos>`, also after truncation.
            if ends.eos {
                self.tokens.last_mut().into_iter().for_each(|last| last.clone_from(&end));
                self.word_of.last_mut().into_iter().for_each(|word| *word = None);
            }
        }
    }

    /// Returns `true` if the text has no words.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    fn of_spans(
        tokenizer: &Tokenizer,
        text: &str,
        spans: Vec<(u32, Range<usize>)>,
        max_len: usize,
    ) -> Result<Self, InferError> {
        // Further words have no token within `max_len`.
        let words = word_ranges(text, max_len);
        let mut word_of = word_of_tokens(tokenizer, &spans, &words);
        let mut ids: Vec<u32> = spans.into_iter().map(|(id, _)| id).collect();
        if ids.len() > max_len {
            tokenizer.ends().truncate(&mut ids, max_len);
            word_of.truncate(max_len);
            if let Some(last) = word_of.last_mut().filter(|_| tokenizer.ends().eos) {
                *last = None;
            }
        }
        let words = words.into_iter().map(|word| text[word].to_owned()).collect();
        Ok(Self { tokens: names(tokenizer, &ids), ids, word_of, words })
    }
}

fn names(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
    ids.iter().map(|&id| tokenizer.token(id).unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers};

    use super::*;

    const TEXT: &str = "  Dov'è l'amico,\u{a0}  amico? ";

    fn tokenizer(kind: TokenizerKind) -> Tokenizer {
        let pairs = [SentencePair::new(TEXT, TEXT), SentencePair::new("amico è", "amico è")];
        // Few merges, so that words consist of several pieces.
        let config = TokenizerConfig { kind, vocab_size: 22, ..TokenizerConfig::default() };
        Tokenizers::train(&config, &pairs).unwrap().target
    }

    /// Letters of each word, joined from its tokens.
    fn joined(tokens: &Tokens) -> Vec<String> {
        let mut words = vec![String::new(); tokens.words.len()];
        for (token, word) in tokens.tokens.iter().zip(&tokens.word_of) {
            if let Some(word) = word {
                words[*word] += &token.replace(['▁', '\u{ffed}'], "");
            }
        }
        words
    }

    #[test]
    fn tokens_have_the_same_words_from_text_and_from_ids() {
        for kind in [TokenizerKind::Word, TokenizerKind::Bpe, TokenizerKind::Character] {
            let tokenizer = tokenizer(kind);
            let read = Tokens::of_target(&tokenizer, TEXT, 99).unwrap();
            assert_eq!(read.words, ["Dov'è", "l'amico,", "amico?"], "{kind:?}");
            assert_eq!(joined(&read), read.words, "{kind:?}: {read:?}");
            assert_eq!(
                (read.tokens.last().unwrap().as_str(), read.ids[0] == BOS),
                ("<eos>", false)
            );
            assert_eq!(read.word_of.last(), Some(&None));

            let found = Tokens::of_hypothesis(&tokenizer, &read.ids, 99).unwrap();
            assert_eq!(found, read, "{kind:?}");
            let unended = &read.ids[..read.ids.len() - 1];
            assert_eq!(Tokens::of_hypothesis(&tokenizer, unended, 99).unwrap(), read, "{kind:?}");
            // No room for `<eos>`: the target would be longer than the model's `max_len`.
            let full = Tokens::of_hypothesis(&tokenizer, unended, unended.len()).unwrap();
            assert_eq!(full.ids, unended, "{kind:?}");
        }
    }

    #[test]
    fn a_long_text_is_truncated_and_unknown_words_have_their_tokens() {
        let tokenizer = tokenizer(TokenizerKind::Word);
        let read = Tokens::of_source(&tokenizer, "amico 日本語 \u{1f600} amico è", 4).unwrap();
        assert_eq!(read.tokens, ["<bos>", "amico", "<unk>", "<eos>"]);
        assert_eq!(read.word_of, [None, Some(0), Some(1), None]);
        // The third word has no token within `max_len`; a fifth could not have one.
        assert_eq!(read.words, ["amico", "日本語", "\u{1f600}", "amico"]);
        let nothing = Tokens::of_source(&tokenizer, " \t ", 4).unwrap();
        assert!(nothing.is_empty() && nothing.ids == [BOS, EOS]);
    }

    /// Time and memory depend on the model's `max_len`, not on the text.
    #[test]
    fn a_text_of_megabytes_has_at_most_as_many_words_as_the_model_reads_tokens() {
        let tokenizer = tokenizer(TokenizerKind::Word);
        for text in ["amico è ", "a", "\u{1f600} ", "\u{ad} "] {
            let text = text.repeat(2_000_000);
            for read in [Tokens::of_source, Tokens::of_target] {
                let tokens = read(&tokenizer, &text, 8).unwrap();
                assert!(tokens.ids.len() <= 8 && tokens.words.len() <= 8, "{tokens:?}");
                assert!(tokens.words.iter().all(|word| word.len() <= 8 * BYTES_PER_TOKEN));
            }
        }
        assert_eq!(readable("äöü", 0), "");
    }

    /// In bytes, U+00A0 is white space and its first byte alone is not: there are two words after
    /// `c2`, and one after `a0`.
    #[test]
    fn a_token_that_joins_two_words_has_a_valid_index() {
        let tokenizer = tokenizer(TokenizerKind::Byte);
        // The four special tokens come before the 256 bytes.
        let ids = [b'a', b' ', 0xc2, 0xa0].map(|byte| 4 + u32::from(byte));
        let found = Tokens::of_hypothesis(&tokenizer, &ids, 99).unwrap();
        assert_eq!(found.words, ["a"]);
        assert!(found.word_of.iter().flatten().all(|&word| word < 1), "{found:?}");
    }
}
