//! Files of a ZIP archive.

use std::io::{Cursor, Read, Write};

use bytes::Bytes;
use zip::{CompressionMethod, ZipArchive, ZipWriter, write::SimpleFileOptions};

use crate::error::MarkupError;

/// An archive in memory.
#[derive(Debug, Clone)]
pub struct Archive {
    zip: ZipArchive<Cursor<Bytes>>,
}

/// Maximum number of files.
const MAX_FILES: usize = 10_000;

impl Archive {
    /// Reads the list of files.
    ///
    /// # Errors
    ///
    /// The problem, if the content is no archive, has too many files or two with the same name, or if a byte
    /// belongs to more than one file, so that a copy would be larger than the archive.
    pub fn new(content: Bytes) -> Result<Self, String> {
        let mut zip = ZipArchive::new(Cursor::new(content)).map_err(|error| error.to_string())?;
        if zip.len() > MAX_FILES {
            return Err(format!("it has {} files; the limit is {MAX_FILES}", zip.len()));
        }
        if zip.has_duplicate_names() {
            return Err("two files of the archive have the same name".to_owned());
        }
        if zip.has_overlapping_entries().map_err(|error| error.to_string())? {
            return Err("files of the archive overlap".to_owned());
        }
        Ok(Self { zip })
    }

    /// Names of the files, in their order.
    ///
    /// # Errors
    ///
    /// The problem, if a name cannot be read.
    pub fn names(&self) -> Result<Vec<String>, String> {
        let names = (0..self.zip.len()).map(|index| match self.zip.name_for_index(index) {
            Some(Ok(name)) => Ok(name.into_owned()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err(format!("file {index} has no name")),
        });
        names.collect()
    }

    /// Decompresses a file of at most `max_bytes`.
    ///
    /// # Errors
    ///
    /// [`MarkupError::TooLarge`] if it is larger, whatever size the archive states; [`MarkupError::Invalid`] if it
    /// cannot be read.
    pub fn read(&mut self, index: usize, max_bytes: usize) -> Result<Vec<u8>, MarkupError> {
        let invalid = |error: &dyn std::fmt::Display| {
            MarkupError::Invalid(format!("a file of the document cannot be read: {error}"))
        };
        let file = self.zip.by_index(index).map_err(|error| invalid(&error))?;
        // The formats permit no other method. Zstandard would allocate its window first.
        let method = file.compression();
        if ![CompressionMethod::Stored, CompressionMethod::Deflated].contains(&method) {
            return Err(invalid(&format_args!(
                "its compression is {method}; expected stored or deflated"
            )));
        }
        let mut content = Vec::new();
        let limit = (max_bytes as u64).saturating_add(1);
        file.take(limit).read_to_end(&mut content).map_err(|error| invalid(&error))?;
        if content.len() > max_bytes {
            return Err(MarkupError::TooLarge(format!(
                "the document has more than {max_bytes} bytes of XML"
            )));
        }
        Ok(content)
    }

    /// Writes an archive in which some files, given by their indices in ascending order, have other
    /// contents. The others are copied as they are, in the same order.
    ///
    /// # Errors
    ///
    /// The problem, if a file cannot be copied.
    pub fn with_files(&self, replaced: Vec<(usize, String)>) -> Result<Vec<u8>, String> {
        let mut zip = self.zip.clone();
        let mut replaced = replaced.into_iter().peekable();
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
        for (index, name) in self.names()?.into_iter().enumerate() {
            match replaced.next_if(|(replaced, _)| *replaced == index) {
                Some((_, content)) => {
                    writer.start_file(name, options).map_err(|error| error.to_string())?;
                    writer.write_all(content.as_bytes()).map_err(|error| error.to_string())?;
                }
                None => {
                    let file = zip.by_index_raw(index).map_err(|error| error.to_string())?;
                    writer.raw_copy_file(file).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(writer.finish().map_err(|error| error.to_string())?.into_inner())
    }
}
