//! Parts of a paragraph, which refer to the tree: nothing is copied before a paragraph is known to have
//! words.

use std::borrow::Cow;

use super::tree::Node;
use crate::markup::has_words;

/// Part of a paragraph.
#[derive(Debug, Clone)]
pub struct Part<'a> {
    /// The run that contains it, in formats with runs.
    pub run: Option<Run<'a>>,
    /// The node in the file.
    pub node: Node<'a>,
    /// Its function.
    pub kind: PartKind<'a>,
}

/// Run of text with the same properties, which several parts share.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Number in the paragraph.
    pub number: usize,
    /// XML of its properties.
    pub properties: &'a str,
}

/// Function of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartKind<'a> {
    /// Text without escapes.
    Text(Cow<'a, str>),
    /// Begin of an element around the parts up to its end.
    Open,
    /// End of an element.
    Close,
    /// Something that is not text.
    Atom,
    /// Something at which a sentence ends.
    Break,
    /// Something that covers text, moved to the begin of the paragraph.
    Before,
    /// The same, moved to its end.
    After,
}

impl Part<'_> {
    /// Whether it is copied at the begin or end of a paragraph, without being part of a sentence.
    fn is_copied_at_edge(&self) -> bool {
        match &self.kind {
            PartKind::Text(text) => text.trim().is_empty(),
            PartKind::Open | PartKind::Close => false,
            PartKind::Atom | PartKind::Break | PartKind::Before | PartKind::After => true,
        }
    }
}

/// Parts of a paragraph in the order of the file.
#[derive(Debug, Default)]
pub struct Parts<'a>(Vec<Part<'a>>);

/// Content of an element.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Content {
    /// Whether it has text.
    pub text: bool,
    /// Whether the text has anything to translate.
    pub words: bool,
    /// Whether the text has white space.
    pub spaces: bool,
}

impl Content {
    /// Content with this text.
    pub fn of(text: &str) -> Self {
        let spaces = text.contains(char::is_whitespace);
        Self { text: !text.is_empty(), words: has_words(text), spaces }
    }

    /// Whether the text is like that of a footnote mark: `1`, `[1]`, `*`.
    pub fn is_mark(self) -> bool {
        self.text && !self.words && !self.spaces
    }
}

impl std::ops::BitOrAssign for Content {
    fn bitor_assign(&mut self, other: Self) {
        self.text |= other.text;
        self.words |= other.words;
        self.spaces |= other.spaces;
    }
}

impl<'a> Parts<'a> {
    /// Adds a part.
    pub fn push(&mut self, run: Option<Run<'a>>, node: Node<'a>, kind: PartKind<'a>) {
        self.0.push(Part { run, node, kind });
    }

    /// Adds text.
    pub fn text(&mut self, run: Option<Run<'a>>, node: Node<'a>, text: Cow<'a, str>) -> Content {
        let content = Content::of(&text);
        self.push(run, node, PartKind::Text(text));
        content
    }

    /// Begins an element; returns what [`close`](Self::close) expects.
    pub fn open(&mut self, node: Node<'a>) -> usize {
        self.push(None, node, PartKind::Open);
        self.0.len() - 1
    }

    /// Ends an element, which becomes an atom if it has no text, or if it `refers` to something, such as a
    /// link, and has the text of a mark.
    pub fn close(
        &mut self,
        node: Node<'a>,
        open: usize,
        content: Content,
        refers: bool,
    ) -> Content {
        if content.text && !(refers && content.is_mark()) {
            self.push(None, node, PartKind::Close);
            return content;
        }
        self.0.truncate(open);
        self.push(None, node, PartKind::Atom);
        Content::default()
    }

    /// Divides the parts into those before the text, the text, and those after it.
    pub fn divided(&self) -> (&[Part<'a>], &[Part<'a>], &[Part<'a>]) {
        let start = self.0.iter().take_while(|part| part.is_copied_at_edge()).count();
        let (before, rest) = self.0.split_at(start);
        let end = rest.iter().rev().take_while(|part| part.is_copied_at_edge()).count();
        let (text, after) = rest.split_at(rest.len() - end);
        (before, text, after)
    }
}
