//! Tokenizers of source and target, learned or imported.

use std::borrow::Cow;

use super::{
    build::{self, Texts},
    config::{Lowercase, TokenizerConfig},
    ends::Ends,
    import,
    one_side::Tokenizer,
    stream::FirstError,
};
use crate::{
    error::TextError, normalization::Normalization, pair::SentencePair, special::SpecialTokens,
};

/// Special tokens of translation.
const STANDARD: SpecialTokens = SpecialTokens::Standard;

/// Tokenizers of both sides. With a joint vocabulary they differ at most in the special tokens that
/// they add.
#[derive(Debug, Clone)]
pub struct Tokenizers {
    /// Tokenizer of source text.
    pub source: Tokenizer,
    /// Tokenizer of target text.
    pub target: Tokenizer,
}

/// Side of the pairs that a vocabulary is learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Source,
    Target,
    Both,
}

impl Tokenizers {
    /// Learns the vocabularies from `pairs`, which should be the training pairs only, or reads them
    /// if `config` names files.
    ///
    /// The result depends on the texts and `config`, not on threads or hash seeds.
    ///
    /// # Errors
    ///
    /// If `config` breaks a rule, or a file cannot be used.
    pub fn train(config: &TokenizerConfig, pairs: &[SentencePair]) -> Result<Self, TextError> {
        Self::make::<TextError>(config, &|side| {
            let sources = (side != Side::Target).then_some(pairs);
            let targets = (side != Side::Source).then_some(pairs);
            let sources = sources.into_iter().flatten().map(|pair| pair.source.as_str());
            let targets = targets.into_iter().flatten().map(|pair| pair.target.as_str());
            Ok(Box::new(sources.chain(targets).map(Cow::Borrowed)))
        })
    }

    /// Learns the vocabularies as [`train`](Self::train) does, from a stream of pairs. `stream` is
    /// called once for each vocabulary.
    ///
    /// # Errors
    ///
    /// Same as [`train`](Self::train), or the first error of the stream.
    pub fn train_on_stream<'a, I, E>(
        config: &TokenizerConfig,
        stream: impl Fn() -> Result<I, E>,
    ) -> Result<Self, E>
    where
        I: Iterator<Item = Result<SentencePair, E>> + Send + 'a,
        E: From<TextError> + Send + 'a,
    {
        let failed = FirstError::default();
        let tokenizers = Self::make::<E>(config, &|side| {
            let pairs = failed.items_before(stream()?);
            let texts = pairs.flat_map(move |SentencePair { source, target, .. }| {
                let source = (side != Side::Target).then_some(source);
                source.into_iter().chain((side != Side::Source).then_some(target))
            });
            Ok(Box::new(texts.map(Cow::Owned)))
        });
        failed.or(tokenizers)
    }

    fn make<'a, E: From<TextError>>(
        config: &TokenizerConfig,
        texts: &dyn Fn(Side) -> Result<Texts<'a>, E>,
    ) -> Result<Self, E> {
        let problems = config.problems();
        if !problems.is_empty() {
            return Err(TextError::TokenizerConfig { problem: problems.join("; ") }.into());
        }
        let lower = |side| match config.lowercase {
            Lowercase::None => false,
            Lowercase::Source => side == Side::Source,
            Lowercase::Both => true,
        };
        let ends = |side| match side {
            Side::Source => Ends { bos: config.source_bos, eos: config.source_eos },
            Side::Target | Side::Both => Ends::BOTH,
        };
        let learned = |side| {
            let inner = build::learned(config, STANDARD, lower(side), texts(side)?)?;
            Ok::<_, E>(Tokenizer::finish(inner, ends(side))?)
        };
        let open = |file, side| import::open(file, STANDARD, ends(side));
        let (source, target) = match (&config.file, &config.source_file, &config.target_file) {
            (Some(file), ..) => {
                let target = open(file, Side::Both)?;
                (target.clone().with_ends(ends(Side::Source))?, target)
            }
            (None, Some(source), Some(target)) => {
                (open(source, Side::Source)?, open(target, Side::Target)?)
            }
            _ if config.joint => {
                let target = learned(Side::Both)?;
                (target.clone().with_ends(ends(Side::Source))?, target)
            }
            _ => (learned(Side::Source)?, learned(Side::Target)?),
        };
        Ok(Self { source, target })
    }

    /// Adds special tokens to the tokenizer of each side, or those of both sides to both if `config` makes
    /// the tokenizers equal.
    ///
    /// # Errors
    ///
    /// Same as [`Tokenizer::with_special_tokens`].
    pub fn with_special_tokens(
        self,
        config: &TokenizerConfig,
        mut source: Vec<String>,
        mut target: Vec<String>,
    ) -> Result<Self, TextError> {
        if source.is_empty() && target.is_empty() {
            return Ok(self);
        }
        if config.joint || config.file.is_some() {
            source.append(&mut target);
            target.clone_from(&source);
        }
        Ok(Self {
            source: self.source.with_special_tokens(&source)?,
            target: self.target.with_special_tokens(&target)?,
        })
    }

    /// Adds the steps of a normalization to both tokenizers, as
    /// [`with_steps_of`](Tokenizer::with_steps_of) does.
    #[must_use]
    pub fn with_steps_of(self, normalization: Normalization) -> Self {
        let [source, target] = [self.source, self.target].map(|it| it.with_steps_of(normalization));
        Self { source, target }
    }
}

impl From<Tokenizer> for Tokenizers {
    /// Uses one tokenizer for both sides, for tasks with one text.
    fn from(tokenizer: Tokenizer) -> Self {
        Self { source: tokenizer.clone(), target: tokenizer }
    }
}
