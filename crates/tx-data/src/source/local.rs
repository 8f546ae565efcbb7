//! Sentence pairs from local files: two parallel text files, or one tab-separated file.
//!
//! Files are UTF-8, plain or gzip (detected from content, not from the name). Lines end in `\n` or
//! `\r\n`; a byte order mark is dropped. No line is skipped, so line numbers match the file.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::limits::{Gunzip, Limits};
use crate::{error::DataError, pair::SentencePair};

/// First two bytes of every gzip file (RFC 1952, section 2.3.1).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Maximum length of a line in bytes, which bounds memory; sentences are far shorter.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Reads two parallel files: line N of `target` translates line N of `source`.
///
/// # Errors
///
/// When a file cannot be read, is empty or not UTF-8, or line counts differ.
pub fn parallel_text(source: &Path, target: &Path) -> Result<Vec<SentencePair>, DataError> {
    let (sources, targets) = (lines(source)?, lines(target)?);
    if sources.len() != targets.len() {
        return Err(DataError::LineCount {
            source_path: source.into(),
            source_lines: sources.len(),
            target_path: target.into(),
            target_lines: targets.len(),
        });
    }
    Ok(sources
        .into_iter()
        .zip(targets)
        .map(|(source, target)| SentencePair { source, target })
        .collect())
}

/// Reads the first two columns of a tab-separated file and ignores further columns (licenses,
/// scores).
///
/// # Errors
///
/// When the file cannot be read, is empty or not UTF-8, or a line has one column.
pub fn tsv(path: &Path) -> Result<Vec<SentencePair>, DataError> {
    lines(path)?
        .into_iter()
        .enumerate()
        .map(|(index, line)| {
            let mut columns = line.split('\t');
            match (columns.next(), columns.next()) {
                (Some(source), Some(target)) => Ok(SentencePair::new(source, target)),
                _ => Err(DataError::Columns {
                    path: path.into(),
                    line: index + 1,
                    found: 1,
                    expected: 2,
                }),
            }
        })
        .collect()
}

/// Reads the lines of a text file, plain or gzip.
///
/// # Errors
///
/// When the file cannot be read, is empty or not UTF-8.
pub fn lines(path: &Path) -> Result<Vec<String>, DataError> {
    let lines = Lines::open(path)?.collect::<Result<Vec<_>, _>>()?;
    if lines.is_empty() { Err(DataError::Empty { path: path.into() }) } else { Ok(lines) }
}

/// Iterator over the lines of a text, without line ends.
pub struct Lines {
    reader: Box<dyn BufRead + Send>,
    /// Path for error messages.
    path: PathBuf,
    number: usize,
    bytes: Vec<u8>,
    invalid: Invalid,
    /// True if a byte order mark is kept in the first line.
    keeps_mark: bool,
    /// Number of bytes read from the file.
    bytes_read: Arc<AtomicU64>,
}

/// Handling of bytes that are not valid UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Invalid {
    /// Reject the line with an error.
    #[default]
    Refuse,
    /// Replace invalid bytes with U+FFFD, the replacement character, as the Unicode standard
    /// recommends.
    Replace,
}

impl Lines {
    /// Opens a file, plain or gzip.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let bytes_read = Arc::default();
        let reader = open(path, &bytes_read)
            .map_err(|source| DataError::Read { path: path.into(), source })?;
        Ok(Self { bytes_read, ..Self::new(reader, path) })
    }

    /// Lines of any reader; error messages use `name` as the path.
    pub fn new(reader: Box<dyn BufRead + Send>, name: impl Into<PathBuf>) -> Self {
        Self {
            reader,
            path: name.into(),
            number: 0,
            bytes: Vec::new(),
            invalid: Invalid::default(),
            keeps_mark: false,
            bytes_read: Arc::default(),
        }
    }

    /// Sets the handling of invalid UTF-8. Default: [`Invalid::Refuse`].
    pub fn with_invalid(self, invalid: Invalid) -> Self {
        Self { invalid, ..self }
    }

    /// Keeps a byte order mark as part of the first line, for programs that treat it as a
    /// character.
    pub fn keeping_mark(self) -> Self {
        Self { keeps_mark: true, ..self }
    }

    /// Number of bytes of the file read so far, before decompression; 0 without an
    /// [opened](Self::open) file.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Reads the next line; `None` at the end of the text.
    fn read(&mut self) -> Result<Option<String>, DataError> {
        self.bytes.clear();
        self.number += 1;
        let read = (&mut self.reader).take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut self.bytes);
        let failed = |source| DataError::Read { path: self.path.clone(), source };
        match read.map_err(failed)? as u64 {
            0 => return Ok(None),
            1..=MAX_LINE_BYTES => {}
            _ => {
                let text = format!("line {} is longer than {MAX_LINE_BYTES} bytes", self.number);
                return Err(failed(io::Error::new(io::ErrorKind::InvalidData, text)));
            }
        }
        let line = match self.invalid {
            Invalid::Replace => String::from_utf8_lossy(&self.bytes),
            Invalid::Refuse => std::str::from_utf8(&self.bytes)
                .map_err(|error| DataError::Utf8 {
                    path: self.path.clone(),
                    line: self.number,
                    byte: error.valid_up_to() + 1,
                })?
                .into(),
        };
        let drops_mark = self.number == 1 && !self.keeps_mark;
        let line = if drops_mark { line.trim_start_matches('\u{feff}') } else { &line };
        let line = line.strip_suffix('\n').unwrap_or(line);
        Ok(Some(line.strip_suffix('\r').unwrap_or(line).to_owned()))
    }
}

