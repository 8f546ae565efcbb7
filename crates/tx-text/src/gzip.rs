//! Gzip decompression with a limit on the expanded size.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

/// The first two bytes of every gzip file (RFC 1952, section 2.3.1).
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

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

/// Gzip decompressor that fails once the output exceeds the limit for the input read so far.
///
/// Consecutive gzip members are one file, as `cat a.gz b.gz` creates them.
pub struct Gunzip<R> {
    inner: MultiGzDecoder<Counted<R>>,
    limit: ExpansionLimit,
    expanded: u64,
}

impl<R: BufRead> Gunzip<R> {
    /// Decompresses `packed` within `limit`.
    pub fn new(packed: R, limit: ExpansionLimit) -> Self {
        let inner = MultiGzDecoder::new(Counted { inner: packed, consumed: 0 });
        Self { inner, limit, expanded: 0 }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.expanded = self.expanded.saturating_add(read as u64);
        let limit = self.limit.of(self.inner.get_ref().consumed);
        if self.expanded > limit { Err(bomb(limit)) } else { Ok(read) }
    }
}

/// Reader that counts the bytes consumed.
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

    /// 65 MiB of zeros with a compression ratio of about 1,000, in one member or in many.
    #[test]
    fn a_bomb_is_rejected_for_any_number_of_members() {
        let mebibyte = vec![0; 1 << 20];
        for packed in [gzip(&mebibyte).repeat(65), gzip(&mebibyte.repeat(65))] {
            let mut bomb = Gunzip::new(packed.as_slice(), ExpansionLimit::default());
            let error = io::copy(&mut bomb, &mut io::sink()).unwrap_err();
            assert!(error.to_string().contains("limit of 67108864 bytes"), "{error}");
            // The same bytes with a higher limit.
            let limit = ExpansionLimit { ratio: 2_000, ..ExpansionLimit::default() };
            let mut allowed = Gunzip::new(packed.as_slice(), limit);
            assert_eq!(io::copy(&mut allowed, &mut io::sink()).unwrap(), 65 << 20);
        }
    }
}
