//! Files that an import reads, with their hashes.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tx_text::git_lfs;

use crate::error::ConvertError;

/// Largest text file, such as a configuration or a vocabulary, in bytes.
const MAX_TEXT: u64 = 64 << 20;
/// Largest license text that is kept, in bytes.
const MAX_LICENSE: u64 = 1 << 16;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Name in the folder.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Path of the file.
    pub path: PathBuf,
}

/// Files that were read, in the order in which they were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceFiles {
    files: Vec<SourceFile>,
}

impl SourceFiles {
    /// Records a file.
    ///
    /// # Errors
    ///
    /// If it is not a regular file.
    pub(crate) fn add(&mut self, path: &Path) -> Result<(), ConvertError> {
        let bytes = regular_file(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.files.iter().all(|file| file.path != path) {
            self.files.push(SourceFile { name, bytes, path: path.to_owned() });
        }
        Ok(())
    }

    /// Reads and records a file of moderate size.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is too large.
    pub(crate) fn bytes(&mut self, path: &Path) -> Result<Vec<u8>, ConvertError> {
        self.add(path)?;
        read_bytes(path, MAX_TEXT)
    }

    /// Reads and records a JSON file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is too large or does not have this content.
    pub(crate) fn json<T: DeserializeOwned>(&mut self, path: &Path) -> Result<T, ConvertError> {
        let bytes = self.bytes(path)?;
        tx_text::json::from_slice(&bytes).map_err(|error| ConvertError::File {
            path: path.to_owned(),
            problem: error.to_string(),
        })
    }

    /// The files, in the order in which they were read.
    pub(crate) fn files(&self) -> &[SourceFile] {
        &self.files
    }
}

impl SourceFile {
    /// Computes the SHA-256 of the file, in hexadecimal.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) fn sha256(&self) -> Result<String, ConvertError> {
        let mut hash = Sha256::new();
        let mut read = || {
            let mut file = File::open(&self.path)?;
            let mut bytes = vec![0; 1 << 16];
            loop {
                match file.read(&mut bytes)? {
                    0 => return Ok(()),
                    read => hash.update(bytes.get(..read).unwrap_or_default()),
                }
            }
        };
        read().map_err(|source| ConvertError::Read { path: self.path.clone(), source })?;
        Ok(tx_text::hash::hexadecimal(&hash.finalize()))
    }
}

/// License of a model, as stated in its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct License {
    /// Identifier in the front matter of `README.md`, such as `cc-by-4.0`.
    pub name: Option<String>,
    /// Content of the file `LICENSE`, if it is text of moderate size.
    pub text: Option<String>,
}

impl License {
    /// Reads the license in a folder. A file that cannot be read is treated as absent.
    pub(crate) fn read(folder: &Path) -> Self {
        let readme = read_bytes(&folder.join("README.md"), MAX_TEXT).ok();
        let name = readme.and_then(|bytes| license_name(&String::from_utf8_lossy(&bytes)));
        let mut files: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| is_license(path))
            .collect();
        files.sort();
        let text = files
            .iter()
            .find_map(|path| String::from_utf8(read_bytes(path, MAX_LICENSE).ok()?).ok());
        Self { name, text }
    }
}

fn is_license(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    name.starts_with("LICENSE") || name.starts_with("LICENCE") || name.starts_with("COPYING")
}

/// Value of `license` in the front matter of a README, the lines between the first two lines `---`.
fn license_name(readme: &str) -> Option<String> {
    let mut lines = readme.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let mut front = lines.take_while(|line| line.trim_end() != "---");
    let value = front.find_map(|line| line.strip_prefix("license:"))?;
    let value = value.trim().trim_matches(['"', '\'']);
    (!value.is_empty() && value.len() <= 100).then(|| value.to_owned())
}

/// Returns the size of a regular file. Other files are rejected, because opening a pipe would block
/// until it has a writer.
///
/// # Errors
///
/// If there is no such file; [`ConvertError::GitLfsPointer`].
pub(crate) fn regular_file(path: &Path) -> Result<u64, ConvertError> {
    let read_error = |source| ConvertError::Read { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(read_error)?;
    if !metadata.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(read_error(error));
    }
    match git_lfs::is_pointer_file(path).map_err(read_error)? {
        true => Err(ConvertError::GitLfsPointer { path: path.to_owned() }),
        false => Ok(metadata.len()),
    }
}

/// Maps a regular file into memory.
pub(crate) fn map(path: &Path) -> Result<Arc<Mmap>, ConvertError> {
    regular_file(path)?;
    let read_error = |source| ConvertError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read_error)?;
    // SAFETY: the file is only read. A process that truncates it in place while it is mapped
    // would end this process, as the documentation of the crate states.
    #[allow(unsafe_code)]
    let map = unsafe { Mmap::map(&file) }.map_err(read_error)?;
    Ok(Arc::new(map))
}

/// Reads a regular file of at most `max` bytes.
fn read_bytes(path: &Path, max: u64) -> Result<Vec<u8>, ConvertError> {
    let size = regular_file(path)?;
    if size > max {
        let problem = format!("it has {size} bytes, expected at most {max}");
        return Err(ConvertError::File { path: path.to_owned(), problem });
    }
    let mut bytes = Vec::new();
    let mut read = || File::open(path)?.take(max).read_to_end(&mut bytes);
    read().map_err(|source| ConvertError::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_license_is_in_the_front_matter_or_in_a_file() {
        let front = "---\nlanguage: de\nlicense: \"cc-by-4.0\"\n---\n# Model\nlicense: other\n";
        assert_eq!(license_name(front), Some("cc-by-4.0".to_owned()));
        assert_eq!(license_name("# Model\nlicense: other\n"), None);
        assert_eq!(license_name("---\ntags: a\n---\nlicense: other\n"), None);

        let folder = tempfile::tempdir().unwrap();
        assert_eq!(License::read(folder.path()), License::default());
        fs::write(folder.path().join("LICENSE.txt"), "Do as you like.").unwrap();
        fs::write(folder.path().join("README.md"), front).unwrap();
        let license = License::read(folder.path());
        assert_eq!(license.name.as_deref(), Some("cc-by-4.0"));
        assert_eq!(license.text.as_deref(), Some("Do as you like."));
    }
}
