//! Files of a bundle, read within limits.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};
use tx_text::hash::hexadecimal;

use super::{archive::Archive, file_bytes::FileBytes};
use crate::{error::InferError, file::read_bytes};

/// Largest `config.toml` and `provenance.toml` in bytes.
const MAX_TEXT: u64 = 1 << 20;

/// Files of a bundle.
#[derive(Debug)]
pub(super) enum Files {
    /// In a folder.
    Folder(PathBuf),
    /// In an archive, or in memory.
    Archive(Archive),
}

impl Files {
    /// Opens the folder or archive at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, InferError> {
        Ok(match path.is_file() {
            true => Self::Archive(Archive::open(path)?),
            false => Self::Folder(path.into()),
        })
    }

    /// Path of the folder or archive, for messages; empty if the files are in memory.
    pub(super) fn root(&self) -> &Path {
        match self {
            Self::Folder(path) => path,
            Self::Archive(archive) => archive.path(),
        }
    }

    /// Path of a file, for messages.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Returns `true` if there is a file of this name.
    pub(super) fn contains(&self, name: &str) -> bool {
        match self {
            Self::Folder(folder) => folder.join(name).is_file(),
            Self::Archive(archive) => archive.get(name).is_some(),
        }
    }

    /// Size of a file in bytes; 0 if it is missing.
    pub(super) fn size(&self, name: &str) -> u64 {
        match self {
            Self::Folder(folder) => fs::metadata(folder.join(name)).map_or(0, |file| file.len()),
            Self::Archive(archive) => archive.get(name).map_or(0, |bytes| bytes.len() as u64),
        }
    }

    /// Bytes of a file, which is mapped.
    pub(super) fn bytes(&self, name: &str) -> Result<FileBytes, InferError> {
        match self {
            Self::Folder(folder) => FileBytes::map(&folder.join(name)),
            Self::Archive(archive) => {
                let missing = || io::ErrorKind::NotFound.into();
                let error = || InferError::Read { path: self.path(name), source: missing() };
                archive.get(name).cloned().ok_or_else(error)
            }
        }
    }

    /// Reads a file of at most `max` bytes.
    pub(super) fn read(&self, name: &str, max: u64) -> Result<Vec<u8>, InferError> {
        match self {
            Self::Folder(folder) => read_bytes(&folder.join(name), max),
            Self::Archive(_) => match self.bytes(name)? {
                bytes if bytes.len() as u64 > max => Err(InferError::LargeFile {
                    path: self.path(name),
                    bytes: bytes.len() as u64,
                    max,
                }),
                bytes => Ok(bytes.to_vec()),
            },
        }
    }

    /// Reads a text file.
    pub(super) fn read_text(&self, name: &str) -> Result<String, InferError> {
        String::from_utf8(self.read(name, MAX_TEXT)?).map_err(|error| InferError::Read {
            path: self.path(name),
            source: io::Error::new(io::ErrorKind::InvalidData, error),
        })
    }

    /// Reads a TOML file.
    pub(super) fn read_toml(&self, name: &str) -> Result<toml::Table, InferError> {
        toml::from_str(&self.read_text(name)?).map_err(|error| InferError::Config {
            path: self.path(name),
            problem: error.to_string(),
        })
    }
}

/// A folder that is created for new files, and removed if they cannot be written.
pub(super) struct NewFolder {
    /// Folders that did not exist, innermost first.
    created: Vec<PathBuf>,
}

impl NewFolder {
    /// Creates `folder` and its parents, if necessary.
    ///
    /// # Errors
    ///
    /// [`InferError::Write`].
    pub(super) fn create(folder: &Path) -> Result<Self, InferError> {
        let missing = folder
            .ancestors()
            .take_while(|path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err());
        let created = Self { created: missing.map(Path::to_owned).collect() };
        fs::create_dir_all(folder)
            .map_err(|source| InferError::Write { path: folder.into(), source })?;
        Ok(created)
    }

    /// Keeps the folder, which is complete.
    pub(super) fn keep(mut self) {
        self.created.clear();
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        for folder in &self.created {
            // Fails for a folder that another process has used meanwhile, which remains.
            drop(fs::remove_dir(folder));
        }
    }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}
