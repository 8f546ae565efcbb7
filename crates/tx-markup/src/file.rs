//! Files whose texts are translated.

use std::borrow::Cow;

use bytes::Bytes;
use tx_infer::{
    Deadline,
    tx_text::{NotText, encoding},
};

use crate::{
    error::MarkupError,
    markup::{Format, xml},
    office::{Document, OfficeFormat},
    subtitles::{SubtitleFormat, Subtitles},
};

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// Plain text.
    Text,
    /// HTML.
    Html,
    /// XML.
    Xml,
    /// Subtitles.
    Subtitles(SubtitleFormat),
    /// A document of an office program.
    Office(OfficeFormat),
}

impl FileFormat {
    /// Format of files with this extension, in any case.
    pub fn of_extension(extension: &str) -> Option<Self> {
        Some(match &*extension.to_ascii_lowercase() {
            "txt" | "text" | "md" => Self::Text,
            "html" | "htm" | "xhtml" => Self::Html,
            "xml" => Self::Xml,
            "srt" => Self::Subtitles(SubtitleFormat::Srt),
            "vtt" => Self::Subtitles(SubtitleFormat::Vtt),
            "docx" => Self::Office(OfficeFormat::Docx),
            "odt" => Self::Office(OfficeFormat::Odt),
            _ => return None,
        })
    }

    /// Format of the texts in the file.
    pub fn text_format(self) -> Format {
        match self {
            Self::Text => Format::Text,
            Self::Html | Self::Office(_) => Format::Html,
            Self::Xml => Format::Xml,
            Self::Subtitles(subtitles) => subtitles.text_format(),
        }
    }
}

/// A file to translate.
#[derive(Debug)]
pub enum File {
    /// One text, plain, HTML or XML.
    Text(String),
    /// A text for each utterance.
    Subtitles(Subtitles),
    /// A text for each paragraph.
    Document(Box<Document>),
}

/// Byte order mark of UTF-8, which subtitles keep.
const MARK: &str = "\u{feff}";

impl File {
    /// Default maximum number of bytes of the text of a compressed file: 2 MiB.
    pub const MAX_BYTES: usize = 2 << 20;

    /// Reads a file. `max_bytes` limits the text of a compressed file.
    ///
    /// # Errors
    ///
    /// [`MarkupError::Invalid`] if the content is not of this format; [`MarkupError::TooLarge`] if a compressed
    /// file exceeds a limit; at the deadline.
    pub fn read(
        content: Bytes,
        format: FileFormat,
        max_bytes: usize,
        deadline: &Deadline,
    ) -> Result<Self, MarkupError> {
        Ok(match format {
            FileFormat::Office(format) => {
                Self::Document(Box::new(Document::read(content, format, max_bytes, deadline)?))
            }
            FileFormat::Subtitles(format) => {
                let mut text = decoded(&content)?;
                if content.starts_with(MARK.as_bytes()) {
                    text.to_mut().insert_str(0, MARK);
                }
                Self::Subtitles(Subtitles::parse(&text, format))
            }
            FileFormat::Xml => {
                let text = decoded(&content)?.into_owned();
                xml::check_encoding(&text).map_err(MarkupError::Invalid)?;
                Self::Text(text)
            }
            FileFormat::Text | FileFormat::Html => Self::Text(decoded(&content)?.into_owned()),
        })
    }

    /// The texts to translate.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Subtitles(subtitles) => subtitles.texts(),
            Self::Document(document) => document.texts(),
        }
    }

    /// The texts without formatting.
    pub fn plain_texts(&self) -> Vec<String> {
        match self {
            Self::Text(_) | Self::Subtitles(_) => self.texts(),
            Self::Document(document) => document.plain_texts(),
        }
    }

    /// Returns the file with other texts, in the order of [`texts`](Self::texts).
    ///
    /// # Errors
    ///
    /// Same as [`Document::with_texts`].
    pub fn with_texts(
        &self,
        texts: &[String],
        deadline: &Deadline,
    ) -> Result<Vec<u8>, MarkupError> {
        match self {
            Self::Text(text) => Ok(texts.first().unwrap_or(text).clone().into_bytes()),
            Self::Subtitles(subtitles) => Ok(subtitles.with_texts(texts).into_bytes()),
            Self::Document(document) => document.with_texts(texts, deadline),
        }
    }
}

/// Decodes a text file.
fn decoded(content: &[u8]) -> Result<Cow<'_, str>, MarkupError> {
    if let Some(other) = NotText::of(content) {
        return Err(MarkupError::Invalid(format!("the file {other}: {}", other.hint())));
    }
    encoding::decode(content).map_err(|_| {
        MarkupError::Invalid(
            "the file is neither UTF-8, nor UTF-16 with a byte order mark".to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(content: &'static [u8], extension: &str) -> Result<File, String> {
        let format = FileFormat::of_extension(extension).unwrap();
        let deadline = Deadline::after(Duration::MAX);
        let file = File::read(Bytes::from_static(content), format, File::MAX_BYTES, &deadline);
        file.map_err(|error| error.to_string())
    }

    #[test]
    fn files_keep_what_is_no_text() {
        let deadline = Deadline::after(Duration::MAX);
        let srt = "\u{feff}1\r\n00:00:01,000 --> 00:00:02,000\r\none\r\n".as_bytes();
        for (content, extension, texts) in [
            (b"one <b>two</b>\n".as_slice(), "TXT", vec!["one <b>two</b>\n"]),
            (b"<p>one</p>", "htm", vec!["<p>one</p>"]),
            (
                b"<?xml version='1.0' encoding='utf-8'?><a>1</a>",
                "xml",
                vec!["<?xml version='1.0' encoding='utf-8'?><a>1</a>"],
            ),
            (srt, "srt", vec!["one"]),
        ] {
            let file = read(content, extension).unwrap();
            assert_eq!(file.texts(), texts);
            assert_eq!(file.plain_texts(), texts);
            assert_eq!(file.with_texts(&file.texts(), &deadline).unwrap(), content);
        }
        assert_eq!(FileFormat::of_extension("pdf"), None);
    }

    #[test]
    fn files_in_other_encodings_are_refused() {
        for (content, extension, problem) in [
            (b"caf\xe9".as_slice(), "txt", "neither UTF-8"),
            (b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a/>", "xml", "`ISO-8859-1`"),
            (b"PK\x03\x04", "srt", "the file"),
            (b"PK\x03\x04", "docx", "not a .docx document"),
        ] {
            let found = read(content, extension).unwrap_err();
            assert!(found.contains(problem), "{found}");
        }
    }
}
