//! Classification of texts as a [`Task`](crate::task::Task): encoder alone, with a label for each
//! text.

mod model;
pub mod report;
pub(crate) mod run;
pub(crate) mod task;

pub use model::TrainedClassifier;
