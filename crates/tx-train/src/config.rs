//! Configuration of a run: its sections, the named recipes, and the builder that combines a recipe,
//! a file and single settings.

mod budget;
mod builder;
mod classification;
mod corpus;
mod data;
mod data_source;
mod distillation;
mod fine_tuning;
mod guided_alignment;
mod interval;
mod language_codes;
mod masking;
mod optimization;
mod parent;
mod problems;
mod recipe;
mod similar;
pub(crate) mod table;
mod train_config;
mod trained_weights;
mod validation;
mod weight_selection;

pub use budget::Budget;
pub use builder::ConfigBuilder;
pub use classification::{ClassWeights, ClassificationConfig, NamedWeights};
pub use corpus::CorpusConfig;
pub use data::{DataConfig, OverlapPolicy};
pub use data_source::DataSource;
pub use distillation::{DistillationConfig, TeacherFolders};
pub use fine_tuning::{LoraConfig, RateFactor};
pub use guided_alignment::GuidedAlignmentConfig;
pub use interval::Interval;
pub(crate) use language_codes::LanguageCodes;
pub use masking::MaskingConfig;
pub use optimization::{OnNonFinite, OptimizationConfig, OptimizerKind, Schedule};
pub use parent::ParentBundle;
pub use recipe::{RECIPES, Recipe};
pub(crate) use train_config::{CONFIG_FILE, task_of_run};
pub use train_config::{CheckpointConfig, MetricsConfig, TrainConfig};
pub use validation::{BestBy, BleuTokenizer, ValidationConfig};
pub(crate) use weight_selection::selects;
