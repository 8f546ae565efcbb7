//! Parts of a document, which a reader adds one after another.

use super::{
    Format, Inline, InlineKind, Part, Segment, has_words, placeholders,
    segment::{WhiteSpace, normalized},
};

/// Parts so far, and the paragraph that is not complete.
#[derive(Debug)]
pub(super) struct Assembly {
    parts: Vec<Part>,
    /// The paragraph with all of its white space.
    segment: Segment,
    /// The paragraph as it is in the document.
    raw: String,
    format: Format,
}

impl Assembly {
    pub(super) fn new(format: Format) -> Self {
        Self { parts: Vec::new(), segment: Segment::default(), raw: String::new(), format }
    }

    /// Adds text, and how it is written in the document.
    pub(super) fn text(&mut self, raw: &str, text: &str) {
        self.raw.push_str(raw);
        self.segment.text.push_str(text);
    }

    /// Adds markup to the paragraph.
    pub(super) fn inline(&mut self, raw: &str, kind: InlineKind) {
        self.raw.push_str(raw);
        let at = self.segment.text.len();
        self.segment.inlines.push(Inline { at, raw: raw.to_owned(), kind });
    }

    /// Ends the paragraph and adds markup.
    pub(super) fn block(&mut self, raw: &str, white_space: WhiteSpace) {
        self.flush(white_space);
        self.verbatim(raw);
    }

    /// Ends the paragraph. One without words is copied.
    pub(super) fn flush(&mut self, white_space: WhiteSpace) {
        let segment = std::mem::take(&mut self.segment);
        let raw = std::mem::take(&mut self.raw);
        if !has_words(&segment.text) {
            return self.verbatim(&raw);
        }
        self.segments(segment, white_space, self.format);
    }

    /// Adds a paragraph.
    pub(super) fn segments(&mut self, segment: Segment, white_space: WhiteSpace, format: Format) {
        let blocks = placeholders::blocks(&segment.text);
        let segments = normalized(&segment, &blocks, white_space, format);
        self.parts.extend(segments.into_iter().map(|segment| Part::Segment { segment, format }));
    }

    /// Adds markup between paragraphs.
    pub(super) fn verbatim(&mut self, raw: &str) {
        match self.parts.last_mut() {
            Some(Part::Verbatim(last)) => last.push_str(raw),
            Some(Part::Segment { .. }) | None if raw.is_empty() => {}
            Some(Part::Segment { .. }) | None => self.parts.push(Part::Verbatim(raw.to_owned())),
        }
    }

    /// Ends the document.
    pub(super) fn end(mut self, white_space: WhiteSpace) -> Vec<Part> {
        self.flush(white_space);
        self.parts
    }
}
