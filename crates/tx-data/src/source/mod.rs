//! Where sentence pairs come from.

pub mod generated;
pub mod local;
