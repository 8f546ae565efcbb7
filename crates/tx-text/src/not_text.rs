//! Files that are not text, recognized from their first bytes.

use std::fmt;

use crate::git_lfs;

/// Content of a file that is not text in an encoding that tx reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotText {
    /// Pointer of Git LFS in place of the file.
    GitLfsPointer,
    /// Text in UTF-16 without a byte order mark, little-endian.
    Utf16Le,
    /// Text in UTF-16 without a byte order mark, big-endian.
    Utf16Be,
    /// Text in UTF-32.
    Utf32,
    /// Zip archive, or a document that is one.
    Zip,
    /// PDF document.
    Pdf,
}

impl NotText {
    /// Number of first bytes that [`of`](Self::of) uses.
    pub const HEAD_BYTES: usize = 512;

    /// Recognizes a file by its first bytes, or its first line; `None` for text.
    pub fn of(head: &[u8]) -> Option<Self> {
        let head = &head[..head.len().min(Self::HEAD_BYTES)];
        match head {
            [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => Some(Self::Utf32),
            [b'P', b'K', 3, 4, ..] => Some(Self::Zip),
            [b'%', b'P', b'D', b'F', b'-', b'0'..=b'9', ..] => Some(Self::Pdf),
            // Has a byte order mark.
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => None,
            _ if git_lfs::is_pointer(head) => Some(Self::GitLfsPointer),
            _ => unmarked_utf16(head),
        }
    }

    /// Next step for this file.
    pub fn hint(self) -> &'static str {
        match self {
            Self::GitLfsPointer => git_lfs::HINT,
            Self::Utf16Le => "convert it, for example with `iconv -f utf-16le -t utf-8`",
            Self::Utf16Be => "convert it, for example with `iconv -f utf-16be -t utf-8`",
            Self::Utf32 => "convert it, for example with `iconv -f utf-32 -t utf-8`",
            Self::Zip => "extract the text first",
            Self::Pdf => "convert it to text first, for example with `pdftotext`",
        }
    }
}

impl fmt::Display for NotText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GitLfsPointer => git_lfs::PROBLEM,
            Self::Utf16Le | Self::Utf16Be => {
                "is UTF-16 without a byte order mark, expected UTF-8, or UTF-16 with one"
            }
            Self::Utf32 => "is UTF-32, expected UTF-8, or UTF-16 with a byte order mark",
            Self::Zip => "is a zip archive or an Office document, expected text",
            Self::Pdf => "is a PDF document, expected text",
        })
    }
}

/// Recognizes UTF-16 by its ASCII characters: every other byte is 0, and no other byte is.
fn unmarked_utf16(head: &[u8]) -> Option<NotText> {
    let (pairs, _) = head.as_chunks::<2>();
    if pairs.len() < 2 {
        return None;
    }
    let zeros = |byte: usize| pairs.iter().filter(|pair| pair[byte] == 0).count();
    match (zeros(0), zeros(1)) {
        (0, zeros) if zeros > 0 && 10 * zeros >= 9 * pairs.len() => Some(NotText::Utf16Le),
        (zeros, 0) if zeros > 0 && 10 * zeros >= 9 * pairs.len() => Some(NotText::Utf16Be),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_recognized_and_text_is_not() {
        let little: Vec<u8> =
            "The caf\u{e9} sleeps.\r\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "The cat sleeps.\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (head, expected) in [
            (little.as_slice(), NotText::Utf16Le),
            (&little[..little.len() - 1], NotText::Utf16Le),
            (&big, NotText::Utf16Be),
            (b"\xff\xfe\0\0T\0\0\0", NotText::Utf32),
            (b"\0\0\xfe\xff\0\0\0T", NotText::Utf32),
            (b"PK\x03\x04\x14\0", NotText::Zip),
            (b"%PDF-1.7\n", NotText::Pdf),
            (b"version https://git-lfs.github.com/spec/v1\n", NotText::GitLfsPointer),
        ] {
            assert_eq!(NotText::of(head), Some(expected));
        }
        for text in [
            &b""[..],
            b"a",
            b"PK",
            b"%PDF is a format",
            b"a\0b\n",
            b"\0",
            b"\0\0\0\0\0\0",
            b"\xff\xfeT\0",
            "\u{feff}caf\u{e9}\n".as_bytes(),
            b"caf\xe9 noir\n",
        ] {
            assert_eq!(NotText::of(text), None, "{text:?}");
        }
    }
}
