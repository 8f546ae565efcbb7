//! Train Transformers for translation with Burn's Learner.
//!
//! [`config`] describes a run. [`corpus`] reads or generates sentence pairs, [`data`] tokenizes and
//! encodes them. A [`task`] has a model, its loss and its validation; [`translation`] is the only
//! one so far. [`trainer`] prepares data, builds the parts of a run and launches the loop of
//! [`training`]. [`recording`] writes the files of a run folder, [`reporting`] the output for
//! people.
//!
//! ```
//! use tx_train::ConfigBuilder;
//!
//! let mut builder = ConfigBuilder::from_recipe("reverse")?;
//! builder.set("train.epochs=1")?;
//! let config = builder.build()?;
//! assert_eq!((config.train.epochs, config.model.d_model), (1, 128));
//! # Ok::<(), tx_train::TrainError>(())
//! ```

pub mod config;

pub mod corpus;
pub mod data;
pub mod statistics;

pub mod task;
pub mod translation;

pub mod trainer;
pub mod training;

pub mod recording;
pub mod reporting;

pub mod bench;
pub mod error;
mod interrupt;

pub use config::{ConfigBuilder, RECIPES, Recipe, TrainConfig};
pub use error::TrainError;
pub use recording::{average::CheckpointSelection, run_lock::RunLock};
pub use reporting::compare::compare;
pub use statistics::Statistics;
pub use trainer::{OnMismatch, Outcome, ResumeFrom, Trainer};
pub use translation::{average::average, validation::Validation};
pub use {tx_data, tx_text};
