//! Gzip files of any number of members.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// Decompressor of gzip members that follow each other, as `cat a.gz b.gz` creates them.
///
/// Zero bytes after a member are padding, as `tar` and `dd` write it to fill a block; `gzip -d`
/// ignores them, too.
pub(super) struct Gunzip<R> {
    /// Current member; none after the last.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Gunzip<R> {
    pub fn new(packed: R) -> Self {
        Self { member: Some(GzDecoder::new(packed)) }
    }
}

impl<R: BufRead> Read for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            // The member is complete: its checksum has been compared.
            self.member = match self.member.take().map(GzDecoder::into_inner) {
                Some(packed) => next_member(packed)?.map(GzDecoder::new),
                None => None,
            };
        }
        Ok(0)
    }
}

/// Skips padding; returns the reader if a member follows.
fn next_member<R: BufRead>(mut packed: R) -> io::Result<Option<R>> {
    loop {
        let ready = match packed.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            ready => ready?,
        };
        match (ready.iter().position(|&byte| byte != 0), ready.len()) {
            (None, 0) => return Ok(None),
            (None, zeros) => packed.consume(zeros),
            (Some(zeros), _) if ready[zeros] == super::GZIP_MAGIC[0] => {
                packed.consume(zeros);
                return Ok(Some(packed));
            }
            (Some(zeros), _) => {
                let text = format!(
                    "the byte 0x{:02x} follows the gzip data, expected another gzip member or the \
                     end of the file",
                    ready[zeros]
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
        }
    }
}
