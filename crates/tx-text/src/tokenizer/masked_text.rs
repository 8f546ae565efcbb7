//! Text in which `<mask>` is the special token: the input of a masked language model.

use std::ops::Range;

use tokenizers::{
    Model, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Result as LibraryResult,
};

use super::{build::byte_level, one_side::Tokenizer};
use crate::{error::TextError, special::MASK_TOKEN};

/// Letters that may stand for a mask while a text is split into words: the last ideographs of a block
/// that no text needs, so that one of them is not in the text.
const LETTERS: Range<u32> = 0x2_a600..0x2_a6d7;
/// Marks of the start of a word. A mask replaces a token together with its mark.
const WORD_STARTS: [&str; 2] = ["▁", "Ġ"];

impl Tokenizer {
    /// Encodes a text as [`encode`](Self::encode) does, with each `<mask>` in it as the special token.
    ///
    /// A mask takes the place of one token, as in training: the words around it are those of the text with
    /// a letter in place of the mask. Parts of a word before and after a mask are segmented separately.
    ///
    /// # Errors
    ///
    /// [`TextError::NoMask`] if the text has a `<mask>` but the vocabulary has none; otherwise those of
    /// [`encode`](Self::encode).
    pub fn encode_with_masks(&self, text: &str) -> Result<Vec<u32>, TextError> {
        if !text.contains(MASK_TOKEN) {
            return self.encode(text);
        }
        let mask = self.mask_id().ok_or(TextError::NoMask)?;
        let letters = LETTERS.filter_map(char::from_u32);
        let letter = letters.rev().find(|&letter| !text.contains(letter)).unwrap_or_default();
        let ids = self.masked(text, letter, mask).map_err(TextError::Tokenizer)?;
        Ok(self.ends.around(ids, |id| id))
    }

    /// Ids of a text without the tokens around it; `letter` stands for its masks.
    fn masked(&self, text: &str, letter: char, mask: u32) -> LibraryResult<Vec<u32>> {
        let letter = letter.to_string();
        let text = text.replace(MASK_TOKEN, &letter);
        let text = &*self.normalized(&text);
        if let Some(processor) = &self.sentencepiece {
            let id = |token: &str, use_as| self.id_of(token, use_as);
            return Ok(processor.encode_around(text, &letter, mask, id));
        }
        let masks: Vec<Range<usize>> =
            text.match_indices(&letter).map(|(start, it)| start..start + it.len()).collect();
        let letters = [&letter, &in_bytes(&letter)?];

        let inner = &self.inner;
        let normalizer = inner.get_normalizer();
        let mut words = inner.get_added_vocabulary().extract_and_normalize(normalizer, text);
        if let Some(pre_tokenizer) = inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut words)?;
        }
        let mut ids = Vec::new();
        // Masks before this one are done, if the bytes of a letter are words of their own.
        let mut next = 0;
        for (word, (start, end), tokens) in
            words.get_splits(OffsetReferential::Original, OffsetType::Byte)
        {
            let within = |mask: &Range<usize>| mask.start <= start && end <= mask.end;
            if let Some(tokens) = tokens {
                ids.extend(tokens.iter().map(|token| token.id));
            } else if let Some(letter) = letters.into_iter().find(|it| word.contains(it.as_str())) {
                let mut parts = word.split(letter.as_str()).peekable();
                while let Some(part) = parts.next() {
                    let is_before_mask = parts.peek().is_some();
                    let is_mark = is_before_mask && WORD_STARTS.contains(&part);
                    if !part.is_empty() && !is_mark {
                        ids.extend(inner.get_model().tokenize(part)?.iter().map(|token| token.id));
                    }
                    if is_before_mask {
                        ids.push(mask);
                    }
                }
            } else if let Some(index) = masks.iter().position(within) {
                if index >= next {
                    ids.push(mask);
                    next = index + 1;
                }
            } else {
                ids.extend(inner.get_model().tokenize(word)?.iter().map(|token| token.id));
            }
        }
        Ok(ids)
    }
}

