//! Trained models on disk: a folder that any tool can open.
//!
//! | file | content |
//! |---|---|
//! | `model.safetensors` | weights, named by their path in the model |
//! | `config.toml` | configuration of the model, and hashes of the tokenizers it was trained with |
//! | `source.tokenizer.json`, `target.tokenizer.json` | Hugging Face tokenizers |
//! | `provenance.toml` | origin of the model: data, seed, versions, scores |
//!
//! A folder with `model.safetensors` is a complete bundle, because that file is written last. Each
//! file is written under another name and renamed, so a bundle that is open keeps its content when
//! it is replaced.
//!
//! The weights are mapped into memory. A process that truncates `model.safetensors` in place while
//! it is mapped ends this process with `SIGBUS`; replace the file by a rename, as this crate does.

use std::{
    fs::{self, File},
    io::{self, Read},
    panic::resume_unwind,
    path::Path,
    sync::Arc,
    thread,
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tx_model::{ModelConfig, VocabSizes, packed::PackedTransformer};
use tx_text::{Tokenizer, Tokenizers, hash::hexadecimal};

use crate::{error::InferError, file::write_whole, search::Engine};

pub mod info;
#[cfg(feature = "burn")]
mod module;
mod weights;

pub use info::BundleInfo;
#[cfg(feature = "burn")]
pub use module::ModuleBundle;
use weights::WeightsFile;

/// The bundle format that this build writes and reads.
pub const FORMAT: u32 = 1;

/// Name of the weights file; a folder without it is not a bundle.
pub const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.toml";
const SOURCE_TOKENIZER: &str = "source.tokenizer.json";
const TARGET_TOKENIZER: &str = "target.tokenizer.json";
const PROVENANCE: &str = "provenance.toml";

/// Largest `config.toml` and `provenance.toml` in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// Largest tokenizer in bytes. The tokenizer of NLLB, with 256,000 tokens, has 17 MB.
const MAX_TOKENIZER: u64 = 256 << 20;

/// Minimum size in bytes of a bundle whose files are read by several threads. Starting a thread
/// takes a fraction of the time that reading such a bundle takes.
const LARGE: u64 = 1 << 18;

/// A bundle that was read and validated: configuration, tokenizers, provenance, and the mapped
/// weights.
///
/// It contains no model yet: [`engine`](Self::engine) builds one for searching, and
/// [`packed`](Self::packed) the model of the packed engine. Clones share the mapped file.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// Configuration of the model.
    pub config: ModelConfig,
    /// Tokenizers of both sides.
    pub tokenizers: Tokenizers,
    /// Origin of the model, for information.
    pub provenance: toml::Table,
    weights: Arc<WeightsFile>,
}

/// Content of `config.toml`.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BundleConfig {
    format: u32,
    vocabulary: VocabSizes,
    tokenizers: Hashes,
    model: ModelConfig,
}

/// SHA-256 of the tokenizer files, in hexadecimal.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hashes {
    source_sha256: String,
    target_sha256: String,
}

/// Reads the tokenizers in `folder`, which need not contain weights; `None` if there are no
/// tokenizers yet.
///
/// # Errors
///
/// If one cannot be read.
pub fn saved_tokenizers(folder: &Path) -> Result<Option<Tokenizers>, InferError> {
    let paths = [SOURCE_TOKENIZER, TARGET_TOKENIZER].map(|name| folder.join(name));
    if !paths.iter().all(|path| path.is_file()) {
        return Ok(None);
    }
    let [source, target] = paths.map(|path| Tokenizer::open(&path));
    Ok(Some(Tokenizers { source: source?, target: target? }))
}

/// Writes tokenizers into `folder`, for [`saved_tokenizers`], before there are weights for a
/// bundle.
///
/// # Errors
///
/// If one cannot be written.
pub fn save_tokenizers(folder: &Path, tokenizers: &Tokenizers) -> Result<(), InferError> {
    for (name, tokenizer) in
        [(SOURCE_TOKENIZER, &tokenizers.source), (TARGET_TOKENIZER, &tokenizers.target)]
    {
        let path = folder.join(name);
        write_whole(&path, tokenizer.to_json()?.as_bytes())
            .map_err(|source| InferError::Write { path, source })?;
    }
    Ok(())
}

