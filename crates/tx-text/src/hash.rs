//! Hashes of text that are stable across platforms and versions.

use sha2::{Digest, Sha256};

/// Returns the first 64 bits of the SHA-256 of `parts`, each terminated by a zero byte.
pub fn hash64(parts: &[&[u8]]) -> u64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
        hasher.update([0]);
    }
    let hash = hasher.finalize();
    hash.iter().take(8).fold(0, |bits, &byte| bits << 8 | u64::from(byte))
}

/// Formats a digest in hexadecimal, as `sha256sum` does.
pub fn hexadecimal(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'a\0b\0' | sha256sum` starts with these digits.
    #[test]
    fn the_hash_equals_that_of_sha256sum() {
        assert_eq!(format!("{:016x}", hash64(&[b"a", b"b"])), EXPECTED);
        assert_ne!(hash64(&[b"ab", b""]), hash64(&[b"a", b"b"]));
    }

    const EXPECTED: &str = "8fb20ef63ced4145";
}
