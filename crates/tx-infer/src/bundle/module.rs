//! Bundles whose weights are a module: saving a trained model, and loading one to train on.

use std::{fs, io, ops::Range, path::Path};

use burn::{
    store::{ModuleSnapshot, SafetensorsStore},
    tensor::{DType, Device, FloatDType},
};
use tx_model::{ModelConfig, Transformer, VocabSizes};
use tx_text::Tokenizers;

use super::{
    Bundle, BundleConfig, CONFIG, FORMAT, Hashes, PROVENANCE, SOURCE_TOKENIZER, TARGET_TOKENIZER,
    WEIGHTS, padding, sha256, vocabulary,
};
use crate::{
    error::InferError, file::write_whole, precision::Precision, search::Engine,
    translator::Translator,
};

/// A bundle in memory, whose weights are those of a [`Transformer`].
#[derive(Debug, Clone)]
pub struct ModuleBundle {
    /// The model, on a device.
    pub model: Transformer,
    /// Configuration of the model.
    pub config: ModelConfig,
    /// Tokenizers of both sides.
    pub tokenizers: Tokenizers,
    /// Origin of the model, for information.
    pub provenance: toml::Table,
}

impl ModuleBundle {
    /// Opens the bundle in `folder` and loads its weights on `device`.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::open`].
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self, InferError> {
        let bundle = Bundle::open(folder)?;
        let model = bundle.transformer(device)?;
        let Bundle { config, tokenizers, provenance, .. } = bundle;
        Ok(Self { model, config, tokenizers, provenance })
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
        Ok(Self { model: self.model.cast(precision.dtype()), ..self })
    }

    /// Prepares the model, which is on `device`, for searching.
    pub fn engine(&self, device: &crate::Device) -> Engine {
        Engine::from_transformer(self.model.clone(), self.config.max_len, device)
            .with_padding(self.padding())
    }

    /// Creates a translator with the model, which is on `device`.
    pub fn into_translator(self, device: &crate::Device) -> Translator {
        let padding = self.padding();
        let Self { model, config, tokenizers, .. } = self;
        let engine = Engine::from_transformer(model, config.max_len, device);
        Translator::from_engine(engine.with_padding(padding), config, tokenizers)
    }

    fn padding(&self) -> Range<u32> {
        padding(&self.config, self.vocabulary())
    }

    /// Writes the bundle into `folder`, which is created if necessary; a bundle there is replaced.
    ///
    /// # Errors
    ///
    /// If a file cannot be written. A bundle of the same run that was in the folder stays usable.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), InferError> {
        let folder = folder.as_ref();
        let write_error = |path: &Path| {
            let path = path.to_owned();
            move |source| InferError::Write { path, source }
        };
        fs::create_dir_all(folder).map_err(write_error(folder))?;

        let source = self.tokenizers.source.to_json()?;
        let target = self.tokenizers.target.to_json()?;
        let config = BundleConfig {
            format: FORMAT,
            vocabulary: self.vocabulary(),
            tokenizers: Hashes {
                source_sha256: sha256(source.as_bytes()),
                target_sha256: sha256(target.as_bytes()),
            },
            model: self.config.clone(),
        };
        let config = toml::to_string(&config)
            .map_err(|error| write_error(&folder.join(CONFIG))(io::Error::other(error)))?;

        let weights = folder.join(WEIGHTS);
        for (name, content) in
            [(CONFIG, config), (SOURCE_TOKENIZER, source), (TARGET_TOKENIZER, target)]
        {
            let path = folder.join(name);
            if fs::read(&path).is_ok_and(|old| old == content.as_bytes()) {
                continue;
            }
            // Weights of another model must not be paired with this model's configuration.
            match fs::remove_file(&weights) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(write_error(&weights)(error));
                }
                _ => write_whole(&path, content.as_bytes()).map_err(write_error(&path))?,
            }
        }
        let path = folder.join(PROVENANCE);
        write_whole(&path, self.provenance.to_string().as_bytes()).map_err(write_error(&path))?;
        save(&self.model, &weights, &folder.join(CONFIG))
            .map_err(|error| write_error(&weights)(io::Error::other(error)))
    }
}

/// Loads the weights of the file at `path` into a module on `device`. `vocab` is the padded
/// vocabulary.
pub(super) fn load(
    config: &ModelConfig,
    vocab: VocabSizes,
    path: &Path,
    device: &Device,
) -> Result<Transformer, InferError> {
    let problem = |problem| InferError::Weights { path: path.into(), problem };
    let mut model = Transformer::uninitialized(config, vocab, device)?;
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
    model: &Transformer,
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
