//! Limits on memory and time for input files.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

/// Size below which no file counts as a decompression bomb.
const BOMB_THRESHOLD: u64 = 64 << 20;

/// Limits on the memory and time that a file may use. Real text stays far below these limits;
/// hostile files exceed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum expanded size of a compressed file or member, in bytes.
    pub expanded_bytes: u64,
    /// Maximum expansion ratio, checked above 64 MiB of output. Text reaches about 30,
    /// decompression bombs 1,000 and more.
    pub ratio: u64,
    /// Maximum number of members in an archive.
    pub members: usize,
    /// Maximum length of a line, row or translation unit, in bytes.
    pub record_bytes: usize,
    /// Maximum size of a download, in bytes.
    pub download_bytes: u64,
    /// Maximum size in bytes of a download without a `Content-Length`.
    pub unannounced_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            expanded_bytes: 256 << 30,
            ratio: 250,
            members: 100_000,
            record_bytes: 16 << 20,
            download_bytes: 256 << 30,
            unannounced_bytes: 8 << 30,
        }
    }
}

impl Limits {
    /// Maximum number of bytes to which `packed` bytes may expand.
    pub(super) fn expanded(&self, packed: u64) -> u64 {
        self.expanded_bytes.min(BOMB_THRESHOLD.max(packed.saturating_mul(self.ratio)))
    }
}

pub(super) fn bomb(limit: u64) -> io::Error {
    let text = format!(
        "the decompressed data exceeds the limit of {limit} bytes, as in a decompression bomb"
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Decompressed gzip file or stream, limited in proportion to the bytes read.
///
/// Concatenated gzip members form one file, as from `cat a.gz b.gz`.
pub(super) struct Gunzip<R> {
    inner: MultiGzDecoder<Counted<R>>,
    limits: Limits,
    expanded: u64,
}

impl<R: BufRead> Gunzip<R> {
    pub fn new(packed: R, limits: Limits) -> Self {
        let inner = MultiGzDecoder::new(Counted { inner: packed, consumed: 0 });
        Self { inner, limits, expanded: 0 }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.expanded = self.expanded.saturating_add(read as u64);
        let limit = self.limits.expanded(self.inner.get_ref().consumed);
        if self.expanded > limit { Err(bomb(limit)) } else { Ok(read) }
    }
}

/// Reader that counts bytes.
struct Counted<R> {
    inner: R,
    consumed: u64,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.consumed += read as u64;
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, count: usize) {
        self.consumed += count as u64;
        self.inner.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// 65 MiB of zeros compress about 1,000 times, in one member or in many.
    #[test]
    fn a_bomb_is_refused_with_any_number_of_members() {
        let mebibyte = vec![0; 1 << 20];
        for packed in [gzip(&mebibyte).repeat(65), gzip(&mebibyte.repeat(65))] {
            let mut bomb = Gunzip::new(packed.as_slice(), Limits::default());
            let error = io::copy(&mut bomb, &mut io::sink()).unwrap_err();
            assert!(error.to_string().contains("limit of 67108864 bytes"), "{error}");
            // The same bytes with a higher limit.
            let limits = Limits { ratio: 2_000, ..Limits::default() };
            let mut allowed = Gunzip::new(packed.as_slice(), limits);
            assert_eq!(io::copy(&mut allowed, &mut io::sink()).unwrap(), 65 << 20);
        }
    }
}
