//! Random segmentation of the training text of a run.

use tx_data::make_batch::EpochSegmentation;
use tx_text::{BpeDropout, Segmentation, TextError, Tokenizers, UnigramSampling};

use crate::config::TrainConfig;

/// Returns the random segmentation that `config` selects, if any.
///
/// # Errors
///
/// If the tokenizers do not support it.
pub(crate) fn segmentation(
    config: &TrainConfig,
    tokenizers: &Tokenizers,
) -> Result<Option<EpochSegmentation>, TextError> {
    let (train, max_len) = (&config.train, config.max_len());
    let segmentation = match train.unigram_alpha {
        Some(alpha) => Segmentation::Unigram(UnigramSampling::new(tokenizers, alpha, max_len)?),
        None if train.bpe_dropout > 0.0 => {
            Segmentation::BpeDropout(BpeDropout::new(tokenizers, train.bpe_dropout, max_len)?)
        }
        None => return Ok(None),
    };
    Ok(Some(EpochSegmentation::new(segmentation, train.segmentation_epochs)))
}
