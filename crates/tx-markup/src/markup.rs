//! Text with markup: what is translated, and what is put back at its position afterwards.
//!
//! A reader of a format ([`html`], [`xml`], [`placeholders`]) divides a document into [`Part`]s. A
//! [`Segment`] is the text of one paragraph with its markup; [`segment`] brings it into the form that a
//! model reads. [`placement`] puts the markup into the translation. No function is recursive, because a
//! client chooses the depth of elements.

mod assembly;
pub mod html;
pub mod placeholders;
pub mod placement;
pub mod segment;
pub mod xml;

#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashMap};

/// Text of one paragraph without its markup.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segment {
    /// The text.
    pub text: String,
    /// Markup that was removed from it, in the order of the text.
    pub inlines: Vec<Inline>,
}

/// Markup in a segment, which translation moves but does not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inline {
    /// Position in the text, in bytes.
    pub at: usize,
    /// The markup.
    pub raw: String,
    /// Its function.
    pub kind: InlineKind,
}

/// Function of markup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InlineKind {
    /// Start tag of the element with this name.
    Open(String),
    /// End tag of the element with this name.
    Close(String),
    /// Markup that takes no space: a comment, an override of a subtitle.
    Void,
    /// Something that stands in the text like a word: a placeholder, an image, a footnote mark, an element
    /// that is not translated.
    Atom(Spacing),
}

/// White space around an atom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spacing {
    /// Before the atom.
    pub before: Space,
    /// After the atom.
    pub after: Space,
}

/// White space at one side of an atom.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Space {
    /// No white space.
    #[default]
    Glued,
    /// At least one character.
    Spaced,
    /// None, because the script of the source has no spaces between words, or there is no word. A
    /// translation may need one.
    Free,
}

/// A part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Markup and white space between paragraphs.
    Verbatim(String),
    /// A paragraph.
    Segment {
        /// Text and inline markup.
        segment: Segment,
        /// Format in which its translation is written.
        format: Format,
    },
}

/// Format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Plain text, in which tags and placeholders are kept.
    #[default]
    Text,
    /// HTML.
    Html,
    /// XML.
    Xml,
    /// Content of a CDATA section of XML.
    Cdata,
}

/// Treatment of elements by their names, in HTML and XML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagOptions {
    /// Elements whose content is not translated.
    pub ignored: Vec<String>,
    /// Elements at which a sentence ends.
    pub splitting: Vec<String>,
    /// Elements that are part of a sentence.
    pub non_splitting: Vec<String>,
    /// Whether elements of XML end a sentence if there is no text beside them. Otherwise only those of
    /// `splitting` do.
    pub outline: bool,
}

impl Default for TagOptions {
    fn default() -> Self {
        let [ignored, splitting, non_splitting] = [const { Vec::new() }; 3];
        Self { ignored, splitting, non_splitting, outline: true }
    }
}

impl TagOptions {
    /// Whether elements with this name are not translated.
    pub fn ignores(&self, name: &str) -> bool {
        self.ignored.iter().any(|ignored| ignored == name)
    }

    /// Whether a sentence ends at elements with this name; `None` if the options do not contain it.
    pub fn splits(&self, name: &str) -> Option<bool> {
        if self.splitting.iter().any(|splitting| splitting == name) {
            Some(true)
        } else if self.non_splitting.iter().any(|part| part == name) {
            Some(false)
        } else {
            None
        }
    }
}

impl Format {
    /// Text as it is written in this format.
    pub fn escape(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Html | Self::Xml if text.contains(['&', '<', '>']) => {
                text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").into()
            }
            // The end of a section cannot be escaped, but divided between two.
            Self::Cdata if text.contains("]]>") => text.replace("]]>", "]]]]><![CDATA[>").into(),
            Self::Text | Self::Html | Self::Xml | Self::Cdata => text.into(),
        }
    }
}

/// Whether a text has anything to translate.
pub fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}

/// Index of the end tag of each start tag, and of the start tag of each end tag; `None` for other markup,
/// and for tags without counterpart.
pub fn partners(inlines: &[Inline]) -> Vec<Option<usize>> {
    let mut partners = vec![None; inlines.len()];
    // Open elements, and for each name the indices in `open`.
    let mut open: Vec<(usize, &str)> = Vec::new();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (index, inline) in inlines.iter().enumerate() {
        match &inline.kind {
            InlineKind::Open(name) => {
                by_name.entry(name).or_default().push(open.len());
                open.push((index, name));
            }
            InlineKind::Close(name) => {
                let Some(&at) = by_name.get(&**name).and_then(|found| found.last()) else {
                    continue;
                };
                partners[open[at].0] = Some(index);
                partners[index] = Some(open[at].0);
                // Elements without an end tag end with their parent.
                for (_, inner) in open.drain(at..) {
                    by_name.get_mut(inner).and_then(Vec::pop);
                }
            }
            InlineKind::Void | InlineKind::Atom(_) => {}
        }
    }
    partners
}
