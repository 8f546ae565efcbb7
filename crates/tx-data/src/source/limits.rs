//! Limits on what a file may ask of the machine.

use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

/// Below this, nothing is a bomb.
const HARMLESS_BYTES: u64 = 64 << 20;

/// Limits on the memory and time that a file may take. Real text stays far below; hostile files do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes that a compressed file or member may expand to.
    pub expanded_bytes: u64,
    /// Most bytes out for each byte in, once more than 64 MiB came out. Text reaches some 30;
    /// bombs 1,000 and more.
    pub ratio: u64,
    /// Most members of an archive.
    pub members: usize,
    /// Longest line, row or translation unit in bytes.
    pub record_bytes: usize,
    /// Most bytes of a file that is fetched.
    pub download_bytes: u64,
    /// Most bytes of a file that is fetched when the server does not announce its size.
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
    /// Most bytes that `packed` bytes may expand to.
    pub(super) fn expanded(&self, packed: u64) -> u64 {
        self.expanded_bytes.min(HARMLESS_BYTES.max(packed.saturating_mul(self.ratio)))
    }
}

pub(super) fn bomb(limit: u64) -> io::Error {
    let text = format!("it expands to more than {limit} bytes: this may be a decompression bomb");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A gzip file or stream, unpacked, but not to more than the limits allow for what was read of it.
///
/// Several gzip members one after the other are one file, as `cat a.gz b.gz` makes them.
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

/// Counts the bytes that are taken.
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

    /// 65 MiB of zeros are packed about 1,000 times, in one member or in many.
    #[test]
    fn a_bomb_is_refused_whatever_its_members() {
        let mebibyte = vec![0; 1 << 20];
        for packed in [gzip(&mebibyte).repeat(65), gzip(&mebibyte.repeat(65))] {
            let mut bomb = Gunzip::new(packed.as_slice(), Limits::default());
            let error = io::copy(&mut bomb, &mut io::sink()).unwrap_err();
            assert!(error.to_string().contains("more than 67108864 bytes"), "{error}");
            // The same bytes where so much is allowed.
            let limits = Limits { ratio: 2_000, ..Limits::default() };
            let mut allowed = Gunzip::new(packed.as_slice(), limits);
            assert_eq!(io::copy(&mut allowed, &mut io::sink()).unwrap(), 65 << 20);
        }
    }
}
