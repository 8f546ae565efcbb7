//! Folder that appears with all of its files, or not at all.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use tempfile::TempDir;
use tx_infer::{Bundle, InferError, TaskKind, bundle::tokenizer_files};
use tx_text::Tokenizers;

use crate::error::ConvertError;

/// New folder whose files are written beside its final path. [`finish`](Self::finish) renames it;
/// without that, it is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct NewFolder {
    partial: TempDir,
    output: PathBuf,
}

impl NewFolder {
    /// Begins a folder that becomes `output`. Parent folders are created.
    ///
    /// # Errors
    ///
    /// [`ConvertError::OutputExists`] if `output` is a folder that is not empty, or a file;
    /// [`ConvertError::Write`].
    pub(crate) fn create(output: &Path) -> Result<Self, ConvertError> {
        check_absent(output)?;
        let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(write_error(parent))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".").suffix(".partial");
        // The permissions of an ordinary new folder, because temporary folders are private by
        // default.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        let partial = builder.tempdir_in(parent).map_err(write_error(output))?;
        Ok(Self { partial, output: output.into() })
    }

    /// Writes the file `name` by `content`, and synchronizes it to disk.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Write`] with the final path of the file.
    pub(crate) fn write_with(
        &self,
        name: &str,
        content: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ConvertError> {
        let write = || {
            let mut file = BufWriter::new(File::create_new(self.partial.path().join(name))?);
            content(&mut file)?;
            file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
        };
        write().map_err(write_error(&self.output.join(name)))
    }

    /// Writes the file `name`, in which `content` can move back, and synchronizes it to disk.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Write`] with the final path of the file.
    pub(crate) fn write_file(
        &self,
        name: &str,
        content: impl FnOnce(File) -> io::Result<File>,
    ) -> Result<(), ConvertError> {
        let create = || File::create_new(self.partial.path().join(name));
        let write = || content(create()?)?.sync_all();
        write().map_err(write_error(&self.output.join(name)))
    }

    /// Writes the file `name`.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Write`] with the final path of the file.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), ConvertError> {
        self.write_with(name, |file| file.write_all(content))
    }

    /// Writes the tokenizers of a bundle under their names in the bundle.
    ///
    /// # Errors
    ///
    /// [`ConvertError::Write`] with the final path of the file.
    pub(crate) fn write_tokenizers(&self, bundle: &Bundle) -> Result<(), ConvertError> {
        let Tokenizers { source, target } = &bundle.tokenizers;
        for (name, tokenizer) in tokenizer_files(TaskKind::Translate).iter().zip([source, target]) {
            self.write(name, tokenizer.to_json().map_err(InferError::from)?.as_bytes())?;
        }
        Ok(())
    }

    /// Renames the folder to its final path.
    ///
    /// # Errors
    ///
    /// [`ConvertError::OutputExists`] if files were created there meanwhile; [`ConvertError::Write`].
    pub(crate) fn finish(self) -> Result<(), ConvertError> {
        check_absent(&self.output)?;
        // An empty folder is replaced by the rename on Unix only.
        #[cfg(not(unix))]
        if self.output.is_dir() {
            fs::remove_dir(&self.output).map_err(write_error(&self.output))?;
        }
        fs::rename(self.partial.path(), &self.output).map_err(write_error(&self.output))
    }
}

/// Returns an error if there is anything at `path` other than an empty folder.
fn check_absent(path: &Path) -> Result<(), ConvertError> {
    let exists = || Err(ConvertError::OutputExists { path: path.into() });
    match fs::read_dir(path) {
        Ok(mut entries) => {
            if entries.next().is_none() {
                Ok(())
            } else {
                exists()
            }
        }
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            io::ErrorKind::NotADirectory => exists(),
            _ => Err(write_error(path)(error)),
        },
    }
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> ConvertError {
    let path = path.to_owned();
    move |source| ConvertError::Write { path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_appears_when_it_is_finished() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("a/b");
        let folder = NewFolder::create(&output).unwrap();
        folder.write("file", b"content").unwrap();
        assert!(!output.exists());
        folder.finish().unwrap();
        assert_eq!(fs::read(output.join("file")).unwrap(), b"content");
        assert_eq!(fs::read_dir(parent.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn a_folder_that_is_not_finished_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let folder = NewFolder::create(&parent.path().join("output")).unwrap();
        folder.write("file", b"content").unwrap();
        drop(folder);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_empty_folder_is_replaced_and_any_other_is_kept() {
        let parent = tempfile::tempdir().unwrap();
        let output = parent.path().join("output");
        fs::create_dir(&output).unwrap();
        let folder = NewFolder::create(&output).unwrap();
        folder.write("new", b"").unwrap();
        fs::write(output.join("old"), b"").unwrap();
        for error in [folder.finish().unwrap_err(), NewFolder::create(&output).unwrap_err()] {
            assert!(matches!(error, ConvertError::OutputExists { .. }), "{error}");
        }
        let names = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(names.collect::<Vec<_>>(), ["old"]);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);

        fs::remove_file(output.join("old")).unwrap();
        NewFolder::create(&output).unwrap().finish().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, b"").unwrap();
        let error = NewFolder::create(&file).unwrap_err();
        assert!(matches!(error, ConvertError::OutputExists { .. }), "{error}");
    }
}
