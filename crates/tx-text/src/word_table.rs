//! Words of a text, found in its token ids.

use std::ops::Range;

use tokenizers::ModelWrapper;

use crate::{spacing::is_unspaced, special::SpecialTokens, tokenizer::Tokenizer};

/// Marks of the start of a word: `▁`, or `Ġ` in byte-level vocabularies.
const WORD_STARTS: [char; 2] = ['▁', SPACE_BYTE];
/// Space as byte-level tokenizers write it.
const SPACE_BYTE: char = 'Ġ';

/// Role of a token in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Special token, which belongs to no word.
    Special,
    /// Start of a word.
    Start,
    /// Continuation of a word, or its start after another role.
    Inside,
    /// Word of its own: a punctuation mark or a space.
    Alone,
}

/// Letters of scripts with spaces in a token, besides marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    /// It has other characters.
    Not,
    /// It is a mark alone.
    Mark,
    /// It has nothing else.
    Only,
}

/// Table of the roles of all tokens of a vocabulary.
///
/// ```
/// use tx_text::{Tokenizer, TokenizerConfig, TokenizerKind, WordTable, special::SpecialTokens};
///
/// let config = TokenizerConfig { kind: TokenizerKind::Character, ..TokenizerConfig::default() };
/// let tokenizer = Tokenizer::train(&config, SpecialTokens::WithMask, &["go on."])?;
/// let ids = tokenizer.encode("go on.")?; // <bos> g o space o n . <eos>
/// assert_eq!(WordTable::of(&tokenizer).words(&ids), [1..3, 3..4, 4..6, 6..7]);
/// # Ok::<(), tx_text::TextError>(())
/// ```
#[derive(Debug, Clone)]
pub struct WordTable {
    roles: Vec<Role>,
    letters: Vec<Letters>,
}

impl WordTable {
    /// Table of the vocabulary of `tokenizer`.
    pub fn of(tokenizer: &Tokenizer) -> Self {
        let special = match tokenizer.mask_id() {
            Some(_) => SpecialTokens::WithMask,
            None => SpecialTokens::Standard,
        };
        let units = Units::of(tokenizer);
        let of_id = |id: u32| match tokenizer.token(id) {
            Some(token) if id as usize >= special.count() => {
                (units.role(&token), units.letters(&token))
            }
            _ => (Role::Special, Letters::Not),
        };
        let (roles, letters) = (0..tokenizer.vocab_size() as u32).map(of_id).unzip();
        Self { roles, letters }
    }

    /// Returns `true` if a token continues the word of the token before it.
    pub fn continues(&self, id: u32) -> bool {
        self.roles.get(id as usize) == Some(&Role::Inside)
    }

    /// Returns `true` if a token has the mark of the start of a word, or is a whole word.
    pub fn starts(&self, id: u32) -> bool {
        self.roles.get(id as usize) == Some(&Role::Start)
    }

    /// Returns `true` if a token consists of letters of a script with spaces and marks, or of a mark alone.
    pub fn is_letters(&self, id: u32) -> bool {
        matches!(self.letters.get(id as usize), Some(Letters::Only | Letters::Mark))
    }

    /// Returns `true` if a token is a mark of the start of a word alone, which a number or a punctuation mark can follow, too.
    pub fn is_mark(&self, id: u32) -> bool {
        self.letters.get(id as usize) == Some(&Letters::Mark)
    }

    /// Ranges of `ids` that are words, in order. Special tokens are in no range.
    pub fn words(&self, ids: &[u32]) -> Vec<Range<usize>> {
        let mut words: Vec<Range<usize>> = Vec::new();
        // True if an inner token continues the last word.
        let mut is_open = false;
        for (index, &id) in ids.iter().enumerate() {
            let role = self.roles.get(id as usize).copied().unwrap_or(Role::Special);
            match (role, words.last_mut()) {
                (Role::Special, _) => is_open = false,
                (Role::Inside, Some(word)) if is_open => word.end = index + 1,
                (Role::Start | Role::Inside, _) => {
                    words.push(index..index + 1);
                    is_open = true;
                }
                (Role::Alone, _) => {
                    words.push(index..index + 1);
                    is_open = false;
                }
            }
        }
        words
    }
}

/// Units that the tokens of a vocabulary consist of.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Units {
    /// Whole words and punctuation marks.
    Words,
    /// Characters, or bytes written as characters.
    Characters { are_bytes: bool },
    /// Pieces of words whose first one has a mark.
    MarkedStarts { are_bytes: bool },
    /// Pieces of words of which all but the first have this prefix.
    MarkedContinuations(String),
}

impl Units {
    fn of(tokenizer: &Tokenizer) -> Self {
        let steps = serde_json::to_string(&tokenizer.inner.get_pre_tokenizer()).unwrap_or_default();
        let are_bytes = steps.contains("ByteLevel");
        if tokenizer.sentencepiece_model().is_some() {
            return Self::MarkedStarts { are_bytes };
        }
        match tokenizer.inner.get_model() {
            // The pattern that separates all characters, as JSON.
            ModelWrapper::WordLevel(_) if steps.contains(r"[\\s\\S]") => {
                Self::Characters { are_bytes }
            }
            ModelWrapper::WordLevel(_) => Self::Words,
            ModelWrapper::WordPiece(model) => {
                Self::MarkedContinuations(model.continuing_subword_prefix.clone())
            }
            ModelWrapper::BPE(_) | ModelWrapper::Unigram(_) => Self::MarkedStarts { are_bytes },
        }
    }

