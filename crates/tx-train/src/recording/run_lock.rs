//! Lock of a run folder, to which one process at a time may write.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    process,
};

use crate::error::TrainError;

/// Name of the locked file in a run folder. It contains the id of the process that locked it last.
const FILE: &str = "lock";

/// Advisory lock on a run folder. It is released when this value is dropped or the process ends.
///
/// [`Trainer`](crate::Trainer) holds it while it runs. Other code that writes to a run folder must
/// hold it, too.
#[derive(Debug)]
pub struct RunLock {
    /// The system releases the lock when the file is closed.
    _file: File,
}

impl RunLock {
    /// Locks the folder `run`, which must exist.
    ///
    /// On a file system without locks, the folder stays unlocked, and nothing prevents two
    /// processes from writing to it.
    ///
    /// # Errors
    ///
    /// If another process has locked the folder, or the lock file cannot be written.
    pub fn acquire(run: &Path) -> Result<Self, TrainError> {
        fs::metadata(run).map_err(TrainError::reading(run))?;
        let path = run.join(FILE);
        // Not truncated, because another process may hold the lock.
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(TrainError::writing(&path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let mut id = String::new();
                // Windows does not allow reading a locked file.
                let process =
                    file.read_to_string(&mut id).ok().and_then(|_| id.trim().parse().ok());
                return Err(TrainError::RunLocked { path: run.into(), process });
            }
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        write_process_id(&mut file).map_err(TrainError::writing(&path))?;
        Ok(Self { _file: file })
    }
}

fn write_process_id(file: &mut File) -> io::Result<()> {
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
        let lock = RunLock::acquire(run.path()).unwrap();
        let error = RunLock::acquire(run.path()).unwrap_err();
        let own = process::id();
        assert!(
            matches!(error, TrainError::RunLocked { process, .. } if cfg!(windows) || process == Some(own)),
            "{error}"
        );
        drop(lock);
        // A lock file with a longer id is truncated.
        fs::write(run.path().join(FILE), "123456789012\n").unwrap();
        let _lock = RunLock::acquire(run.path()).unwrap();
        if cfg!(unix) {
            let text = fs::read_to_string(run.path().join(FILE)).unwrap();
            assert_eq!(text, format!("{own}\n"));
        }
    }

    #[test]
    fn a_missing_folder_is_not_created() {
        let folder = tempfile::tempdir().unwrap();
        let error = RunLock::acquire(&folder.path().join("none")).unwrap_err();
        assert!(matches!(error, TrainError::Read { .. }), "{error}");
        assert!(!folder.path().join("none").exists());
    }
}
