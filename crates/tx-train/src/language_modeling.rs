//! Language modeling as a [`Task`](crate::task::Task): decoder alone, which predicts each token of a
//! document from those before it.

mod model;
pub mod report;
pub(crate) mod run;
pub(crate) mod task;

pub use model::TrainedLanguageModel;
