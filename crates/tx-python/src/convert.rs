//! Import and export of models.

use std::path::PathBuf;

use pyo3::prelude::*;
use tx_convert::{
    ConvertError, ExportFormat,
    import::{ImportFormat, ImportOptions, import_with},
};
use tx_infer::Bundle;

use crate::{
    error::{IntoException, invalid},
    interrupt::interruptible,
};

/// Writes a model of another toolkit as a bundle, and returns notes for its user.
#[pyfunction]
#[pyo3(signature = (path, output, *, format = None, heads = None, source_language = None,
                    target_language = None, source_eos = None))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub(crate) fn import_model(
    py: Python<'_>,
    path: PathBuf,
    output: PathBuf,
    format: Option<&str>,
    heads: Option<usize>,
    source_language: Option<String>,
    target_language: Option<String>,
    source_eos: Option<bool>,
) -> PyResult<Vec<String>> {
    let format: Option<ImportFormat> =
        format.map(|name| name.parse().map_err(invalid)).transpose()?;
    let options = ImportOptions { heads, source_language, target_language, source_eos };
    let work = || -> Result<Vec<String>, ConvertError> {
        let import = import_with(&path, format, &options)?;
        import.save(&output)?;
        Ok(import.notes.clone())
    };
    interruptible(py, || {}, work)?.map_err(IntoException::into_exception)
}

/// Writes a bundle for another toolkit.
#[pyfunction]
pub(crate) fn export(
    py: Python<'_>,
    model_path: PathBuf,
    format: &str,
    output: PathBuf,
) -> PyResult<()> {
    let format: ExportFormat = format.parse().map_err(|problem: String| invalid(problem))?;
    let work = || -> Result<(), ConvertError> {
        tx_convert::export::export(&Bundle::open(&model_path)?, format, &output)
    };
    interruptible(py, || {}, work)?.map_err(IntoException::into_exception)
}
