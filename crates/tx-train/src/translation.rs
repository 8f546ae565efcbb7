//! Translation as a [`Task`](crate::task::Task): model with loss, data, validation by translated
//! text.

pub(crate) mod run;
pub mod sample;
pub mod seq2seq;
pub mod teachers;
pub(crate) mod translation_task;
pub mod validation;
