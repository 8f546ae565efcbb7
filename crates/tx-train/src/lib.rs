//! Train Transformers for translation with Burn's Learner.
//!
//! [`config`] describes a run. [`corpus`] reads or generates sentence pairs, [`data`] tokenizes and
//! encodes them, [`translation`] is the task: model, loss and validation. [`trainer`] builds all of
//! it and launches [`training`]. [`recording`] writes the files of the run folder, [`reporting`] the
//! output for people.
//!
//! ```
//! use tx_train::{Layers, Recipe};
//!
//! let mut layers = Layers::recipe("reverse")?;
//! layers.set("train.epochs=1")?;
//! let config = layers.finish()?;
//! assert_eq!((config.train.epochs, config.model.d_model), (1, 128));
//! # Ok::<(), tx_train::TrainError>(())
//! ```

pub mod config;

pub mod corpus;
pub mod data;
pub mod statistics;

pub mod translation;

pub mod trainer;
pub mod training;

pub mod recording;
pub mod reporting;

pub mod bench;
pub mod error;
mod interrupt;

pub use config::{
    TrainConfig,
    builder::{Layers, RECIPES, Recipe},
};
pub use error::TrainError;
pub use recording::{
    average::{Which, average},
    run_lock::RunLock,
};
pub use reporting::compare::compare;
pub use statistics::Statistics;
pub use trainer::{Outcome, ResumeFrom, Take, Trainer};
pub use translation::validation::Validation;
pub use tx_data;
