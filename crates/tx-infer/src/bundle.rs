//! Trained models on disk: a folder that any tool can open.
//!
//! | file | content |
//! |---|---|
//! | `model.safetensors` | weights, named by their path in the model, in single precision or quantized |
//! | `config.toml` | task, configuration, languages, context and search options of the model, and hashes of its tokenizers |
//! | `source.tokenizer.json`, `target.tokenizer.json` | Hugging Face tokenizers of translation |
//! | `tokenizer.json` | Hugging Face tokenizer of a task with one text |
//! | `lexicon.json` | words of the training text ([`Lexicon`]), in some bundles for translation |
//! | `provenance.toml` | origin of the model: data, seed, versions, scores |
//!
//! A folder with `model.safetensors` is a complete bundle, because that file is written last. Each
//! file is written under another name and renamed, so a bundle that is open keeps its content when
//! it is replaced.
//!
//! [`archive()`] writes a bundle as one file, for downloads, which is opened like the folder.
//!
//! The weights are mapped into memory. Weights in single precision are packed from the mapped file
//! when a model is built. Quantized weights are used in the mapped file, which all processes share,
//! so that a process that truncates or overwrites `model.safetensors` in place, as `cp` does, ends
//! this process with `SIGBUS`, or changes its results. Replace the file by a rename, as this crate
//! does, or open the bundle with [`Bundle::open_copied`].

use std::{
    borrow::Cow,
    collections::BTreeMap,
    panic::resume_unwind,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use tx_engine::QuantizedLayout;
use tx_model::{ConfigError, ModelConfig, VocabSizes};
use tx_text::Tokenizers;

use crate::{
    calibration::Calibration,
    error::InferError,
    file::write_whole,
    lexicon::{self, LEXICON, Lexicon},
    model::PackedModel,
    precision::Precision,
    search::{LexiconUse, SearchOptions},
    task::{ModelTask, TaskKind},
};

mod archive;
mod config;
mod file_bytes;
mod files;
pub mod info;
#[cfg(feature = "burn")]
mod initialize;
mod languages;
#[cfg(feature = "burn")]
mod module;
mod new;
mod pack;
mod parts;
mod quantize;
mod search;
mod tokenizers;
mod weights;

use archive::Archive;
use config::{BundleConfig, WeightDtype};
use files::Files;
pub use info::BundleInfo;
#[cfg(feature = "burn")]
pub use initialize::Initialized;
pub use languages::{LanguagePlacement, Languages};
pub use new::{NewBundle, NewWeight};
pub use pack::archive;
pub(crate) use parts::Parts;
pub use search::set_search;
pub(crate) use tokenizers::check_same;
pub use tokenizers::check_same_tokenizers;
use tokenizers::{
    read_one_tokenizer, read_source_tokenizer, read_target_tokenizer, read_tokenizers,
    tokenizer_bytes,
};
pub use tokenizers::{save_tokenizers, saved_tokenizers, tokenizer_files};
use weights::{WeightsFile, quantized::too_many_inputs};
#[cfg(feature = "burn")]
pub use {crate::model::BundleModel, module::ModuleBundle};

/// The format of bundles in single precision that this build writes. It reads all formats from 1 on.
pub const FORMAT: u32 = 2;

/// The format of bundles with quantized weights.
pub const QUANTIZED_FORMAT: u32 = 3;

/// Maximum number of sentences of context that a bundle has.
pub const MAX_CONTEXT: usize = 100;

/// Name of the weights file; a folder without it is not a bundle.
pub const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.toml";
const PROVENANCE: &str = "provenance.toml";

/// Minimum size in bytes of a bundle whose files are read by several threads. Starting a thread
/// takes a fraction of the time that reading such a bundle takes.
const LARGE: u64 = 1 << 18;

/// A bundle that was read and validated: configuration, tokenizers, provenance, and the mapped
/// weights.
///
/// It contains no model yet: [`engine`](Self::engine) builds one for searching, and
/// [`pack`](Self::pack) the model of the packed engine. Clones share the mapped file.
#[derive(Debug, Clone)]
pub struct Bundle {
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
    /// Search options that translators and generators use by default.
    pub search: Option<SearchOptions>,
    /// Calibration of the confidence in translations.
    pub calibration: Option<Calibration>,
    /// Words of the training text.
    pub lexicon: Option<Arc<Lexicon>>,
    /// Origin of the model, for information.
    pub provenance: toml::Table,
    weights: Arc<WeightsFile>,
    /// When the values of the weights are validated.
    validation: Validation,
}

/// Time at which the values of weights in single precision are validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Validation {
    /// When the bundle is opened.
    AtOpening,
    /// When a model reads the weights.
    AtReading,
}

