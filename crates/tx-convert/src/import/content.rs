//! Content of files with weights.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use crate::{
    error::ConvertError,
    marian::{binary, binary_shortlist},
    source_files::regular_file,
};

/// Kind of a file of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Archive of numpy arrays.
    Npz,
    /// Binary model of Marian.
    MarianBinary,
    /// Binary shortlist of Marian.
    MarianShortlist,
    /// File written by `torch.save`.
    PyTorch,
    /// Another kind.
    Other,
}

impl Content {
    /// Detects the kind of a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(super) fn of(path: &Path) -> Result<Self, ConvertError> {
        match regular_file(path) {
            // Only a missing file of weights is a problem.
            Err(ConvertError::GitLfsPointer { .. }) if !has_weights_name(path) => {
                return Ok(Self::Other);
            }
            other => other?,
        };
        let mut start = Vec::new();
        let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
        read.map_err(|source| ConvertError::Read { path: path.to_owned(), source })?;
        if !start.starts_with(b"PK\x03\x04") {
            if binary::is_binary(&start) {
                return Ok(Self::MarianBinary);
            }
            if binary_shortlist::is_shortlist(&start) {
                return Ok(Self::MarianShortlist);
            }
            // The pickle of `torch.save` before version 1.6 starts with its protocol.
            let is_pickle = start.starts_with(b"\x80") && has_weights_name(path);
            return Ok(if is_pickle { Self::PyTorch } else { Self::Other });
        }
        // The first entry of an archive follows the fixed fields of its header, 30 bytes.
        let name = start.get(30..).unwrap_or_default();
        let length = start.get(26..28).unwrap_or_default();
        let length = length.first_chunk::<2>().map_or(0, |bytes| u16::from_le_bytes(*bytes));
        let name = name.get(..usize::from(length)).unwrap_or(name);
        let is_npz = name.ends_with(b".npy") || path.extension().is_some_and(|end| end == "npz");
        Ok(if is_npz { Self::Npz } else { Self::PyTorch })
    }
}

/// Returns `true` if the name of a file is that of weights.
fn has_weights_name(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["pt", "pth", "ckpt", "npz"].iter().any(|it| end == *it))
}

/// Regular files in a folder, sorted by name.
///
/// # Errors
///
/// If the folder cannot be read.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, ConvertError> {
    let read_error = |source| ConvertError::Read { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(read_error)? {
        let path = entry.map_err(read_error)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
