//! Configuration of a run: its sections, the named recipes, and the builder that merges a recipe,
//! a file and single settings.

pub mod builder;
mod data;
pub(crate) mod diff;
mod interval;
mod optimization;
mod train_config;

pub(crate) use train_config::CONFIG_FILE;

pub use data::{DataConfig, DataSource, OverlapPolicy};
pub use interval::Interval;
pub use optimization::{OnNonFinite, OptimizationConfig, OptimizerKind};
pub use train_config::{
    BestBy, BleuTokenizer, CheckpointConfig, MetricsConfig, TrainConfig, ValidationConfig,
};
