//! Errors of starting the server, and errors that a client sees.

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use tx_infer::{InferError, deadline::Overdue};
use tx_markup::MarkupError;

/// Error of starting or configuring the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A model cannot be loaded.
    #[error("cannot load the model `{name}`")]
    Model {
        /// Name of the model.
        name: String,
        /// The cause.
        source: Box<InferError>,
    },
    /// A glossary cannot be read.
    #[error("cannot read the glossary `{name}`")]
    Glossary {
        /// Name of the glossary.
        name: String,
        /// The cause.
        source: Box<InferError>,
    },
    /// The languages of a model are not known.
    #[error("the languages of the model `{name}` in `{folder}` are not known")]
    NoLanguages {
        /// Name of the model.
        name: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// Two models have the same name.
    #[error("two models have the name `{name}`")]
    SameName {
        /// The name.
        name: String,
    },
    /// No model is given.
    #[error("no model is given")]
    NoModel,
    /// The address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// The file of keys cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file of keys is invalid.
    #[error("`{path}` is not a file of keys: {problem}")]
    Keys {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The folder of the page that translates in the browser has no page.
    #[error("`{folder}` is not the folder of the page: it has no `{file}`")]
    NoPage {
        /// The folder.
        folder: PathBuf,
        /// The missing file.
        file: &'static str,
    },
    /// A model that may be downloaded is not one of the server.
    #[error("no model has the name `{name}`")]
    UnknownModel {
        /// The name.
        name: String,
    },
    /// The system cannot start the threads of the server.
    #[error("cannot start the threads of the server")]
    Threads {
        /// Error of the system.
        source: io::Error,
    },
}

impl ServeError {
    /// The message with those of its causes, for logs and administrators.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        text
    }

    /// Returns the next step to try, if one is known.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoLanguages { .. } => Some(
                "name the pair: `--model en-de=DIR`; multilingual models without source languages: `--model en-mul=DIR`",
            ),
            Self::SameName { .. } => Some("give each model a name: `--model NAME=DIR`"),
            Self::Model { source, .. } => source.hint(),
            Self::Listen { .. } => {
                Some("another program may use the port: choose one with `--listen`")
            }
            Self::NoPage { .. } => Some(
                "build it with `.ci/web build`, or unpack `txmt-VERSION-page.tar.gz` of a release",
            ),
            Self::UnknownModel { .. } => {
                Some("`--offline-model` is the NAME of `--model NAME=DIR`")
            }
            Self::NoModel
            | Self::Glossary { .. }
            | Self::Read { .. }
            | Self::Keys { .. }
            | Self::Threads { .. } => None,
        }
    }
}

/// Reason for which a request is refused or fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// No model has the language.
    #[error("{code} is not supported as {} language", .side.name())]
    Unsupported {
        /// Side of the language.
        side: Side,
        /// Its code in the request.
        code: String,
    },
    /// The request has no valid key.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The resource does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The body or text is too large.
    #[error("{0}")]
    TooLarge(String),
    /// The content type is not supported.
    #[error("{0}")]
    MediaType(String),
    /// The client exceeds its limit.
    #[error("too many requests; slow down")]
    SlowDown {
        /// Time after which a request is accepted.
        retry: Duration,
    },
    /// The queue is full.
    #[error("the queue is full; try again later")]
    QueueFull,
    /// Too many documents are read and translated.
    #[error("too many documents are being translated; try again later")]
    Documents,
    /// The bodies of all requests take too much memory.
    #[error("too many large requests are in progress; try again later")]
    Bodies,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// The time limit of the request is over.
    #[error(transparent)]
    Timeout(#[from] Overdue),
    /// A fault of the server; the details are in its log.
    #[error("internal error")]
    Internal,
}

impl From<InferError> for ApiError {
    fn from(error: InferError) -> Self {
        match error {
            InferError::QueueFull => Self::QueueFull,
            InferError::PoolClosed => Self::Stopping,
            error => {
                tracing::error!(%error, "a sentence could not be translated");
                Self::Internal
            }
        }
    }
}

impl From<MarkupError> for ApiError {
    fn from(error: MarkupError) -> Self {
        match error {
            MarkupError::Invalid(problem) => Self::Invalid(problem),
            MarkupError::TooLarge(problem) => Self::TooLarge(problem),
            MarkupError::Late(overdue) => Self::Timeout(overdue),
            error => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                tracing::error!(cause, "a text could not be divided into sentences");
                Self::Internal
            }
        }
    }
}

/// Side of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The text to translate.
    Source,
    /// The translation.
    Target,
}

impl Side {
    /// Name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Target => "target",
        }
    }
}

impl ApiError {
    /// Status code of HTTP.
    pub fn status(&self) -> u16 {
        match self {
            Self::Invalid(_) | Self::Unsupported { .. } => 400,
            Self::Forbidden(_) => 403,
            Self::NotFound(_) => 404,
            Self::TooLarge(_) => 413,
            Self::MediaType(_) => 415,
            Self::SlowDown { .. } | Self::QueueFull | Self::Documents | Self::Bodies => 429,
            Self::Internal => 500,
            Self::Stopping | Self::Timeout(_) => 503,
        }
    }

    /// Seconds after which the client may try again.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            Self::SlowDown { retry } => Some(retry.as_secs_f64().ceil().max(1.0) as u64),
            Self::QueueFull | Self::Documents | Self::Bodies | Self::Timeout(_) => Some(1),
            Self::Stopping => Some(5),
            Self::Invalid(_)
            | Self::Unsupported { .. }
            | Self::Forbidden(_)
            | Self::NotFound(_)
            | Self::TooLarge(_)
            | Self::MediaType(_)
            | Self::Internal => None,
        }
    }
}