/// Location of quantized weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuantizedWeights {
    /// In the mapped file.
    Mapped,
    /// In the memory of this process.
    Copied,
}

impl Bundle {
    /// Opens the bundle in the folder or [archive](archive()) `path` and validates all of it, the
    /// values of the weights included.
    ///
    /// # Errors
    ///
    /// If a file is missing or damaged, or the files do not belong together. The message names the
    /// file, the value found and the value expected.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, InferError> {
        let files = Files::open(path.as_ref())?;
        Self::open_with(&files, Validation::AtOpening, QuantizedWeights::Mapped)
    }

    /// Opens the bundle in the folder or archive `path` for building one model. All of it is validated
    /// but the values of weights in single precision: [`engine`](Self::engine), [`pack`](Self::pack) and the other
    /// methods that build a model validate them while they read them, so that a large file is read
    /// once. [`weight`](Self::weight) returns them without validation.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open), without those of the values.
    pub fn open_for_model(path: impl AsRef<Path>) -> Result<Self, InferError> {
        let files = Files::open(path.as_ref())?;
        Self::open_with(&files, Validation::AtReading, QuantizedWeights::Mapped)
    }

    /// Opens the bundle in the folder or archive `path` as
    /// [`open_for_model`](Self::open_for_model), and copies quantized
    /// weights into the memory of this process. A program that runs for long is then independent of
    /// the file once the model is built, also if another process overwrites it in place. The copy is
    /// not shared with other processes.
    ///
    /// # Errors
    ///
    /// Same as [`open_for_model`](Self::open_for_model).
    pub fn open_copied(path: impl AsRef<Path>) -> Result<Self, InferError> {
        let files = Files::open(path.as_ref())?;
        Self::open_with(&files, Validation::AtReading, QuantizedWeights::Copied)
    }

    /// Opens a bundle whose files are in memory, by their names, such as those of a download. All of
    /// it is validated but the values of weights in single precision, as with
    /// [`open_for_model`](Self::open_for_model).
    ///
    /// ```no_run
    /// use std::{collections::BTreeMap, fs};
    ///
    /// use tx_infer::{Bundle, Translator};
    ///
    /// let mut files = BTreeMap::new();
    /// for entry in fs::read_dir("runs/de-en")? {
    ///     let entry = entry?;
    ///     if entry.file_type()?.is_file() {
    ///         files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
    ///     }
    /// }
    /// let bundle = Bundle::from_files(files)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Same as [`open_for_model`](Self::open_for_model). Messages name the files.
    pub fn from_files(files: BTreeMap<String, Vec<u8>>) -> Result<Self, InferError> {
        let files = Files::Archive(files.into());
        Self::open_with(&files, Validation::AtReading, QuantizedWeights::Mapped)
    }

    /// Opens a bundle whose [archive](archive()) is in memory, as [`from_files`](Self::from_files).
    ///
    /// # Errors
    ///
    /// [`InferError::Archive`]; otherwise the same as [`from_files`](Self::from_files).
    pub fn from_archive(bytes: Vec<u8>) -> Result<Self, InferError> {
        let files = Files::Archive(Archive::read(Path::new(""), &bytes.into())?);
        Self::open_with(&files, Validation::AtReading, QuantizedWeights::Mapped)
    }

    fn open_with(
        files: &Files,
        validation: Validation,
        quantized: QuantizedWeights,
    ) -> Result<Self, InferError> {
        let Headers { config, task, weights } = Headers::read(files, quantized)?;
        let provenance = files.read_toml(PROVENANCE)?;
        let kind = task.kind();
        let size = weights.size() as u64 + tokenizer_bytes(files, kind);
        let check_values = |part, parts| match (validation, weights.dtype()) {
            (Validation::AtReading, WeightDtype::F32) => Ok(()),
            (Validation::AtOpening, _) | (_, WeightDtype::Int8) => {
                weights.check_values(part, parts)
            }
        };
        // The web has no threads.
        let tokenizers = if size < LARGE || cfg!(target_family = "wasm") {
            check_values(0, 1)?;
            read_tokenizers(files, kind, &config)?
        } else {
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let target =
                        (!kind.has_one_text()).then(|| read_target_tokenizer(files, &config));
                    (target, check_values(1, 2))
                });
                let first = match kind.has_one_text() {
                    true => read_one_tokenizer(files, kind, &config),
                    false => read_source_tokenizer(files, &config),
                };
                let values = check_values(0, 2);
                let (target, other_values) =
                    other.join().unwrap_or_else(|panic| resume_unwind(panic));
                values.and(other_values)?;
                Ok::<_, InferError>(match target {
                    Some(target) => Tokenizers { source: first?, target: target? },
                    None => Tokenizers::from(first?),
                })
            })?
        };
        config.check_options(&files.path(CONFIG), &tokenizers)?;
        let lexicon = match kind == TaskKind::Translate && files.contains(LEXICON) {
            true => {
                let bytes = files.read(LEXICON, lexicon::MAX_FILE)?;
                Some(Lexicon::parse(&bytes, &files.path(LEXICON), &tokenizers.target)?.into())
            }
            false => None,
        };
        let BundleConfig { model: config, languages, context, search, calibration, .. } = config;
        let weights = Arc::new(weights);
        Ok(Self {
            task,
            config,
            tokenizers,
            languages,
            context,
            search,
            calibration,
            lexicon,
            provenance,
            weights,
            validation,
        })
    }

    /// Returns shape and values of a weight; `None` if the model has no such weight.
    pub fn weight(&self, name: &str) -> Option<(&[usize], Cow<'_, [f32]>)> {
        self.weights.weight(name)
    }

    /// Returns the shape that a weight has in single precision; `None` if the model has no such weight.
    pub fn weight_shape(&self, name: &str) -> Option<&[usize]> {
        self.weights.shapes().find(|(found, ..)| *found == name).map(|(_, _, shape)| shape)
    }

    /// Returns the bytes of a quantized matrix with a row for each output, or of an embedding with a
    /// row for each token, and the scale of each row: a weight is its byte times its scale. `None` if
    /// the weight is not quantized.
    pub fn quantized_rows(&self, name: &str) -> Option<(Vec<i8>, Vec<f32>)> {
        self.weights.quantized_rows(name)
    }

    /// Returns the number of bytes of all weights.
    pub fn weight_bytes(&self) -> usize {
        self.weights.size()
    }

    /// Returns the names of all weights, in the order of the file.
    pub fn weight_names(&self) -> impl Iterator<Item = &str> {
        self.weights.names()
    }

    /// Checks that the model is for a task of this kind.
    ///
    /// # Errors
    ///
    /// [`InferError::WrongTask`] otherwise.
    pub fn expect(&self, expected: TaskKind) -> Result<(), InferError> {
        let found = self.task.kind();
        match found == expected {
            true => Ok(()),
            false => Err(InferError::WrongTask { path: self.folder(), found, expected }),
        }
    }

    /// Returns the precision of the weights, in which a model computes by default:
    /// [`F32`](Precision::F32) or [`Int8`](Precision::Int8).
    pub fn precision(&self) -> Precision {
        match self.weights.dtype() {
            WeightDtype::F32 => Precision::F32,
            WeightDtype::Int8 => Precision::Int8,
        }
    }

    /// Folder that the bundle was opened from.
    fn folder(&self) -> PathBuf {
        self.weights.path().parent().unwrap_or(Path::new("")).to_owned()
    }

    /// Returns the number of ids of each side's tokenizer.
    pub fn vocabulary(&self) -> VocabSizes {
        vocabulary(&self.tokenizers)
    }

    /// Packs the weights of a model for the packed engine. Pages of the file leave memory as they are
    /// packed, so that the weights are never in memory twice. In [`Int8`](Precision::Int8), quantized
    /// weights remain in the mapped file.
    ///
    /// # Errors
    ///
    /// [`InferError::WrongTask`]; [`InferError::Model`] or [`InferError::Weights`] if `config` was
    /// changed to one of another model; [`InferError::NotFiniteWeight`] if the bundle was opened by
    /// [`open_for_model`](Self::open_for_model); [`InferError::Instructions`];
    /// [`InferError::Precision`] if the packed engine does not have the precision.
    pub fn pack<M: PackedModel>(&self, precision: Precision) -> Result<M, InferError> {
        self.expect(M::TASK)?;
        let (architecture, padded) = (self.task.architecture(), self.padded());
        let kernel = precision.kernel()?;
        self.weights.check(&self.config, architecture, padded)?;
        if kernel.is_some() {
            let problem = too_many_inputs(&self.config, architecture, padded);
            if let Some(problem) = problem {
                return Err(ConfigError { problems: vec![problem] }.into());
            }
        }
        let validates = self.validates_at_reading();
        let packing = self.weights.packing(self.config.tying, architecture, kernel, validates);
        let packed = M::pack(&self.config, padded, &self.task, &packing)?;
        packing.validated()?;
        if kernel.is_none() || self.precision() == Precision::F32 {
            self.weights.release();
        }
        Ok(packed)
    }

    /// Whether the values of the weights are validated when a model reads them.
    fn validates_at_reading(&self) -> bool {
        self.validation == Validation::AtReading && self.weights.dtype() == WeightDtype::F32
    }

    /// Validates the values of the weights, unless they were validated when the bundle was opened.
    fn check_unread_values(&self) -> Result<(), InferError> {
        if self.validates_at_reading() { self.weights.check_values(0, 1) } else { Ok(()) }
    }

    /// Loads the weights into a module on `device`.
    ///
    /// # Errors
    ///
    /// [`InferError::WrongTask`]; [`InferError::QuantizedWeights`]; if the file was replaced since the
    /// bundle was opened and no longer fits, or `config` was changed to one of another model; if the
    /// bundle was opened by [`open_for_model`](Self::open_for_model) and a value is not finite.
    #[cfg(feature = "burn")]
    pub fn module<M: BundleModel>(&self, device: &burn::tensor::Device) -> Result<M, InferError> {
        self.expect(M::TASK)?;
        if self.precision() != Precision::F32 {
            return Err(InferError::QuantizedWeights { path: self.folder() });
        }
        self.check_unread_values()?;
        let model = M::uninitialized(&self.config, self.padded(), &self.task, device)?;
        module::load(model, self.weights.path(), self.weights.file())
    }

    /// Returns the decoder layer, from 0, whose cross-attention aligns source and target: the one that
    /// guided alignment trained, which is the [`attention_layer`](SearchOptions::attention_layer) of
    /// the bundle's search options, otherwise the last but one, and the last of one or two.
    ///
    /// Alignments, shortlists, unknown words and the coverage penalty read this layer.
    pub fn alignment_layer(&self) -> usize {
        self.parts().alignment_layer()
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
            calibration: self.calibration,
            lexicon: self.lexicon.as_ref(),
            provenance: &self.provenance,
        }
    }

    /// Replaces the calibration of the bundle in the folder `folder`. The other files stay unchanged.
    ///
    /// # Errors
    ///
    /// [`InferError::ArchiveIsFixed`] if the bundle is one file; [`InferError::WrongTask`] unless it translates; if the
    /// configuration cannot be read or written.
    pub fn write_calibration(
        folder: impl AsRef<Path>,
        calibration: Calibration,
    ) -> Result<(), InferError> {
        Self::change_config(folder.as_ref(), |config| config.calibration = Some(calibration))
    }

    /// Replaces the lexicon of the bundle in the folder `folder`, and makes its use the default of its search
    /// options. The other files stay unchanged.
    ///
    /// # Errors
    ///
    /// Same as [`write_calibration`](Self::write_calibration); if the lexicon cannot be written.
    pub fn write_lexicon(folder: impl AsRef<Path>, lexicon: &Lexicon) -> Result<(), InferError> {
        let folder = folder.as_ref();
        Self::change_config(folder, |config| {
            let search = config.search.take().unwrap_or_default();
            config.search = Some(SearchOptions { lexicon: LexiconUse::Both, ..search });
        })?;
        let path = folder.join(LEXICON);
        write_whole(&path, &lexicon.to_bytes(folder)?)
            .map_err(|source| InferError::Write { path, source })
    }

    /// Changes the configuration of the bundle for translation in `folder`.
    fn change_config(
        folder: &Path,
        change: impl FnOnce(&mut BundleConfig),
    ) -> Result<(), InferError> {
        let files = Files::open(folder)?;
        if matches!(files, Files::Archive(_)) {
            return Err(InferError::ArchiveIsFixed { path: folder.into() });
        }
        let (mut config, task) = BundleConfig::read(&files)?;
        if task.kind() != TaskKind::Translate {
            let (path, found) = (folder.into(), task.kind());
            return Err(InferError::WrongTask { path, found, expected: TaskKind::Translate });
        }
        change(&mut config);
        config.format = config.format.max(FORMAT);
        config.write(&files.path(CONFIG))
    }

    /// Sizes of the vocabularies of the model.
    fn padded(&self) -> VocabSizes {
        self.config.padded(self.vocabulary())
    }
}

