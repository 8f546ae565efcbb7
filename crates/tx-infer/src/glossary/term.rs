//! A term in a text: borders of words, and case.

use std::ops::Range;

use tx_text::spacing::is_unspaced;

use crate::letter_case::lower;

/// Term of a glossary in a source, and its translation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// The term as the source has it.
    pub source: String,
    /// Translation of the glossary that the target has; otherwise the first of the glossary.
    pub target: String,
    /// Whether the target has it.
    pub is_used: bool,
}

/// Returns `true` if no word goes on before or after a range of `text`. In scripts without spaces, all
/// characters are borders.
pub(super) fn is_bordered(text: &str, range: &Range<usize>) -> bool {
    let found = text[range.clone()].chars();
    let divides = |inner: Option<char>, outer: Option<char>| {
        let is_word = |c: char| c.is_alphanumeric() && !is_unspaced(c);
        !outer.is_some_and(is_word) || inner.is_some_and(is_unspaced)
    };
    divides(found.clone().next(), text[..range.start].chars().next_back())
        && divides(found.clone().next_back(), text[range.end..].chars().next())
}

/// Returns `true` if `found` is `term` in a case that is allowed: any for a term without capitals, otherwise
/// the same, or capitals.
pub(super) fn matches_case(term: &str, found: &str) -> bool {
    term == found || !term.chars().any(char::is_uppercase) || !found.chars().any(char::is_lowercase)
}

/// Positions of a term in a text, with borders of words and a case that is allowed.
pub(super) fn occurrences(term: &str, text: &str) -> Vec<Range<usize>> {
    let (term_in_lower_case, text_in_lower_case) = (lower(term), lower(text));
    let found = text_in_lower_case.match_indices(&term_in_lower_case);
    let ranges = found.map(|(start, found)| start..start + found.len());
    ranges
        .filter(|range| is_bordered(text, range) && matches_case(term, &text[range.clone()]))
        .collect()
}
