//! Arguments that several commands share: bundle, sentence pairs, and execution of the model.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
    thread,
};

use clap::{
    Args, ValueHint,
    builder::{PathBufValueParser, TypedValueParser},
};
use tx_infer::{
    Bundle, Classifier, Device, Engine, FillMask, Generator, Glossary, GlossaryLanguages,
    InferError, PairTokenizer, Precision, Reading, Shortlist, TaskKind, Translator,
    device::{DeviceError, DeviceName, Kind},
};

use super::search::SearchArgs;
use crate::usage::Usage;

/// Bundle that a command opens.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Bundle to open: the folder of a training run, a file of `translate pack`, or the name of a model
    /// of `translate models`
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        value_parser = bundle_path()
    )]
    pub model: PathBuf,
}

/// Parser of `--model`: the folder of a bundle or, with the feature `models`, the name of a downloaded
/// model.
pub fn bundle_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(with_downloaded)
}

/// Returns the bundle of a downloaded model, if there is no file of its name; otherwise the path.
pub fn with_downloaded(path: PathBuf) -> PathBuf {
    #[cfg(feature = "models")]
    let path = tx_catalogue::Store::resolve(path);
    path
}

/// Sentences and their translations.
#[derive(Debug, Args)]
pub struct PairArgs {
    /// File with source sentences, one per line, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub source: PathBuf,

    /// File with their translations, line by line, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub target: PathBuf,
}

/// Device that a model runs on.
#[derive(Debug, Args)]
#[group(requires = "model")]
pub struct DeviceArgs {
    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth of its kind
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: DeviceName,
}

impl DeviceArgs {
    /// Opens the device.
    pub fn open(&self) -> Result<(Kind, Device), DeviceError> {
        self.device.open()
    }
}

/// Precision of the computation.
#[derive(Debug, Args)]
#[group(requires = "model")]
pub struct PrecisionArgs {
    /// Precision of the computation: f32, int8 on the device cpu, or f16 or bf16 on devices that
    /// support it [default: that of the bundle, f32 or int8]
    #[arg(long, value_name = "DTYPE")]
    pub precision: Option<Precision>,
}

impl PrecisionArgs {
    /// Returns the precision for `bundle`.
    pub fn of(&self, bundle: &Bundle) -> Precision {
        self.precision.unwrap_or(bundle.precision())
    }

    /// Returns a note if the CPU cannot compute in the precision for `bundle`.
    ///
    /// # Errors
    ///
    /// When the environment variable that limits the instructions has an unknown value.
    pub fn note(&self, bundle: &Bundle) -> Result<Option<String>, InferError> {
        let precision = self.of(bundle);
        let description = precision.description()?;
        let is_other = !description.starts_with(precision.name());
        let note = format!(
            "this CPU has no instructions for {precision} (AVX2 with FMA, or NEON dot product): \
             computing in {description}"
        );
        Ok(is_other.then_some(note))
    }
}

/// Languages of a multilingual model.
#[derive(Debug, Clone, Default, Args)]
#[group(requires = "model")]
pub struct LanguageArgs {
    /// Source language of a multilingual model, by its code; `translate inspect` lists them [default:
    /// that of the bundle]
    #[arg(long, value_name = "CODE")]
    pub source_lang: Option<String>,

    /// Target language of a multilingual model, by its code [default: that of the bundle]
    #[arg(long, value_name = "CODE")]
    pub target_lang: Option<String>,
}

impl LanguageArgs {
    /// Error of languages that are given for a model of this kind, which has none.
    pub fn conflict(kind: TaskKind) -> Usage {
        Usage::new(format!(
            "`--source-lang` and `--target-lang` conflict with the task of the bundle, `{kind}`"
        ))
    }

    /// Whether a language was given.
    pub fn is_given(&self) -> bool {
        self.source_lang.as_ref().or(self.target_lang.as_ref()).is_some()
    }

    /// Returns `translator` with these languages.
    ///
    /// # Errors
    ///
    /// When the model does not have them.
    pub fn apply(&self, translator: Translator) -> Result<Translator, InferError> {
        translator.with_languages(self.source_lang.as_deref(), self.target_lang.as_deref())
    }

