//! Bundles whose weights are a module: saving a trained model, and loading one to train on.

use std::{fs, io, path::Path, sync::Arc};

use burn::{
    store::{ModuleSnapshot, SafetensorsStore},
    tensor::{DType, Device, FloatDType},
};
use tx_model::{ModelConfig, Transformer, VocabSizes};
use tx_text::Tokenizers;

use super::{
    Bundle, CONFIG, Languages, WEIGHTS, config::WeightDtype, file_bytes::FileBytes, parts::Parts,
    vocabulary,
};
use crate::{
    error::InferError,
    lexicon::Lexicon,
    model::{BundleModel, wrong_task},
    precision::Precision,
    search::SearchOptions,
    task::ModelTask,
};

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
    /// Sentences before a source that a model for translation reads with it, at most; 0 without
    /// [context](tx_text::context).
    pub context: usize,
    /// Default search options of the model.
    pub search: Option<SearchOptions>,
    /// Words of the training text, for translation.
    pub lexicon: Option<Arc<Lexicon>>,
    /// Origin of the model, for information.
    pub provenance: toml::Table,
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
        let Bundle {
            task,
            config,
            tokenizers,
            languages,
            context,
            search,
            lexicon,
            provenance,
            ..
        } = bundle;
        Ok(Self {
            model,
            task,
            config,
            tokenizers,
            languages,
            context,
            search,
            lexicon,
            provenance,
        })
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

    /// Returns the parts besides the weights.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            task: &self.task,
            config: &self.config,
            tokenizers: &self.tokenizers,
            languages: self.languages.as_ref(),
            context: self.context,
            search: self.search.as_ref(),
            calibration: None,
            lexicon: self.lexicon.as_ref(),
            provenance: &self.provenance,
        }
    }

    /// Writes the bundle into `folder`, which is created if necessary; a bundle there is replaced.
    ///
    /// # Errors
    ///
    /// If a file cannot be written, `task` is not that of the model, or languages or search options
    /// are invalid. A bundle of the same run that was in the folder stays usable.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), InferError> {
        let folder = folder.as_ref();
        if self.task.kind() != M::TASK {
            return Err(wrong_task(&self.task, M::TASK).into());
        }
        self.parts().contents(folder, WeightDtype::F32)?.write(folder)?;
        let weights = folder.join(WEIGHTS);
        save(&self.model, &weights, &folder.join(CONFIG))
            .map_err(|error| InferError::Write { path: weights, source: io::Error::other(error) })
    }
}

/// Loads the weights of a file into `model`. `path` is for messages.
pub(super) fn load<M: BundleModel>(
    mut model: M,
    path: &Path,
    file: &FileBytes,
) -> Result<M, InferError> {
    let problem = |problem| InferError::Weights { path: path.into(), problem };
    let store = match file.path() {
        Some(path) => SafetensorsStore::from_file(path),
        None => SafetensorsStore::from_bytes(Some(file.to_vec())),
    };
    // Without the validation of the store, whose message does not name the file.
    let mut store = store.validate(false).allow_partial(true);
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
