//! Documents of office programs: `.docx` (Office Open XML) and `.odt` (OpenDocument).
//!
//! A document is an archive of XML files. Each paragraph with words becomes a text in HTML, whose elements
//! stand for the formatting of the document (module `paragraph`). It is translated as HTML is, and its
//! translation becomes XML again. Everything else is copied, compressed files without decompressing them.

mod archive;
mod docx;
mod odt;
mod paragraph;
mod part;
mod tree;
mod xml;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use tx_infer::Deadline;

use crate::error::MarkupError;
use archive::Archive;
use odt::Superscripts;
use paragraph::{Paragraph, copy_parts};
use part::PartKind;
use tree::{Node, Tree};
use xml::Xml;

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
    /// Maximum number of bytes of the XML that is written.
    max_xml: usize,
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

/// Maximum size of the XML of a translated document, in multiples of the limit for the original. The text
/// can become longer, and each part with its own formatting becomes a run.
const GROWTH: usize = 2;

/// Maximum number of elements and texts in the XML of a document.
const MAX_NODES: usize = 1_000_000;

impl OfficeFormat {
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

    fn is_paragraph(self, element: Node<'_>) -> bool {
        match self {
            Self::Docx => element.name() == "w:p",
            Self::Odt => ["text:p", "text:h"].contains(&element.name()),
        }
    }

    fn invalid(self, problem: impl std::fmt::Display) -> MarkupError {
        MarkupError::Invalid(format!("the file is not a {} document: {problem}", self.extension()))
    }
}

impl Document {
    /// Reads a document, whose text has at most `max_bytes`.
    ///
    /// # Errors
    ///
    /// [`MarkupError::Invalid`] if it is no document of `format`; [`MarkupError::TooLarge`] if its XML or its text
    /// exceeds the limits, as in a decompression bomb; that of `deadline`.
    pub fn read(
        content: Bytes,
        format: OfficeFormat,
        max_bytes: usize,
        deadline: &Deadline,
    ) -> Result<Self, MarkupError> {
        let mut archive = Archive::new(content).map_err(|problem| format.invalid(problem))?;
        let names = archive.names().map_err(|problem| format.invalid(problem))?;
        if !names.iter().any(|name| name == format.main()) {
            return Err(format.invalid(format_args!("it has no file `{}`", format.main())));
        }
        let mut paragraphs = Vec::new();
        let mut files = Vec::new();
        let max_xml = max_bytes.saturating_mul(XML_PER_BYTE);
        let (mut bytes, mut nodes) = (max_xml, MAX_NODES);
        for (index, name) in
            names.iter().enumerate().filter(|(_, name)| format.has_paragraphs(name))
        {
            deadline.check()?;
            let xml = archive.read(index, bytes)?;
            bytes = bytes.saturating_sub(xml.len());
            let wrong = |problem| format.invalid(format_args!("`{name}`: {problem}"));
            let xml = String::from_utf8(xml).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
            let tree = tree::parse(&xml, &mut nodes).map_err(wrong)?;
            let mut reader = Reader::new(format, &tree, paragraphs, deadline);
            let mut pieces = Vec::new();
            tree.root().children().for_each(|node| reader.copy(node, &mut pieces));
            deadline.check()?;
            files.push((index, pieces));
            paragraphs = reader.paragraphs;
        }
        let text: usize = paragraphs.iter().map(|paragraph| paragraph.plain.len()).sum();
        if text > max_bytes {
            return Err(MarkupError::TooLarge(format!(
                "the text of the document has {text} bytes; the limit is {max_bytes}"
            )));
        }
        Ok(Self { archive, files, paragraphs, max_xml: max_xml.saturating_mul(GROWTH) })
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
    /// [`MarkupError::Invalid`] if a file of the archive cannot be copied; [`MarkupError::TooLarge`] if the XML
    /// exceeds the limit; that of `deadline`.
    pub fn with_texts(
        &self,
        texts: &[String],
        deadline: &Deadline,
    ) -> Result<Vec<u8>, MarkupError> {
        let (mut left, mut replaced) = (self.max_xml, Vec::with_capacity(self.files.len()));
        for (index, pieces) in &self.files {
            let mut xml = Xml::new(left);
            self.write(pieces, texts, deadline, &mut xml);
            deadline.check()?;
            let Some(xml) = xml.finish() else {
                return Err(MarkupError::TooLarge(format!(
                    "the translated document has more than {} bytes of XML",
                    self.max_xml
                )));
            };
            left -= xml.len().min(left);
            replaced.push((*index, xml));
        }
        let failed =
            |problem| MarkupError::Invalid(format!("the document cannot be written: {problem}"));
        self.archive.with_files(replaced).map_err(failed)
    }

    /// Writes pieces. Nested as deep as the elements of the document.
    /// Ends early if the caller need not wait.
    fn write(&self, pieces: &[Piece], texts: &[String], deadline: &Deadline, xml: &mut Xml) {
        for piece in pieces {
            match piece {
                Piece::Raw(raw) => xml.push(raw),
                Piece::Paragraph(_) if deadline.is_over() => return,
                Piece::Paragraph(index) => {
                    if let Some(paragraph) = self.paragraphs.get(*index) {
                        let text = texts.get(*index).unwrap_or(&paragraph.html);
                        paragraph.write(text, xml, &mut |pieces, xml| {
                            self.write(pieces, texts, deadline, xml);
                        });
                    }
                }
            }
        }
    }
}

/// Finds the paragraphs of a file. Every node is visited once, or twice for the parts of a paragraph, and
/// copied once.
struct Reader<'a> {
    format: OfficeFormat,
    superscripts: Superscripts<'a>,
    paragraphs: Vec<Paragraph>,
    deadline: &'a Deadline,
}