impl Iterator for Lines {
    type Item = Result<String, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn open(path: &Path, bytes_read: &Arc<AtomicU64>) -> io::Result<Box<dyn BufRead + Send>> {
    let file = Counted { inner: File::open(path)?, count: bytes_read.clone() };
    let mut file = BufReader::new(file);
    let is_gzip = file.fill_buf()?.starts_with(&GZIP_MAGIC);
    Ok(match is_gzip {
        true => Box::new(BufReader::new(Gunzip::new(file, Limits::default()))),
        false => Box::new(file),
    })
}

/// Reader that counts bytes.
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
    fn plain_and_gzip_are_detected_from_content() {
        let text = "ein Hund\nzwei Hunde\n".as_bytes();
        let expected = ["ein Hund", "zwei Hunde"];
        assert_eq!(lines(file(text).path()).unwrap(), expected);
        assert_eq!(lines(file(&gzip(text)).path()).unwrap(), expected);
        let two_members = [gzip(b"ein Hund\n"), gzip(b"zwei Hunde\n")].concat();
        assert_eq!(lines(file(&two_members).path()).unwrap(), expected);
    }

    #[test]
    fn odd_line_ends_and_marks_are_dropped() {
        let text = "\u{feff}a\r\n\r\nb\u{85}c\u{2028}d".as_bytes();
        assert_eq!(lines(file(text).path()).unwrap(), ["a", "", "b\u{85}c\u{2028}d"]);
    }

    #[test]
    fn a_byte_order_mark_is_kept_on_request() {
        let file = file("\u{feff}a\n\u{feff}b".as_bytes());
        let lines = Lines::open(file.path()).unwrap().keeping_mark();
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
        let error = lines(bad.path()).unwrap_err();
        let expected =
            format!("`{}` line 2 is not valid UTF-8 (byte 2 of the line)", bad.path().display());
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn bad_utf8_is_replaced_on_request() {
        let text = b"\xffa\nb\xe9\xe9c\r\nd".to_vec();
        let lines = Lines::new(Box::new(io::Cursor::new(text)), "text");
        let found = lines.with_invalid(Invalid::Replace).collect::<Result<Vec<_>, _>>().unwrap();
        assert_eq!(found, ["\u{fffd}a", "b\u{fffd}\u{fffd}c", "d"]);
    }

    #[test]
    fn a_broken_gzip_is_an_error_not_a_shorter_file() {
        let mut bytes = gzip(&b"line\n".repeat(1000));
        bytes.truncate(bytes.len() - 6);
        assert!(matches!(lines(file(&bytes).path()), Err(DataError::Read { .. })));
    }

    /// 70 MB of text, compressed several hundred times.
    #[test]
    fn a_gzip_bomb_is_an_error() {
        let bomb = gzip(&[&[b'a'; 999][..], b"\n"].concat().repeat(70_000));
        let mut lines = Lines::open(file(&bomb).path()).unwrap();
        let error = lines.find_map(Result::err).unwrap();
        let DataError::Read { source, .. } = error else { panic!("{error}") };
        assert!(source.to_string().contains("decompression bomb"), "{source}");
    }

    #[test]
    fn sides_of_different_length_are_refused_with_both_numbers() {
        let (a, b) = (file(b"1\n2\n3\n"), file(b"1\n2\n"));
        let error = parallel_text(a.path(), b.path()).unwrap_err();
        assert!(matches!(error, DataError::LineCount { source_lines: 3, target_lines: 2, .. }));
    }

    #[test]
    fn an_empty_file_and_a_missing_one_are_different_errors() {
        assert!(matches!(lines(file(b"").path()), Err(DataError::Empty { .. })));
        let missing = Path::new("no/such/file");
        assert!(matches!(lines(missing), Err(DataError::Read { .. })));
    }

    #[test]
    fn tsv_reads_two_columns_and_refuses_one() {
        let three = file("Go.\tVa !\tCC-BY\nHi.\tSalut !\n".as_bytes());
        let expected = [SentencePair::new("Go.", "Va !"), SentencePair::new("Hi.", "Salut !")];
        assert_eq!(tsv(three.path()).unwrap(), expected);
        let error = tsv(file(b"a\tb\nonly one\n").path()).unwrap_err();
        assert!(matches!(error, DataError::Columns { line: 2, found: 1, .. }));
    }
}
