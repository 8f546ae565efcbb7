//! Lines of text files, plain or gzip.
//!
//! Files are UTF-8; compression is detected from the content, not from the name. Lines end in `\n`
//! or `\r\n`; a byte order mark is dropped. No line is skipped, so line numbers are those of the
//! file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    error::TextError,
    gzip::{ExpansionLimit, GZIP_MAGIC, Gunzip},
};

/// Maximum length of a line in bytes. A longer line is not a sentence, and must not exhaust memory.
const LONGEST_LINE: u64 = 16 << 20;

/// Reads the lines of a text file, plain or gzip.
///
/// # Errors
///
/// If the file cannot be read, is empty or not UTF-8.
pub fn read_lines(path: &Path) -> Result<Vec<String>, TextError> {
    let lines = Lines::open(path)?.collect::<Result<Vec<_>, _>>()?;
    if lines.is_empty() { Err(TextError::Empty { path: path.into() }) } else { Ok(lines) }
}

/// Iterator over the lines of a text, without line ends.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    /// Name of the text in error messages.
    path: PathBuf,
    number: usize,
    bytes: Vec<u8>,
    invalid: InvalidUtf8,
    /// Whether a byte order mark is part of the first line.
    keeps_byte_order_mark: bool,
    /// Number of bytes of the file that have been read.
    bytes_read: Arc<AtomicU64>,
}

/// Treatment of bytes that are not valid UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InvalidUtf8 {
    /// The line is an error.
    #[default]
    Reject,
    /// The bytes become U+FFFD, the replacement character, as the Unicode standard recommends.
    Replace,
}

impl Lines {
    /// Opens a file, plain or gzip.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, TextError> {
        let bytes_read = Arc::default();
        let reader = open(path, &bytes_read)
            .map_err(|source| TextError::Read { path: path.into(), source })?;
        Ok(Self { bytes_read, ..Self::new(reader, path) })
    }

    /// Reads lines from any reader; `name` replaces the path in error messages.
    pub fn new(reader: Box<dyn BufRead + Send>, name: impl Into<PathBuf>) -> Self {
        Self {
            reader,
            path: name.into(),
            number: 0,
            bytes: Vec::new(),
            invalid: InvalidUtf8::default(),
            keeps_byte_order_mark: false,
            bytes_read: Arc::default(),
        }
    }

    /// Sets the treatment of bytes that are not valid UTF-8; by default their line is an error.
    pub fn with_invalid_utf8(self, invalid: InvalidUtf8) -> Self {
        Self { invalid, ..self }
    }

    /// Keeps a byte order mark in the first line, as programs do that treat it as a character.
    pub fn with_byte_order_mark(self) -> Self {
        Self { keeps_byte_order_mark: true, ..self }
    }

    /// Returns the number of bytes of the file that have been read so far, before decompression; 0
    /// for a reader that was not [opened](Self::open) from a file.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Reads the next line; `None` at the end of the text.
    fn read(&mut self) -> Result<Option<String>, TextError> {
        self.bytes.clear();
        self.number += 1;
        let read = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut self.bytes);
        let failed = |source| TextError::Read { path: self.path.clone(), source };
        match read.map_err(failed)? as u64 {
            0 => return Ok(None),
            1..=LONGEST_LINE => {}
            _ => {
                let text = format!("line {} is longer than {LONGEST_LINE} bytes", self.number);
                return Err(failed(io::Error::new(io::ErrorKind::InvalidData, text)));
            }
        }
        let line = match self.invalid {
            InvalidUtf8::Replace => String::from_utf8_lossy(&self.bytes),
            InvalidUtf8::Reject => std::str::from_utf8(&self.bytes)
                .map_err(|error| TextError::Utf8 {
                    path: self.path.clone(),
                    line: self.number,
                    byte: error.valid_up_to() + 1,
                })?
                .into(),
        };
        let drops_byte_order_mark = self.number == 1 && !self.keeps_byte_order_mark;
        let line = if drops_byte_order_mark { line.trim_start_matches('\u{feff}') } else { &line };
        let line = line.strip_suffix('\n').unwrap_or(line);
        Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
    }
}

