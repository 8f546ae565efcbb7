//! Formats of other toolkits.

use std::{fmt, str::FromStr};

/// Format that a bundle is exported to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// Folder of CTranslate2.
    CTranslate2,
    /// Folder of Hugging Face `transformers`.
    Transformers,
    /// `.npz` of Marian, with vocabularies and `decoder.yml`.
    Marian,
    /// Graphs of ONNX for the encoder and for the decoder with its keys and values.
    Onnx,
}

impl ExportFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::CTranslate2, Self::Transformers, Self::Marian, Self::Onnx];

    /// Returns the name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::CTranslate2 => "ctranslate2",
            Self::Transformers => "transformers",
            Self::Marian => "marian",
            Self::Onnx => "onnx",
        }
    }

    /// Whether the user of the format decides which ids the encoder reads, so that these can have context.
    pub(super) fn has_context(self) -> bool {
        match self {
            Self::CTranslate2 | Self::Transformers | Self::Marian => false,
            Self::Onnx => true,
        }
    }
}

impl fmt::Display for ExportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| format!("unknown format `{name}`"))
    }
}
