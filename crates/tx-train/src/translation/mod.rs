//! Translation as a [`Task`](crate::task::Task): model with loss, validation by translated text,
//! bundles.

pub mod average;
pub mod loss;
pub(crate) mod memory;
pub mod sample;
pub mod seq2seq;
pub(crate) mod translation_task;
pub mod validation;
