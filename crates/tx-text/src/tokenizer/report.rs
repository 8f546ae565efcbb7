//! Statistics of a vocabulary on a text.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::one_side::Tokenizer;
use crate::{
    error::TextError,
    special::{SPECIAL_TOKENS, UNK},
};

/// Number of tokens listed as longest and as rarest.
const NAMED: usize = 8;
/// Maximum number of characters of these tokens that are shown.
const SHOWN: usize = 60;
/// Texts tokenized together.
const PART: usize = 8_192;

/// Coverage of a text by a vocabulary, and the part of the vocabulary that the text uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VocabularyReport {
    /// Size of the vocabulary, special tokens included.
    pub size: usize,
    /// Number of ids that the text uses.
    pub used: usize,
    /// Number of tokens of the text, without special tokens.
    pub tokens: usize,
    /// Number of these tokens that are `<unk>`.
    pub unknown: usize,
    /// Number of words of the text, separated by white space.
    pub words: usize,
    /// Number of characters of the text.
    pub characters: usize,
    /// Longest tokens that the text uses. A token of more than 60 characters is truncated, and ends with
    /// `…` and the number of its characters.
    pub longest: Vec<String>,
    /// Rarest tokens that the text uses, truncated in the same way, with their counts.
    pub rarest: Vec<(String, usize)>,
}

impl VocabularyReport {
    /// Tokenizes `texts` and counts their tokens.
    ///
    /// # Errors
    ///
    /// If the tokenizer fails.
    pub fn new<'a>(
        tokenizer: &Tokenizer,
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TextError> {
        let mut counts: Vec<usize> = Vec::new();
        let (mut words, mut characters) = (0, 0);
        let mut texts = texts.into_iter();
        loop {
            let part: Vec<&str> = texts.by_ref().take(PART).collect();
            if part.is_empty() {
                break;
            }
            words += part.iter().map(|text| text.split_whitespace().count()).sum::<usize>();
            characters += part.iter().map(|text| text.chars().count()).sum::<usize>();
            for id in tokenizer.par_encode_batch(&part)?.into_iter().flatten() {
                let id = id as usize;
                if counts.len() <= id {
                    counts.resize(id + 1, 0);
                }
                counts[id] += 1;
            }
        }
        let is_special = |id: usize| id < SPECIAL_TOKENS.len() && id != UNK as usize;
        let ordinary = || counts.iter().enumerate().filter(|&(id, _)| !is_special(id));
        let mut tokens: Vec<(String, usize)> = ordinary()
            .filter(|&(id, &count)| count > 0 && id != UNK as usize)
            .filter_map(|(id, &count)| Some((tokenizer.token(id as u32)?, count)))
            .collect();
        tokens.sort_by_cached_key(|(token, _)| (Reverse(token.chars().count()), token.clone()));
        let longest = tokens.iter().take(NAMED).map(|(token, _)| shown(token)).collect();
        tokens.sort_by(|a, b| a.1.cmp(&b.1).then(a.0.cmp(&b.0)));
        Ok(Self {
            size: tokenizer.vocab_size(),
            used: counts.iter().filter(|&&count| count > 0).count(),
            tokens: ordinary().map(|(_, count)| count).sum(),
            unknown: counts.get(UNK as usize).copied().unwrap_or(0),
            words,
            characters,
            longest,
            rarest: tokens
                .iter()
                .take(NAMED)
                .map(|(token, count)| (shown(token), *count))
                .collect(),
        })
    }

    /// Returns the fraction of unknown tokens.
    pub fn unknown_rate(&self) -> f64 {
        self.unknown as f64 / self.tokens.max(1) as f64
    }

    /// Returns the mean number of tokens of a word.
    pub fn tokens_per_word(&self) -> f64 {
        self.tokens as f64 / self.words.max(1) as f64
    }

    /// Returns the mean number of characters of a token.
    pub fn characters_per_token(&self) -> f64 {
        self.characters as f64 / self.tokens.max(1) as f64
    }
}

/// A token, truncated if it is too long to be read.
fn shown(token: &str) -> String {
    match token.char_indices().nth(SHOWN) {
        None => token.to_owned(),
        Some((end, _)) => {
            let start = token.get(..end).unwrap_or_default();
            format!("{start}… ({} characters)", token.chars().count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SentencePair, TokenizerConfig, Tokenizers};

    #[test]
    fn a_long_token_is_truncated() {
        let text = format!("{} b", "ä".repeat(61));
        let config =
            TokenizerConfig { kind: crate::TokenizerKind::Word, ..TokenizerConfig::default() };
        let tokenizer =
            Tokenizers::train(&config, &[SentencePair::new(&text, "b")]).unwrap().target;
        let report = VocabularyReport::new(&tokenizer, [text.as_str()]).unwrap();
        let long = format!("{}… (61 characters)", "ä".repeat(60));
        assert_eq!(report.longest, [long.clone(), "b".to_owned()]);
        assert_eq!(report.rarest, [("b".to_owned(), 1), (long, 1)]);
        assert_eq!(shown(&"x".repeat(60)), "x".repeat(60));
    }
}
