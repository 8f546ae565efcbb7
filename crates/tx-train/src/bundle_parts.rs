//! Parts of a run's bundle besides the model.

use std::{path::Path, sync::Arc};

use tx_infer::{
    Lexicon, ModelTask, ModuleBundle, SearchOptions,
    bundle::{BundleModel, Languages},
};
use tx_model::ModelConfig;
use tx_text::Tokenizers;

use crate::error::TrainError;

/// Parts of the bundle of a run besides its model.
#[derive(Debug, Clone)]
pub struct BundleParts {
    /// Task of the model.
    pub task: ModelTask,
    /// Configuration of the model.
    pub config: ModelConfig,
    /// Tokenizers of both sides.
    pub tokenizers: Tokenizers,
    /// Languages of a multilingual model.
    pub languages: Option<Languages>,
    /// Sentences before a source that the model reads with it, at most.
    pub context: usize,
    /// Default search options.
    pub search: Option<SearchOptions>,
    /// Words of the training text.
    pub lexicon: Option<Arc<Lexicon>>,
    /// Origin of the bundle, without the scores of its validation.
    pub provenance: toml::Table,
}

impl BundleParts {
    /// Creates a bundle with `model`.
    pub fn bundle<M: BundleModel>(&self, model: M) -> ModuleBundle<M> {
        // The path of another bundle is a setting of the run.
        let config = ModelConfig { encoder_from: None, ..self.config.clone() };
        ModuleBundle {
            model,
            task: self.task.clone(),
            config,
            tokenizers: self.tokenizers.clone(),
            languages: self.languages.clone(),
            context: self.context,
            search: self.search.clone(),
            lexicon: self.lexicon.clone(),
            provenance: self.provenance.clone(),
        }
    }

    /// Saves a bundle with `model` and the scores of its validation into the run folder.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn save<M: BundleModel>(
        &self,
        model: M,
        scores: toml::Table,
        run: &Path,
    ) -> Result<(), TrainError> {
        let mut bundle = self.bundle(model);
        bundle.provenance.insert("validation".into(), scores.into());
        Ok(bundle.save(run)?)
    }
}
