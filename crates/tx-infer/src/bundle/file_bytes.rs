//! Bytes of a file, in a memory map or in the memory of this process.

use std::{
    fmt,
    fs::File,
    io::{Read, Seek, SeekFrom},
    ops::{Deref, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use memmap2::Mmap;
use tx_kernels::SharedBytes;

use crate::{error::InferError, file::regular_file};

/// Bytes of a file, or of a part of it. Clones and parts share the buffer.
#[derive(Clone)]
pub(super) struct FileBytes {
    bytes: SharedBytes,
    /// The mapped file that has the bytes; `None` if they are in the memory of this process.
    mapped: Option<Mapped>,
}

/// A part of a mapped file, whose pages can be read again.
#[derive(Clone)]
struct Mapped {
    path: PathBuf,
    map: Arc<Mmap>,
    /// First byte of the part.
    start: usize,
}

impl FileBytes {
    /// Maps a regular file.
    pub(super) fn map(path: &Path) -> Result<Self, InferError> {
        let read_error = |source| InferError::Read { path: path.into(), source };
        if regular_file(path)? == 0 {
            return Ok(Vec::new().into());
        }
        let file = File::open(path).map_err(read_error)?;
        // SAFETY: the file is only read. Bundles are replaced by renames, which keep the mapped
        // file; the documentation of `bundle` forbids to write into it.
        #[allow(unsafe_code)]
        let map = Arc::new(unsafe { Mmap::map(&file) }.map_err(read_error)?);
        let mapped = Mapped { path: path.into(), map: map.clone(), start: 0 };
        let bytes = SharedBytes::whole(map);
        Ok(Self { bytes, mapped: Some(mapped) })
    }

    /// Returns a part, or `None` if the bytes do not have it.
    pub(super) fn part(&self, range: Range<usize>) -> Option<Self> {
        let bytes = self.bytes.part(range.clone())?;
        let mapped = self.mapped.clone();
        let mapped = mapped.map(|it| Mapped { start: it.start + range.start, ..it });
        Some(Self { bytes, mapped })
    }

    /// Path of the file, if these are all its bytes.
    #[cfg(feature = "burn")]
    pub(super) fn path(&self) -> Option<&Path> {
        let mapped = self.mapped.as_ref()?;
        (self.len() == mapped.map.len()).then_some(&mapped.path)
    }

    /// The bytes without their file.
    pub(super) fn shared(&self) -> &SharedBytes {
        &self.bytes
    }

    /// Reads mapped bytes into memory, where no other process changes them.
    pub(super) fn copied(&self) -> Result<Self, InferError> {
        let Some(Mapped { path, start, .. }) = &self.mapped else { return Ok(self.clone()) };
        let copy = || {
            let mut copy = vec![0; self.len()];
            let mut file = File::open(path)?;
            file.seek(SeekFrom::Start(*start as u64))?;
            file.read_exact(&mut copy)?;
            Ok(copy.into())
        };
        copy().map_err(|source| InferError::Read { path: path.clone(), source })
    }

    /// Removes the pages of a range from the memory of this process, if they are those of a mapped
    /// file. Reading them again brings them back. On systems without such a call, they are evicted
    /// when memory is short.
    pub(super) fn release(&self, range: Range<usize>) {
        #[cfg(unix)]
        if let Some(Mapped { map, start, .. }) = &self.mapped {
            use memmap2::UncheckedAdvice;

            // SAFETY: the mapping is shared, read-only and backed by a file, so a released page is read
            // again with the same content.
            #[allow(unsafe_code)]
            let advised = unsafe {
                map.unchecked_advise_range(
                    UncheckedAdvice::DontNeed,
                    start + range.start,
                    range.len(),
                )
            };
            // A failure costs memory, not correctness, so it is ignored.
            drop(advised);
        }
        #[cfg(not(unix))]
        let _ = (self.mapped.as_ref().map(|it| &it.map), range);
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl From<Vec<u8>> for FileBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes: bytes.into(), mapped: None }
    }
}

impl fmt::Debug for FileBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileBytes({})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn parts_are_those_of_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let content: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
        fs::write(&path, &content).unwrap();
        let mapped = FileBytes::map(&path).unwrap();
        for whole in [mapped.copied().unwrap(), mapped, content.clone().into()] {
            let part = whole.part(5_000..150_000).unwrap();
            part.release(10_000..100_000);
            let inner = part.part(7..120_000).unwrap();
            assert!(*inner == content[5_007..125_000]);
            assert!(*inner.copied().unwrap() == *inner);
            assert!(whole.part(1..200_001).is_none() && part.part(145_000..145_001).is_none());
            assert_eq!(part.part(145_000..145_000).unwrap().len(), 0);
        }
        fs::write(&path, b"").unwrap();
        assert_eq!(FileBytes::map(&path).unwrap().len(), 0);
    }
}
