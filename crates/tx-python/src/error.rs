//! Errors as exceptions of the package: `python/txmt/errors.py`.

use std::{error::Error, fmt::Write};

use pyo3::{IntoPyObjectExt, prelude::*};
use tx_catalogue::CatalogueError;
use tx_cli::called;
use tx_convert::ConvertError;
use tx_eval::ScoreError;
use tx_infer::{InferError, device::DeviceError};
use tx_serve::ServeError;
use tx_train::TrainError;

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
            let instance = class.call1((called::in_text(message),))?;
            instance.setattr("hint", hint.map(called::in_text).into_bound_py_any(py)?)?;
            Ok(PyErr::from_value(instance))
        };
        create().unwrap_or_else(|error: PyErr| error)
    })
}

/// Creates the exception of an invalid argument.
pub(crate) fn invalid(message: impl AsRef<str>) -> PyErr {
    exception(Class::Option, message.as_ref(), None)
}

/// Creates the exception after a panic.
pub(crate) fn internal() -> PyErr {
    exception(Class::Other, "internal error: please report it", None)
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
            | Self::Context { .. }
            | Self::UnknownLanguage { .. }
            | Self::NoLanguages { .. }
            | Self::NoMask { .. }
            | Self::ShortlistVocabulary { .. } => Class::Option,
            Self::NotABundle { .. }
            | Self::Archive { .. }
            | Self::Read { .. }
            | Self::GlossaryFile { .. }
            | Self::GitLfsPointer { .. }
            | Self::LargeFile { .. }
            | Self::Write { .. }
            | Self::Config { .. }
            | Self::Format { .. }
            | Self::WrongTask { .. }
            | Self::Model(_)
            | Self::Weights { .. }
            | Self::NotFiniteWeight { .. }
            | Self::Lexicon { .. }
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

impl IntoException for TrainError {
    fn into_exception(self) -> PyErr {
        let class = match &self {
            Self::UnknownRecipe { .. }
            | Self::Config { .. }
            | Self::Problems { .. }
            | Self::ConfigChanged { .. }
            | Self::DataChanged { .. }
            | Self::OtherTask { .. }
            | Self::LabelsChanged { .. } => Class::Option,
            Self::Read { .. }
            | Self::Write { .. }
            | Self::RunExists { .. }
            | Self::RunLocked { .. }
            | Self::NothingToResume { .. }
            | Self::Checkpoint { .. }
            | Self::Bundle(_) => Class::Model,
            _ => Class::Other,
        };
        // Those of the library name options of the program.
        let hint = match &self {
            Self::RunExists { resumable: true, .. } => {
                Some("resume it with `txmt.resume(run)`, or choose another folder".into())
            }
            Self::RunExists { .. } => Some("choose another folder".into()),
            Self::RunLocked { .. } => Some("wait until it ends, or choose another folder".into()),
            Self::NothingToResume { .. } => Some("start a run with `txmt.train`".into()),
            Self::ConfigChanged { .. } | Self::DataChanged { .. } => Some(
                "`take=\"new\"` uses the current configuration and data, `take=\"old\"` the \
                 configuration of the checkpoint"
                    .into(),
            ),
            Self::NotFetched { .. } => Some("pass `fetch=True`".into()),
            _ => self.hint(),
        };
        exception(class, &message(&self), hint.as_deref())
    }
}

impl IntoException for CatalogueError {
    fn into_exception(self) -> PyErr {
        let class = match &self {
            Self::UnknownModel { .. } => Class::Option,
            _ => Class::Model,
        };
        exception(class, &message(&self), None)
    }
}

impl IntoException for ServeError {
    fn into_exception(self) -> PyErr {
        let class = match &self {
            Self::Model { .. } => Class::Model,
            _ => Class::Option,
        };
        // The hints of the library name options of the program.
        let hint = match &self {
            Self::Listen { .. } => Some("another program may use the port"),
            Self::NoLanguages { .. } => Some("name the pair: `{\"en-de\": folder}`"),
            _ => None,
        };
        exception(class, &message(&self), hint)
    }
}

impl IntoException for DeviceError {
    fn into_exception(self) -> PyErr {
        exception(Class::Option, &message(&self), self.hint().as_deref())
    }
}

impl IntoException for ScoreError {
    fn into_exception(self) -> PyErr {
        invalid(message(&self))
    }
}