impl Bundle {
    /// Opens the bundle in `folder` and validates all of it, the values of the weights included.
    ///
    /// # Errors
    ///
    /// If a file is missing or damaged, or the files do not belong together. The message names the
    /// file, the value found and the value expected.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self, InferError> {
        let folder = folder.as_ref();
        let (config, weights) = read_headers(folder)?;
        let provenance = read_toml(&folder.join(PROVENANCE))?;
        let size = weights.bytes() as u64 + tokenizer_bytes(folder);
        let tokenizers = if size < LARGE {
            weights.check_values(0, 1)?;
            read_tokenizers(folder, &config)?
        } else {
            thread::scope(|scope| {
                let other = scope.spawn(|| {
                    let target = read_target_tokenizer(folder, &config);
                    (target, weights.check_values(1, 2))
                });
                let source = read_source_tokenizer(folder, &config);
                let first = weights.check_values(0, 2);
                let (target, second) = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                first.and(second)?;
                Ok::<_, InferError>(Tokenizers { source: source?, target: target? })
            })?
        };
        Ok(Self { config: config.model, tokenizers, provenance, weights: Arc::new(weights) })
    }

    /// Returns the number of ids of each side's tokenizer.
    pub fn vocabulary(&self) -> VocabSizes {
        vocabulary(&self.tokenizers)
    }

    /// Packs the weights for the packed engine. Pages of the file leave memory as they are packed,
    /// so that the weights are never in memory twice.
    ///
    /// # Errors
    ///
    /// [`InferError::Model`] if `config` was changed to one of another model.
    pub fn packed(&self) -> Result<PackedTransformer, InferError> {
        let vocab = self.config.padded(self.vocabulary());
        self.weights.check(&self.config, vocab)?;
        let packed =
            PackedTransformer::pack(&self.config, vocab, &self.weights.packing(self.config.tying))?;
        self.weights.release();
        Ok(packed)
    }

    /// Loads the weights into a module on `device`.
    ///
    /// # Errors
    ///
    /// If the file was replaced since the bundle was opened and no longer fits, or `config` was
    /// changed to one of another model.
    #[cfg(feature = "burn")]
    pub fn transformer(
        &self,
        device: &burn::tensor::Device,
    ) -> Result<tx_model::Transformer, InferError> {
        let vocab = self.config.padded(self.vocabulary());
        module::load(&self.config, vocab, self.weights.path(), device)
    }

    /// Builds the model on `device` in single precision, ready for searching.
    ///
    /// # Errors
    ///
    /// Same as [`packed`](Self::packed), or on other devices [`transformer`](Self::transformer).
    pub fn engine(&self, device: &crate::Device) -> Result<Engine, InferError> {
        let engine = match device {
            crate::Device::Cpu => Engine::new(self.packed()?, self.config.max_len),
            #[cfg(feature = "burn")]
            crate::Device::Burn(burn) => {
                Engine::from_transformer(self.transformer(burn)?, self.config.max_len, device)
            }
        };
        Ok(engine.with_padding(self.padding()))
    }

    /// Ids between the vocabulary of the target tokenizer and its
    /// [padded](ModelConfig::vocab_multiple) size.
    pub(crate) fn padding(&self) -> std::ops::Range<u32> {
        padding(&self.config, self.vocabulary())
    }
}

fn vocabulary(tokenizers: &Tokenizers) -> VocabSizes {
    VocabSizes { source: tokenizers.source.vocab_size(), target: tokenizers.target.vocab_size() }
}

fn padding(config: &ModelConfig, vocab: VocabSizes) -> std::ops::Range<u32> {
    vocab.target as u32..config.padded(vocab).target as u32
}

/// Reads the configuration and maps the weights, and checks that they belong together. Allocates no
/// memory whose size is only declared by a number in a file.
fn read_headers(folder: &Path) -> Result<(BundleConfig, WeightsFile), InferError> {
    for missing in [WEIGHTS, CONFIG] {
        if !folder.join(missing).is_file() {
            return Err(InferError::NotABundle { path: folder.into(), missing });
        }
    }
    let config = read_config(&folder.join(CONFIG))?;
    config.model.check(config.vocabulary)?;
    let weights = WeightsFile::open(folder)?;
    weights.check(&config.model, config.model.padded(config.vocabulary))?;
    Ok((config, weights))
}

