//! Search for targets of a source: greedy search, beam search and sampling with any incremental decoder;
//! and the probability of given targets.
//!
//! Axis letters: `R` rows of the batch (sentences, or live hypotheses), `S` source tokens, `V` target
//! vocabulary.

mod options;

mod engine;
mod request;
mod start;

mod beam;
mod beam_step;
mod greedy;
mod sample;

mod cross_attention;
mod target_scores;

mod candidates;
mod constraints;
mod hypothesis;
mod scores;
mod state;

mod decoder;
mod ensemble;
#[cfg(all(feature = "kernels", not(feature = "fusion")))]
mod look_ahead;
#[cfg(feature = "burn")]
mod tensors;

pub use beam_step::{BeamCandidate, BeamStep, Outcome};
pub use constraints::Constraints;
pub(crate) use constraints::{Constraint, Form, MAX_CONSTRAINTS};
pub use engine::Engine;
pub(crate) use engine::{Member, NOT_SINGLE};
pub use hypothesis::Hypothesis;
pub(crate) use hypothesis::strongest;
pub(crate) use options::alignment_layer;
pub use options::{EarlyStopping, GlossaryUse, LengthNorm, LexiconUse, Sampling, SearchOptions};
pub use request::Request;
pub use start::start_id;

#[cfg(test)]
mod cancelling;
#[cfg(test)]
mod parity;
#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
