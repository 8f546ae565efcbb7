//! Learning of the tokenizer of a task with one text: classification and language models.

use std::borrow::Cow;

use super::{
    build,
    config::{Lowercase, TokenizerConfig},
    ends::Ends,
    import,
    one_side::Tokenizer,
    stream::FirstError,
};
use crate::{error::TextError, special::SpecialTokens};

impl Tokenizer {
    /// Learns a vocabulary from `texts`, which should be the training texts only, or reads it if `config`
    /// names a file. The vocabulary starts with the special tokens `special`; every text becomes
    /// `<bos> … <eos>`.
    ///
    /// The keys of `config` for two sides have no effect, and any value of `lowercase` except `none`
    /// lowercases the text. The result depends on the texts and `config`, not on threads or hash seeds.
    ///
    /// ```
    /// use tx_text::{Tokenizer, TokenizerConfig, special::{BOS, EOS, MASK, SpecialTokens}};
    ///
    /// let texts = ["A dog is running.", "A cat is here."];
    /// let tokenizer =
    ///     Tokenizer::train(&TokenizerConfig::default(), SpecialTokens::WithMask, &texts)?;
    /// assert_eq!(tokenizer.mask_id(), Some(MASK));
    /// let ids = tokenizer.encode_with_masks("A <mask> is here.")?;
    /// assert_eq!([ids[0], ids[2], ids[ids.len() - 1]], [BOS, MASK, EOS]);
    /// # Ok::<(), tx_text::TextError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When `config` breaks a rule, or a file cannot be used.
    pub fn train<S: AsRef<str> + Sync>(
        config: &TokenizerConfig,
        special: SpecialTokens,
        texts: &[S],
    ) -> Result<Self, TextError> {
        let texts = texts.iter().map(|text| Ok(Cow::Borrowed(text.as_ref())));
        Self::train_on_stream::<_, TextError>(config, special, texts)
    }

    /// Learns a vocabulary as [`train`](Self::train) does, from a stream of texts.
    ///
    /// # Errors
    ///
    /// Those of [`train`](Self::train), or the first error of the stream.
    pub fn train_on_stream<'a, I, E>(
        config: &TokenizerConfig,
        special: SpecialTokens,
        texts: I,
    ) -> Result<Self, E>
    where
        I: Iterator<Item = Result<Cow<'a, str>, E>> + Send + 'a,
        E: From<TextError> + Send + 'a,
    {
        let problems = config.problems_of_one_text(special);
        if !problems.is_empty() {
            return Err(TextError::TokenizerConfig { problem: problems.join("; ") }.into());
        }
        let failed = FirstError::default();
        let tokenizer = match &config.file {
            Some(file) => import::open(file, special, Ends::BOTH),
            None => {
                let lowercase = match config.lowercase {
                    Lowercase::None => false,
                    Lowercase::Source | Lowercase::Both => true,
                };
                let texts = failed.items_before(texts);
                build::learned(config, special, lowercase, Box::new(texts))
                    .and_then(|inner| Self::finish(inner, Ends::BOTH))
            }
        };
        failed.or(tokenizer.map_err(E::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        special::{BOS, EOS, MASK, MASK_TOKEN},
        tokenizer::{TokenizerKind, WordSplit, tests::KINDS},
    };

    const TEXTS: [&str; 3] = ["go home", "go go, now!", "<mask> is text here: x<mask>y <mask>"];

    fn trained(kind: TokenizerKind, split: WordSplit, special: SpecialTokens) -> Tokenizer {
        let config = TokenizerConfig { kind, split, ..TokenizerConfig::default() };
        Tokenizer::train(&config, special, &[TEXTS; 9].concat()).unwrap()
    }

    #[test]
    fn a_mask_has_its_id_in_every_kind() {
        for kind in KINDS {
            for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
                let masked = trained(kind, split, SpecialTokens::WithMask);
                assert_eq!(masked.mask_id(), Some(MASK), "{kind:?}");
                assert_eq!(masked.token(MASK).as_deref(), Some(MASK_TOKEN));
                let file = masked.to_json().unwrap();
                let opened = Tokenizer::from_json(file.as_bytes(), "x".as_ref()).unwrap();
                assert_eq!(opened.mask_id(), Some(MASK));
                assert_eq!(opened.encode(TEXTS[1]).unwrap(), masked.encode(TEXTS[1]).unwrap());
                assert_eq!(trained(kind, split, SpecialTokens::Standard).mask_id(), None);
            }
        }
    }

    /// The training text contains `<mask>` 27 times, also within a word.
    #[test]
    fn the_text_mask_is_not_the_token() {
        for kind in KINDS {
            for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
                let masked = trained(kind, split, SpecialTokens::WithMask);
                for text in ["<mask>", "go <mask> home", "x<mask>y", "<mask><mask>", "<pad><eos>"] {
                    let ids = masked.encode(text).unwrap();
                    let inside = &ids[1..ids.len() - 1];
                    assert!(inside.iter().all(|&id| id == 3 || id > MASK), "{kind:?}: {ids:?}");
                }
            }
        }
    }

    #[test]
    fn a_text_is_framed_whatever_the_configuration_of_the_source() {
        let config = TokenizerConfig { source_bos: false, ..TokenizerConfig::default() };
        let tokenizer = Tokenizer::train(&config, SpecialTokens::Standard, &TEXTS).unwrap();
        let ids = tokenizer.encode("go").unwrap();
        assert_eq!((ids[0], ids.last()), (BOS, Some(&EOS)));
        assert_eq!(tokenizer.encode("").unwrap(), [BOS, EOS]);
    }

    #[test]
    fn bos_can_be_added_to_the_tokenizer_of_a_source() {
        let pairs = [crate::SentencePair::new("go home", "x")];
        let source = crate::Tokenizers::train(&TokenizerConfig::default(), &pairs).unwrap().source;
        let without = source.encode("go").unwrap();
        let with = source.with_ends(Ends::BOTH).unwrap();
        assert_eq!(with.encode("go").unwrap(), [&[BOS], &without[..]].concat());
        let again = with.clone().with_ends(Ends::BOTH).unwrap();
        assert_eq!(again.encode("go").unwrap(), with.encode("go").unwrap());
    }

    #[test]
    fn keys_of_two_sides_are_refused_or_without_effect() {
        let config = TokenizerConfig {
            vocab_size: 5,
            source_file: Some("a".into()),
            target_file: Some("b".into()),
            ..TokenizerConfig::default()
        };
        let error = Tokenizer::train(&config, SpecialTokens::WithMask, &TEXTS).unwrap_err();
        assert_eq!(
            error.to_string(),
            "tokenizer: `vocab_size` = 5 leaves no room beside the 5 special tokens; `source_file` \
             and `target_file` are for two sides: give the tokenizer as `file`"
        );
        let config = TokenizerConfig { lowercase: Lowercase::Source, ..TokenizerConfig::default() };
        let lowercased = Tokenizer::train(&config, SpecialTokens::Standard, &TEXTS).unwrap();
        assert_eq!(lowercased.encode("GO").unwrap(), lowercased.encode("go").unwrap());
    }

    #[test]
    fn an_error_of_the_stream_is_returned() {
        let texts = [Ok("a".into()), Err(TextError::Empty { path: "x".into() })].into_iter();
        let config = TokenizerConfig::default();
        let error = Tokenizer::train_on_stream(&config, SpecialTokens::Standard, texts);
        assert!(matches!(error, Err(TextError::Empty { .. })));
    }
}
