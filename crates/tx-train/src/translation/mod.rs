//! Translation: loss, validation by translated text, memory estimate.

pub mod loss;
pub(crate) mod memory;
pub mod sample;
pub mod validation;
