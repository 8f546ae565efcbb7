//! Writing of all files of a bundle but the weights.

use std::{fs, io, path::Path};

use tx_model::ModelConfig;
use tx_text::Tokenizers;

use super::{
    CONFIG, Languages, PROVENANCE, WEIGHTS,
    config::{BundleConfig, WeightDtype},
    files::sha256,
    tokenizers::tokenizer_contents,
    vocabulary,
};
use crate::{error::InferError, file::write_whole, search::SearchOptions, task::ModelTask};

/// Parts of a bundle besides its weights.
pub(super) struct Parts<'a> {
    pub(super) task: &'a ModelTask,
    pub(super) config: &'a ModelConfig,
    pub(super) tokenizers: &'a Tokenizers,
    pub(super) languages: Option<&'a Languages>,
    pub(super) search: Option<&'a SearchOptions>,
    pub(super) provenance: &'a toml::Table,
    /// Dtype of the weights that will be written.
    pub(super) weights: WeightDtype,
}

/// Files of a bundle besides its weights.
pub(super) struct Contents {
    config: String,
    tokenizers: Vec<(&'static str, String)>,
    provenance: String,
}

impl Parts<'_> {
    /// Returns the files for a bundle in `folder`.
    ///
    /// # Errors
    ///
    /// [`InferError::Config`] if languages or search options are invalid; [`InferError::Text`].
    pub(super) fn contents(&self, folder: &Path) -> Result<Contents, InferError> {
        let path = folder.join(CONFIG);
        let tokenizers = tokenizer_contents(self.task.kind(), self.tokenizers)?;
        let hashes = tokenizers.iter().map(|(_, json)| sha256(json.as_bytes()));
        let config = BundleConfig::new(self, vocabulary(self.tokenizers), hashes);
        config.check_options(&path, self.tokenizers)?;
        let config = toml::to_string(&config)
            .map_err(|error| InferError::Write { path, source: io::Error::other(error) })?;
        Ok(Contents { config, tokenizers, provenance: self.provenance.to_string() })
    }
}

impl Contents {
    /// Writes configuration, tokenizers and provenance into `folder`, which is created if necessary.
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
        let path = folder.join(PROVENANCE);
        write_whole(&path, self.provenance.as_bytes()).map_err(write_error(&path))
    }
}
