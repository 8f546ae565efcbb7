//! Masked language modeling as a [`Task`](crate::task::Task) (Devlin et al. 2019): encoder alone,
//! which predicts masked tokens from those around them.

mod model;
pub mod report;
pub(crate) mod run;
pub(crate) mod task;

pub use model::TrainedMaskedLanguageModel;
