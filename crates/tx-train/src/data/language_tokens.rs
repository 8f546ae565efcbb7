//! Tokens that select the languages of a multilingual model.

use tx_data::AddedIds;
use tx_infer::bundle::{LanguagePlacement, Languages};
use tx_text::Tokenizers;

use crate::{
    config::{CorpusConfig, LanguageCodes},
    error::TrainError,
};

/// Returns the languages of `entry`, of those of a model.
///
/// # Errors
///
/// If a language is missing or unknown.
pub(super) fn codes(
    entry: &CorpusConfig,
    languages: &Languages,
) -> Result<LanguageCodes, TrainError> {
    LanguageCodes::choose(languages, entry).map_err(|problems| TrainError::Problems { problems })
}

/// Returns the language tokens of the pairs of `entry`; none for a model of one language pair.
///
/// # Errors
///
/// If a language is missing or unknown.
pub(super) fn language_tokens(
    entry: &CorpusConfig,
    languages: Option<&Languages>,
    tokenizers: &Tokenizers,
) -> Result<AddedIds, TrainError> {
    let Some(languages) = languages else { return Ok(AddedIds::default()) };
    let codes = codes(entry, languages)?;
    let token = |code: &str| languages.token_of(code);
    let Tokenizers { source, target } = tokenizers;
    let (of_source, of_target) = match languages.placement {
        LanguagePlacement::TargetInSource => (source.special_id(&token(&codes.target)), None),
        LanguagePlacement::BothSides => (
            codes.source.as_ref().and_then(|code| source.special_id(&token(code))),
            target.special_id(&token(&codes.target)),
        ),
    };
    Ok(AddedIds {
        source: of_source.into_iter().collect(),
        target: of_target.into_iter().collect(),
    })
}
