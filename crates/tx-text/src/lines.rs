//! Lines of text files and streams, plain or compressed.
//!
//! The encoding is UTF-8, or UTF-16 with a byte order mark. [Compression](crate::compression) and
//! encoding are detected from the content, not from the name. Lines end in `\n` or `\r\n`; a byte
//! order mark is dropped. No line is skipped, so line numbers are those of the file.

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
    compression::{Counted, ExpansionLimit, decompress},
    encoding::{decode_text, peek},
    error::{InvalidText, TextError},
    not_text::NotText,
};

/// Maximum length of a line in bytes. A longer line is not a sentence, and must not exhaust memory.
const LONGEST_LINE: u64 = 16 << 20;

/// Reads the lines of a text file, plain or compressed.
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
    /// Whether the lines read so far are not ASCII only.
    has_utf8: bool,
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
    /// Opens a file, plain or compressed.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is not text.
    pub fn open(path: &Path) -> Result<Self, TextError> {
        let open = || {
            let file = File::open(path)?;
            let kind = file.metadata()?;
            Ok((file, kind.is_file().then_some(kind.len())))
        };
        let opened = open().map_err(|source| TextError::Read { path: path.into(), source });
        let (inner, size) = opened?;
        let count = Arc::default();
        let reader = BufReader::new(Counted { inner, count: Arc::clone(&count) });
        Ok(Self { bytes_read: count, ..Self::detect(Box::new(reader), path.into(), size)? })
    }

    /// Reads lines from a stream such as standard input, plain or compressed; `name` replaces the path
    /// in error messages. Waits for the first line.
    ///
    /// # Errors
    ///
    /// If the stream cannot be read, or is not text.
    pub fn from_stream(
        stream: Box<dyn BufRead + Send>,
        name: impl Into<PathBuf>,
    ) -> Result<Self, TextError> {
        Self::detect(stream, name.into(), None)
    }

    /// Detects compression and encoding of `stream`, which has `size` bytes, if known.
    fn detect(
        stream: Box<dyn BufRead + Send>,
        path: PathBuf,
        size: Option<u64>,
    ) -> Result<Self, TextError> {
        let detect = || {
            let bytes = decompress(stream, size, ExpansionLimit::default())?;
            let (head, bytes) = peek(bytes, NotText::HEAD_BYTES)?;
            match NotText::of(&head) {
                Some(found) => Ok(Err(found)),
                None => Ok(Ok(decode_text(bytes)?)),
            }
        };
        match detect() {
            Ok(Ok(text)) => Ok(Self::new(text, path)),
            Ok(Err(found)) => Err(TextError::NotText { path, found }),
            Err(source) => Err(TextError::Read { path, source }),
        }
    }

    /// Reads lines from decompressed UTF-8; `name` replaces the path in error messages.
    pub fn new(reader: Box<dyn BufRead + Send>, name: impl Into<PathBuf>) -> Self {
        Self {
            reader,
            path: name.into(),
            number: 0,
            bytes: Vec::new(),
            invalid: InvalidUtf8::default(),
            keeps_byte_order_mark: false,
            has_utf8: false,
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
                    content: InvalidText::of(&self.bytes, self.has_utf8),
                })?
                .into(),
        };
        self.has_utf8 |= !line.is_ascii();
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

    /// The same text in every form, from a file and from a stream.
    #[test]
    fn every_form_of_a_text_gives_the_same_lines() {
        let text = "Où est la clé ?\r\n\n𝄞 日本\n";
        let expected = ["Où est la clé ?", "", "𝄞 日本"];
        let utf16 = |bytes: fn(u16) -> [u8; 2]| {
            format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect::<Vec<_>>()
        };
        let plain = [
            text.as_bytes().to_vec(),
            format!("\u{feff}{text}").into_bytes(),
            utf16(u16::to_le_bytes),
            utf16(u16::to_be_bytes),
        ];
        let padded = |bytes: &[u8]| [gzip(bytes), vec![0; 700]].concat();
        let mut forms: Vec<Vec<u8>> = plain.to_vec();
        forms.extend(plain.iter().map(|bytes| gzip(bytes)));
        forms.extend(plain.iter().map(|bytes| padded(bytes)));
        #[cfg(feature = "zstd")]
        forms.extend(plain.iter().map(|bytes| zstd::encode_all(bytes.as_slice(), 3).unwrap()));
        for bytes in forms {
            assert_eq!(read_lines(file(&bytes).path()).unwrap(), expected, "{bytes:?}");
            // One byte at a time, as from a slow pipe.
            let stream = BufReader::with_capacity(1, io::Cursor::new(bytes.clone()));
            let lines = Lines::from_stream(Box::new(stream), "stream").unwrap();
            let found = lines.collect::<Result<Vec<_>, _>>().unwrap();
            assert_eq!(found, expected, "{bytes:?}");
        }
    }

    /// Pipe of chunks; the test sees when they are taken.
    struct Pipe(std::sync::mpsc::Receiver<Vec<u8>>);

    impl Read for Pipe {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let chunk = self.0.recv().unwrap_or_default();
            buffer[..chunk.len()].copy_from_slice(&chunk);
            Ok(chunk.len())
        }
    }

    #[test]
    fn a_line_of_a_stream_is_read_as_soon_as_it_is_complete() {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
        let mut packed = |line: &str| {
            packer.write_all(line.as_bytes()).unwrap();
            packer.flush().unwrap();
            std::mem::take(packer.get_mut())
        };
        for chunks in [
            ["one\n", "two\n", "3\n"].map(|line| line.as_bytes().to_vec()),
            [utf16("\u{feff}one\n"), utf16("two\n"), utf16("3\n")],
            ["one\n", "two\n", "3\n"].map(&mut packed),
        ] {
            let (sender, receiver) = std::sync::mpsc::channel();
            let [first, others @ ..] = chunks;
            // A reader that wants more than one line waits forever.
            sender.send(first).unwrap();
            let stream = Box::new(BufReader::new(Pipe(receiver)));
            let mut lines = Lines::from_stream(stream, "pipe").unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), "one");
            for (chunk, expected) in others.into_iter().zip(["two", "3"]) {
                sender.send(chunk).unwrap();
                assert_eq!(lines.next().unwrap().unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_file_that_is_not_text_is_named() {
        let error = |bytes: &[u8]| read_lines(file(bytes).path()).unwrap_err();
        let pointer = error(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n");
        assert!(pointer.to_string().ends_with("` is a Git LFS pointer, not the file itself"));
        assert_eq!(
            pointer.hint(),
            Some("run `git lfs pull` in the repository to download the file")
        );
        for (bytes, cause) in [
            (
                &b"\xfd7zXZ\0\0\x04\xe6"[..],
                "xz compression is not supported; recompress the file with ",
            ),
            (b"BZh91AY&SY\x01", "bzip2 compression is not supported; recompress the file with "),
        ] {
            let TextError::Read { source, .. } = error(bytes) else { panic!() };
            assert!(source.to_string().starts_with(cause), "{source}");
        }
        let utf16 =
            error(&"no mark\n".encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>());
        assert_eq!(utf16.hint(), Some("convert it, for example with `iconv -f utf-16le -t utf-8`"));
    }

    #[test]
    fn the_hint_for_invalid_utf8_depends_on_the_content() {
        let hint = |bytes: &[u8]| read_lines(file(bytes).path()).unwrap_err().hint().unwrap();
        assert!(hint(b"the caf\xe9\n").contains("if the text is Western European"));
        assert!(
            hint("le café\nle caf\u{e9}".as_bytes()[..].split_last().unwrap().1)
                .contains("correct this line")
        );
        assert!(hint(b"\x7fELF\x02\x01\x01\0\xb8\n").contains("may not be text"));
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
