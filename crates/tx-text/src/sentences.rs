//! Division of text into sentences: the rules of Unicode (UAX #29) for scripts and marks, with
//! abbreviations, ordinals and sentence starters per language.
//!
//! ```
//! use tx_text::sentences::sentences;
//!
//! let text = "Dr. Meier kam am 3. Oktober. Wer ging?\n\nNiemand.";
//! let found: Vec<&str> = sentences(text, Some("de")).map(|span| &text[span]).collect();
//! assert_eq!(found, ["Dr. Meier kam am 3. Oktober.", "Wer ging?", "Niemand."]);
//! ```

mod brackets;
mod clause;
mod language;
mod line;
mod list;
mod marks;
mod rules;

use std::ops::Range;

use brackets::Brackets;
pub use clause::clause_end;
use language::Language;
use line::Line;
use list::ListMark;
use marks::{Marks, is_line_break};

/// Returns the spans of the sentences of `text`, in bytes, in order.
///
/// A span has no white space around it and is never empty. The spans and the white space between
/// them concatenate to `text`. The time is linear in the length of `text`.
///
/// A line break ends a sentence. Text that is wrapped at a fixed width must be joined to one line per
/// paragraph before.
///
/// `language` selects the abbreviations: a code of ISO 639-1 or 639-3, alone or before `-` or `_`
/// (`de`, `deu`, `pt-BR`, `zho_Hans`). Without a known language, the rules that hold in most languages
/// apply.
pub fn sentences<'a>(text: &'a str, language: Option<&str>) -> Sentences<'a> {
    Sentences {
        text,
        language: Language::of(language),
        at: 0,
        line_end: 0,
        marks: Marks::default(),
        brackets: Brackets::default(),
        list: None,
    }
}

/// Codes of ISO 639-1 of the languages with abbreviations of their own, in alphabetical order.
pub fn languages() -> impl Iterator<Item = &'static str> {
    language::codes()
}

/// Iterator over the spans of sentences: see [`sentences`].
#[derive(Debug, Clone)]
pub struct Sentences<'a> {
    text: &'a str,
    language: &'static Language,
    /// End of the last sentence.
    at: usize,
    /// End of the line of the last sentence, without its line break.
    line_end: usize,
    /// Marks of this line.
    marks: Marks,
    /// Brackets of this line.
    brackets: Brackets,
    /// Mark of the latest item, if this line is a list.
    list: Option<ListMark>,
}

impl Iterator for Sentences<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let rest = &self.text[self.at..];
        let start = self.text.len() - rest.trim_start().len();
        if start == self.text.len() {
            return None;
        }
        if start >= self.line_end {
            let rest = &self.text[start..];
            self.line_end = start + rest.find(is_line_break).unwrap_or(rest.len());
            let line = &self.text[start..self.line_end];
            self.marks = Marks::of(line, self.language.greek);
            self.brackets = Brackets::of(line, start);
            self.list = None;
        }
        let line = Line::new(&self.text[..self.line_end], self.marks);
        let (language, brackets) = (self.language, &self.brackets);
        self.at = rules::sentence_end(&line, start, language, brackets, &mut self.list);
        Some(start..start + self.text[start..self.at].trim_end().len())
    }
}

#[cfg(test)]
mod tests;
