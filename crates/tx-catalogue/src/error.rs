//! Errors of catalogues and stores.

use std::{io, path::PathBuf};

use tx_convert::ConvertError;
use tx_fetch::FetchError;

/// Error of a catalogue or of a store of models.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogueError {
    /// A catalogue is damaged.
    #[error("the catalogue `{origin}`: {problem}")]
    Catalogue {
        /// File or address of the catalogue.
        origin: String,
        /// Value found and value expected.
        problem: String,
    },
    /// A catalogue has no model of a name.
    #[error("the catalogue has no model `{name}`")]
    UnknownModel {
        /// The name.
        name: String,
    },
    /// No model of a name is in the store.
    #[error("no model `{name}` was downloaded into `{store}`")]
    NotDownloaded {
        /// The name.
        name: String,
        /// Folder of the store.
        store: PathBuf,
    },
    /// A file or folder cannot be read or written.
    #[error("cannot read or write `{path}`")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A file of a model is not the one that the catalogue describes.
    #[error("`{path}` is not the file of the catalogue: {problem}")]
    OtherFile {
        /// The file.
        path: PathBuf,
        /// Size or checksum found and expected.
        problem: String,
    },
    /// The files of a model cannot be downloaded.
    #[error("{problem}\nThe files of the model `{name}` are:\n  - {}", files.join("\n  - "))]
    Download {
        /// Name of the model.
        name: String,
        /// Addresses of all files.
        files: Vec<String>,
        /// Failure of the first file that is missing.
        problem: Box<FetchError>,
    },
    /// A catalogue cannot be downloaded, or the cache cannot be used.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The files of a model cannot be converted.
    #[error(transparent)]
    Convert(#[from] ConvertError),
}
