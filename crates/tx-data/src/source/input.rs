//! Decompressed bytes of a file, standard input or an archive member, with limits against
//! decompression bombs.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::{Crc, read::DeflateDecoder, read::MultiGzDecoder};
use tempfile::TempPath;
use tx_text::gzip::bomb;

pub use super::limits::Limits;

use super::error::{Place, SourceError};

/// Number of bytes used for format detection.
const HEAD_BYTES: usize = 64 << 10;

/// Input file that can be read repeatedly from the start.
///
/// Standard input and pipes are first copied to a temporary file, which is deleted with the last
/// clone.
#[derive(Debug, Clone)]
pub struct Input {
    path: PathBuf,
    name: String,
    _spool: Option<Arc<TempPath>>,
}

impl Input {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        if path == Path::new("-") {
            return Self::spool(&mut io::stdin().lock(), "standard input");
        }
        let name = path.display().to_string();
        let unreadable = |error| place(&name, None).unreadable(error);
        let kind = fs::metadata(path).map_err(unreadable)?;
        if kind.is_dir() {
            let problem = "found a folder, expected a file";
            return Err(place(&name, None).malformed(problem));
        }
        if !kind.is_file() {
            return Self::spool(&mut File::open(path).map_err(unreadable)?, &name);
        }
        Ok(Self { path: path.into(), name, _spool: None })
    }

    fn spool(from: &mut dyn Read, name: &str) -> Result<Self, SourceError> {
        let mut copy = || {
            let mut file = tempfile::NamedTempFile::new()?;
            io::copy(from, &mut file)?;
            file.flush()?;
            Ok(file.into_temp_path())
        };
        let path = copy().map_err(|error| place(name, None).unreadable(error))?;
        Ok(Self { path: path.to_path_buf(), name: name.into(), _spool: Some(Arc::new(path)) })
    }

    pub(super) fn file(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

fn place(file: &str, member: Option<&str>) -> Place {
    Place { file: file.into(), member: member.map(str::to_owned), at: None }
}

/// Byte range of a blob in its file.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// Whole file.
    Whole,
    /// Range of a tar archive, in decompressed bytes.
    Tar { start: u64, len: u64 },
    /// Range of a zip archive, compressed separately.
    Zip { start: u64, packed: u64, len: u64, crc: u32, method: Method },
}

/// Compression method of a zip member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Stored,
    Deflated,
    Zstd,
}

/// File or archive member.
#[derive(Debug, Clone)]
pub(super) struct Blob {
    pub input: Input,
    pub member: Option<String>,
    pub part: Part,
    pub limits: Limits,
}

impl Blob {
    pub fn whole(input: Input, limits: Limits) -> Self {
        Self { input, member: None, part: Part::Whole, limits }
    }

    pub fn place(&self) -> Place {
        place(&self.input.name, self.member.as_deref())
    }

    /// Opens all bytes, decompressed.
    pub fn open(&self) -> Result<Box<dyn Read + Send>, SourceError> {
        self.unpacked().map_err(|error| self.place().unreadable(error))
    }

    /// Reads the first bytes, decompressed.
    pub fn head(&self) -> Result<Vec<u8>, SourceError> {
        let read = || Ok(peek(self.unpacked()?, HEAD_BYTES)?.0);
        read().map_err(|error| self.place().unreadable(error))
    }

    /// Opens UTF-8 text; drops a byte order mark and converts UTF-16 that has one.
    pub fn text(&self) -> Result<Box<dyn BufRead + Send>, SourceError> {
        let open = || {
            let (head, reader) = peek(self.unpacked()?, 3)?;
            let reader: Box<dyn Read + Send> = match head.as_slice() {
                [0xef, 0xbb, 0xbf] => {
                    let mut reader = reader;
                    reader.read_exact(&mut [0; 3])?;
                    Box::new(reader)
                }
                [0xff, 0xfe, ..] => Box::new(Utf16::new(reader, u16::from_le_bytes)),
                [0xfe, 0xff, ..] => Box::new(Utf16::new(reader, u16::from_be_bytes)),
                _ => Box::new(reader),
            };
            Ok(Box::new(BufReader::with_capacity(HEAD_BYTES, reader)) as Box<dyn BufRead + Send>)
        };
        open().map_err(|error| self.place().unreadable(error))
    }

    /// Returns the decompressed bytes as a seekable file: the file itself or a temporary copy.
    pub fn seekable(&self) -> Result<File, SourceError> {
        let open = || {
            let mut file = self.input.file()?;
            if matches!(self.part, Part::Whole) && packing(&peek(&mut file, 8)?.0)?.is_none() {
                file.rewind()?;
                return Ok(file);
            }
            let mut copy = tempfile::tempfile()?;
            io::copy(&mut self.unpacked()?, &mut copy)?;
            copy.rewind()?;
            Ok(copy)
        };
        open().map_err(|error| self.place().unreadable(error))
    }

