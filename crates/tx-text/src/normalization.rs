//! Normalization of text before it is tokenized, the same in training and inference.
//!
//! Cleaning of training text and [`Tokenizer`](crate::Tokenizer) call one function,
//! [`Normalization::apply`]. A tokenizer [records](crate::Tokenizer::normalization) the settings in its
//! file, so that a model reads text as its training text was.

use std::{borrow::Cow, ops::Range};

use serde::{Deserialize, Serialize};
use unicode_normalization::{
    IsNormalized, UnicodeNormalization,
    char::{canonical_combining_class, decompose_canonical, decompose_compatible},
    is_nfc_quick, is_nfkc_quick,
};

mod aligned;
mod invisible;
pub mod markup;
mod record;

pub(crate) use aligned::Aligned;
use aligned::Output;
pub use invisible::is_blank;
pub(crate) use invisible::may_be_removed;

/// Maximum number of times that markup is removed from a text, for markup that is escaped as text:
/// `&amp;lt;b&amp;gt;`.
const MAX_ESCAPES: usize = 4;

/// Unicode normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NormalForm {
    /// No normalization.
    None,
    /// Canonical composition: `e` and a combining accent become `é`.
    Nfc,
    /// Compatibility composition: also turns `ﬁ` into `fi` and `１` into `1`.
    Nfkc,
}

/// Settings of the normalization of a text. Applying it twice is applying it once.
///
/// ```
/// use tx_text::normalization::{NormalForm, Normalization};
///
/// let normalization = Normalization { form: NormalForm::Nfc, spaces: true, markup: false };
/// assert_eq!(normalization.apply("gar\u{ad}den\u{a0} "), "garden");
/// assert_eq!(Normalization::NONE.apply("gar\u{ad}den"), "gar\u{ad}den");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Normalization {
    /// Unicode normal form.
    pub form: NormalForm,
    /// Collapses white space of every kind to single spaces, and removes invisible characters: soft
    /// hyphens, zero-width spaces, marks of the writing direction, control characters. Joiners and
    /// variation selectors are removed where no spelling has them.
    pub spaces: bool,
    /// Replaces tags by spaces and entities by their characters.
    pub markup: bool,
}

/// Steps of a normalization that changed a text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangedBy {
    /// The Unicode normal form.
    pub form: bool,
    /// Removal of markup.
    pub markup: bool,
    /// Removal of white space and invisible characters.
    pub spaces: bool,
}

/// Step of a normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Form(NormalForm),
    Markup,
    Spaces,
}

impl Normalization {
    /// Leaves text as it is.
    pub const NONE: Self = Self { form: NormalForm::None, spaces: false, markup: false };

    /// Normalizes a text.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.apply_counted(text).0
    }

    /// Normalizes a text, and returns the steps that changed it.
    pub fn apply_counted<'a>(&self, text: &'a str) -> (Cow<'a, str>, ChangedBy) {
        let mut text = Cow::Borrowed(text);
        let changed = self.run(|step| match step.apply::<String>(&text) {
            Some(new) if new != *text => {
                text = Cow::Owned(new);
                true
            }
            _ => false,
        });
        (text, changed)
    }

    /// Normalizes a text, with the positions of all bytes in the original; `None` if it does not change.
    pub(crate) fn align(&self, text: &str) -> Option<Aligned> {
        let mut aligned: Option<Aligned> = None;
        self.run(|step| {
            let before = aligned.as_ref().map_or(text, |aligned| aligned.text());
            match step.apply::<Aligned>(before) {
                Some(new) if new.text() != before => {
                    aligned = Some(match aligned.take() {
                        Some(earlier) => new.after(&earlier),
                        None => new,
                    });
                    true
                }
                _ => false,
            }
        });
        aligned
    }

    /// Adds the steps of another normalization.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let form = match (self.form, other.form) {
            (NormalForm::Nfkc, _) | (_, NormalForm::Nfkc) => NormalForm::Nfkc,
            (NormalForm::Nfc, _) | (_, NormalForm::Nfc) => NormalForm::Nfc,
            (NormalForm::None, NormalForm::None) => NormalForm::None,
        };
        Self { form, spaces: self.spaces || other.spaces, markup: self.markup || other.markup }
    }

    /// Runs the steps in order until they change nothing. `step` returns whether it changed the text.
    ///
    /// A step may give work to an earlier one: without the soft hyphen, a letter and an accent are
    /// neighbors, and `<\u{ad}b>` is a tag.
    fn run(&self, mut step: impl FnMut(Step) -> bool) -> ChangedBy {
        let mut changed = ChangedBy::default();
        for round in 0..2 * MAX_ESCAPES {
            let form = self.form != NormalForm::None && step(Step::Form(self.form));
            let markup = self.markup && round < MAX_ESCAPES && step(Step::Markup);
            let spaces = self.spaces && step(Step::Spaces);
            changed.form |= form;
            changed.markup |= markup;
            changed.spaces |= spaces;
            if !(markup || spaces) {
                break;
            }
        }
        changed
    }
}

