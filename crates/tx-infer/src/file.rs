//! Atomic replacement of files.

use std::{
    io::{self, Write},
    path::Path,
};

use tempfile::NamedTempFile;

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

#[cfg(test)]
mod tests {
    use std::{fs, thread};

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
