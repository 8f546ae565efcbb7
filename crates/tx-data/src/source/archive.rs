//! What a zip or tar holds, without unpacking it to disk.
//!
//! Archives come from strangers. Members are read as streams and never written anywhere, so a name
//! cannot lead out of a folder; links are not followed; names that are no plain relative paths are
//! left out; [`Limits`] bound the number of members and what they expand to.

use std::io::{self, BufReader};

use zip::{CompressionMethod, ZipArchive};

use super::{
    error::SourceError,
    input::{Blob, Input, Limits, Method, Part},
};

/// Where a tar says that it is one.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

/// Longest name of a member in bytes.
const LONGEST_NAME: usize = 4_096;

/// Lists the members of an archive; none when the file is none.
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

/// Whether a file that begins so is an archive.
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
        if !member.is_file() || member.is_symlink() || !plain(&name) {
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
                let text = format!("member `{name}` is packed by {other}, which is not read");
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
    let reader = whole.open().map_err(io::Error::other)?;
    let mut archive = tar::Archive::new(reader);
    let mut members = Vec::new();
    for (index, entry) in archive.entries()?.enumerate() {
        too_many(index, &whole.limits)?;
        let entry = entry?;
        if entry.header().entry_type() != tar::EntryType::Regular {
            continue;
        }
        let path = entry.path_bytes();
        let Ok(name) = std::str::from_utf8(&path) else { continue };
        if !plain(name) {
            continue;
        }
        let part = Part::Tar { start: entry.raw_file_position(), len: entry.size() };
        let member = Some(name.strip_prefix("./").unwrap_or(name).to_owned());
        members.push(Blob { member, part, ..whole.clone() });
    }
    Ok(members)
}

fn too_many(count: usize, limits: &Limits) -> io::Result<()> {
    if count <= limits.members {
        return Ok(());
    }
    let text = format!("it holds more than {} members", limits.members);
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Whether a name is a relative path that stays below where it starts, and can be printed.
fn plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= LONGEST_NAME
        && !name.starts_with('/')
        && !name.contains(['\\', ':'])
        && !name.chars().any(char::is_control)
        && name.split('/').all(|part| part != "..")
}
