//! Import of models as bundles.
//!
//! A reader of a format turns a folder or a file into an [`Import`]: the configuration, the
//! tokenizers, and a table of weights, which are read one at a time when the bundle is saved.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Mutex, PoisonError},
};

use tempfile::TempDir;
use tx_infer::{Languages, ModelTask, NewBundle, NewWeight, SearchOptions, Shortlist};
use tx_model::{ModelConfig, VocabSizes};
use tx_text::Tokenizers;

pub use crate::source_files::{License, SourceFile};
use crate::{error::ConvertError, source_files::SourceFiles};

mod merge_codes;
mod side_tokens;
mod sinusoids;
mod weight_map;

mod content;
mod detect;
mod report;

mod ctranslate2;
mod fairseq;
mod joeynmt;
mod marian;
mod pytorch;
mod transformers;
mod tutorial;

use weight_map::Weight;

/// File of an imported shortlist in the folder of the bundle.
pub const SHORTLIST: &str = "shortlist.safetensors";

/// Format of a model to be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// Folder of `transformers` with `model_type` `marian`, as OPUS-MT models have.
    TransformersMarian,
    /// Folder of `transformers` with `model_type` `m2m_100`: M2M-100 and NLLB.
    TransformersM2m100,
    /// `.npz` or `.bin` of Marian, or a folder with one, such as a model of Firefox.
    Marian,
    /// Folder of CTranslate2 with `model.bin`, or a package of Argos Translate.
    CTranslate2,
    /// Checkpoint of fairseq's `transformer`, beside its dictionaries.
    Fairseq,
    /// Folder or checkpoint of JoeyNMT, with its configuration and vocabularies.
    JoeyNmt,
    /// File of PyTorch with the weights of a model around `nn.Transformer`.
    PyTorchTransformer,
    /// Checkpoint `.pt` of the tutorial "Coding a Transformer from scratch".
    TutorialCheckpoint,
}

impl ImportFormat {
    /// All formats.
    pub const ALL: [Self; 8] = [
        Self::TransformersMarian,
        Self::TransformersM2m100,
        Self::Marian,
        Self::CTranslate2,
        Self::Fairseq,
        Self::JoeyNmt,
        Self::PyTorchTransformer,
        Self::TutorialCheckpoint,
    ];

    /// Returns the name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::TransformersMarian => "transformers-marian",
            Self::TransformersM2m100 => "transformers-m2m100",
            Self::Marian => "marian",
            Self::CTranslate2 => "ctranslate2",
            Self::Fairseq => "fairseq",
            Self::JoeyNmt => "joeynmt",
            Self::PyTorchTransformer => "pytorch-transformer",
            Self::TutorialCheckpoint => "tutorial-checkpoint",
        }
    }
}

impl fmt::Display for ImportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ImportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("unknown format `{name}`"))
    }
}

/// Properties of a model that its files do not contain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// Attention heads of a file of PyTorch that does not contain their number; by default 8, as in
    /// the tutorial, in `nn.Transformer` and in fairseq.
    pub heads: Option<usize>,
    /// `LANGUAGE` of the source in the files `tokenizer_LANGUAGE.json` of a tutorial checkpoint,
    /// needed if both languages have the same number of tokens, and in the files `dict.LANGUAGE.txt` of
    /// a checkpoint of fairseq that does not name its languages.
    pub source_language: Option<String>,
    /// `LANGUAGE` of the target, as [`source_language`](Self::source_language).
    pub target_language: Option<String>,
    /// Whether sources end with `<eos>`. By default, those of a model of CTranslate2 do if its
    /// `config.json` says so, and those of `nn.Transformer` do.
    pub source_eos: Option<bool>,
}

/// Reads the model at `from`, a file or a folder, whose format is detected from its content if
/// `format` is `None`. The values of the weights are read by [`Import::save`].
///
/// The model may come from an untrusted source: it is either rejected or read with memory in
/// proportion to its files.
///
/// # Errors
///
/// If the format is unknown, a file is missing or damaged, the model uses options that tx does not
/// support, or its weights do not fit its configuration.
pub fn import(from: &Path, format: Option<ImportFormat>) -> Result<Import, ConvertError> {
    import_with(from, format, &ImportOptions::default())
}

