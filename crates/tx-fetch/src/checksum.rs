//! Size and checksum of a file.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use sha2::Digest;
use tx_text::hash::hexadecimal;

/// Computes size and checksum of a file.
pub fn measure<D: Digest>(path: &Path) -> io::Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hasher = D::new();
    let mut buffer = vec![0; 256 << 10];
    let mut size = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((size, hexadecimal(&hasher.finalize()))),
            read => {
                hasher.update(&buffer[..read]);
                size += read as u64;
            }
        }
    }
}
