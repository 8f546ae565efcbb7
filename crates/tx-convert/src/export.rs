//! Export of bundles to the formats of other toolkits.

use std::{fmt, path::Path, str::FromStr};

use tx_infer::{Bundle, TaskKind};

use crate::error::ConvertError;

mod ctranslate2;
mod marian;
mod new_folder;
mod onnx;
mod transformers;

use new_folder::NewFolder;

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
    fn has_context(self) -> bool {
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

/// Writes a bundle of a translation model to the folder `output` in `format`. The folder is created,
/// or must be empty. It appears at once when all of its files are complete, so an error leaves no
/// part of an export.
///
/// # Errors
///
/// - [`ConvertError::Bundle`] if the bundle is of another task
/// - [`ConvertError::NotExpressible`] if the format has no counterpart of a property of the model;
///   the message lists all of them
/// - [`ConvertError::OutputExists`] if `output` contains files
/// - [`ConvertError::Write`] if a file cannot be written
pub fn export(bundle: &Bundle, format: ExportFormat, output: &Path) -> Result<(), ConvertError> {
    bundle.expect(TaskKind::Translate)?;
    if bundle.context > 0 && !format.has_context() {
        let problem =
            format!("`context` = {}: the toolkit translates each text alone", bundle.context);
        return Err(ConvertError::NotExpressible { format, problems: vec![problem] });
    }
    let folder = NewFolder::create(output)?;
    match format {
        ExportFormat::CTranslate2 => ctranslate2::write(bundle, &folder)?,
        ExportFormat::Transformers => transformers::write(bundle, &folder)?,
        ExportFormat::Marian => marian::write(bundle, &folder)?,
        ExportFormat::Onnx => onnx::write(bundle, &folder)?,
    }
    folder.finish()
}
