//! Tokenizers of a run: known, those of a prepared corpus, or learned.

use std::borrow::Cow;

use tx_data::DataError;
use tx_infer::bundle::{LanguagePlacement, Languages};
use tx_text::{
    Lowercase, SentencePair, Tokenizer, TokenizerConfig, Tokenizers, context::SEPARATOR,
    special::SpecialTokens,
};

use super::{
    DataAccess, Known,
    open::{Opened, OpenedPairs, texts},
    prepared::tokenizer_settings,
};
use crate::{config::TrainConfig, error::TrainError, interrupt::check};

/// Form of the language tokens of a new multilingual model, as in OPUS-MT.
const LANGUAGE_TOKEN: &str = ">>{}<<";

/// Tokenizers of a run, with the languages of a multilingual model.
pub(super) struct Vocabulary {
    pub tokenizers: Tokenizers,
    pub languages: Option<Languages>,
}

/// Returns the tokenizers that are `known`, or else those of a prepared corpus, or learns them from
/// the text of all `corpora`. They have tokens of all languages and tags.
///
/// # Errors
///
/// If a text cannot be read or no tokenizer learned from it, or a prepared corpus has other
/// settings.
pub(super) fn vocabulary(
    config: &TrainConfig,
    known: Known,
    corpora: &[Opened],
    access: &DataAccess<'_>,
) -> Result<Vocabulary, TrainError> {
    let (tokenizers, languages) = match known {
        Known::Both(tokenizers, languages) => (tokenizers, languages),
        Known::Source(source) => (with_source(source, config, corpora, access)?, None),
        Known::None => (own(config, corpora, access)?, None),
    };
    // The tokenizers of a prepared corpus record the normalization of its text.
    let texts = corpora.iter().filter_map(Opened::text);
    let tokenizers =
        texts.fold(tokenizers, |tokenizers, text| tokenizers.with_steps_of(text.normalization));
    let languages = languages.or_else(|| new_languages(config));
    let tokenizers = with_special_tokens(config, tokenizers, languages.as_ref())?;
    access.print_vocabulary(config, &tokenizers);
    Ok(Vocabulary { tokenizers, languages })
}

/// Returns the tokenizers of the first prepared corpus, or learns them.
fn own(
    config: &TrainConfig,
    corpora: &[Opened],
    access: &DataAccess<'_>,
) -> Result<Tokenizers, TrainError> {
    let prepared = corpora.iter().find_map(|corpus| match &corpus.pairs {
        OpenedPairs::Text(_) => None,
        OpenedPairs::Prepared(corpus) => Some(corpus),
    });
    if let Some(corpus) = prepared {
        corpus.check_section("tokenizer", &tokenizer_settings(config))?;
        return Ok(corpus.tokenizers.clone());
    }
    let stop = access.stop;
    let tokenizers = Tokenizers::train_on_stream(&config.tokenizer, || {
        let checked = |pair: Result<Cow<'_, SentencePair>, DataError>| {
            check(stop)?;
            Ok(pair?.into_owned())
        };
        Ok::<_, TrainError>(texts(corpora)?.map(checked))
    })?;
    access.check()?;
    Ok(tokenizers)
}

/// Returns the tokenizer of the bundle that the encoder comes from, `source`, with one of the
/// targets: the same, that of a prepared corpus, or one that is learned.
fn with_source(
    source: Tokenizer,
    config: &TrainConfig,
    corpora: &[Opened],
    access: &DataAccess<'_>,
) -> Result<Tokenizers, TrainError> {
    if let Some(folder) = corpora.iter().find_map(|corpus| corpus.entry.prepared.as_ref()) {
        let tokenizers = own(config, corpora, access)?;
        if !source.has_ids_of(&tokenizers.source)? {
            let what = "its tokenizers differ from those of the weights to start from".into();
            return Err(DataError::StalePrepared { path: folder.clone(), what }.into());
        }
        return Ok(tokenizers);
    }
    if config.tokenizer.joint {
        return Ok(source.into());
    }
    // With one text, every value but `none` lowercases it.
    let lowercase = match config.tokenizer.lowercase {
        Lowercase::Both => Lowercase::Both,
        Lowercase::None | Lowercase::Source => Lowercase::None,
    };
    let config = TokenizerConfig { lowercase, ..config.tokenizer.clone() };
    let targets = texts(corpora)?.map(|pair| pair.map(|pair| Cow::Owned(pair.into_owned().target)));
    let special = SpecialTokens::Standard;
    let target = Tokenizer::train_on_stream::<_, DataError>(&config, special, targets)?;
    Ok(Tokenizers { source, target })
}

/// Languages of a new multilingual model; `None` for a model of one language pair.
fn new_languages(config: &TrainConfig) -> Option<Languages> {
    let placement = config.data.language_tokens?;
    let mut languages = Languages {
        placement,
        token: LANGUAGE_TOKEN.into(),
        source: Vec::new(),
        target: Vec::new(),
        default_source: None,
        default_target: None,
    };
    for entry in config.data.corpora() {
        for (list, code) in [
            (&mut languages.source, entry.source_language),
            (&mut languages.target, entry.target_language),
        ] {
            list.extend(code.filter(|code| !list.contains(code)));
        }
    }
    Some(languages)
}

/// Adds the separator of context and the tokens of languages and tags that `tokenizers` lack.
///
/// # Errors
///
/// If a tokenizer cannot be changed, or that of a bundle to start from has no separator.
pub(super) fn with_special_tokens(
    config: &TrainConfig,
    tokenizers: Tokenizers,
    languages: Option<&Languages>,
) -> Result<Tokenizers, TrainError> {
    // Tokenizers of a prepared corpus have the separator first.
    let separator = (config.data.context > 0).then(|| SEPARATOR.to_owned());
    let tags = config.data.corpora().into_iter().filter_map(|entry| entry.tag);
    let mut source: Vec<String> = separator.into_iter().chain(tags).collect();
    let mut target = Vec::new();
    if let Some(languages) = languages {
        let tokens = |codes: &[String]| -> Vec<String> {
            codes.iter().map(|code| languages.token_of(code)).collect()
        };
        match languages.placement {
            LanguagePlacement::TargetInSource => source.extend(tokens(&languages.target)),
            LanguagePlacement::BothSides => {
                source.extend(tokens(&languages.source));
                target.extend(tokens(&languages.target));
            }
        }
    }
    // Weights of an existing model have no rows for new tokens, so they must exist already.
    if config.from.is_some() {
        if config.data.context > 0 && tokenizers.source.special_id(SEPARATOR).is_none() {
            let problem = format!(
                "[data] `context` = {}, but the bundle in `from` was trained without context: its \
                 vocabulary has no {SEPARATOR}",
                config.data.context
            );
            return Err(TrainError::Problems { problems: vec![problem] });
        }
        return Ok(tokenizers);
    }
    Ok(tokenizers.with_special_tokens(&config.tokenizer, source, target)?)
}
