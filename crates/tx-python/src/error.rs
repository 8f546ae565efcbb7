//! Errors as exceptions of the package: `python/txmt/errors.py`.

use std::{error::Error, fmt::Write};

use pyo3::{IntoPyObjectExt, prelude::*};
use tx_convert::ConvertError;
use tx_eval::ScoreError;
use tx_infer::InferError;

/// Class of an exception.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    /// A model or another file cannot be opened or written.
    Model,
    /// An argument has an invalid value.
    Option,
    /// Anything else.
    Other,
}

impl Class {
    fn name(self) -> &'static str {
        match self {
            Self::Model => "ModelError",
            Self::Option => "OptionError",
            Self::Other => "Error",
        }
    }
}

/// Creates an exception with a hint.
pub(crate) fn exception(class: Class, message: &str, hint: Option<&str>) -> PyErr {
    Python::attach(|py| {
        let create = || {
            let class = py.import("txmt.errors")?.getattr(class.name())?;
            let instance = class.call1((message,))?;
            instance.setattr("hint", hint.into_bound_py_any(py)?)?;
            Ok(PyErr::from_value(instance))
        };
        create().unwrap_or_else(|error: PyErr| error)
    })
}

/// Creates the exception of an invalid argument.
pub(crate) fn invalid(message: impl AsRef<str>) -> PyErr {
    exception(Class::Option, message.as_ref(), None)
}

/// Message of an error and its causes.
fn message(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string does not fail.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}

/// An error of the libraries.
pub(crate) trait IntoException {
    /// Converts the error.
    fn into_exception(self) -> PyErr;
}

impl IntoException for InferError {
    fn into_exception(self) -> PyErr {
        let class = match &self {
            Self::Search { .. }
            | Self::LongPrefix { .. }
            | Self::LongTarget { .. }
            | Self::LongText { .. }
            | Self::LanguageNeeded { .. }
            | Self::UnknownLanguage { .. }
            | Self::NoLanguages { .. }
            | Self::NoMask { .. }
            | Self::ShortlistVocabulary { .. } => Class::Option,
            Self::NotABundle { .. }
            | Self::Read { .. }
            | Self::GitLfsPointer { .. }
            | Self::LargeFile { .. }
            | Self::Write { .. }
            | Self::Config { .. }
            | Self::Format { .. }
            | Self::WrongTask { .. }
            | Self::Model(_)
            | Self::Weights { .. }
            | Self::NotFiniteWeight { .. }
            | Self::Shortlist { .. } => Class::Model,
            _ => Class::Other,
        };
        exception(class, &message(&self), self.hint())
    }
}

impl IntoException for ConvertError {
    fn into_exception(self) -> PyErr {
        exception(Class::Model, &message(&self), self.hint())
    }
}

impl IntoException for ScoreError {
    fn into_exception(self) -> PyErr {
        invalid(message(&self))
    }
}
