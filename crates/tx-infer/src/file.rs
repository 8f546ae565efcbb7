//! Replacing a file whole.

use std::{
    io::{self, Write},
    path::Path,
};

/// Replaces the file at `path` by one with `content`, or leaves it as it was: the content is written
/// to a new file beside it, synced to disk, and renamed. Several writers do not disturb each other;
/// the last one wins.
///
/// # Errors
///
/// When the file cannot be written. The file beside it is removed then; only a process that was killed
/// leaves one, `.<name>.….partial`, which is safe to delete.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&name).suffix(".partial");
    // As for any other new file, and not for its owner alone; the system's mask still applies.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;

    #[test]
    fn writers_at_the_same_time_leave_one_whole_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.toml");
        let contents: Vec<Vec<u8>> = (b'a'..b'i').map(|letter| vec![letter; 100_000]).collect();
        thread::scope(|scope| {
            for content in &contents {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..5 {
                        write_whole(path, content).unwrap();
                    }
                });
            }
        });
        assert!(contents.contains(&fs::read(&path).unwrap()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn the_permissions_are_those_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, plain) = (folder.path().join("ours"), folder.path().join("plain"));
        write_whole(&ours, b"").unwrap();
        fs::write(&plain, b"").unwrap();
        let permissions = |path| fs::metadata(path).unwrap().permissions();
        assert_eq!(permissions(&ours), permissions(&plain));
    }
}
