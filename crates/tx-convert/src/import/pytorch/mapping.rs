//! Properties of a model that a file of weights does not contain.

use std::path::Path;

use serde::Deserialize;
use tx_model::Activation;

use crate::{error::ConvertError, source_files::SourceFiles};

/// Name of the file with the properties, beside that of the weights.
const FILE: &str = "mapping.toml";

/// Properties, by default those of `nn.Transformer` and PyTorch's tutorial.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mapping {
    /// `norm_first` of the layers.
    pub(super) norm_first: bool,
    /// `layer_norm_eps`.
    pub(super) norm_epsilon: f64,
    pub(super) activation: LayerActivation,
    /// Whether embeddings are multiplied by √`d_model`.
    pub(super) embedding_scale: bool,
    /// Whether sources start with `<bos>`.
    pub(super) source_bos: bool,
    pub(super) division: TextDivision,
    /// Tensors that are not part of the model.
    pub(super) ignore: Vec<String>,
    pub(super) tensors: TensorNames,
}

/// `activation` of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum LayerActivation {
    Relu,
    Gelu,
}

/// Division of texts without a SentencePiece model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TextDivision {
    /// At spaces.
    Words,
    /// Into characters.
    Characters,
}

/// Names of the tensors outside of `nn.Transformer`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TensorNames {
    pub(super) source_embedding: Option<String>,
    pub(super) target_embedding: Option<String>,
    pub(super) projection: Option<String>,
    pub(super) source_positions: Option<String>,
    pub(super) target_positions: Option<String>,
}

impl Default for Mapping {
    fn default() -> Self {
        Self {
            norm_first: false,
            norm_epsilon: 1e-5,
            activation: LayerActivation::Relu,
            embedding_scale: true,
            source_bos: true,
            division: TextDivision::Words,
            ignore: Vec::new(),
            tensors: TensorNames::default(),
        }
    }
}

impl Mapping {
    /// Reads `mapping.toml` in the folder, if there is one.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is no TOML, or has an unknown key or value.
    pub(super) fn read(folder: &Path, files: &mut SourceFiles) -> Result<Self, ConvertError> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Ok(Self::default());
        }
        let content = files.bytes(&path)?;
        let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
        let text = str::from_utf8(&content).map_err(|_| problem("it is not UTF-8".to_owned()))?;
        toml::from_str(text).map_err(|error| problem(error.to_string()))
    }
}

impl From<LayerActivation> for Activation {
    fn from(activation: LayerActivation) -> Self {
        match activation {
            LayerActivation::Relu => Self::Relu,
            LayerActivation::Gelu => Self::Gelu,
        }
    }
}
