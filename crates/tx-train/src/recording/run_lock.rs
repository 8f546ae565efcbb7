//! The lock of a run folder: one process writes to it at a time.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    process,
};

use crate::error::TrainError;

/// The file in the run folder that is locked. It holds the id of the process that locked it last.
const FILE: &str = "lock";

/// An advisory lock on a run folder. It ends with this value, or with the process however that ends.
///
/// [`Trainer`](crate::Trainer) takes it for as long as it runs. Whatever else writes to a run folder
/// must hold it too.
#[derive(Debug)]
pub struct RunLock {
    /// The system releases the lock when the file is closed.
    _file: File,
}

impl RunLock {
    /// Locks the folder `run`, which must exist.
    ///
    /// A file system without locks leaves it unlocked: a run there must not be started twice.
    ///
    /// # Errors
    ///
    /// When another process has locked the folder, or the lock file cannot be written.
    pub fn take(run: &Path) -> Result<Self, TrainError> {
        fs::metadata(run).map_err(|source| TrainError::Read { path: run.into(), source })?;
        let path = run.join(FILE);
        let write = |source| TrainError::Write { path: path.clone(), source };
        // Not truncated: until it is locked, it is another process's.
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(write)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let mut id = String::new();
                // Windows lets nobody read a locked file.
                let process =
                    file.read_to_string(&mut id).ok().and_then(|_| id.trim().parse().ok());
                return Err(TrainError::RunLocked { path: run.into(), process });
            }
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        note_process(&mut file).map_err(write)?;
        Ok(Self { _file: file })
    }
}

fn note_process(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_folder_is_refused_with_the_process_until_it_is_released() {
        let run = tempfile::tempdir().unwrap();
        let lock = RunLock::take(run.path()).unwrap();
        let error = RunLock::take(run.path()).unwrap_err();
        let own = process::id();
        assert!(
            matches!(error, TrainError::RunLocked { process, .. } if cfg!(windows) || process == Some(own)),
            "{error}"
        );
        drop(lock);
        // A lock file that a longer id was written to holds only the new one.
        fs::write(run.path().join(FILE), "123456789012\n").unwrap();
        let _lock = RunLock::take(run.path()).unwrap();
        if cfg!(unix) {
            let text = fs::read_to_string(run.path().join(FILE)).unwrap();
            assert_eq!(text, format!("{own}\n"));
        }
    }

    #[test]
    fn a_missing_folder_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let error = RunLock::take(&folder.path().join("none")).unwrap_err();
        assert!(matches!(error, TrainError::Read { .. }), "{error}");
        assert!(!folder.path().join("none").exists());
    }
}