fn vocabulary(tokenizers: &Tokenizers) -> VocabSizes {
    VocabSizes { source: tokenizers.source.vocab_size(), target: tokenizers.target.vocab_size() }
}

/// Configuration and mapped weights of a bundle, which belong together.
struct Headers {
    config: BundleConfig,
    task: ModelTask,
    weights: WeightsFile,
}

impl Headers {
    /// Reads the configuration and maps the weights, and checks that they belong together.
    /// Allocates no memory whose size is only declared by a number in a file.
    fn read(files: &Files, quantized: QuantizedWeights) -> Result<Self, InferError> {
        for missing in [WEIGHTS, CONFIG] {
            if !files.contains(missing) {
                let in_memory = files.root().as_os_str().is_empty();
                let path = if in_memory { Path::new("files in memory") } else { files.root() };
                return Err(InferError::NotABundle { path: path.into(), missing });
            }
        }
        let (config, task) = BundleConfig::read(files)?;
        let architecture = task.architecture();
        config.model.check_architecture(architecture, config.vocabulary)?;
        let padded = config.model.padded(config.vocabulary);
        let layouts = match config.weights {
            WeightDtype::F32 => Vec::new(),
            WeightDtype::Int8 => QuantizedLayout::of_weights(&config.model, architecture, padded),
        };
        let check = |weights: WeightsFile| {
            weights.check(&config.model, architecture, padded).map(|()| weights)
        };
        let weights = check(WeightsFile::open(files, config.weights, layouts)?)?;
        let weights = match (config.weights, quantized) {
            (WeightDtype::Int8, QuantizedWeights::Copied) => check(weights.copied()?)?,
            (WeightDtype::F32, _) | (_, QuantizedWeights::Mapped) => weights,
        };
        Ok(Self { config, task, weights })
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
