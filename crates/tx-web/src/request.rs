//! Requests of the host.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

/// Receives a part of a text that is being generated; returns whether to go on.
pub type OnPart<'a> = &'a mut dyn FnMut(&str) -> bool;

/// A request.
#[derive(Debug, Deserialize)]
#[serde(tag = "call", rename_all = "camelCase", deny_unknown_fields)]
pub enum Request {
    /// Opens a bundle. Its buffers are removed.
    #[serde(rename_all = "camelCase")]
    Open {
        /// Buffer of a bundle in one file.
        archive: Option<u32>,
        /// Buffers of the files of a bundle, by name.
        #[serde(default)]
        files: BTreeMap<String, u32>,
        /// `f32` or `int8`; without it, that of the bundle.
        precision: Option<String>,
    },
    /// Removes a model.
    Close {
        /// Number of the model.
        model: u32,
    },
    /// Translates texts.
    Translate {
        /// Number of the model.
        model: u32,
        /// Texts.
        texts: Vec<String>,
        /// Codes of the languages of a multilingual model.
        #[serde(default)]
        languages: Languages,
        /// Changed search options.
        #[serde(default)]
        options: Map<String, Value>,
    },
    /// Scores given translations: pairs of source and target.
    Score {
        /// Number of the model.
        model: u32,
        /// Pairs of source and target.
        pairs: Vec<(String, String)>,
        /// Codes of the languages of a multilingual model.
        #[serde(default)]
        languages: Languages,
    },
    /// Attention weights of a text and, of a translator, of a target.
    Attention {
        /// Number of the model.
        model: u32,
        /// The text.
        text: String,
        /// Target of a translator; without it, the best translation.
        target: Option<String>,
        /// Codes of the languages of a multilingual model.
        #[serde(default)]
        languages: Languages,
    },
    /// All values inside a translator for a text.
    Inside {
        /// Number of the model.
        model: u32,
        /// The text.
        text: String,
        /// Ids that the translation begins with.
        #[serde(default)]
        prefix: Vec<u32>,
        /// Parts of the model that are turned off, such as `encoder.2` and `cross.1.3`.
        #[serde(default)]
        ablations: Vec<String>,
        /// Codes of the languages of a multilingual model.
        #[serde(default)]
        languages: Languages,
        /// Changed search options.
        #[serde(default)]
        options: Map<String, Value>,
    },
    /// Assigns labels to texts.
    #[serde(rename_all = "camelCase")]
    Classify {
        /// Number of the model.
        model: u32,
        /// Texts.
        texts: Vec<String>,
        /// Maximum number of labels of a text.
        top_k: Option<usize>,
    },
    /// Continues texts.
    Generate {
        /// Number of the model.
        model: u32,
        /// Prompts.
        texts: Vec<String>,
        /// Whether parts of a text are passed to the host as they are generated. There must be one text
        /// then.
        #[serde(default)]
        stream: bool,
        /// Changed search options.
        #[serde(default)]
        options: Map<String, Value>,
    },
    /// Fills the masks in texts.
    #[serde(rename_all = "camelCase")]
    FillMask {
        /// Number of the model.
        model: u32,
        /// Texts with masks.
        texts: Vec<String>,
        /// Number of tokens for a mask.
        top_k: Option<usize>,
    },
}

/// Languages of a translation.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Languages {
    /// Code of the source.
    pub source: Option<String>,
    /// Code of the target.
    pub target: Option<String>,
}