impl<'a> Reader<'a> {
    fn new(
        format: OfficeFormat,
        tree: &'a Tree<'a>,
        paragraphs: Vec<Paragraph>,
        deadline: &'a Deadline,
    ) -> Self {
        let superscripts = match format {
            OfficeFormat::Docx => Superscripts::default(),
            OfficeFormat::Odt => Superscripts::of(tree),
        };
        Self { format, superscripts, paragraphs, deadline }
    }

    /// Copies a node, except for the content of paragraphs in it.
    fn copy(&mut self, node: Node<'_>, pieces: &mut Vec<Piece>) {
        if !node.is_element() {
            push(pieces, node.raw());
        } else if self.format.is_paragraph(node) {
            self.paragraph(node, pieces);
        } else {
            self.copy_element(node, pieces);
        }
    }

    fn copy_element(&mut self, element: Node<'_>, pieces: &mut Vec<Piece>) {
        push(pieces, element.open());
        element.children().for_each(|child| self.copy(child, pieces));
        push(pieces, element.close());
    }

    /// Adds a paragraph. One without words, or that cannot be divided into text and formatting, is copied.
    /// This is known before anything is copied: otherwise each level of nested text boxes would double
    /// the time. Ends early if the caller need not wait.
    fn paragraph(&mut self, element: Node<'_>, pieces: &mut Vec<Piece>) {
        if self.deadline.is_over() {
            return;
        }
        let parts = match self.format {
            OfficeFormat::Docx => docx::parts(element),
            OfficeFormat::Odt => Some(odt::parts(element, &self.superscripts)),
        };
        let Some((parts, _)) = parts.filter(|(_, content)| content.words) else {
            self.copy_element(element, pieces);
            return;
        };
        let (before, text, after) = parts.divided();
        push(pieces, element.open());
        copy_parts(before, &mut |node, pieces| self.copy(node, pieces), pieces);
        for part in text.iter().filter(|part| part.kind == PartKind::Before) {
            push(pieces, part.node.raw());
        }
        let paragraph = Paragraph::new(text, &mut |node, pieces| self.copy(node, pieces));
        pieces.push(Piece::Paragraph(self.paragraphs.len()));
        self.paragraphs.push(paragraph);
        for part in text.iter().filter(|part| part.kind == PartKind::After) {
            push(pieces, part.node.raw());
        }
        copy_parts(after, &mut |node, pieces| self.copy(node, pieces), pieces);
        push(pieces, element.close());
    }
}

/// Adds XML to the last piece.
fn push(pieces: &mut Vec<Piece>, raw: &str) {
    match pieces.last_mut() {
        Some(Piece::Raw(last)) => last.push_str(raw),
        _ if raw.is_empty() => {}
        Some(Piece::Paragraph(_)) | None => pieces.push(Piece::Raw(raw.to_owned())),
    }
}
