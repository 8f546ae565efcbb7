//! Text of a translation with its markup.

use tx_infer::tx_text::spacing::is_unspaced;

use crate::markup::{Format, InlineKind, Space, Spacing};

/// Writes a translation with its markup, from its start to its end.
pub(super) struct Writer<'a> {
    pub(super) translation: &'a str,
    format: Format,
    /// End of the text written so far.
    position: usize,
    pub(super) written: String,
    /// Whether the text so far ends with white space, or is empty; tags do not count.
    is_spaced: bool,
    /// Whether the text so far ends with a letter of a script with spaces.
    ends_word: bool,
    /// White space after the latest atom, until text or another atom follows.
    pub(super) pending: Option<Space>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(translation: &'a str, format: Format) -> Self {
        let (position, written) = (0, String::new());
        let (is_spaced, ends_word, pending) = (true, false, None);
        Self { translation, format, position, written, is_spaced, ends_word, pending }
    }

    pub(super) fn text(&mut self, end: usize) {
        if end <= self.position {
            return;
        }
        let mut text = &self.translation[self.position..end];
        self.position = end;
        match self.pending {
            // The atom separates two words.
            Some(Space::Glued) => text = text.trim_start(),
            Some(Space::Spaced) if !text.starts_with(char::is_whitespace) => self.written.push(' '),
            Some(Space::Free) if text.starts_with(is_spaced_letter) => self.written.push(' '),
            Some(Space::Spaced | Space::Free) | None => {}
        }
        let Some(last) = text.chars().next_back() else { return };
        self.pending = None;
        self.is_spaced = last.is_whitespace();
        self.ends_word = is_spaced_letter(last);
        self.written.push_str(&self.format.escape(text));
    }

    /// Writes the start tag of an element with words.
    pub(super) fn start_tag(&mut self, raw: &str) {
        if self.pending == Some(Space::Spaced) {
            self.written.push(' ');
            (self.pending, self.is_spaced) = (None, true);
        }
        self.tag(raw);
    }

    pub(super) fn tag(&mut self, raw: &str) {
        self.written.push_str(raw);
    }

    pub(super) fn inline(&mut self, raw: &str, kind: &InlineKind) {
        match kind {
            InlineKind::Atom(spacing) => self.atom(raw, *spacing),
            InlineKind::Open(_) | InlineKind::Close(_) | InlineKind::Void => self.tag(raw),
        }
    }

    /// Writes an atom, separated from words as it was in the source.
    fn atom(&mut self, raw: &str, spacing: Spacing) {
        let is_separated = match spacing.before {
            Space::Spaced => true,
            Space::Free => self.ends_word,
            Space::Glued => false,
        };
        if !self.is_spaced && (is_separated || self.pending == Some(Space::Spaced)) {
            self.written.push(' ');
        }
        self.written.push_str(raw);
        (self.is_spaced, self.ends_word) = (false, false);
        self.pending = Some(spacing.after);
    }
}

fn is_spaced_letter(c: char) -> bool {
    c.is_alphanumeric() && !is_unspaced(c)
}
