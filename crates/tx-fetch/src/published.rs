//! Checksums published by third parties.

use std::{io, path::Path};

use md5::Md5;
use sha1::Sha1;

use super::checksum::measure;

/// Checksum of an older kind, for files without a published SHA-256. It detects failed transfers
/// and changed files, but not a forgery that was prepared together with the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Published {
    /// MD5 in hexadecimal.
    Md5(&'static str),
    /// SHA-1 in hexadecimal.
    Sha1(&'static str),
}

impl Published {
    /// Compares the file at `path` with this checksum; `None` if they are equal.
    pub(super) fn problem(&self, path: &Path) -> io::Result<Option<String>> {
        let (name, found, expected) = match self {
            Self::Md5(expected) => ("MD5", measure::<Md5>(path)?.1, expected),
            Self::Sha1(expected) => ("SHA-1", measure::<Sha1>(path)?.1, expected),
        };
        Ok((found != *expected).then(|| format!("{name} {found}, expected {expected}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321 and RFC 3174 list the digests of "abc".
    #[test]
    fn digests_are_those_of_the_standards() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let md5 = Published::Md5("900150983cd24fb0d6963f7d28e17f72");
        let sha1 = Published::Sha1("a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(md5.problem(file.path()).unwrap(), None);
        assert_eq!(sha1.problem(file.path()).unwrap(), None);
        let other = Published::Md5("00").problem(file.path()).unwrap();
        assert_eq!(other.unwrap(), "MD5 900150983cd24fb0d6963f7d28e17f72, expected 00");
    }
}
