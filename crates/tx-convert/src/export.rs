//! Export of bundles to the formats of other toolkits.

use std::path::Path;

use tx_infer::{Bundle, TaskKind};

use crate::error::ConvertError;

mod ctranslate2;
mod format;
mod marian;
mod new_folder;
mod onnx;
mod transformers;

pub use format::ExportFormat;
use new_folder::NewFolder;

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
