//! A trained model on disk: a folder that any tool can open.
//!
//! | file | what |
//! |---|---|
//! | `model.safetensors` | the weights, named by their place in the model |
//! | `config.toml` | the model's shape, and the hashes of the tokenizers it was trained with |
//! | `source.tokenizer.json`, `target.tokenizer.json` | Hugging Face tokenizers |
//! | `provenance.toml` | where the model comes from: data, seed, versions, scores |
//!
//! A folder with `model.safetensors` is a whole bundle: that file is written last, and each file
//! is written aside and renamed.

use std::{
    fs::{self, File},
    io::{self, Read},
    panic::resume_unwind,
    path::Path,
    thread,
};

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tx_data::{Tokenizer, Tokenizers, hash::hexadecimal};
use tx_model::{ModelConfig, Transformer, VocabSizes};

use crate::{error::InferError, file::write_whole};

pub mod info;
mod weights;

pub use info::BundleInfo;
use weights::Header;

/// The bundle format that this build writes and reads.
pub const FORMAT: u32 = 1;

/// The file with the weights; a folder without it holds no bundle.
pub const WEIGHTS: &str = "model.safetensors";
const CONFIG: &str = "config.toml";
const SOURCE_TOKENIZER: &str = "source.tokenizer.json";
const TARGET_TOKENIZER: &str = "target.tokenizer.json";
const PROVENANCE: &str = "provenance.toml";

/// Largest `config.toml` and `provenance.toml` in bytes.
const MOST_TEXT: u64 = 1 << 20;

/// Largest tokenizer in bytes. The tokenizer of NLLB, with 256,000 tokens, has 17 MB.
const MOST_TOKENIZER: u64 = 256 << 20;

/// A model with all that is needed to translate text.
#[derive(Debug, Clone)]
pub struct Bundle {
    /// The weights, on a device.
    pub model: Transformer,
    /// The model's shape.
    pub config: ModelConfig,
    /// Text to ids and back.
    pub tokenizers: Tokenizers,
    /// Where the model comes from, for people to read.
    pub provenance: toml::Table,
}

/// `config.toml`.
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

/// The tokenizers of the bundle in `folder`, whatever its weights are; none if it has none yet.
///
/// # Errors
///
/// When one cannot be read.
pub fn saved_tokenizers(folder: &Path) -> Result<Option<Tokenizers>, InferError> {
    let paths = [SOURCE_TOKENIZER, TARGET_TOKENIZER].map(|name| folder.join(name));
    if !paths.iter().all(|path| path.is_file()) {
        return Ok(None);
    }
    let [source, target] = paths.map(|path| Tokenizer::open(&path));
    Ok(Some(Tokenizers { source: source?, target: target? }))
}

/// Writes tokenizers into `folder`, where [`saved_tokenizers`] finds them: before there is a model to
/// make a bundle of.
///
/// # Errors
///
/// When one cannot be written.
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
    /// Opens a bundle and puts its weights on `device`.
    ///
    /// # Errors
    ///
    /// When a file is missing or damaged, or the files do not belong together; the message names
    /// the file, what was found and what was expected.
    pub fn open(folder: impl AsRef<Path>, device: &Device) -> Result<Self, InferError> {
        let folder = folder.as_ref();
        let (config, header) = read_headers(folder)?;
        let provenance = read_toml(&folder.join(PROVENANCE))?;
        let model = || {
            let vocab = config.model.padded(config.vocabulary);
            let mut model = Transformer::uninitialized(&config.model, vocab, device)?;
            weights::load(&mut model, &folder.join(WEIGHTS))?;
            Ok::<_, InferError>(model)
        };
        // The tokenizers take as long to read as the weights of a small model: side by side.
        let (tokenizers, values, model) = thread::scope(|scope| {
            let tokenizers = scope.spawn(|| read_tokenizers(folder, &config));
            let values = scope.spawn(|| header.check_values());
            let model = model();
            let tokenizers = tokenizers.join().unwrap_or_else(|panic| resume_unwind(panic));
            (tokenizers, values.join().unwrap_or_else(|panic| resume_unwind(panic)), model)
        });
        values?;
        Ok(Self { tokenizers: tokenizers?, model: model?, config: config.model, provenance })
    }

    /// Writes the bundle into `folder`, which is made if need be; a bundle there is replaced.
    ///
    /// # Errors
    ///
    /// When a file cannot be written. A bundle of the same run that was there stays usable.
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
            // Weights of another model must not meet this model's configuration.
            match fs::remove_file(&weights) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(write_error(&weights)(error));
                }
                _ => write_whole(&path, content.as_bytes()).map_err(write_error(&path))?,
            }
        }
        let path = folder.join(PROVENANCE);
        write_whole(&path, self.provenance.to_string().as_bytes()).map_err(write_error(&path))?;
        weights::save(&self.model, &weights, &folder.join(CONFIG))
            .map_err(|error| write_error(&weights)(io::Error::other(error)))
    }

    /// Ids of each side's tokenizer.
    pub fn vocabulary(&self) -> VocabSizes {
        VocabSizes {
            source: self.tokenizers.source.vocab_size(),
            target: self.tokenizers.target.vocab_size(),
        }
    }
}

/// The configuration and the header of the weights, which fit each other. Nothing whose size only a
/// number in a file says has been allocated yet.
fn read_headers(folder: &Path) -> Result<(BundleConfig, Header), InferError> {
    for missing in [WEIGHTS, CONFIG] {
        if !folder.join(missing).is_file() {
            return Err(InferError::NotABundle { path: folder.into(), missing });
        }
    }
    let config = read_config(&folder.join(CONFIG))?;
    config.model.check(config.vocabulary)?;
    let header = Header::read(folder)?;
    header.check(&config.model, config.model.padded(config.vocabulary))?;
    Ok((config, header))
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
    // The format first: another one may have other keys.
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
    String::from_utf8(read_bytes(path, MOST_TEXT)?).map_err(|error| InferError::Read {
        path: path.into(),
        source: io::Error::new(io::ErrorKind::InvalidData, error),
    })
}

fn read_tokenizers(folder: &Path, config: &BundleConfig) -> Result<Tokenizers, InferError> {
    let (hashes, vocab) = (&config.tokenizers, config.vocabulary);
    let read = |name, hash, size| read_tokenizer(&folder.join(name), hash, size);
    Ok(Tokenizers {
        source: read(SOURCE_TOKENIZER, &hashes.source_sha256, vocab.source)?,
        target: read(TARGET_TOKENIZER, &hashes.target_sha256, vocab.target)?,
    })
}

fn read_tokenizer(path: &Path, hash: &str, vocabulary: usize) -> Result<Tokenizer, InferError> {
    let json = read_bytes(path, MOST_TOKENIZER)?;
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

/// The content of a regular file of at most `most` bytes.
fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>, InferError> {
    let size = regular_file(path)?;
    if size > most {
        return Err(InferError::LargeFile { path: path.into(), bytes: size, most });
    }
    let mut bytes = Vec::new();
    let mut read = || File::open(path)?.take(most).read_to_end(&mut bytes);
    read().map_err(|source| InferError::Read { path: path.into(), source })?;
    Ok(bytes)
}

/// The size of a file, which must be a regular one: opening a pipe would wait for whoever writes to it.
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
mod tests;
