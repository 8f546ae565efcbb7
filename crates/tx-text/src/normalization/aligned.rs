//! Text with the positions of its bytes in an original.

use std::ops::Range;

/// Text that is written part by part.
pub(super) trait Output: Default {
    /// Appends characters that replace the bytes `origin` of the original.
    fn put(&mut self, characters: impl Iterator<Item = char>, origin: Range<usize>);
}

impl Output for String {
    fn put(&mut self, characters: impl Iterator<Item = char>, _: Range<usize>) {
        self.extend(characters);
    }
}

/// Text with the positions of its bytes in an original.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Aligned {
    text: String,
    /// Parts in order, each with its start in the text and its bytes of the original.
    parts: Vec<(usize, Range<usize>)>,
}

impl Output for Aligned {
    fn put(&mut self, characters: impl Iterator<Item = char>, origin: Range<usize>) {
        let start = self.text.len();
        self.text.extend(characters);
        if self.text.len() > start {
            self.parts.push((start, origin));
        }
    }
}

impl Aligned {
    /// The text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Bytes of the original of bytes of the text: those of all parts that the range touches. An empty
    /// range is empty in the original.
    pub(crate) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let part_of = |byte: usize| {
            let after = self.parts.partition_point(|(start, _)| *start <= byte);
            self.parts.get(after.saturating_sub(1)).map_or(0..0, |(_, origin)| origin.clone())
        };
        if range.is_empty() {
            let at = match range.start < self.text.len() {
                true => part_of(range.start).start,
                false => self.parts.last().map_or(0, |(_, origin)| origin.end),
            };
            return at..at;
        }
        part_of(range.start).start..part_of(range.end - 1).end
    }

    /// This text, whose original is the text of `earlier`, with positions in the original of that.
    pub(super) fn after(self, earlier: &Self) -> Self {
        let parts = self.parts.into_iter().map(|(start, part)| (start, earlier.origin(part)));
        Self { parts: parts.collect(), text: self.text }
    }
}