    /// Letters in a token. Those that a byte-level vocabulary writes as several characters do not count.
    fn letters(&self, token: &str) -> Letters {
        let (text, are_bytes) = match self {
            Self::Words => (token, false),
            Self::Characters { are_bytes } => (token, *are_bytes),
            Self::MarkedStarts { are_bytes } => {
                (token.strip_prefix(WORD_STARTS).unwrap_or(token), *are_bytes)
            }
            Self::MarkedContinuations(prefix) => {
                (token.strip_prefix(prefix.as_str()).unwrap_or(token), false)
            }
        };
        let is_letter =
            |c: char| c.is_alphabetic() && !is_unspaced(c) && (c.is_ascii() || !are_bytes);
        match text.chars().all(is_letter) {
            true if text.is_empty() => Letters::Mark,
            true => Letters::Only,
            false => Letters::Not,
        }
    }

    fn role(&self, token: &str) -> Role {
        let is_letter = |c: char, are_bytes: bool| {
            c != SPACE_BYTE && (c.is_alphanumeric() || are_bytes && !c.is_ascii())
        };
        match self {
            Self::Words => Role::Start,
            Self::MarkedContinuations(prefix) if token.starts_with(prefix.as_str()) => Role::Inside,
            Self::MarkedContinuations(_) => Role::Start,
            Self::Characters { are_bytes } => match token.chars().next() {
                Some(c) if is_letter(c, *are_bytes) => Role::Inside,
                _ => Role::Alone,
            },
            Self::MarkedStarts { .. } if is_byte(token) => Role::Inside,
            Self::MarkedStarts { are_bytes } => match token.strip_prefix(WORD_STARTS) {
                Some(rest) => match rest.chars().next() {
                    Some(c) if !is_letter(c, *are_bytes) => Role::Alone,
                    Some(_) | None => Role::Start,
                },
                None => match token.chars().next() {
                    Some(c) if is_letter(c, *are_bytes) => Role::Inside,
                    _ => Role::Alone,
                },
            },
        }
    }
}

/// Returns true for the token of a byte, such as `<0x0A>`, which is part of a character.
fn is_byte(token: &str) -> bool {
    token.len() == 6 && token.starts_with("<0x") && token.ends_with('>')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokenizer::{TokenizerConfig, TokenizerKind, WordSplit};

    const TEXT: &str = "the lone cat (né Tom) isn't here.";

    /// Words of [`TEXT`] as decoded from their ids.
    fn words(config: &TokenizerConfig) -> Vec<String> {
        let tokenizer = Tokenizer::train(config, SpecialTokens::WithMask, &[TEXT]).unwrap();
        let ids = tokenizer.encode(TEXT).unwrap();
        let ranges = WordTable::of(&tokenizer).words(&ids);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        let covered: usize = ranges.iter().map(ExactSizeIterator::len).sum();
        assert_eq!(covered, ids.len() - 2, "all but `<bos>` and `<eos>`");
        let decoded = ranges.into_iter().map(|word| tokenizer.decode(&ids[word]).unwrap());
        decoded.map(|word| word.trim().to_owned()).filter(|word| !word.is_empty()).collect()
    }

    #[test]
    fn pieces_are_joined_to_words_and_punctuation_is_apart() {
        let expected = ["the", "lone", "cat", "(", "né", "Tom", ")", "isn", "'", "t", "here", "."];
        for kind in [
            TokenizerKind::Word,
            TokenizerKind::Character,
            TokenizerKind::Byte,
            TokenizerKind::Bpe,
            TokenizerKind::Unigram,
            TokenizerKind::Wordpiece,
        ] {
            // Small vocabularies have few whole words.
            let vocab_size = if kind == TokenizerKind::Word { 50 } else { 32 };
            let config = TokenizerConfig { kind, vocab_size, ..TokenizerConfig::default() };
            assert_eq!(words(&config), expected, "{kind:?}");
        }
    }

    #[test]
    fn words_end_at_spaces_only_if_so_configured() {
        let config = TokenizerConfig {
            kind: TokenizerKind::Wordpiece,
            split: WordSplit::Whitespace,
            vocab_size: 40,
            ..TokenizerConfig::default()
        };
        assert_eq!(words(&config), ["the", "lone", "cat", "(né", "Tom)", "isn't", "here."]);
    }

    #[test]
    fn special_and_unknown_ids_are_in_no_word() {
        let config = TokenizerConfig { kind: TokenizerKind::Word, ..TokenizerConfig::default() };
        let tokenizer = Tokenizer::train(&config, SpecialTokens::WithMask, &["a b"]).unwrap();
        assert_eq!(WordTable::of(&tokenizer).words(&[1, 5, 4, 3, 6, 99, 2]), [1..2, 4..5]);
    }
}