    fn unpacked(&self) -> io::Result<Box<dyn Read + Send>> {
        let mut file = self.input.file()?;
        let (raw, packed): (Box<dyn Read + Send>, u64) = match self.part {
            Part::Whole => {
                let packed = file.metadata()?.len();
                (Box::new(file), packed)
            }
            Part::Tar { start, len } => {
                let packed = file.metadata()?.len();
                let whole: Box<dyn Read + Send> = if packing(&peek(&mut file, 8)?.0)?.is_some() {
                    file.rewind()?;
                    let mut whole = unpack(Box::new(file), packed, &self.limits)?;
                    skip(&mut whole, start)?;
                    whole
                } else {
                    file.seek(SeekFrom::Start(start))?;
                    Box::new(file)
                };
                (Box::new(Exactly { inner: whole, left: len, check: None }), len)
            }
            Part::Zip { start, packed, len, crc, method } => {
                file.seek(SeekFrom::Start(start))?;
                let raw = BufReader::new(file.take(packed));
                let reader: Box<dyn Read + Send> = match method {
                    Method::Stored => Box::new(raw),
                    Method::Deflated => Box::new(DeflateDecoder::new(raw)),
                    Method::Zstd => Box::new(zstd::Decoder::with_buffer(raw)?),
                };
                if len > self.limits.expansion.of(packed) {
                    return Err(bomb(self.limits.expansion.of(packed)));
                }
                let check = Some((Crc::new(), crc));
                (Box::new(Exactly { inner: reader, left: len, check }), len)
            }
        };
        unpack(raw, packed, &self.limits)
    }
}

/// Opens a gzip or zstd stream, if the bytes are one.
fn unpack(
    raw: Box<dyn Read + Send>,
    packed: u64,
    limits: &Limits,
) -> io::Result<Box<dyn Read + Send>> {
    let (head, reader) = peek(raw, 8)?;
    let reader: Box<dyn Read + Send> = match packing(&head)? {
        None => return Ok(Box::new(reader)),
        // Concatenated gzip members form one file, as from `cat a.gz b.gz`.
        Some(Packing::Gzip) => Box::new(MultiGzDecoder::new(reader)),
        Some(Packing::Zstd) => Box::new(zstd::Decoder::new(reader)?),
    };
    let limit = limits.expansion.of(packed);
    Ok(Box::new(Guard { inner: reader, left: limit, limit }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
}

/// Detects compression from the first bytes; unsupported kinds are an error that names them.
fn packing(head: &[u8]) -> io::Result<Option<Packing>> {
    let unsupported = |what: &str| {
        let text =
            format!("{what} compression is not supported; recompress the file with gzip or zstd");
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    };
    match head {
        [0x1f, 0x8b, ..] => Ok(Some(Packing::Gzip)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Some(Packing::Zstd)),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => unsupported("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => unsupported("xz"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => unsupported("7z"),
        [b'R', b'a', b'r', b'!', ..] => unsupported("rar"),
        _ => Ok(None),
    }
}

/// Reads the first bytes and returns a reader that still yields them.
fn peek<R: Read>(mut reader: R, len: usize) -> io::Result<(Vec<u8>, impl Read + use<R>)> {
    let mut head = Vec::new();
    reader.by_ref().take(len as u64).read_to_end(&mut head)?;
    Ok((head.clone(), Cursor::new(head).chain(reader)))
}

fn skip(reader: &mut dyn Read, len: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(len), &mut io::sink())?;
    if skipped < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
}

/// Reader with a limit on expanded bytes.
struct Guard<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| bomb(self.limit))?;
        Ok(read)
    }
}

/// Reader of exactly a member's declared length, with the declared checksum.
struct Exactly<R> {
    inner: R,
    left: u64,
    check: Option<(Crc, u32)>,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = if most == 0 { 0 } else { self.inner.read(&mut buffer[..most])? };
        self.left -= read as u64;
        if let Some((crc, _)) = &mut self.check {
            crc.update(&buffer[..read]);
        }
        if read == 0 && !buffer.is_empty() {
            if self.left > 0 {
                let text = format!("the data ends {} bytes before its declared length", self.left);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, text));
            }
            if let Some((crc, expected)) = self.check.take()
                && crc.sum() != expected
            {
                let text = format!("checksum {:08x}, expected {expected:08x}", crc.sum());
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
        Ok(read)
    }
}

/// Converter from UTF-16 to UTF-8. Drops the byte order mark; an unpaired surrogate is an error.
struct Utf16<R> {
    inner: R,
    unit: fn([u8; 2]) -> u16,
    /// High surrogate that precedes a low one.
    high: Option<u16>,
    first: bool,
    ready: Vec<u8>,
    at: usize,
}

impl<R: Read> Utf16<R> {
    fn new(inner: R, unit: fn([u8; 2]) -> u16) -> Self {
        Self { inner, unit, high: None, first: true, ready: Vec::new(), at: 0 }
    }

    /// Converts at least one more character, unless the input ends.
    fn refill(&mut self) -> io::Result<()> {
        let invalid = |text| io::Error::new(io::ErrorKind::InvalidData, text);
        self.ready.clear();
        self.at = 0;
        while self.ready.is_empty() {
            let mut bytes = Vec::new();
            self.inner.by_ref().take(8 << 10).read_to_end(&mut bytes)?;
            if bytes.len() % 2 == 1 || bytes.is_empty() && self.high.is_some() {
                return Err(invalid("UTF-16 data ends inside a character"));
            }
            if bytes.is_empty() {
                break;
            }
            let pairs = bytes.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]]));
            let mut units: Vec<u16> = self.high.take().into_iter().chain(pairs).collect();
            self.high = units.pop_if(|last| (0xd800..0xdc00).contains(last));
            for decoded in char::decode_utf16(units) {
                match decoded {
                    Ok('\u{feff}') if self.first => {}
                    Ok(c) => self.ready.extend(c.encode_utf8(&mut [0; 4]).bytes()),
                    Err(_) => return Err(invalid("UTF-16 data contains an unpaired surrogate")),
                }
                self.first = false;
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.ready.len() {
            self.refill()?;
        }
        let count = buffer.len().min(self.ready.len() - self.at);
        buffer[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}
