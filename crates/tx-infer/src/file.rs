//! Replacing a file whole.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Replaces the file at `path` by one with `content`, or leaves it as it was: the content is
/// written aside, brought to disk, and renamed.
///
/// # Errors
///
/// When the file cannot be written. A `<path>.partial` may be left then; it is safe to delete.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut file = File::create(&partial)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&partial, path)
}
