//! Text with markup: what is translated, and what is put back at its position afterwards.

pub mod html;
pub mod placeholders;
pub mod placement;

use std::borrow::Cow;

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
    /// Something that stands in the text like a word: a placeholder, an image, an element that is not
    /// translated. White space around it is kept.
    Atom,
}

/// Format of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Plain text, in which tags and placeholders are kept.
    #[default]
    Text,
    /// HTML.
    Html,
}

impl Format {
    /// Text as it is written in this format.
    pub fn escape(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Text => text.into(),
            Self::Html if text.contains(['&', '<', '>']) => {
                text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").into()
            }
            Self::Html => text.into(),
        }
    }
}

/// Whether a text has anything to translate.
pub fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphabetic)
}