/// Letter as byte-level tokenizers write it.
fn in_bytes(letter: &str) -> LibraryResult<String> {
    let mut bytes = PreTokenizedString::from(letter);
    byte_level().pre_tokenize(&mut bytes)?;
    let splits = bytes.get_splits(OffsetReferential::Original, OffsetType::Byte);
    Ok(splits.into_iter().map(|(text, ..)| text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        special::{BOS, EOS, MASK, SpecialTokens},
        tokenizer::{TokenizerConfig, TokenizerKind, WordSplit, tests::KINDS},
    };

    const TEXT: &str = "I love you, and (you) love me.";

    fn trained(kind: TokenizerKind, split: WordSplit) -> Tokenizer {
        let config = TokenizerConfig { kind, split, ..TokenizerConfig::default() };
        Tokenizer::train(&config, SpecialTokens::WithMask, &[TEXT; 3]).unwrap()
    }

    /// A text without a mask takes another path through the library than with one.
    #[test]
    fn the_words_around_a_mask_have_the_ids_of_the_text() {
        for kind in KINDS {
            for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
                let tokenizer = trained(kind, split);
                let ids = tokenizer.encode(TEXT).unwrap();
                assert_eq!(tokenizer.encode_with_masks(TEXT).unwrap(), ids);
                let plain = tokenizer.masked(TEXT, '\u{2a6d6}', MASK).unwrap();
                assert_eq!(plain, ids[1..ids.len() - 1], "{kind:?} {split:?}");
            }
        }
    }

    #[test]
    fn a_masked_word_is_one_token_in_place_of_its_own() {
        for kind in [TokenizerKind::Word, TokenizerKind::Bpe, TokenizerKind::Wordpiece] {
            let tokenizer = trained(kind, WordSplit::Punctuation);
            let ids = tokenizer.encode(TEXT).unwrap();
            let words = tokenizer.encode_with_words(TEXT).unwrap();
            for (index, token) in words.iter().enumerate() {
                // A word of one token, and not the only one.
                let Some(word) = token.word.clone() else { continue };
                let tokens = words.iter().filter(|other| other.word.as_ref() == Some(&word));
                let is_word = TEXT[word.clone()].chars().all(char::is_alphabetic);
                if !is_word || tokens.count() != 1 {
                    continue;
                }
                let mut text = TEXT.to_owned();
                text.replace_range(word, MASK_TOKEN);
                let mut expected = ids.clone();
                expected[index] = MASK;
                assert_eq!(
                    tokenizer.encode_with_masks(&text).unwrap(),
                    expected,
                    "{kind:?} {text}"
                );
            }
        }
    }

    /// One mask is one character, or one byte.
    #[test]
    fn a_mask_is_one_token_of_every_kind() {
        for kind in KINDS {
            for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
                let tokenizer = trained(kind, split);
                for (text, masks) in [
                    ("<mask>", 1),
                    ("I <mask> you", 1),
                    ("<mask><mask> you, <mask>.", 3),
                    ("lo<mask> you \u{2a6d6}", 1),
                ] {
                    let ids = tokenizer.encode_with_masks(text).unwrap();
                    let found = ids.iter().filter(|&&id| id == MASK).count();
                    assert_eq!(found, masks, "{kind:?} {split:?}: {text}: {ids:?}");
                    assert_eq!((ids[0], ids.last()), (BOS, Some(&EOS)));
                }
            }
        }
        let characters = trained(TokenizerKind::Character, WordSplit::Whitespace);
        let ids = characters.encode("lo e").unwrap();
        assert_eq!(
            characters.encode_with_masks("l<mask> e").unwrap(),
            [ids[0], ids[1], MASK, ids[3], ids[4], ids[5]]
        );
    }

    #[test]
    fn a_mask_without_its_token_is_an_error() {
        let config = TokenizerConfig::default();
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &[TEXT]).unwrap();
        assert_eq!(tokenizer.encode_with_masks(TEXT).unwrap(), tokenizer.encode(TEXT).unwrap());
        let error = tokenizer.encode_with_masks("I <mask> you").unwrap_err();
        assert_eq!(error.to_string(), "the tokenizer has no special token `<mask>`");
    }
}
