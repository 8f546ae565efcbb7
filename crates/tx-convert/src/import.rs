//! Import of models as bundles.

use std::{fmt, str::FromStr};

/// Format of a model to be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// Folder of `transformers` with `model_type` `marian`, as OPUS-MT models have.
    TransformersMarian,
    /// Folder of `transformers` with `model_type` `m2m_100`: M2M-100 and NLLB.
    TransformersM2m100,
    /// `.npz` of Marian, or a folder with one.
    Marian,
    /// Checkpoint `.pt` of the tutorial "Coding a Transformer from scratch".
    TutorialCheckpoint,
}

impl ImportFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [
        Self::TransformersMarian,
        Self::TransformersM2m100,
        Self::Marian,
        Self::TutorialCheckpoint,
    ];

    /// Returns the name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::TransformersMarian => "transformers-marian",
            Self::TransformersM2m100 => "transformers-m2m100",
            Self::Marian => "marian",
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
