//! Pointer files of Git Large File Storage.
//!
//! A repository that is cloned without Git LFS contains small text files in place of its large
//! files. Each reader of a file checks for them, because a pointer is neither weights nor a corpus.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

/// First bytes of pointer files: version 1 of the specification, and the name of Git LFS before
/// its first release.
const VERSIONS: [&[u8]; 2] =
    [b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/"];

/// Predicate of the error message for a pointer file; the name of the file precedes it.
pub const PROBLEM: &str = "is a Git LFS pointer, not the file itself";

/// Next step for a pointer file.
pub const HINT: &str = "run `git lfs pull` in the repository to download the file";

/// Returns `true` if a file with these first bytes is a pointer. 64 bytes are sufficient.
pub fn is_pointer(head: &[u8]) -> bool {
    VERSIONS.iter().any(|version| head.starts_with(version))
}

/// Returns `true` if the file at `path` is a pointer.
///
/// # Errors
///
/// If the file cannot be read.
pub fn is_pointer_file(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(64).read_to_end(&mut head)?;
    Ok(is_pointer(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pointer of the specification, <https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>.
    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
        oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

    #[test]
    fn a_pointer_is_recognized_from_its_first_bytes() {
        assert!(is_pointer(POINTER.as_bytes()));
        assert!(is_pointer(&POINTER.as_bytes()[..64]));
        assert!(is_pointer(POINTER.replace('\n', "\r\n").as_bytes()));
        assert!(is_pointer(POINTER.replace("git-lfs", "hawser").as_bytes()));
        for other in ["", "version 2 of the text", "version https://example.com/spec/v1", "{}"] {
            assert!(!is_pointer(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn a_file_is_read_to_its_first_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let [pointer, short] = ["pointer", "short"].map(|name| folder.path().join(name));
        std::fs::write(&pointer, POINTER).unwrap();
        std::fs::write(&short, "a").unwrap();
        assert!(is_pointer_file(&pointer).unwrap());
        assert!(!is_pointer_file(&short).unwrap());
        assert!(is_pointer_file(&folder.path().join("missing")).is_err());
    }
}