    /// Returns the tokenizers of `bundle` with these languages.
    ///
    /// # Errors
    ///
    /// Same as [`apply`](Self::apply).
    pub fn texts(&self, bundle: &Bundle) -> Result<PairTokenizer, InferError> {
        let texts = PairTokenizer::new(bundle);
        texts.with_languages(self.source_lang.as_deref(), self.target_lang.as_deref())
    }
}

/// Context of a model for translation.
#[derive(Debug, Clone, Default, Args)]
#[group(requires = "model")]
pub struct ContextArgs {
    /// Maximum number of sentences before each text that the model reads with it; an empty line ends a
    /// document; 0 translates each text alone [default: as many as the model was trained with]
    #[arg(long, value_name = "N")]
    pub context: Option<usize>,
}

impl ContextArgs {
    /// Returns `translator` with this context.
    ///
    /// # Errors
    ///
    /// When the model was trained with less.
    pub fn apply(&self, translator: Translator) -> Result<Translator, InferError> {
        match self.context {
            Some(sentences) => translator.with_context(sentences),
            None => Ok(translator),
        }
    }
}

/// Threads of the device `cpu`.
#[derive(Debug, Args)]
#[group(requires = "model")]
pub struct ThreadArgs {
    /// Threads of the device cpu, each of which computes a batch at a time [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
}

impl ThreadArgs {
    /// Returns the number of threads.
    pub fn count(&self) -> usize {
        let cores = || thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(cores, NonZero::get)
    }
}

/// Size of a batch.
#[derive(Debug, Args)]
#[group(requires = "model")]
pub struct BatchArgs {
    /// Maximum size of a batch: source tokens including padding, times hypotheses; limits memory [default: 1024 on
    /// the device cpu, otherwise 4096]
    #[arg(long, value_name = "N")]
    pub batch_tokens: Option<usize>,
}

/// Glossary of the translation.
#[derive(Debug, Args)]
pub struct GlossaryArgs {
    /// Glossary, whose terms are translated as it says: lines with a term, a tab and its translation; also .csv and
    /// .tbx
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub glossary: Option<PathBuf>,

    /// Languages of a glossary in TBX with more than two, or in another order
    #[arg(long, num_args = 2, value_names = ["SOURCE", "TARGET"], requires = "glossary")]
    pub glossary_languages: Vec<String>,
}

impl GlossaryArgs {
    /// Reads the glossary, if there is one.
    ///
    /// # Errors
    ///
    /// Same as [`Glossary::open`].
    pub fn open(&self) -> Result<Option<Glossary>, InferError> {
        let languages = match &self.glossary_languages[..] {
            [source, target] => {
                Some(GlossaryLanguages { source: source.clone(), target: target.clone() })
            }
            _ => None,
        };
        self.glossary.as_ref().map(|path| Glossary::open(path, languages.as_ref())).transpose()
    }
}

/// Execution and search options of a translator.
#[derive(Debug, Args)]
pub struct TranslatorArgs {
    /// Further bundle, with the same vocabulary, whose probabilities are averaged with those of
    /// --model (repeatable)
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        requires = "model",
        value_parser = bundle_path()
    )]
    pub ensemble: Vec<PathBuf>,

    /// Vocabulary shortlist, written by `translate shortlist`: faster, but translations can change
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        requires = "model",
        conflicts_with = "ensemble"
    )]
    pub shortlist: Option<PathBuf>,

    /// Glossary of the translation
    #[command(flatten)]
    pub glossary: GlossaryArgs,

    /// Read texts as they are written, also in capitals, with typos or without a final mark
    #[arg(long)]
    pub as_written: bool,

    /// Size of a batch
    #[command(flatten)]
    batch: BatchArgs,

    /// Threads of the device `cpu`
    #[command(flatten)]
    threads: ThreadArgs,

    /// Device that the models run on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Precision of the computation
    #[command(flatten)]
    pub precision: PrecisionArgs,

    /// Languages of a multilingual model
    #[command(flatten)]
    pub languages: LanguageArgs,

    /// Context of the texts
    #[command(flatten)]
    pub context: ContextArgs,

    /// Search options
    #[command(flatten)]
    pub search: SearchArgs,
}

