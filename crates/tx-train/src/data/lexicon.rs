//! Words of the training text, for the bundle of a run.

use tx_infer::{Lexicon, LexiconBuilder};
use tx_text::Tokenizers;

use super::{
    DataAccess,
    open::{Opened, texts},
};
use crate::{config::TrainConfig, error::TrainError, interrupt::check};

/// Returns the lexicon of the training text, if the run records one: the whole text of the model must be at hand and
/// not too large.
///
/// # Errors
///
/// If a text cannot be read, or a word not be tokenized.
pub(super) fn lexicon(
    config: &TrainConfig,
    corpora: &[Opened],
    tokenizers: &Tokenizers,
    access: &DataAccess<'_>,
) -> Result<Option<Lexicon>, TrainError> {
    let is_whole = config.from.is_none()
        && config.model.encoder_from.is_none()
        && corpora.iter().all(|it| it.text().is_some() && it.entry.fraction.is_none());
    if !config.data.lexicon || !is_whole {
        return Ok(None);
    }
    let mut builder = LexiconBuilder::default();
    for pair in texts(corpora)? {
        check(access.stop)?;
        let pair = pair?;
        builder.add(&pair.source, &pair.target);
    }
    Ok(builder.finish(&tokenizers.target)?)
}
