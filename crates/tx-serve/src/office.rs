//! Documents of office programs: `.docx` (Office Open XML) and `.odt` (OpenDocument).
//!
//! A document is an archive of XML files. Each paragraph with words becomes a text in HTML, whose elements
//! stand for the formatting of the document (module `paragraph`). It is translated as HTML is, and its
//! translation becomes XML again. Everything else is copied, compressed files without decompressing them.

mod archive;
mod docx;
mod odt;
mod paragraph;
mod tree;

#[cfg(test)]
mod tests;

use bytes::Bytes;

use crate::{error::ApiError, markup::has_words};
use archive::Archive;
use paragraph::{Builder, Paragraph};
use tree::{Element, Node};

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfficeFormat {
    /// Office Open XML.
    Docx,
    /// OpenDocument.
    Odt,
}

/// A document whose paragraphs can be replaced.
#[derive(Debug)]
pub struct Document {
    archive: Archive,
    /// Files that contain paragraphs: their indices in the archive, and their content.
    files: Vec<(usize, Vec<Piece>)>,
    paragraphs: Vec<Paragraph>,
}

/// Part of a file.
#[derive(Debug)]
enum Piece {
    /// XML that is copied.
    Raw(String),
    /// Index of a paragraph, whose content it is.
    Paragraph(usize),
}

/// Maximum number of bytes of the XML in a document, for each byte that a request may have. The XML of a
/// document is about ten times as large as its text.
const XML_PER_BYTE: usize = 16;

/// Maximum number of elements and texts in the XML of a document.
const MAX_NODES: usize = 1_000_000;

impl OfficeFormat {
    /// Format of files with this extension, in lower case.
    pub fn of_extension(extension: &str) -> Option<Self> {
        match extension {
            "docx" => Some(Self::Docx),
            "odt" => Some(Self::Odt),
            _ => None,
        }
    }

    /// Extension of files, which names the format in messages.
    fn extension(self) -> &'static str {
        match self {
            Self::Docx => ".docx",
            Self::Odt => ".odt",
        }
    }

    /// Whether a file of the archive contains paragraphs.
    fn has_paragraphs(self, name: &str) -> bool {
        match self {
            Self::Docx => name
                .strip_prefix("word/")
                .and_then(|name| name.strip_suffix(".xml"))
                .is_some_and(|name| {
                    ["document", "footnotes", "endnotes"].contains(&name)
                        || name.starts_with("header")
                        || name.starts_with("footer")
                }),
            // Headers and footers are in the styles.
            Self::Odt => ["content.xml", "styles.xml"].contains(&name),
        }
    }

    /// The file that every document has.
    fn main(self) -> &'static str {
        match self {
            Self::Docx => "word/document.xml",
            Self::Odt => "content.xml",
        }
    }

    fn is_paragraph(self, element: &Element<'_>) -> bool {
        match self {
            Self::Docx => element.name == "w:p",
            Self::Odt => ["text:p", "text:h"].contains(&element.name),
        }
    }

    fn invalid(self, problem: impl std::fmt::Display) -> ApiError {
        ApiError::Invalid(format!("the file is not a {} document: {problem}", self.extension()))
    }
}

impl Document {
    /// Reads a document, whose text has at most `max_bytes`.
    ///
    /// # Errors
    ///
    /// [`ApiError::Invalid`] if it is no document of `format`; [`ApiError::TooLarge`] if its XML or its text
    /// exceeds the limits, as in a decompression bomb.
    pub fn read(content: Bytes, format: OfficeFormat, max_bytes: usize) -> Result<Self, ApiError> {
        let mut archive = Archive::new(content).map_err(|problem| format.invalid(problem))?;
        let names = archive.names().map_err(|problem| format.invalid(problem))?;
        if !names.iter().any(|name| name == format.main()) {
            return Err(format.invalid(format_args!("it has no file `{}`", format.main())));
        }
        let mut reader = Reader { format, paragraphs: Vec::new() };
        let mut files = Vec::new();
        let (mut bytes, mut nodes) = (max_bytes.saturating_mul(XML_PER_BYTE), MAX_NODES);
        for (index, name) in
            names.iter().enumerate().filter(|(_, name)| format.has_paragraphs(name))
        {
            let xml = archive.read(index, bytes)?;
            bytes = bytes.saturating_sub(xml.len());
            let wrong = |problem| format.invalid(format_args!("`{name}`: {problem}"));
            let xml = String::from_utf8(xml).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
            let tree = tree::parse(&xml, &mut nodes).map_err(wrong)?;
            let mut pieces = Vec::new();
            tree.iter().for_each(|node| reader.copy(node, &mut pieces));
            files.push((index, pieces));
        }
        let paragraphs = reader.paragraphs;
        let text: usize = paragraphs.iter().map(|paragraph| paragraph.plain.len()).sum();
        if text > max_bytes {
            return Err(ApiError::TooLarge(format!(
                "the text of the document has {text} bytes; the limit is {max_bytes}"
            )));
        }
        Ok(Self { archive, files, paragraphs })
    }