impl TranslatorArgs {
    /// Returns the engine of alignments for `translator`, which was created with `bundle` on `device`. They are
    /// those of one model, and not computed in half precision.
    ///
    /// # Errors
    ///
    /// Same as [`Bundle::engine`].
    pub fn alignment_engine(
        &self,
        bundle: &Bundle,
        translator: &Translator,
        device: &Device,
    ) -> Result<Engine, InferError> {
        match self.precision.of(bundle) {
            Precision::F32 | Precision::Int8 if self.ensemble.is_empty() => {
                Ok(translator.engine().clone())
            }
            _ => bundle.engine(device),
        }
    }

    /// Returns a translator on `device` with `bundle`, which was opened at `model`, and with the other
    /// bundles of the ensemble.
    ///
    /// # Errors
    ///
    /// When another bundle cannot be opened or has another vocabulary, the device does not support
    /// the precision, a language is unknown, the model has less context, search options contradict each other, or the shortlist
    /// cannot be used.
    pub fn translator(
        &self,
        model: &Path,
        bundle: &Bundle,
        device: &Device,
        seed: u64,
    ) -> Result<Translator, InferError> {
        let precision = |bundle: &Bundle| self.precision.of(bundle);
        let translator = |bundle: &Bundle| Translator::new_in(bundle, precision(bundle), device);
        let translator = self.ensemble.iter().try_fold(translator(bundle)?, |all, path| {
            all.with_member(model, path, translator(&Bundle::open_for_model(path)?)?)
        })?;
        let translator = self.context.apply(self.languages.apply(translator)?)?;
        let translator = self.search.apply(translator, seed)?;
        let translator = match &self.shortlist {
            Some(path) => translator.with_shortlist(Shortlist::open(path)?)?,
            None => translator,
        };
        let translator = match self.glossary.open()? {
            Some(glossary) => translator.with_glossary(glossary),
            None if self.search.glossary_use.is_some() => {
                let problem = "`--glossary-use` has no effect without `--glossary`".into();
                return Err(InferError::Search { problems: vec![problem] });
            }
            None => translator,
        };
        if self.search.lexicon.is_some() && !translator.has_lexicon() {
            let problem = "`--lexicon` needs a bundle with a lexicon".into();
            return Err(InferError::Search { problems: vec![problem] });
        }
        let reading = if self.as_written { Reading::AsWritten } else { Reading::Adapted };
        let translator = translator.with_reading(reading);
        Ok(translator.with_batch_tokens(self.batch.batch_tokens).with_threads(self.threads.count()))
    }

    /// Returns a generator on `device` with `bundle`, which was opened at `model`, and with the other
    /// bundles of the ensemble.
    ///
    /// # Errors
    ///
    /// When another bundle cannot be opened or has another vocabulary, the device does not support
    /// the precision, or search options contradict each other.
    pub fn generator(
        &self,
        model: &Path,
        bundle: &Bundle,
        device: &Device,
        seed: u64,
    ) -> Result<Generator, InferError> {
        let generator =
            |bundle: &Bundle| Generator::new_in(bundle, self.precision.of(bundle), device);
        let generator = self.ensemble.iter().try_fold(generator(bundle)?, |all, path| {
            all.with_member(model, path, generator(&Bundle::open_for_model(path)?)?)
        })?;
        let generator = self.search.apply_to_generator(generator, seed)?;
        Ok(generator.with_batch_tokens(self.batch.batch_tokens).with_threads(self.threads.count()))
    }

    /// Returns a classifier on `device` with `bundle`.
    ///
    /// # Errors
    ///
    /// When the device does not support the precision.
    pub fn classifier(&self, bundle: &Bundle, device: &Device) -> Result<Classifier, InferError> {
        let classifier = Classifier::new_in(bundle, self.precision.of(bundle), device)?;
        Ok(classifier.with_batch_tokens(self.batch.batch_tokens).with_threads(self.threads.count()))
    }

    /// Returns a model that fills masks, on `device` with `bundle`.
    ///
    /// # Errors
    ///
    /// When the device does not support the precision.
    pub fn fill_mask(&self, bundle: &Bundle, device: &Device) -> Result<FillMask, InferError> {
        let model = FillMask::new_in(bundle, self.precision.of(bundle), device)?;
        Ok(model.with_batch_tokens(self.batch.batch_tokens).with_threads(self.threads.count()))
    }
}
