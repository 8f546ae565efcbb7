//! Train Transformers for translation, classification and language modeling with Burn's Learner.
//!
//! [`config`] describes a run. [`corpus`] reads or generates sentence pairs and labeled texts,
//! [`data`] tokenizes and encodes them and documents. A [`task`] has a model, its loss and its
//! validation: [`translation`], [`classification`], [`language_modeling`] and
//! [`masked_language_modeling`]. [`trainer`] prepares data, builds the parts of a run and launches
//! the loop of [`training`], on one of several [`ranks`] if there are more. [`recording`] writes the files of a run folder, [`reporting`] the
//! output for people.
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
pub mod synthetic;

pub mod bundle_parts;
pub mod loss;
pub mod task;
mod task_run;
pub mod validation_report;

pub mod classification;
pub mod language_modeling;
pub mod masked_language_modeling;
pub mod translation;

mod fine_tuning;
pub mod ranks;
pub mod trainer;
pub mod training;

pub mod recording;
pub mod reporting;

mod average;
pub mod bench;
pub mod error;
mod interrupt;
mod learner_steps;
mod memory;

pub use average::average;
pub use config::{ConfigBuilder, RECIPES, Recipe, TrainConfig};
pub use error::TrainError;
pub use recording::{average::CheckpointSelection, run_lock::RunLock};
pub use reporting::compare::compare;
pub use statistics::Statistics;
pub use trainer::{OnMismatch, Outcome, ResumeFrom, TaskValidation, Trainer};
pub use translation::validation::Validation;
pub use {
    tx_data, tx_infer::TaskKind, tx_kernels::instruction_set::InstructionSet,
    tx_model::ProductPrecision, tx_text,
};
