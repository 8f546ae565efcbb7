//! Where sentence pairs come from.

pub mod generated;
pub mod local;
pub mod phrasebook;
