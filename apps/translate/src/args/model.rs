//! Arguments that several commands share: bundle, sentence pairs, and execution of the model.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use tx_infer::{
    Bundle, Classifier, Device, FillMask, Generator, InferError, Precision, TaskKind, Translator,
    device::{DeviceError, DeviceName, Kind},
};

use super::search::SearchArgs;

/// Bundle that a command opens.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Bundle to open: the folder written by `train`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub model: PathBuf,
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
    /// Precision of the computation: f32, or f16 or bf16 on devices that support it; CPUs are faster
    /// in f32
    #[arg(long, value_name = "DTYPE", default_value_t)]
    pub precision: Precision,
}

/// Threads of the device `cpu`.
#[derive(Debug, Args)]
#[group(requires = "model")]
pub struct ThreadArgs {
    /// Threads of the device cpu, each of which computes a batch at a time [default: one per core]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,
}

/// Size of a batch.
#[derive(Debug, Args)]
#[group(requires = "model")]
pub struct BatchArgs {
    /// Maximum size of a batch: source tokens including padding, times hypotheses; limits memory
    #[arg(long, value_name = "N", default_value_t = Translator::BATCH_TOKENS)]
    pub batch_tokens: usize,
}

/// Execution and search options of a translator.
#[derive(Debug, Args)]
pub struct TranslatorArgs {
    /// Further bundle, with the same vocabulary, whose probabilities are averaged with those of
    /// --model (repeatable)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "model")]
    pub ensemble: Vec<PathBuf>,

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

    /// Search options
    #[command(flatten)]
    pub search: SearchArgs,
}

impl TranslatorArgs {
    /// Returns a translator on `device` with `bundle`, which was opened at `model`, and with the other
    /// bundles of the ensemble.
    ///
    /// # Errors
    ///
    /// When another bundle cannot be opened or has another vocabulary, the device does not support
    /// the precision, or search options contradict each other.
    pub fn translator(
        &self,
        model: &Path,
        bundle: &Bundle,
        device: &Device,
        seed: u64,
    ) -> Result<Translator, InferError> {
        let precision = self.precision.precision;
        let translator = |bundle: &Bundle| {
            bundle.expect(TaskKind::Translate)?;
            let engine = bundle.engine_in(precision, device)?;
            let (config, tokenizers) = (bundle.config.clone(), bundle.tokenizers.clone());
            Ok::<_, InferError>(Translator::from_engine(engine, config, tokenizers))
        };
        let translator = self.ensemble.iter().try_fold(translator(bundle)?, |all, path| {
            all.with_member(model, path, translator(&Bundle::open(path)?)?)
        })?;
        let translator = self.search.apply(translator, seed)?;
        let translator = translator.with_batch_tokens(self.batch.batch_tokens);
        Ok(match self.threads.threads {
            Some(threads) => translator.with_threads(threads.get()),
            None => translator,
        })
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
        let precision = self.precision.precision;
        let alone = Generator::new_in(bundle, precision, device)?;
        let generator = self.ensemble.iter().try_fold(alone, |all, path| {
            all.with_member(
                model,
                path,
                Generator::new_in(&Bundle::open(path)?, precision, device)?,
            )
        })?;
        let generator = self.search.apply_to_generator(generator, seed)?;
        let generator = generator.with_batch_tokens(self.batch.batch_tokens);
        Ok(match self.threads.threads {
            Some(threads) => generator.with_threads(threads.get()),
            None => generator,
        })
    }

    /// Returns a classifier on `device` with `bundle`.
    ///
    /// # Errors
    ///
    /// When the device does not support the precision.
    pub fn classifier(&self, bundle: &Bundle, device: &Device) -> Result<Classifier, InferError> {
        let classifier = Classifier::new_in(bundle, self.precision.precision, device)?;
        let classifier = classifier.with_batch_tokens(self.batch.batch_tokens);
        Ok(match self.threads.threads {
            Some(threads) => classifier.with_threads(threads.get()),
            None => classifier,
        })
    }

    /// Returns a model that fills masks, on `device` with `bundle`.
    ///
    /// # Errors
    ///
    /// When the device does not support the precision.
    pub fn fill_mask(&self, bundle: &Bundle, device: &Device) -> Result<FillMask, InferError> {
        let model = FillMask::new_in(bundle, self.precision.precision, device)?;
        let model = model.with_batch_tokens(self.batch.batch_tokens);
        Ok(match self.threads.threads {
            Some(threads) => model.with_threads(threads.get()),
            None => model,
        })
    }
}
