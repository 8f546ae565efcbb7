//! Characters of a line by byte position.

#[cfg(test)]
use std::cell::Cell;

use super::marks::{Mark, Marks, closes, is_armenian, mark};

/// Text up to the end of a line. Positions are byte offsets between characters.
#[derive(Debug)]
pub(super) struct Line<'a> {
    text: &'a str,
    marks: Marks,
    /// Number of characters read.
    #[cfg(test)]
    pub(super) reads: Cell<usize>,
}

impl<'a> Line<'a> {
    pub(super) fn new(text: &'a str, marks: Marks) -> Self {
        Self {
            text,
            marks,
            #[cfg(test)]
            reads: Cell::default(),
        }
    }

    /// Position of the end of the line.
    pub(super) fn end(&self) -> usize {
        self.text.len()
    }

    /// Whether the semicolon is the question mark.
    pub(super) fn is_greek(&self) -> bool {
        self.marks.semicolon
    }

    /// Returns the character after a position.
    pub(super) fn after(&self, at: usize) -> Option<char> {
        self.count();
        self.text[at..].chars().next()
    }

    /// Returns the character before a position.
    pub(super) fn before(&self, at: usize) -> Option<char> {
        self.count();
        self.text[..at].chars().next_back()
    }

    /// Returns the class of the mark after a position.
    pub(super) fn mark(&self, at: usize) -> Option<Mark> {
        let c = self.after(at)?;
        let kind = mark(c, self.marks)?;
        // A colon between words of other scripts is no mark.
        let is_mark = c != ':'
            || self
                .before(at)
                .is_some_and(|c| is_armenian(c) || matches!(c, '.' | '…') || closes(c));
        is_mark.then_some(kind)
    }

    /// Returns the position after the characters from `at` that satisfy `accept`, at most `limit`.
    pub(super) fn skip(&self, mut at: usize, limit: usize, accept: impl Fn(char) -> bool) -> usize {
        for _ in 0..limit {
            match self.after(at) {
                Some(c) if accept(c) => at += c.len_utf8(),
                _ => break,
            }
        }
        at
    }

    /// Returns the position before the characters that end at `at` and satisfy `accept`, at most
    /// `limit` and not before `start`.
    pub(super) fn skip_back(
        &self,
        start: usize,
        mut at: usize,
        limit: usize,
        accept: impl Fn(char) -> bool,
    ) -> usize {
        for _ in 0..limit {
            match self.before(at) {
                Some(c) if at > start && accept(c) => at -= c.len_utf8(),
                _ => break,
            }
        }
        at
    }

    /// Returns the text between two positions.
    pub(super) fn slice(&self, from: usize, to: usize) -> &'a str {
        &self.text[from..to]
    }

    fn count(&self) {
        #[cfg(test)]
        self.reads.set(self.reads.get() + 1);
    }
}
