//! A bundle in one file: a tar archive of the files of its folder.
//!
//! The archive is not compressed, so that the weights are used where they lie in the mapped file.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::{self, Cursor},
    path::{Path, PathBuf},
};

use super::file_bytes::FileBytes;
use crate::error::InferError;

/// Maximum number of entries of an archive, of which a bundle has at most six.
const MAX_ENTRIES: usize = 1 << 10;

/// Files of a bundle in one file, or in memory.
#[derive(Debug)]
pub(super) struct Archive {
    /// Path of the archive, for messages; empty if there is none.
    path: PathBuf,
    files: BTreeMap<String, FileBytes>,
}

impl Archive {
    /// Maps the archive at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, InferError> {
        Self::read(path, &FileBytes::map(path)?)
    }

    /// Files of the archive with these bytes. `path` is for messages.
    pub(super) fn read(path: &Path, bytes: &FileBytes) -> Result<Self, InferError> {
        let error = |problem: String| InferError::Archive { path: path.into(), problem };
        let invalid = |source: io::Error| error(source.to_string());
        let mut files = BTreeMap::new();
        let mut archive = tar::Archive::new(Cursor::new(&bytes[..]));
        for (index, entry) in archive.entries_with_seek().map_err(invalid)?.enumerate() {
            let entry = entry.map_err(invalid)?;
            if index == MAX_ENTRIES {
                return Err(error(format!("it has more than {MAX_ENTRIES} entries")));
            }
            if !entry.header().entry_type().is_file() {
                continue;
            }
            // Archives of a whole folder contain its name.
            let name = entry.path().map_err(invalid)?;
            let Some(name) = name.file_name().and_then(|name| name.to_str()) else { continue };
            let start = usize::try_from(entry.raw_file_position()).unwrap_or(usize::MAX);
            let end = start.saturating_add(usize::try_from(entry.size()).unwrap_or(usize::MAX));
            let part = bytes.part(start..end);
            let part = part.ok_or_else(|| error(format!("it ends within `{name}`")))?;
            match files.entry(name.to_owned()) {
                Entry::Vacant(place) => drop(place.insert(part)),
                Entry::Occupied(_) => return Err(error(format!("it has `{name}` twice"))),
            }
        }
        Ok(Self { path: path.into(), files })
    }

    /// Path of the archive; empty if there is none.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a file; `None` if it is missing.
    pub(super) fn get(&self, name: &str) -> Option<&FileBytes> {
        self.files.get(name)
    }
}

impl From<BTreeMap<String, Vec<u8>>> for Archive {
    fn from(files: BTreeMap<String, Vec<u8>>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (name, bytes.into()));
        Self { path: PathBuf::new(), files: files.collect() }
    }
}

#[cfg(test)]
mod tests;
