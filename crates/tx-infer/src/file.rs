//! Atomic replacement of files, and reading of regular ones within limits.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use tempfile::NamedTempFile;
use tx_text::git_lfs;

use crate::error::InferError;

/// Replaces the content of the file at `path`, or leaves it unchanged on an error: `content` is
/// written to a temporary file in the same folder, synchronized to disk, and renamed.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = temporary_beside(path)?;
    file.write_all(content)?;
    persist(file, path)
}

/// Creates a temporary file in the folder of `path`, for [`persist`].
///
/// # Errors
///
/// If the file cannot be created.
pub(crate) fn temporary_beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".").suffix(".partial");
    // The permissions of an ordinary new file, because temporary files are private by default.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Synchronizes a temporary file to disk and renames it to `path`.
///
/// # Errors
///
/// If the file cannot be written; the file at `path` is then unchanged.
pub(crate) fn persist(file: NamedTempFile, path: &Path) -> io::Result<()> {
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Reads a regular file of at most `max` bytes.
pub(crate) fn read_bytes(path: &Path, max: u64) -> Result<Vec<u8>, InferError> {
    let size = regular_file(path)?;
    if size > max {
        return Err(InferError::LargeFile { path: path.into(), bytes: size, max });
    }
    let mut bytes = Vec::new();
    let mut read = || File::open(path)?.take(max).read_to_end(&mut bytes);
    read().map_err(|source| InferError::Read { path: path.into(), source })?;
    Ok(bytes)
}

/// Returns the size of a regular file. Other files are rejected, because opening a pipe would block
/// until it has a writer.
pub(crate) fn regular_file(path: &Path) -> Result<u64, InferError> {
    let read_error = |source| InferError::Read { path: path.into(), source };
    let metadata = fs::metadata(path).map_err(read_error)?;
    if !metadata.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(read_error(error));
    }
    match git_lfs::is_pointer_file(path).map_err(read_error)? {
        true => Err(InferError::GitLfsPointer { path: path.into() }),
        false => Ok(metadata.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Writers do not share a temporary file, so the file ends up with the content of one of them.
    #[test]
    fn concurrent_writers_do_not_mix_their_contents() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let contents = [vec![b'a'; 300_000], vec![b'b'; 200_000]];
        thread::scope(|scope| {
            for content in &contents {
                scope.spawn(|| (0..20).for_each(|_| write_whole(&path, content).unwrap()));
            }
        });
        assert!(contents.contains(&fs::read(&path).unwrap()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// The permissions are those of an ordinary new file, not those of a private temporary one.
    #[test]
    fn permissions_are_those_of_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, usual) = (folder.path().join("ours"), folder.path().join("usual"));
        write_whole(&ours, b"").unwrap();
        fs::write(&usual, b"").unwrap();
        let permissions = |path| fs::metadata(path).unwrap().permissions();
        assert_eq!(permissions(&ours), permissions(&usual));
    }
}