    /// The paragraphs as HTML.
    pub fn texts(&self) -> Vec<String> {
        self.paragraphs.iter().map(|paragraph| paragraph.html.clone()).collect()
    }

    /// The paragraphs without formatting.
    pub fn plain_texts(&self) -> Vec<String> {
        self.paragraphs.iter().map(|paragraph| paragraph.plain.clone()).collect()
    }

    /// Writes the document with other paragraphs, in HTML and in the order of [`texts`](Self::texts).
    ///
    /// # Errors
    ///
    /// [`ApiError::Invalid`] if a file of the archive cannot be copied.
    pub fn with_texts(&self, texts: &[String]) -> Result<Vec<u8>, ApiError> {
        let replaced = self.files.iter().map(|(index, pieces)| {
            let mut xml = String::new();
            self.write(pieces, texts, &mut xml);
            (*index, xml)
        });
        let replaced: Vec<(usize, String)> = replaced.collect();
        let failed =
            |problem| ApiError::Invalid(format!("the document cannot be written: {problem}"));
        self.archive.with_files(&replaced).map_err(failed)
    }

    /// Writes pieces. Nested as deep as the elements of the document.
    fn write(&self, pieces: &[Piece], texts: &[String], xml: &mut String) {
        for piece in pieces {
            match piece {
                Piece::Raw(raw) => xml.push_str(raw),
                Piece::Paragraph(index) => {
                    if let Some(paragraph) = self.paragraphs.get(*index) {
                        let text = texts.get(*index).unwrap_or(&paragraph.html);
                        paragraph
                            .write(text, xml, &mut |pieces, xml| self.write(pieces, texts, xml));
                    }
                }
            }
        }
    }
}

/// Finds the paragraphs of files.
struct Reader {
    format: OfficeFormat,
    paragraphs: Vec<Paragraph>,
}

impl Reader {
    /// Copies a node, except for the content of paragraphs in it.
    fn copy(&mut self, node: &Node<'_>, pieces: &mut Vec<Piece>) {
        match node {
            Node::Text { raw, .. } | Node::Raw(raw) => push(pieces, raw),
            Node::Element(element) if self.format.is_paragraph(element) => {
                self.paragraph(element, pieces);
            }
            Node::Element(element) => self.copy_element(element, pieces),
        }
    }

    fn copy_element(&mut self, element: &Element<'_>, pieces: &mut Vec<Piece>) {
        push(pieces, element.open);
        element.children.iter().for_each(|child| self.copy(child, pieces));
        push(pieces, element.close);
    }

    /// Adds a paragraph. One without words, or that cannot be divided into text and formatting, is copied.
    fn paragraph(&mut self, element: &Element<'_>, pieces: &mut Vec<Piece>) {
        let known = self.paragraphs.len();
        let mut builder = Builder::default();
        let is_complete = match self.format {
            OfficeFormat::Docx => docx::paragraph(self, element, &mut builder),
            OfficeFormat::Odt => odt::paragraph(self, element, &mut builder),
        };
        if !is_complete || !has_words(&builder.plain()) {
            // Paragraphs in it, such as those of a text box, are added again.
            self.paragraphs.truncate(known);
            self.copy_element(element, pieces);
            return;
        }
        push(pieces, element.open);
        push(pieces, &builder.before);
        pieces.push(Piece::Paragraph(self.paragraphs.len()));
        push(pieces, &builder.after);
        push(pieces, element.close);
        self.paragraphs.push(builder.finish());
    }
}

/// Adds XML to the last piece.
fn push(pieces: &mut Vec<Piece>, raw: &str) {
    match pieces.last_mut() {
        Some(Piece::Raw(last)) => last.push_str(raw),
        Some(Piece::Paragraph(_)) | None => pieces.push(Piece::Raw(raw.to_owned())),
    }
}