fn read_config(path: &Path) -> Result<BundleConfig, InferError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let problem = |error: toml::de::Error| InferError::Config {
        path: path.into(),
        problem: error.to_string(),
    };
    let text = read_text(path)?;
    // The format is checked first, because another one may have other keys.
    let Format { format } = toml::from_str(&text).map_err(problem)?;
    if format != FORMAT {
        return Err(InferError::Format { path: path.into(), found: format, newest: FORMAT });
    }
    toml::from_str(&text).map_err(problem)
}

fn read_toml(path: &Path) -> Result<toml::Table, InferError> {
    let problem = |error: toml::de::Error| InferError::Config {
        path: path.into(),
        problem: error.to_string(),
    };
    toml::from_str(&read_text(path)?).map_err(problem)
}

fn read_text(path: &Path) -> Result<String, InferError> {
    String::from_utf8(read_bytes(path, MAX_TEXT)?).map_err(|error| InferError::Read {
        path: path.into(),
        source: io::Error::new(io::ErrorKind::InvalidData, error),
    })
}

/// Returns the total size of both tokenizer files; a missing file counts as 0.
fn tokenizer_bytes(folder: &Path) -> u64 {
    let files = [SOURCE_TOKENIZER, TARGET_TOKENIZER].map(|name| fs::metadata(folder.join(name)));
    files.into_iter().flatten().map(|file| file.len()).fold(0, u64::saturating_add)
}

fn read_tokenizers(folder: &Path, config: &BundleConfig) -> Result<Tokenizers, InferError> {
    let source = read_source_tokenizer(folder, config)?;
    Ok(Tokenizers { source, target: read_target_tokenizer(folder, config)? })
}

fn read_source_tokenizer(folder: &Path, config: &BundleConfig) -> Result<Tokenizer, InferError> {
    let hash = &config.tokenizers.source_sha256;
    read_tokenizer(&folder.join(SOURCE_TOKENIZER), hash, config.vocabulary.source)
}

fn read_target_tokenizer(folder: &Path, config: &BundleConfig) -> Result<Tokenizer, InferError> {
    let hash = &config.tokenizers.target_sha256;
    read_tokenizer(&folder.join(TARGET_TOKENIZER), hash, config.vocabulary.target)
}

fn read_tokenizer(path: &Path, hash: &str, vocabulary: usize) -> Result<Tokenizer, InferError> {
    let json = read_bytes(path, MAX_TOKENIZER)?;
    let found = sha256(&json);
    if found != hash {
        let expected = hash.to_owned();
        return Err(InferError::OtherTokenizer { path: path.into(), found, expected });
    }
    let tokenizer = Tokenizer::from_json(&json, path)?;
    if tokenizer.vocab_size() != vocabulary {
        return Err(InferError::VocabSize {
            path: path.into(),
            found: tokenizer.vocab_size(),
            expected: vocabulary,
        });
    }
    Ok(tokenizer)
}

/// Reads a regular file of at most `max` bytes.
fn read_bytes(path: &Path, max: u64) -> Result<Vec<u8>, InferError> {
    let size = regular_file(path)?;
    if size > max {
        return Err(InferError::LargeFile { path: path.into(), bytes: size, max });
    }
    let mut bytes = Vec::new();
    let mut read = || File::open(path)?.take(max).read_to_end(&mut bytes);
    read().map_err(|source| InferError::Read { path: path.into(), source })?;
    Ok(bytes)
}

/// Returns the size of a regular file. Other files are rejected, because opening a pipe would block
/// until it has a writer.
fn regular_file(path: &Path) -> Result<u64, InferError> {
    let read_error = |source| InferError::Read { path: path.into(), source };
    let metadata = fs::metadata(path).map_err(read_error)?;
    if !metadata.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(read_error(error));
    }
    Ok(metadata.len())
}

fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
