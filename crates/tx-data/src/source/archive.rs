//! Members of zip and tar archives, read without unpacking to disk.
//!
//! Archives are untrusted input. Members are read as streams and never written anywhere, so a name
//! cannot escape a folder. Links are not followed. Names that are not plain relative paths are
//! skipped. [`Limits`] bound the number of members and their expanded size.

use std::{
    cell::Cell,
    io::{self, BufReader, Read},
    rc::Rc,
};

use zip::{CompressionMethod, ZipArchive};

use super::{
    error::SourceError,
    input::{Blob, Input, Limits, Method, Part},
};

/// Offset of the magic bytes in a tar header.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

/// Maximum length of a member name in bytes.
const MAX_NAME_LEN: usize = 4_096;

/// Maximum size in bytes of all headers before a member of a tar archive: its own, and those with a
/// long name or extended attributes.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// Lists the members of an archive; `None` if the file is not an archive.
pub(super) fn members(input: &Input, limits: Limits) -> Result<Option<Vec<Blob>>, SourceError> {
    let whole = Blob::whole(input.clone(), limits);
    let head = whole.head()?;
    let listed = if is_zip(&head) {
        zip(input, limits)
    } else if is_tar(&head) {
        tar(&whole)
    } else {
        return Ok(None);
    };
    listed.map(Some).map_err(|error| whole.place().unreadable(error))
}

/// Returns `true` if a file with these first bytes is an archive.
pub(super) fn is_archive(head: &[u8]) -> bool {
    is_zip(head) || is_tar(head)
}

fn is_zip(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06")
}

fn is_tar(head: &[u8]) -> bool {
    head.get(TAR_MAGIC).is_some_and(|magic| magic == b"ustar")
}

fn zip(input: &Input, limits: Limits) -> io::Result<Vec<Blob>> {
    let invalid = |error: zip::result::ZipError| match error {
        zip::result::ZipError::Io(error) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    };
    let mut archive = ZipArchive::new(BufReader::new(input.file()?)).map_err(invalid)?;
    too_many(archive.len(), &limits)?;
    let mut members = Vec::new();
    for index in 0..archive.len() {
        let member = archive.by_index_raw(index).map_err(invalid)?;
        let Ok(name) = member.name() else { continue };
        if !member.is_file() || member.is_symlink() || !is_safe_path(&name) {
            continue;
        }
        let name = name.into_owned();
        if member.encrypted() {
            let text = format!("member `{name}` is encrypted");
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let method = match member.compression() {
            CompressionMethod::Stored => Method::Stored,
            CompressionMethod::Deflated => Method::Deflated,
            CompressionMethod::Zstd => Method::Zstd,
            other => {
                let text =
                    format!("member `{name}` uses the unsupported compression method {other}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        };
        let Some(start) = member.data_start() else { continue };
        let (packed, len, crc) = (member.compressed_size(), member.size(), member.crc32());
        let part = Part::Zip { start, packed, len, crc, method };
        members.push(Blob { input: input.clone(), member: Some(name), part, limits });
    }
    Ok(members)
}

fn tar(whole: &Blob) -> io::Result<Vec<Blob>> {
    let ration = Rc::new(Cell::new(MAX_HEADER_BYTES));
    let inner = whole.open().map_err(io::Error::other)?;
    // The library reads headers with names into memory, whatever their declared size.
    let mut archive = tar::Archive::new(Rationed { inner, left: Rc::clone(&ration) });
    let mut members = Vec::new();
    for (index, entry) in archive.entries()?.enumerate() {
        too_many(index, &whole.limits)?;
        let mut entry = entry?;
        // The content is skipped here, so that only headers are left for the next step.
        ration.set(u64::MAX);
        io::copy(&mut entry, &mut io::sink())?;
        ration.set(MAX_HEADER_BYTES);
        if entry.header().entry_type() != tar::EntryType::Regular {
            continue;
        }
        let path = entry.path_bytes();
        let Ok(name) = std::str::from_utf8(&path) else { continue };
        if !is_safe_path(name) {
            continue;
        }
        let part = Part::Tar { start: entry.raw_file_position(), len: entry.size() };
        let member = Some(name.strip_prefix("./").unwrap_or(name).to_owned());
        members.push(Blob { member, part, ..whole.clone() });
    }
    Ok(members)
}

/// Reader of the bytes that are left in a ration.
struct Rationed<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Rationed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            let text = format!("the headers of a member are longer than {MAX_HEADER_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.inner.read(&mut buffer[..most])?;
        self.left.set(left - read as u64);
        Ok(read)
    }
}

fn too_many(count: usize, limits: &Limits) -> io::Result<()> {
    if count <= limits.members {
        return Ok(());
    }
    let text = format!("the archive has more than {} members", limits.members);
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Returns `true` for a printable relative path that stays below its starting folder.
fn is_safe_path(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_LEN
        && !name.starts_with('/')
        && !name.contains(['\\', ':'])
        && !name.chars().any(char::is_control)
        && name.split('/').all(|part| part != "..")
}