/// Reads a model as [`import`] does, with properties that its files do not contain.
///
/// # Errors
///
/// Same as [`import`].
pub fn import_with(
    from: &Path,
    format: Option<ImportFormat>,
    options: &ImportOptions,
) -> Result<Import, ConvertError> {
    let format = match format {
        Some(format) => format,
        None => detect::detect(from)?,
    };
    match format {
        ImportFormat::TransformersMarian => transformers::import_marian(from),
        ImportFormat::TransformersM2m100 => transformers::import_m2m100(from),
        ImportFormat::Marian => marian::read(from),
        ImportFormat::CTranslate2 => ctranslate2::read(from, options),
        ImportFormat::Fairseq => fairseq::read(from, options),
        ImportFormat::JoeyNmt => joeynmt::read(from),
        ImportFormat::PyTorchTransformer => pytorch::read(from, options),
        ImportFormat::TutorialCheckpoint => tutorial::import(from, options),
    }
}

/// A model that was read and checked, ready to be saved as a bundle.
pub struct Import {
    /// Format of the model.
    pub format: ImportFormat,
    /// Task of the model.
    pub task: ModelTask,
    /// Configuration of the bundle.
    pub config: ModelConfig,
    /// Tokenizers of the bundle.
    pub tokenizers: Tokenizers,
    /// Languages of a multilingual model.
    pub languages: Option<Languages>,
    /// Search options that the model recommends.
    pub search: Option<SearchOptions>,
    /// Properties of the model that the import ignores, one line each.
    pub notes: Vec<String>,
    /// Candidates of target tokens that belong to the model.
    pub shortlist: Option<Shortlist>,
    /// Codes of the languages of a model with one pair.
    pub pair: Option<[String; 2]>,
    /// License of the model, as stated in its folder.
    pub license: License,
    /// Files of an archive, which are deleted afterwards.
    unpacked: Option<TempDir>,
    origin: PathBuf,
    files: Vec<SourceFile>,
    weights: Vec<Weight>,
}

impl Import {
    /// Describes a model at `origin` that was read from `files`. `weights` are those of the
    /// configuration.
    fn new(
        format: ImportFormat,
        origin: &Path,
        files: &SourceFiles,
        config: ModelConfig,
        tokenizers: Tokenizers,
        weights: Vec<Weight>,
    ) -> Self {
        let folder = if origin.is_dir() { origin } else { origin.parent().unwrap_or(origin) };
        Self {
            format,
            task: ModelTask::Translate,
            config,
            tokenizers,
            languages: None,
            search: None,
            notes: Vec::new(),
            shortlist: None,
            pair: None,
            unpacked: None,
            license: License::read(folder),
            origin: origin.to_owned(),
            files: files.files().to_vec(),
            weights,
        }
    }

    /// Reads the weights one by one and writes the bundle into the folder `output`, which is created
    /// if necessary; a bundle there is replaced. An error of a weight leaves the folder as it was. A
    /// shortlist becomes the file [`SHORTLIST`] in the folder.
    ///
    /// # Errors
    ///
    /// If a file of the model cannot be read, a weight is not finite, or a file of the bundle cannot
    /// be written.
    pub fn save(&self, output: &Path) -> Result<(), ConvertError> {
        // The first weight that cannot be read. It has no values then, which the bundle rejects.
        let failed = Mutex::new(None);
        let weights = self.weights.iter().map(|weight| NewWeight {
            name: weight.name.clone(),
            shape: weight.shape.clone(),
            values: Box::new(|| {
                weight.values().unwrap_or_else(|error| {
                    let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                    failed.get_or_insert(error);
                    Vec::new()
                })
            }),
        });
        let bundle = NewBundle {
            task: self.task.clone(),
            config: self.config.clone(),
            tokenizers: self.tokenizers.clone(),
            languages: self.languages.clone(),
            context: 0,
            search: self.search.clone(),
            provenance: self.provenance()?,
            weights: weights.collect(),
        };
        let saved = bundle.save(output);
        drop(bundle);
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => return Err(error),
            None => saved?,
        }
        match &self.shortlist {
            Some(shortlist) => Ok(shortlist.save(output.join(SHORTLIST))?),
            None => Ok(()),
        }
    }

    /// Returns the number of ids of each side's tokenizer.
    pub fn vocabulary(&self) -> VocabSizes {
        let Tokenizers { source, target } = &self.tokenizers;
        VocabSizes { source: source.vocab_size(), target: target.vocab_size() }
    }

    /// Returns the files that were read.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> usize {
        self.weights.iter().map(|weight| weight.shape.iter().product::<usize>()).sum()
    }
}

impl fmt::Debug for Import {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Import")
            .field("format", &self.format)
            .field("config", &self.config)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}
