//! Reading of texts that are written otherwise than the training text.

use std::borrow::Cow;

use tx_text::{TextError, Tokenizer};

use crate::{
    capitals::in_known_case,
    letter_case::{is_in_capitals, upper},
    lexicon::SourceWords,
};

/// Marks at the end of a sentence.
pub(crate) const FINAL: &str = ".!?…。！？";

/// Smallest share of sentences of the training text with a final mark from which a text without one is
/// unusual.
const USUAL: f64 = 0.9;

/// Reading of texts that are written otherwise than the training text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reading {
    /// If the words of a text in capitals have fewer than two thirds of its tokens in lower case, the model
    /// reads these, and its translation is set in capitals. A model that knows capitals has tokens for them.
    ///
    /// With a [lexicon](crate::lexicon),
    ///
    /// - words have their case in the training text, also those of a text without capitals;
    /// - a new word that differs in one letter from words of the training text is read as the most frequent of
    ///   these, unless it can be a name;
    /// - the translation of a text without a final mark has none, if most sentences of the training text have one.
    #[default]
    Adapted,
    /// The model reads the text unchanged, and the translation is that of the model.
    AsWritten,
}

/// Differences between a text and the one that the model reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Adaptation {
    /// Whether capitals were lowered.
    is_lowered: bool,
    /// Whether the text has no final mark, unlike the training text.
    is_open: bool,
}

impl Reading {
    /// Returns a text without the typos that the lexicon knows, other than words that are kept; owned if it differs. It has
    /// the same words between white space, except for typos.
    pub(crate) fn corrected<'a>(
        self,
        text: &'a str,
        known: Option<&SourceWords>,
        is_kept: impl Fn(&str) -> bool,
    ) -> Cow<'a, str> {
        let corrected = match self {
            Self::Adapted => known.and_then(|known| known.corrected(text, is_kept)),
            Self::AsWritten => None,
        };
        corrected.map_or(text.into(), Cow::Owned)
    }

    /// Returns a text in the case that the model reads; owned if it differs. It has the same length in bytes, with the
    /// same words at the same positions.
    ///
    /// # Errors
    ///
    /// If a word cannot be tokenized.
    pub(crate) fn cased<'a>(
        self,
        text: &'a str,
        tokenizer: &Tokenizer,
        known: Option<&SourceWords>,
    ) -> Result<Cow<'a, str>, TextError> {
        match self {
            Self::Adapted => in_known_case(text, tokenizer, known),
            Self::AsWritten => Ok(text.into()),
        }
    }

    /// Returns the differences between a text and the one that the model reads.
    pub(crate) fn adaptation(
        self,
        text: &str,
        read: &str,
        known: Option<&SourceWords>,
    ) -> Adaptation {
        match self {
            Self::AsWritten => Adaptation::default(),
            Self::Adapted => Adaptation {
                is_lowered: is_in_capitals(text) && !is_in_capitals(read),
                is_open: text.ends_with(char::is_alphanumeric)
                    && known.is_some_and(|known| known.final_marks() >= USUAL),
            },
        }
    }
}

impl Adaptation {
    /// Whether capitals were lowered.
    pub(crate) fn is_lowered(self) -> bool {
        self.is_lowered
    }

    /// Returns a translation, or a part of one that goes on, in the case of the text.
    pub(crate) fn cased(self, translation: String) -> String {
        if self.is_lowered { upper(&translation) } else { translation }
    }

    /// Returns a translation in the case of the text, and without a final mark if the text has none.
    pub(crate) fn applied(self, translation: String) -> String {
        let mut translation = self.cased(translation);
        let end = translation.trim_end_matches(|c| FINAL.contains(c)).trim_end().len();
        if self.is_open && end > 0 {
            translation.truncate(end);
        }
        translation
    }
}

#[cfg(test)]
mod tests {
    use tx_text::{TokenizerConfig, special::SpecialTokens};

    use super::*;
    use crate::LexiconBuilder;

    #[test]
    fn a_translation_has_a_final_mark_if_the_text_has_one() {
        let config = TokenizerConfig::default();
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &["Rom"]).unwrap();
        // Nine and eight of ten sentences have a mark.
        for (marked, title) in [(9, "A dog"), (8, "A dog.")] {
            let mut builder = LexiconBuilder::default();
            for index in 0..10 {
                builder.add(if index < marked { "Ein Hund?" } else { "Ein Hund" }, "A dog");
            }
            let lexicon = builder.finish(&tokenizer).unwrap().unwrap();
            let translated = |text: &str, translation: &str, reading: Reading| {
                let known = Some(lexicon.source());
                let read = reading.cased(text, &tokenizer, known).unwrap();
                reading.adaptation(text, &read, known).applied(translation.to_owned())
            };
            assert_eq!(translated("Ein Hund", "A dog.", Reading::Adapted), title);
            assert_eq!(translated("Ein Hund", "A dog.", Reading::AsWritten), "A dog.");
            assert_eq!(translated("Ein Hund.", "A dog.", Reading::Adapted), "A dog.");
            assert_eq!(translated("Ein Hund:", "A dog...", Reading::Adapted), "A dog...");
            assert_eq!(translated("Ein Hund", "...", Reading::Adapted), "...");
        }
    }
}
