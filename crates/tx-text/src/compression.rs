//! Decompression of gzip and zstd, detected from content, with a limit on the expanded size.
//!
//! zstd needs the feature `zstd`, because its library is written in C. Other compressions are
//! recognized and named in an error.

mod gunzip;

use std::{
    io::{self, BufRead, BufReader, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use gunzip::Gunzip;

use crate::encoding::peek;

/// The first two bytes of every gzip file (RFC 1952, section 2.3.1).
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Number of bytes that determine a compression.
const MAGIC_BYTES: usize = 8;

/// Expanded size up to which the ratio is not limited.
const HARMLESS_BYTES: u64 = 64 << 20;

/// Limit on the expanded size of a compressed file. Real text stays far below; decompression bombs
/// do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpansionLimit {
    /// Maximum number of bytes that a compressed file or member may expand to.
    pub bytes: u64,
    /// Maximum number of expanded bytes for each compressed byte, beyond the first 64 MiB. Text
    /// reaches about 30, bombs reach 1,000 and more.
    pub ratio: u64,
}

impl Default for ExpansionLimit {
    fn default() -> Self {
        Self { bytes: 256 << 30, ratio: 250 }
    }
}

impl ExpansionLimit {
    /// Returns the maximum number of bytes that `packed` bytes may expand to.
    pub fn of(&self, packed: u64) -> u64 {
        self.bytes.min(HARMLESS_BYTES.max(packed.saturating_mul(self.ratio)))
    }
}

/// Creates the error for a file that expands to more than `limit` bytes.
pub fn bomb(limit: u64) -> io::Error {
    let text = format!(
        "the decompressed data exceeds the limit of {limit} bytes, as in a decompression bomb"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Supported compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
}

impl Compression {
    /// Detects the compression from the first bytes of a file; 8 are sufficient. `None` if the file
    /// is not compressed.
    ///
    /// # Errors
    ///
    /// If the compression is not supported; the error names it and those that are.
    pub fn detect(head: &[u8]) -> io::Result<Option<Self>> {
        let unsupported = match head {
            [0x1f, 0x8b, ..] => return Ok(Some(Self::Gzip)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] if cfg!(feature = "zstd") => return Ok(Some(Self::Zstd)),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => "zstd",
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => "bzip2",
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => "xz",
            [0x5d, 0, 0, _, _, ..] if head.len() >= MAGIC_BYTES => "lzma",
            [b'L', b'Z', b'I', b'P', 0..=1, ..] => "lzip",
            [0x04, 0x22, 0x4d, 0x18, ..] => "lz4",
            [0x1f, 0x9d | 0xa0, ..] => "compress (.Z)",
            [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => "7z",
            [b'R', b'a', b'r', b'!', 0x1a, 0x07, ..] => "rar",
            _ => return Ok(None),
        };
        let supported = if cfg!(feature = "zstd") { "gzip or zstd" } else { "gzip" };
        let text = format!(
            "{unsupported} compression is not supported; recompress the file with {supported}"
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, text))
    }
}

/// Decompresses `packed` within `limit`, if it is compressed; `size` is its number of bytes, if
/// known.
///
/// # Errors
///
/// If `packed` cannot be read, or its compression is not supported.
pub fn decompress(
    packed: Box<dyn BufRead + Send>,
    size: Option<u64>,
    limit: ExpansionLimit,
) -> io::Result<Box<dyn BufRead + Send>> {
    let (head, packed) = peek(packed, MAGIC_BYTES)?;
    let Some(compression) = Compression::detect(&head)? else { return Ok(packed) };
    let consumed = Arc::default();
    let packed = Counted { inner: packed, count: Arc::clone(&consumed) };
    let expanded: Box<dyn Read + Send> = match compression {
        Compression::Gzip => Box::new(Gunzip::new(packed)),
        #[cfg(feature = "zstd")]
        Compression::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
        // Never detected.
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => Box::new(packed),
    };
    let limited = Limited { inner: expanded, expanded: 0, size, consumed, limit };
    Ok(Box::new(BufReader::with_capacity(64 << 10, limited)))
}

/// Reader that fails once its output exceeds the limit: for the compressed size, or for the
/// compressed bytes read so far.
struct Limited<R> {
    inner: R,
    expanded: u64,
    size: Option<u64>,
    consumed: Arc<AtomicU64>,
    limit: ExpansionLimit,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.expanded = self.expanded.saturating_add(read as u64);
        let packed = self.size.unwrap_or_else(|| self.consumed.load(Ordering::Relaxed));
        let limit = self.limit.of(packed);
        if self.expanded > limit { Err(bomb(limit)) } else { Ok(read) }
    }
}

/// Reader that counts the bytes consumed.
pub(crate) struct Counted<R> {
    pub inner: R,
    pub count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.count.fetch_add(count as u64, Ordering::Relaxed);
        self.inner.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn expand(packed: Vec<u8>, limit: ExpansionLimit) -> io::Result<Vec<u8>> {
        let mut expanded = Vec::new();
        decompress(Box::new(Cursor::new(packed)), None, limit)?.read_to_end(&mut expanded)?;
        Ok(expanded)
    }

    /// 65 MiB of zeros with a compression ratio of about 1,000, in one member or in many.
    #[test]
    fn a_bomb_is_rejected_for_any_number_of_members() {
        let mebibyte = vec![0; 1 << 20];
        for packed in [gzip(&mebibyte).repeat(65), gzip(&mebibyte.repeat(65))] {
            let error = expand(packed.clone(), ExpansionLimit::default()).unwrap_err();
            assert!(error.to_string().contains("limit of 67108864 bytes"), "{error}");
            // The same bytes with a higher limit.
            let limit = ExpansionLimit { ratio: 2_000, ..ExpansionLimit::default() };
            assert_eq!(expand(packed, limit).unwrap().len(), 65 << 20);
        }
    }

    #[test]
    fn a_known_size_limits_the_output_from_its_first_byte() {
        let packed = gzip(&vec![b'a'; 66 << 20]);
        let open = |size| {
            let packed = Box::new(Cursor::new(packed.clone()));
            decompress(packed, Some(size), ExpansionLimit::default()).unwrap()
        };
        // At a ratio of 250, one MiB permits 250 MiB.
        assert_eq!(io::copy(&mut open(1 << 20), &mut io::sink()).unwrap(), 66 << 20);
        assert!(io::copy(&mut open(1 << 10), &mut io::sink()).is_err());
    }

    /// As `gzip -dc` and Python's `gzip` read it.
    #[test]
    fn zero_bytes_after_a_gzip_member_are_padding() {
        let expand = |packed: Vec<u8>| expand(packed, ExpansionLimit::default());
        let (one, two) = (gzip(b"one\n"), gzip(b"two\n"));
        let padded = |zeros: usize| [one.as_slice(), &vec![0; zeros]].concat();
        for zeros in [1, 2, 511, 100_000] {
            assert_eq!(expand(padded(zeros)).unwrap(), b"one\n", "{zeros}");
            let both = [padded(zeros), two.clone()].concat();
            assert_eq!(expand(both).unwrap(), b"one\ntwo\n", "{zeros}");
        }
        assert_eq!(expand([one.as_slice(), &two].concat()).unwrap(), b"one\ntwo\n");
        let error = expand([padded(3).as_slice(), b"text"].concat()).unwrap_err();
        assert!(error.to_string().starts_with("the byte 0x74 follows the gzip data"), "{error}");
        // A second member that is damaged.
        let cut = [one.as_slice(), &two[..two.len() - 1]].concat();
        assert_eq!(expand(cut).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn other_compressions_are_named() {
        for (head, name) in [
            (&b"\xfd7zXZ\0\0\x04"[..], "xz"),
            (b"BZh91AY&SY", "bzip2"),
            (b"7z\xbc\xaf\x27\x1c\0\x04", "7z"),
            (b"Rar!\x1a\x07\x01\0", "rar"),
            (b"\x04\x22\x4d\x18dp", "lz4"),
            (b"LZIP\x01\x0c", "lzip"),
            (b"\x5d\0\0\x80\0\xff\xff\xff", "lzma"),
            (b"\x1f\x9d\x90a", "compress"),
        ] {
            let error = Compression::detect(head).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::Unsupported);
            let error = error.to_string();
            assert!(error.starts_with(name) && error.contains("recompress"), "{error}");
        }
        for text in ["", "BZh1 is a name", "(", "7z", "LZIP is a program", "]", "Rar!"] {
            assert_eq!(Compression::detect(text.as_bytes()).unwrap(), None, "{text}");
        }
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn frames_of_zstd_follow_each_other() {
        let frames = [&b"one\n"[..], b"two\n"].map(|text| zstd::encode_all(text, 3).unwrap());
        assert_eq!(expand(frames.concat(), ExpansionLimit::default()).unwrap(), b"one\ntwo\n");
        let cut = frames[0][..frames[0].len() - 1].to_vec();
        assert!(expand(cut, ExpansionLimit::default()).is_err());
        let bomb = zstd::encode_all(io::repeat(0).take(65 << 20), 3).unwrap();
        let error = expand(bomb, ExpansionLimit::default()).unwrap_err();
        assert!(error.to_string().contains("limit of 67108864 bytes"), "{error}");
    }
}
