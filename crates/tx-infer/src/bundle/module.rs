//! Bundles whose weights are a module: saving a trained model, and loading one to train on.

use std::{fs, io, ops::Range, path::Path};

use burn::{
    module::Module,
    store::{ModuleSnapshot, SafetensorsStore},
    tensor::{DType, Device, FloatDType},
};
use tx_model::{
    Classifier, ConfigError, LanguageModel, MaskedLanguageModel, ModelConfig, Transformer,
    VocabSizes,
};
use tx_text::Tokenizers;

use super::{
    Bundle, CONFIG, Languages, WEIGHTS, config::WeightDtype, padding, parts::Parts, vocabulary,
};
use crate::{
    error::InferError,
    fill_mask::FillMask,
    generator::Generator,
    precision::Precision,
    search::{Engine, SearchOptions},
    task::{ModelTask, TaskKind},
    translator::Translator,
};

/// Module whose weights are those of a bundle.
pub trait BundleModel: Module {
    /// Task of the model.
    const TASK: TaskKind;

    /// Creates a model for weights that are loaded later. `vocab` has the
    /// [padded](ModelConfig::padded) sizes.
    ///
    /// # Errors
    ///
    /// [`InferError::Model`] if `config` breaks a rule or `task` is not [`TASK`](Self::TASK).
    fn uninitialized(
        config: &ModelConfig,
        vocab: VocabSizes,
        task: &ModelTask,
        device: &Device,
    ) -> Result<Self, InferError>;

    /// Returns the dtype of the parameters.
    fn dtype(&self) -> DType;

    /// Casts all parameters to `dtype`, in which the model then computes.
    fn cast(self, dtype: FloatDType) -> Self;
}

/// # Errors
///
/// [`InferError::Model`] if `task` is of another kind.
fn check_task(task: &ModelTask, expected: TaskKind) -> Result<(), InferError> {
    if task.kind() == expected { Ok(()) } else { Err(wrong_task(task, expected)) }
}

fn wrong_task(task: &ModelTask, expected: TaskKind) -> InferError {
    let problem = format!("`task` = {} needs another model, expected {expected}", task.kind());
    ConfigError { problems: vec![problem] }.into()
}

impl BundleModel for Transformer {
    const TASK: TaskKind = TaskKind::Translate;

    fn uninitialized(
        config: &ModelConfig,
        vocab: VocabSizes,
        task: &ModelTask,
        device: &Device,
    ) -> Result<Self, InferError> {
        check_task(task, Self::TASK)?;
        Ok(Self::uninitialized(config, vocab, device)?)
    }

    fn dtype(&self) -> DType {
        self.dtype()
    }

    fn cast(self, dtype: FloatDType) -> Self {
        self.cast(dtype)
    }
}

impl BundleModel for Classifier {
    const TASK: TaskKind = TaskKind::Classify;

    fn uninitialized(
        config: &ModelConfig,
        vocab: VocabSizes,
        task: &ModelTask,
        device: &Device,
    ) -> Result<Self, InferError> {
        let ModelTask::Classify { labels, pooling } = task else {
            return Err(wrong_task(task, Self::TASK));
        };
        Ok(Self::uninitialized(config, vocab.target, labels.len(), *pooling, device)?)
    }

    fn dtype(&self) -> DType {
        self.dtype()
    }

    fn cast(self, dtype: FloatDType) -> Self {
        self.cast(dtype)
    }
}

impl BundleModel for LanguageModel {
    const TASK: TaskKind = TaskKind::Generate;

    fn uninitialized(
        config: &ModelConfig,
        vocab: VocabSizes,
        task: &ModelTask,
        device: &Device,
    ) -> Result<Self, InferError> {
        check_task(task, Self::TASK)?;
        Ok(Self::uninitialized(config, vocab.target, device)?)
    }

    fn dtype(&self) -> DType {
        self.dtype()
    }

    fn cast(self, dtype: FloatDType) -> Self {
        self.cast(dtype)
    }
}

impl BundleModel for MaskedLanguageModel {
    const TASK: TaskKind = TaskKind::FillMask;

    fn uninitialized(
        config: &ModelConfig,
        vocab: VocabSizes,
        task: &ModelTask,
        device: &Device,
    ) -> Result<Self, InferError> {
        check_task(task, Self::TASK)?;
        Ok(Self::uninitialized(config, vocab.target, device)?)
    }

    fn dtype(&self) -> DType {
        self.dtype()
    }

    fn cast(self, dtype: FloatDType) -> Self {
        self.cast(dtype)
    }
}

/// A bundle in memory, whose weights are those of a module: by default a [`Transformer`].
#[derive(Debug, Clone)]
pub struct ModuleBundle<M = Transformer> {
    /// The model, on a device.
    pub model: M,
    /// Task of the model.
    pub task: ModelTask,
    /// Configuration of the model.
    pub config: ModelConfig,
    /// Tokenizers of both sides, which are equal for tasks with one text.
    pub tokenizers: Tokenizers,
    /// Languages of a multilingual model for translation.
    pub languages: Option<Languages>,
    /// Default search options of the model.
    pub search: Option<SearchOptions>,
    /// Origin of the model, for information.
    pub provenance: toml::Table,
}

