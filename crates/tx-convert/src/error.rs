//! Errors of conversions.

use std::{io, path::PathBuf};

use tx_infer::InferError;

/// Error of an import or an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A file or folder cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file or folder cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// An export would overwrite files.
    #[error("`{path}` already exists and is not an empty folder")]
    OutputExists {
        /// The folder or file.
        path: PathBuf,
    },
    /// The format of a model cannot be detected.
    #[error("`{path}` has no known model format: {problem}")]
    UnknownFormat {
        /// The file or folder.
        path: PathBuf,
        /// Files that were looked for.
        problem: String,
    },
    /// A file is damaged, or is not of the expected kind.
    #[error("`{path}`: {problem}")]
    File {
        /// The file.
        path: PathBuf,
        /// Value found and value expected.
        problem: String,
    },
    /// A model uses options that tx does not support.
    #[error("`{path}` uses options that are not supported:\n  - {}", problems.join("\n  - "))]
    Unsupported {
        /// The file with the options.
        path: PathBuf,
        /// One line per option: name, value, supported values.
        problems: Vec<String>,
    },
    /// Weights are missing, unexpected, or of the wrong shape.
    #[error("the weights of `{path}` do not fit the configuration:\n  - {}", problems.join("\n  - "))]
    Weights {
        /// The file with the weights.
        path: PathBuf,
        /// One line per weight.
        problems: Vec<String>,
    },
    /// A weight has a value that is infinite or not a number.
    #[error("`{path}`: its tensor `{tensor}` is {value} at value {index}, expected finite values")]
    NotFinite {
        /// The file with the weights.
        path: PathBuf,
        /// Name of the tensor in the file.
        tensor: String,
        /// The value.
        value: f32,
        /// Its position in row-major order, from 0.
        index: usize,
    },
    /// A file of a repository was not downloaded.
    #[error("`{path}` {}", tx_text::git_lfs::PROBLEM)]
    GitLfsPointer {
        /// The file.
        path: PathBuf,
    },
    /// A bundle has properties that a format cannot express.
    #[error("the model cannot be expressed as {format}:\n  - {}", problems.join("\n  - "))]
    NotExpressible {
        /// The format.
        format: crate::ExportFormat,
        /// One line per property.
        problems: Vec<String>,
    },
    /// A bundle cannot be read or written.
    #[error(transparent)]
    Bundle(#[from] InferError),
}

impl ConvertError {
    /// Returns the next step to try, if one is known; a program prints it on its own line as
    /// `hint: …`.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::UnknownFormat { .. } => {
                Some("pass the folder of the model, with its configuration, vocabulary and weights")
            }
            Self::NotFinite { .. } => Some(
                "download the file again and compare its checksum; a model whose publisher \
                 distributes this value cannot translate",
            ),
            Self::GitLfsPointer { .. } => Some(tx_text::git_lfs::HINT),
            Self::Bundle(error) => error.hint(),
            _ => None,
        }
    }
}
