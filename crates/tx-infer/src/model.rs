//! Models of the tasks: on the packed engine, and as modules of Burn.

use std::fmt::Debug;

#[cfg(feature = "burn")]
use burn::{
    module::Module,
    tensor::{DType, Device, FloatDType},
};
use tx_engine::{
    PackedClassifier, PackedLanguageModel, PackedMaskedLanguageModel, PackedTransformer,
    WeightSource,
};
#[cfg(feature = "burn")]
use tx_model::{Classifier, LanguageModel, MaskedLanguageModel, Transformer};
use tx_model::{ConfigError, ModelConfig, VocabSizes};

use crate::task::{ModelTask, TaskKind};

/// Model of the packed engine, whose weights are those of a bundle.
pub trait PackedModel: Clone + Debug + Send + Sync + Sized + 'static {
    /// Task of the model.
    const TASK: TaskKind;

    /// The same model as a module.
    #[cfg(feature = "burn")]
    type Module: BundleModel + Debug + Sync;

    /// Packs the weights of a model. `vocab` has the [padded](ModelConfig::padded) sizes.
    ///
    /// # Errors
    ///
    /// If `config` breaks a rule or `task` is not [`TASK`](Self::TASK).
    fn pack(
        config: &ModelConfig,
        vocab: VocabSizes,
        task: &ModelTask,
        weights: &dyn WeightSource,
    ) -> Result<Self, ConfigError>;

    /// Packs the weights of a module.
    #[cfg(feature = "burn")]
    fn from_module(module: &Self::Module) -> Self;
}

/// Module whose weights are those of a bundle.
#[cfg(feature = "burn")]
pub trait BundleModel: Module {
    /// Task of the model.
    const TASK: TaskKind;

    /// Creates a model for weights that are loaded later. `vocab` has the
    /// [padded](ModelConfig::padded) sizes.
    ///
    /// # Errors
    ///
    /// If `config` breaks a rule or `task` is not [`TASK`](Self::TASK).
    fn uninitialized(
        config: &ModelConfig,
        vocab: VocabSizes,
        task: &ModelTask,
        device: &Device,
    ) -> Result<Self, ConfigError>;

    /// Returns the dtype of the parameters.
    fn dtype(&self) -> DType;

    /// Casts all parameters to `dtype`, in which the model then computes.
    fn cast(self, dtype: FloatDType) -> Self;
}

/// Implements both traits for the models of a task, whose constructors take the given sizes.
macro_rules! models {
    ($kind:ident, $packed:ident, $module:ident, $task:pat, |$vocab:ident| $($size:expr),+) => {
        impl PackedModel for $packed {
            const TASK: TaskKind = TaskKind::$kind;

            #[cfg(feature = "burn")]
            type Module = $module;

            fn pack(
                config: &ModelConfig,
                $vocab: VocabSizes,
                task: &ModelTask,
                weights: &dyn WeightSource,
            ) -> Result<Self, ConfigError> {
                let $task = task else { return Err(wrong_task(task, TaskKind::$kind)) };
                Self::pack(config, $($size,)+ weights)
            }

            #[cfg(feature = "burn")]
            fn from_module(module: &$module) -> Self {
                Self::from(module)
            }
        }

        #[cfg(feature = "burn")]
        impl BundleModel for $module {
            const TASK: TaskKind = TaskKind::$kind;

            fn uninitialized(
                config: &ModelConfig,
                $vocab: VocabSizes,
                task: &ModelTask,
                device: &Device,
            ) -> Result<Self, ConfigError> {
                let $task = task else { return Err(wrong_task(task, TaskKind::$kind)) };
                Self::uninitialized(config, $($size,)+ device)
            }

            fn dtype(&self) -> DType {
                self.dtype()
            }

            fn cast(self, dtype: FloatDType) -> Self {
                self.cast(dtype)
            }
        }
    };
}

models!(Translate, PackedTransformer, Transformer, ModelTask::Translate, |vocab| vocab);
models!(
    Classify,
    PackedClassifier,
    Classifier,
    ModelTask::Classify { labels, pooling },
    |vocab| vocab.target,
    labels.len(),
    *pooling
);
models!(Generate, PackedLanguageModel, LanguageModel, ModelTask::Generate, |vocab| vocab.target);
models!(FillMask, PackedMaskedLanguageModel, MaskedLanguageModel, ModelTask::FillMask, |vocab| {
    vocab.target
});

/// Error of a task that needs another model than one for `expected`.
pub(crate) fn wrong_task(task: &ModelTask, expected: TaskKind) -> ConfigError {
    let problem = format!("`task` = {} needs another model, expected {expected}", task.kind());
    ConfigError { problems: vec![problem] }
}