impl Iterator for Lines {
    type Item = Result<String, TextError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn open(path: &Path, bytes_read: &Arc<AtomicU64>) -> io::Result<Box<dyn BufRead + Send>> {
    let file = Counted { inner: File::open(path)?, count: bytes_read.clone() };
    let mut file = BufReader::new(file);
    let is_gzip = file.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok(match is_gzip {
        true => Box::new(BufReader::new(Gunzip::new(file, ExpansionLimit::default()))),
        false => Box::new(file),
    })
}

/// Reader that counts its bytes.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn gzip_is_detected_from_content() {
        let text = "ein Hund\nzwei Hunde\n".as_bytes();
        let expected = ["ein Hund", "zwei Hunde"];
        assert_eq!(read_lines(file(text).path()).unwrap(), expected);
        assert_eq!(read_lines(file(&gzip(text)).path()).unwrap(), expected);
        let two_members = [gzip(b"ein Hund\n"), gzip(b"zwei Hunde\n")].concat();
        assert_eq!(read_lines(file(&two_members).path()).unwrap(), expected);
    }

    #[test]
    fn odd_line_ends_and_marks_are_dropped() {
        let text = "\u{feff}a\r\n\r\nb\u{85}c\u{2028}d".as_bytes();
        assert_eq!(read_lines(file(text).path()).unwrap(), ["a", "", "b\u{85}c\u{2028}d"]);
    }

    #[test]
    fn a_byte_order_mark_is_kept_if_requested() {
        let file = file("\u{feff}a\n\u{feff}b".as_bytes());
        let lines = Lines::open(file.path()).unwrap().with_byte_order_mark();
        let found = lines.collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(found, ["\u{feff}a", "\u{feff}b"]);
    }

    #[test]
    fn the_bytes_of_the_file_are_counted() {
        let text = b"one two three\n".repeat(10_000);
        for content in [text.clone(), gzip(&text)] {
            let file = file(&content);
            let mut lines = Lines::open(file.path()).unwrap();
            assert!(lines.next().is_some() && lines.bytes_read() > 0);
            assert_eq!(lines.by_ref().count(), 9_999);
            assert_eq!(lines.bytes_read(), content.len() as u64);
        }
    }

    #[test]
    fn bad_utf8_is_named_by_file_and_line() {
        let bad = file(b"good\nb\xffd\n");
        let error = read_lines(bad.path()).unwrap_err();
        let expected =
            format!("`{}` line 2 is not valid UTF-8 (byte 2 of the line)", bad.path().display());
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn bad_utf8_is_replaced_if_requested() {
        let text = b"\xffa\nb\xe9\xe9c\r\nd".to_vec();
        let lines = Lines::new(Box::new(io::Cursor::new(text)), "text");
        let found =
            lines.with_invalid_utf8(InvalidUtf8::Replace).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(found, ["\u{fffd}a", "b\u{fffd}\u{fffd}c", "d"]);
    }

    #[test]
    fn a_broken_gzip_is_an_error_not_a_shorter_file() {
        let mut bytes = gzip(&b"line\n".repeat(1000));
        bytes.truncate(bytes.len() - 6);
        assert!(matches!(read_lines(file(&bytes).path()), Err(TextError::Read { .. })));
    }

    /// 70 MB of text with a compression ratio of several hundred.
    #[test]
    fn a_gzip_bomb_is_an_error() {
        let bomb = gzip(&[&[b'a'; 999][..], b"\n"].concat().repeat(70_000));
        let mut lines = Lines::open(file(&bomb).path()).unwrap();
        let error = lines.find_map(Result::err).unwrap();
        let TextError::Read { source, .. } = error else { panic!("{error}") };
        assert!(source.to_string().contains("decompression bomb"), "{source}");
    }

    #[test]
    fn an_empty_file_and_a_missing_one_are_different_errors() {
        assert!(matches!(read_lines(file(b"").path()), Err(TextError::Empty { .. })));
        let missing = Path::new("no/such/file");
        assert!(matches!(read_lines(missing), Err(TextError::Read { .. })));
    }
}
