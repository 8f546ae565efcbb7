//! Parts of a bundle besides its weights, and the files that they are written to.

use std::{fs, io, ops::Range, path::Path, sync::Arc};

use tx_model::ModelConfig;
use tx_text::Tokenizers;

use super::{
    CONFIG, FORMAT, Languages, PROVENANCE, QUANTIZED_FORMAT, WEIGHTS,
    config::{BundleConfig, Hashes, WeightDtype},
    files::sha256,
    tokenizers::tokenizer_contents,
    vocabulary,
};
use crate::{
    calibration::Calibration,
    error::InferError,
    file::write_whole,
    lexicon::{LEXICON, Lexicon},
    search::{SearchOptions, alignment_layer},
    task::ModelTask,
};

/// Parts of a bundle besides its weights.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub(crate) task: &'a ModelTask,
    pub(crate) config: &'a ModelConfig,
    pub(crate) tokenizers: &'a Tokenizers,
    pub(crate) languages: Option<&'a Languages>,
    pub(crate) context: usize,
    pub(crate) search: Option<&'a SearchOptions>,
    pub(crate) calibration: Option<Calibration>,
    pub(crate) lexicon: Option<&'a Arc<Lexicon>>,
    pub(crate) provenance: &'a toml::Table,
}

/// Files of a bundle besides its weights.
pub(super) struct Contents {
    config: String,
    tokenizers: Vec<(&'static str, String)>,
    lexicon: Option<Vec<u8>>,
    provenance: String,
}

impl Parts<'_> {
    /// Ids between the vocabulary of the target tokenizer and its
    /// [padded](ModelConfig::vocab_multiple) size.
    pub(crate) fn padding(&self) -> Range<u32> {
        let vocab = vocabulary(self.tokenizers);
        vocab.target as u32..self.config.padded(vocab).target as u32
    }

    /// Decoder layer that aligns: see [`Bundle::alignment_layer`](super::Bundle::alignment_layer).
    pub(crate) fn alignment_layer(&self) -> usize {
        let guided = self.search.and_then(|search| search.attention_layer);
        alignment_layer(self.config.decoder_layers, guided)
    }

    /// Returns the files for a bundle in `folder` with weights of this dtype.
    ///
    /// # Errors
    ///
    /// [`InferError::Config`] if languages or search options are invalid; [`InferError::Text`].
    pub(super) fn contents(
        &self,
        folder: &Path,
        weights: WeightDtype,
    ) -> Result<Contents, InferError> {
        let path = folder.join(CONFIG);
        let tokenizers = tokenizer_contents(self.task.kind(), self.tokenizers)?;
        let config = self.config(weights, &tokenizers);
        config.check_options(&path, self.tokenizers)?;
        let config = toml::to_string(&config)
            .map_err(|error| InferError::Write { path, source: io::Error::other(error) })?;
        let lexicon = self.lexicon.map(|lexicon| lexicon.to_bytes(folder)).transpose()?;
        Ok(Contents { config, tokenizers, lexicon, provenance: self.provenance.to_string() })
    }

    /// Describes a model with weights of this dtype, and with tokenizer files of these contents.
    fn config(&self, weights: WeightDtype, tokenizers: &[(&str, String)]) -> BundleConfig {
        let (labels, pooling) = match self.task {
            ModelTask::Classify { labels, pooling } => (Some(labels.clone()), Some(*pooling)),
            ModelTask::Translate | ModelTask::Generate | ModelTask::FillMask => (None, None),
        };
        let mut hashes = tokenizers.iter().map(|(_, json)| sha256(json.as_bytes()));
        let tokenizers = if self.task.kind().has_one_text() {
            Hashes { sha256: hashes.next(), source_sha256: None, target_sha256: None }
        } else {
            Hashes { sha256: None, source_sha256: hashes.next(), target_sha256: hashes.next() }
        };
        BundleConfig {
            format: match weights {
                WeightDtype::F32 => FORMAT,
                WeightDtype::Int8 => QUANTIZED_FORMAT,
            },
            task: self.task.kind(),
            labels,
            pooling,
            weights,
            vocabulary: vocabulary(self.tokenizers),
            tokenizers,
            languages: self.languages.cloned(),
            context: self.context,
            search: self.search.cloned(),
            calibration: self.calibration,
            model: self.config.clone(),
        }
    }
}

impl Contents {
    /// Writes configuration, tokenizers, lexicon and provenance into `folder`, which is created if necessary.
    /// Weights that are in the folder are removed if they belong to another configuration or to
    /// other tokenizers.
    ///
    /// # Errors
    ///
    /// [`InferError::Write`].
    pub(super) fn write(&self, folder: &Path) -> Result<(), InferError> {
        let write_error = |path: &Path| {
            let path = path.to_owned();
            move |source| InferError::Write { path, source }
        };
        fs::create_dir_all(folder).map_err(write_error(folder))?;
        let weights = folder.join(WEIGHTS);
        let tokenizers = self.tokenizers.iter().map(|(name, json)| (*name, json));
        for (name, content) in [(CONFIG, &self.config)].into_iter().chain(tokenizers) {
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
        let path = folder.join(LEXICON);
        match &self.lexicon {
            Some(lexicon) => write_whole(&path, lexicon).map_err(write_error(&path))?,
            None => match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(write_error(&path)(error));
                }
                _ => {}
            },
        }
        let path = folder.join(PROVENANCE);
        write_whole(&path, self.provenance.as_bytes()).map_err(write_error(&path))
    }
}
