//! Character encodings of files: UTF-8, UTF-16 with a byte order mark, and those that an XML
//! declaration names.

use std::{
    borrow::Cow,
    io::{self, BufRead, Cursor, Read},
};

use encoding_rs::{Decoder, DecoderResult, Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Byte order mark of UTF-8.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Maximum length of an XML declaration in bytes; longer ones are not read as declarations.
const LONGEST_DECLARATION: u64 = 1_024;

/// Converts UTF-16 with a byte order mark to UTF-8. Other bytes stay as they are, a byte order mark
/// of UTF-8 included.
///
/// # Errors
///
/// If the first bytes cannot be read. Reading fails at bytes that are not valid UTF-16.
pub fn decode_text(bytes: Box<dyn BufRead + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let (head, bytes) = peek(bytes, 3)?;
    Ok(match Encoding::for_bom(&head) {
        Some((encoding, _)) if encoding != UTF_8 => Box::new(Transcoder::new(bytes, encoding)),
        _ => bytes,
    })
}

/// Converts the text of an XML document to UTF-8.
///
/// A byte order mark determines the encoding, or else the XML declaration; without both, it is
/// UTF-8. The byte order mark and the declaration are dropped, because they describe the bytes.
///
/// # Errors
///
/// If the first bytes cannot be read, or the declaration names an unknown encoding. Reading fails at
/// bytes that are not valid in the encoding, except for UTF-8.
pub fn decode_xml(bytes: Box<dyn BufRead + Send>) -> io::Result<Box<dyn BufRead + Send>> {
    let (head, mut bytes) = peek(bytes, 4)?;
    // XML 1.0, appendix F.1.
    let encoding = match head.as_slice() {
        [b'<', 0, b'?', 0] => Some(UTF_16LE),
        [0, b'<', 0, b'?'] => Some(UTF_16BE),
        head => Encoding::for_bom(head).map(|(encoding, _)| encoding),
    };
    match encoding {
        Some(encoding) if encoding == UTF_8 => bytes.consume(BYTE_ORDER_MARK.len()),
        Some(encoding) => bytes = Box::new(Transcoder::new(bytes, encoding)),
        None => {}
    }
    let mut start = Vec::new();
    (&mut bytes).take(LONGEST_DECLARATION).read_until(b'>', &mut start)?;
    if !is_declaration(&start) {
        return Ok(Box::new(Cursor::new(start).chain(bytes)));
    }
    let Some(label) = declared_encoding(&start).filter(|_| encoding.is_none()) else {
        return Ok(bytes);
    };
    let unknown = || {
        let label = String::from_utf8_lossy(label);
        let text = format!("the XML declaration names the unknown encoding `{label}`");
        io::Error::new(io::ErrorKind::InvalidData, text)
    };
    // The declaration was legible, so its text is not UTF-16, whatever it declares.
    let declared = Encoding::for_label(label).ok_or_else(unknown)?.output_encoding();
    if declared == UTF_8 { Ok(bytes) } else { Ok(Box::new(Transcoder::new(bytes, declared))) }
}

/// Decodes the content of a text file: UTF-8, or UTF-16 with a byte order mark. Drops the byte order
/// mark.
///
/// # Errors
///
/// If the bytes are not valid in this encoding.
pub fn decode(bytes: &[u8]) -> io::Result<Cow<'_, str>> {
    let (encoding, mark) = Encoding::for_bom(bytes).unwrap_or((UTF_8, 0));
    let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes[mark..]);
    text.ok_or_else(|| {
        let text = format!("the text is not valid {}", encoding.name());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Returns `true` for an XML declaration, which is not another processing instruction.
fn is_declaration(start: &[u8]) -> bool {
    let content = start.trim_ascii_start().strip_prefix(b"<?xml");
    content.is_some_and(|content| {
        content.first().is_some_and(u8::is_ascii_whitespace) && content.ends_with(b"?>")
    })
}

/// Value of `encoding` in an XML declaration.
fn declared_encoding(declaration: &[u8]) -> Option<&[u8]> {
    let key = b"encoding";
    let at = declaration.windows(key.len()).position(|bytes| bytes == key)?;
    let value = declaration[at + key.len()..].trim_ascii_start().strip_prefix(b"=")?;
    let (quote, value) = value.trim_ascii_start().split_first()?;
    value.split(|byte| byte == quote).next().map(<[u8]>::trim_ascii)
}

/// Reads the first bytes, at most `len` and at most one line, so that a reader is not asked for more
/// than a first line; returns them and a reader that still yields them.
pub(crate) fn peek(
    mut reader: Box<dyn BufRead + Send>,
    len: usize,
) -> io::Result<(Vec<u8>, Box<dyn BufRead + Send>)> {
    let mut head = Vec::new();
    (&mut reader).take(len as u64).read_until(b'\n', &mut head)?;
    Ok((head.clone(), Box::new(Cursor::new(head).chain(reader))))
}

/// Converter of an encoding to UTF-8, without the byte order mark. Converts bytes as soon as they
/// are available.
struct Transcoder {
    inner: Box<dyn BufRead + Send>,
    decoder: Decoder,
    /// Converted text, of which the first `at` bytes have been read.
    ready: String,
    at: usize,
    ended: bool,
}

impl Transcoder {
    fn new(inner: Box<dyn BufRead + Send>, encoding: &'static Encoding) -> Self {
        let decoder = encoding.new_decoder_with_bom_removal();
        Self { inner, decoder, ready: String::new(), at: 0, ended: false }
    }

    /// Converts at least one more character, unless the input ends.
    fn refill(&mut self) -> io::Result<()> {
        self.ready.clear();
        self.at = 0;
        while self.ready.is_empty() && !self.ended {
            let bytes = self.inner.fill_buf()?;
            let is_last = bytes.is_empty();
            let most = self.decoder.max_utf8_buffer_length_without_replacement(bytes.len());
            self.ready.reserve(most.ok_or(io::ErrorKind::OutOfMemory)?);
            let (result, read) =
                self.decoder.decode_to_string_without_replacement(bytes, &mut self.ready, is_last);
            self.inner.consume(read);
            match result {
                DecoderResult::InputEmpty => self.ended = is_last,
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => return Err(self.malformed(is_last)),
            }
        }
        Ok(())
    }

    /// Error of bytes that the encoding does not permit.
    fn malformed(&mut self, at_the_end: bool) -> io::Error {
        // The decoder must not be used again.
        self.ended = true;
        self.ready.clear();
        let encoding = self.decoder.encoding();
        let is_utf16 = encoding == UTF_16LE || encoding == UTF_16BE;
        let text = match (is_utf16, at_the_end) {
            (true, true) => "the UTF-16 text ends inside a character".to_owned(),
            (true, false) => "the UTF-16 text contains an unpaired surrogate".to_owned(),
            (false, _) => format!("the text is not valid {}", encoding.name()),
        };
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

impl BufRead for Transcoder {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.ready.len() {
            self.refill()?;
        }
        Ok(&self.ready.as_bytes()[self.at..])
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

impl Read for Transcoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = self.fill_buf()?;
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.consume(count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// UTF-16 with a byte order mark, little-endian and big-endian.
    fn utf16(text: &str) -> [Vec<u8>; 2] {
        [u16::to_le_bytes, u16::to_be_bytes]
            .map(|bytes| format!("\u{feff}{text}").encode_utf16().flat_map(bytes).collect())
    }

    type Decode = fn(Box<dyn BufRead + Send>) -> io::Result<Box<dyn BufRead + Send>>;

    /// Decodes with a buffer of `capacity` bytes.
    fn decoded(decode: Decode, bytes: &[u8], capacity: usize) -> Result<String, String> {
        let bytes = BufReader::with_capacity(capacity, Cursor::new(bytes.to_vec()));
        let mut text = String::new();
        let read = decode(Box::new(bytes)).and_then(|mut bytes| bytes.read_to_string(&mut text));
        read.map(|_| text).map_err(|error| error.to_string())
    }

    #[test]
    fn utf16_is_converted_at_every_border_of_a_buffer() {
        let text = "𝄞 Où est la clé ?\n日本\r\n\n𝄞";
        for bytes in utf16(text) {
            for capacity in 1..40 {
                assert_eq!(decoded(decode_text, &bytes, capacity).as_deref(), Ok(text));
            }
            assert_eq!(decode(&bytes).unwrap(), text);
            let cut = decoded(decode_text, &bytes[..bytes.len() - 1], 7).unwrap_err();
            assert_eq!(cut, "the UTF-16 text ends inside a character");
            assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        }
        let lone = [0xff, 0xfe, 0x00, 0xd8, b'a', 0];
        let error = decoded(decode_text, &lone, 7).unwrap_err();
        assert_eq!(error, "the UTF-16 text contains an unpaired surrogate");
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in ["", "a", "\u{feff}é\n", "é"] {
            assert_eq!(decoded(decode_text, text.as_bytes(), 2).as_deref(), Ok(text));
        }
        assert_eq!(decode("\u{feff}é".as_bytes()).unwrap(), "é");
        assert!(decode(b"caf\xe9").is_err());
    }

    #[test]
    fn a_declared_encoding_is_converted() {
        for (label, bytes) in [
            ("ISO-8859-1", &b"\xe8 \xfc"[..]),
            ("windows-1252", b"\xe8 \xfc"),
            ("utf-8", "è ü".as_bytes()),
            ("UTF-16", "è ü".as_bytes()),
            ("cp1250", b"\xe8 \xfc"),
            ("Shift_JIS", b"\x93\xfa\x96\x7b"),
        ] {
            let expected = match label {
                "cp1250" => "č ü",
                "Shift_JIS" => "日本",
                _ => "è ü",
            };
            for declaration in [
                format!("<?xml version=\"1.0\" encoding=\"{label}\"?>"),
                format!("<?xml version='1.0' encoding = '{label}' standalone='yes' ?>"),
            ] {
                let document = [declaration.as_bytes(), b"\n<a>", bytes, b"</a>"].concat();
                let found = decoded(decode_xml, &document, 5);
                assert_eq!(found, Ok(format!("\n<a>{expected}</a>")), "{declaration}");
            }
        }
    }

    #[test]
    fn the_bytes_of_a_document_take_precedence_over_its_declaration() {
        let document = "<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a>è</a>";
        let marked = format!("\u{feff}{document}").into_bytes();
        let [little, big] = utf16(document);
        let unmarked = [&little[2..], &big[2..]].map(<[u8]>::to_vec);
        for bytes in [marked, little, big].iter().chain(&unmarked) {
            assert_eq!(decoded(decode_xml, bytes, 9).as_deref(), Ok("<a>è</a>"));
        }
    }

    #[test]
    fn a_document_without_declaration_is_unchanged() {
        for text in ["", "<", "<a>è</a>", "<?xml-stylesheet href='a'?>", "<?xml version='1.0'"] {
            assert_eq!(decoded(decode_xml, text.as_bytes(), 3).as_deref(), Ok(text), "{text}");
        }
        let long = format!("<?xml version='1.0' {}?>", " ".repeat(5_000));
        assert_eq!(decoded(decode_xml, long.as_bytes(), 64), Ok(long));
    }

    #[test]
    fn an_unknown_or_wrong_declared_encoding_is_an_error() {
        let document = |label: &str| format!("<?xml version='1.0' encoding='{label}'?><a>é</a>");
        let error = decoded(decode_xml, document("klingon").as_bytes(), 64).unwrap_err();
        assert_eq!(error, "the XML declaration names the unknown encoding `klingon`");
        let bytes =
            [b"<?xml version='1.0' encoding='Shift_JIS'?>".as_slice(), b"\xff\xff"].concat();
        let error = decoded(decode_xml, &bytes, 64).unwrap_err();
        assert_eq!(error, "the text is not valid Shift_JIS");
    }
}