impl ModuleBundle {
    /// Prepares the model, which is on `device`, for searching.
    pub fn engine(&self, device: &crate::Device) -> Engine {
        Engine::from_transformer(self.model.clone(), self.config.max_len, device)
            .with_padding(self.padding())
            .with_start(self.config.decoder_start)
    }

    /// Creates a translator with the model, which is on `device`.
    pub fn into_translator(self, device: &crate::Device) -> Translator {
        let padding = self.padding();
        let Self { model, config, tokenizers, languages, search, .. } = self;
        let engine = Engine::from_transformer(model, config.max_len, device);
        let engine = engine.with_padding(padding).with_start(config.decoder_start);
        Translator::from_engine(engine, config, tokenizers).with_defaults(languages, search)
    }
}

impl ModuleBundle<Classifier> {
    /// Creates a classifier of texts with the model, which is on `device`.
    pub fn into_classifier(self, device: &crate::Device) -> crate::Classifier {
        let Self { model, task, config, tokenizers, .. } = self;
        crate::Classifier::from_module(model, &config, &tokenizers, &task, device)
    }
}

impl ModuleBundle<LanguageModel> {
    /// Creates a generator with the model, which is on `device`.
    pub fn into_generator(self, device: &crate::Device) -> Generator {
        Generator::from_module(self, device)
    }
}

impl ModuleBundle<MaskedLanguageModel> {
    /// Creates a model that replaces masks, with the model, which is on `device`.
    pub fn into_fill_mask(self, device: &crate::Device) -> FillMask {
        let Self { model, config, tokenizers, .. } = self;
        FillMask::from_module(model, &config, &tokenizers, device)
    }
}

impl<M: BundleModel> ModuleBundle<M> {
    /// Opens the bundle in `folder` and loads its weights on `device`.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::open`]; [`InferError::WrongTask`] if the model is for another task.
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self, InferError> {
        let bundle = Bundle::open(folder)?;
        let model = bundle.module(device)?;
        let Bundle { task, config, tokenizers, languages, search, provenance, .. } = bundle;
        Ok(Self { model, task, config, tokenizers, languages, search, provenance })
    }

    /// Returns the number of ids of each side's tokenizer.
    pub fn vocabulary(&self) -> VocabSizes {
        vocabulary(&self.tokenizers)
    }

    /// Casts the model, which is on `device`, to `precision`.
    ///
    /// # Errors
    ///
    /// If the device does not support the precision.
    pub fn in_precision(self, precision: Precision, device: &Device) -> Result<Self, InferError> {
        precision.check(&crate::Device::Burn(device.clone()))?;
        Ok(Self { model: self.model.cast(precision.float_dtype()?), ..self })
    }

    pub(crate) fn padding(&self) -> Range<u32> {
        padding(&self.config, self.vocabulary())
    }

    /// Writes the bundle into `folder`, which is created if necessary; a bundle there is replaced.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, `task` is not that of the model, or languages or search options
    /// are invalid. A bundle of the same run that was in the folder stays usable.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), InferError> {
        let folder = folder.as_ref();
        check_task(&self.task, M::TASK)?;
        let parts = Parts {
            task: &self.task,
            config: &self.config,
            tokenizers: &self.tokenizers,
            languages: self.languages.as_ref(),
            search: self.search.as_ref(),
            provenance: &self.provenance,
            weights: WeightDtype::F32,
        };
        parts.contents(folder)?.write(folder)?;
        let weights = folder.join(WEIGHTS);
        save(&self.model, &weights, &folder.join(CONFIG))
            .map_err(|error| InferError::Write { path: weights, source: io::Error::other(error) })
    }
}

/// Loads the weights of the file at `path` into `model`.
pub(super) fn load<M: BundleModel>(mut model: M, path: &Path) -> Result<M, InferError> {
    let problem = |problem| InferError::Weights { path: path.into(), problem };
    // Without the validation of the store, whose message does not name the file.
    let mut store = SafetensorsStore::from_file(path).validate(false).allow_partial(true);
    let result = model.load_from(&mut store).map_err(|error| problem(error.to_string()))?;
    if let Some(error) = result.errors.first() {
        return Err(problem(error.to_string()));
    }
    if let Some((name, _)) = result.missing.first() {
        return Err(problem(format!("weight `{name}` is missing")));
    }
    match result.unused.first() {
        Some(name) => Err(problem(format!("weight `{name}` is not part of the model"))),
        None => Ok(model),
    }
}

/// Writes the weights of `model` in single precision to `path`, with the permissions of the file
/// `like`.
fn save(
    model: &impl BundleModel,
    path: &Path,
    like: &Path,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    // One entry of metadata, because the order of several is random and would change the file.
    let store = SafetensorsStore::from_file(path).clear_metadata().metadata("producer", "tx");
    let mut store = store.overwrite(true);
    let saved = match model.dtype() {
        DType::F32 => model.save_into(&mut store),
        _ => model.clone().cast(FloatDType::F32).save_into(&mut store),
    };
    saved.map_err(|error| error.to_string())?;
    // The store creates private files; the other files of a bundle can be shared.
    fs::set_permissions(path, fs::metadata(like)?.permissions())?;
    Ok(())
}
