//! Finding a target for a source: greedy search, beam search and sampling over anything that
//! decodes a batch token by token; and the probability of a target that is given.
//!
//! Axis letters: `R` rows of the batch (sentences, or hypotheses under way), `S` source tokens,
//! `V` target vocabulary.

mod options;

mod engine;
mod request;

mod beam;
mod greedy;
mod sample;

mod forced;

mod candidates;
mod hypothesis;
mod job;
mod scores;

mod decoder;
mod ensemble;

use burn::tensor::Device;
use tx_model::Transformer;

use crate::error::InferError;

pub use engine::Engine;
pub use hypothesis::Hypothesis;
pub use options::{EarlyStopping, LengthNorm, Sampling, SearchOptions};
pub use request::Request;

/// Finds targets for one batch of sources with `model`, which is on `device`; see
/// [`Engine::search`]. For more than one batch, make an [`Engine`] once.
///
/// # Errors
///
/// As [`Engine::search`].
///
/// # Panics
///
/// As [`Engine::search`].
pub fn search(
    model: &Transformer,
    sources: &[&[u32]],
    max_len: usize,
    options: &SearchOptions,
    device: &Device,
) -> Result<Vec<Vec<Hypothesis>>, InferError> {
    Engine::new(model.clone(), device).search(sources, max_len, options)
}

#[cfg(test)]
mod tests;
