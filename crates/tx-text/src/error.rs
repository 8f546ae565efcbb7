//! Errors of reading and tokenizing text.

use std::{io, path::PathBuf};

use crate::not_text::NotText;

/// Error of reading or tokenizing text.
///
/// Each message names the value found and the value expected, with file and line where there is
/// one. The cause, where there is one, is in `source()` and not repeated in the message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// A file is missing, unreadable, or damaged (for example a truncated gzip file).
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system or the decompressor.
        source: io::Error,
    },

    /// A line is not valid UTF-8.
    #[error("`{path}` line {line} is not valid UTF-8 (byte {byte} of the line)")]
    Utf8 {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// The first invalid byte of the line, from 1.
        byte: usize,
        /// Probable content of the file.
        content: InvalidText,
    },

    /// A file is not text.
    #[error("`{path}` {found}")]
    NotText {
        /// The file.
        path: PathBuf,
        /// Content of the file.
        found: NotText,
    },

    /// A file has no line.
    #[error("`{path}` is empty")]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// Two files that should correspond line by line differ in length.
    #[error(
        "`{source_path}` has {source_lines} lines, but `{target_path}` has {target_lines}: line N \
         of one must belong to line N of the other"
    )]
    LineCount {
        /// The source side.
        source_path: PathBuf,
        /// Its number of lines.
        source_lines: usize,
        /// The target side.
        target_path: PathBuf,
        /// Its number of lines.
        target_lines: usize,
    },

    /// The tokenizer cannot be built from its configuration.
    #[error("tokenizer: {problem}")]
    TokenizerConfig {
        /// Key, value and rule.
        problem: String,
    },

    /// A file is not a tokenizer, or not one that tx can use.
    #[error("`{path}` is not a usable tokenizer: {problem}")]
    TokenizerFile {
        /// The file.
        path: PathBuf,
        /// The rule that the file breaks.
        problem: String,
    },

    /// A vocabulary has no `<mask>`.
    #[error("the tokenizer has no special token `<mask>`")]
    NoMask,

    /// The `tokenizers` library rejected a text or a vocabulary.
    #[error("the tokenizer failed")]
    Tokenizer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl TextError {
    /// Returns the next step to try, if one is known; an app prints it on its own line as
    /// `hint: …`.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Utf8 { content, .. } => Some(content.hint()),
            Self::NotText { found, .. } => Some(found.hint()),
            Self::LineCount { .. } => {
                Some("compare with `wc -l`; an empty line on one side needs one on the other")
            }
            Self::NoMask => Some("only the tokenizers of masked language models have it"),
            _ => None,
        }
    }
}

/// Probable content of a file with a line that is not valid UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidText {
    /// Text in another encoding.
    OtherEncoding,
    /// UTF-8 that is damaged in this line, because earlier lines have characters beyond ASCII.
    DamagedLine,
    /// No text, because the line has control characters that text does not have.
    Binary,
}

impl InvalidText {
    /// Classifies a file by its first invalid line and whether earlier lines have valid characters
    /// beyond ASCII.
    pub(crate) fn of(line: &[u8], has_utf8: bool) -> Self {
        // ISO 2022 and terminal output use ESC.
        let is_control = |byte: &u8| *byte < b' ' && !b"\t\n\x0b\x0c\r\x1b".contains(byte);
        if has_utf8 {
            Self::DamagedLine
        } else if line.iter().any(is_control) {
            Self::Binary
        } else {
            Self::OtherEncoding
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::OtherEncoding => {
                "convert the file from its encoding to UTF-8, for example with `iconv -f windows-1252 \
                 -t utf-8` if the text is Western European"
            }
            Self::DamagedLine => {
                "the lines before it are valid UTF-8: correct this line instead of converting the file"
            }
            Self::Binary => "the line contains control characters, so the file may not be text",
        }
    }
}
