//! Decompressed bytes of a file, standard input or an archive member, with limits against
//! decompression bombs.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use flate2::{Crc, bufread::DeflateDecoder};
use tempfile::TempPath;
use tx_text::{
    compression::{Compression, bomb, decompress},
    encoding::{BYTE_ORDER_MARK, decode_text, decode_xml},
};

pub use super::limits::Limits;

use super::error::{Place, SourceError};

/// Number of bytes used for format detection.
const HEAD_BYTES: u64 = 64 << 10;
const BUFFER_BYTES: usize = 64 << 10;

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
    pub fn open(&self) -> Result<Box<dyn BufRead + Send>, SourceError> {
        self.unpacked().map_err(|error| self.place().unreadable(error))
    }

    /// Reads the first bytes, decompressed.
    pub fn head(&self) -> Result<Vec<u8>, SourceError> {
        let mut head = Vec::new();
        let read = self.open()?.take(HEAD_BYTES).read_to_end(&mut head);
        read.map(|_| head).map_err(|error| self.place().unreadable(error))
    }

    /// Opens UTF-8 text; drops a byte order mark and converts UTF-16 that has one.
    pub fn text(&self) -> Result<Box<dyn BufRead + Send>, SourceError> {
        let open = || {
            let mut text = decode_text(self.unpacked()?)?;
            if text.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
                text.consume(BYTE_ORDER_MARK.len());
            }
            Ok(text)
        };
        open().map_err(|error| self.place().unreadable(error))
    }

    /// Opens the text of an XML document as UTF-8, without its declaration.
    pub fn xml(&self) -> Result<Box<dyn BufRead + Send>, SourceError> {
        let open = || decode_xml(self.unpacked()?);
        open().map_err(|error| self.place().unreadable(error))
    }

    /// Returns the decompressed bytes as a seekable file: the file itself or a temporary copy.
    pub fn seekable(&self) -> Result<File, SourceError> {
        let open = || {
            let mut file = self.input.file()?;
            if matches!(self.part, Part::Whole) && !is_compressed(&mut file)? {
                return Ok(file);
            }
            let mut copy = tempfile::tempfile()?;
            io::copy(&mut self.unpacked()?, &mut copy)?;
            copy.rewind()?;
            Ok(copy)
        };
        open().map_err(|error| self.place().unreadable(error))
    }

    fn unpacked(&self) -> io::Result<Box<dyn BufRead + Send>> {
        let mut file = self.input.file()?;
        let expansion = self.limits.expansion;
        let (raw, packed): (Box<dyn Read + Send>, u64) = match self.part {
            Part::Whole => {
                let packed = file.metadata()?.len();
                (Box::new(file), packed)
            }
            Part::Tar { start, len } => {
                let packed = file.metadata()?.len();
                let whole: Box<dyn Read + Send> = if is_compressed(&mut file)? {
                    let mut whole = decompress(buffered(file), Some(packed), expansion)?;
                    skip(&mut whole, start)?;
                    Box::new(whole)
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
                if len > expansion.of(packed) {
                    return Err(bomb(expansion.of(packed)));
                }
                let check = Some((Crc::new(), crc));
                (Box::new(Exactly { inner: reader, left: len, check }), len)
            }
        };
        decompress(buffered(raw), Some(packed), expansion)
    }
}

fn buffered(reader: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, reader))
}

/// Returns `true` if the file is compressed; leaves it at its start.
fn is_compressed(file: &mut File) -> io::Result<bool> {
    let mut head = Vec::new();
    (&mut *file).take(8).read_to_end(&mut head)?;
    file.rewind()?;
    Ok(Compression::detect(&head)?.is_some())
}

fn skip(reader: &mut dyn Read, len: u64) -> io::Result<()> {
    let skipped = io::copy(&mut reader.take(len), &mut io::sink())?;
    if skipped < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
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
