//! Validation sets that are given, as text.

use tx_data::{DataError, context::Documents};
use tx_text::SentencePair;

use super::DataAccess;
use crate::{
    config::{CorpusConfig, TrainConfig},
    corpus,
    error::TrainError,
};

/// Name of validation pairs in errors.
pub(super) const ALL: &str = "the validation data";

/// Text of a validation set.
pub(super) struct ValidationText {
    /// Name; empty if it is the only set and has none.
    pub name: String,
    /// Languages, and source if it is given.
    pub entry: CorpusConfig,
    pub pairs: Vec<SentencePair>,
}

/// Reads the validation sets that are given; none if pairs are held out, or prepared with those of
/// training.
///
/// # Errors
///
/// If a file cannot be read, or a set has no pair.
pub(super) fn given(
    config: &TrainConfig,
    access: &DataAccess<'_>,
) -> Result<Vec<ValidationText>, TrainError> {
    let mut sets = Vec::new();
    for entry in config.data.validation_sets() {
        access.check()?;
        access.print_columns(config, &entry);
        if config.data.prepared.is_some() {
            continue;
        }
        let is_named = !config.data.valid.is_empty();
        let name = if is_named { entry.name() } else { String::new() };
        let Some(pairs) = corpus::validation(config, &entry, access.cache)? else {
            // A corpus without validation part, which the only set may be.
            if is_named {
                let reason = "the corpus has no validation part".to_owned();
                return Err(DataError::NoPairs { what: entry.name(), reason }.into());
            }
            continue;
        };
        let pairs = with_context(config, &entry, pairs.collect::<Result<_, _>>()?);
        if pairs.is_empty() {
            let what = if is_named { format!("`{}`", entry.name()) } else { ALL.into() };
            let reason = "it is empty".to_owned();
            return Err(match config.task.has_one_text() {
                true => DataError::NoTexts { what, reason },
                false => DataError::NoPairs { what, reason },
            }
            .into());
        }
        sets.push(ValidationText { name, entry, pairs });
    }
    Ok(sets)
}

/// Adds the context of validation pairs, if the model has context.
pub(super) fn with_context(
    config: &TrainConfig,
    entry: &CorpusConfig,
    pairs: Vec<SentencePair>,
) -> Vec<SentencePair> {
    match corpus::context(config, entry) {
        Some(context) => Documents::of_pairs(context.sentences, pairs),
        None => pairs,
    }
}