impl Step {
    /// Returns the text after the step; `None` if a quick look shows that it does not change.
    fn apply<O: Output>(self, text: &str) -> Option<O> {
        match self {
            Self::Form(form) => composed(form, text),
            Self::Markup => markup::has_markup(text).then(|| markup::replaced(text)),
            Self::Spaces => single_spaces(text),
        }
    }
}

/// Converts a text to a normal form, in parts that no composition crosses.
fn composed<O: Output>(form: NormalForm, text: &str) -> Option<O> {
    if text.is_ascii() {
        return None;
    }
    let is_composed = match form {
        NormalForm::None => IsNormalized::Yes,
        NormalForm::Nfc => is_nfc_quick(text.chars()),
        NormalForm::Nfkc => is_nfkc_quick(text.chars()),
    };
    if is_composed == IsNormalized::Yes {
        return None;
    }
    let mut composed = O::default();
    let mut put = |part: Range<usize>| {
        let Some(characters) = text.get(part.clone()) else { return };
        match form {
            NormalForm::Nfkc => composed.put(characters.nfkc(), part),
            NormalForm::Nfc | NormalForm::None => composed.put(characters.nfc(), part),
        }
    };
    let mut start = 0;
    for (at, c) in text.char_indices().skip(1) {
        if starts_part(form, c) {
            put(start..at);
            start = at;
        }
    }
    put(start..text.len());
    Some(composed)
}

/// Returns `true` if a character is not composed with those before it.
fn starts_part(form: NormalForm, c: char) -> bool {
    if c.is_ascii() {
        return true;
    }
    let mut first = None;
    match form {
        NormalForm::Nfkc => decompose_compatible(c, |part| first = first.or(Some(part))),
        NormalForm::Nfc | NormalForm::None => {
            decompose_canonical(c, |part| first = first.or(Some(part)));
        }
    }
    let first = first.unwrap_or(c);
    canonical_combining_class(first) == 0 && is_nfc_quick([first].into_iter()) == IsNormalized::Yes
}

/// Collapses white space to single spaces, trims both ends and removes invisible characters.
fn single_spaces<O: Output>(text: &str) -> Option<O> {
    let odd = |c: char| (c != ' ' && c.is_whitespace()) || may_be_removed(c);
    if !text.contains("  ") && text.trim_matches(' ') == text && !text.contains(odd) {
        return None;
    }
    let mut clean = O::default();
    let mut space: Option<Range<usize>> = None;
    let mut is_empty = true;
    // The last character that is not removed.
    let mut before = None;
    for (at, c) in text.char_indices() {
        let bytes = at..at + c.len_utf8();
        if c.is_whitespace() {
            space = Some(space.map_or(at, |space| space.start)..bytes.end);
            before = Some(' ');
        } else if !invisible::is_removed(c, before) {
            if let Some(space) = space.take()
                && !is_empty
            {
                clean.put([' '].into_iter(), space);
            }
            clean.put([c].into_iter(), bytes);
            is_empty = false;
            before = Some(c);
        }
    }
    Some(clean)
}

#[cfg(test)]
mod tests;
