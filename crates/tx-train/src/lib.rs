//! Train Transformers for translation with Burn's Learner.
//!
//! The road of a run: a [`recipe`] and settings laid over it give a [`config`]; [`corpus`] reads or
//! generates the pairs, [`data`] turns them into ids; [`trainer`] puts tokenizers, model and optimizer together and launches the
//! loop of `strategy`, which makes each update ([`mod@step`]: [`loss`], gradients, clipping; the
//! learning rate from [`schedule`]), checks the model ([`validate`]), keeps the best as a bundle and
//! a [`checkpoint`] to go on from, of which an [`average`](mod@average) can be taken. [`progress`]
//! is what a person sees of all that, [`metrics`] what is left for programs and TensorBoard, and
//! [`report`] a page of it.
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
pub mod recipe;
pub mod statistics;

pub mod trainer;

pub mod adam;
pub mod loss;
pub mod schedule;
pub mod step;
mod strategy;

pub mod average;
pub mod bench;
pub mod checkpoint;
mod compare;
mod dashboard;
mod ema;
mod interrupt;
mod memory;
pub mod metrics;
pub mod progress;
pub mod report;
mod run_lock;
pub mod sample;
mod settings;
mod silent;
mod tensorboard;
pub mod validate;

pub mod error;

pub use average::{Which, average};
pub use compare::compare;
pub use config::TrainConfig;
pub use error::TrainError;
pub use recipe::{Layers, RECIPES, Recipe};
pub use run_lock::RunLock;
pub use statistics::Statistics;
pub use trainer::{Outcome, ResumeFrom, Take, Trainer};
pub use validate::Validation;
pub use {tx_data, tx_text};
