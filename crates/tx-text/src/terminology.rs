//! Translations of terms within a source, for models that are trained to use them (Dinu et al. 2019, the method
//! "replace": with the term beside its translation, small models use their own one).

use std::ops::Range;

/// Mark before the translation of a term.
pub const OPEN: char = '⟦';

/// Mark after the translation of a term.
pub const CLOSE: char = '⟧';

/// Writes translations in place of their terms, with spaces around them, so that they have the same tokens as in a target
/// if both sides share a vocabulary. The terms are ranges of `text` in ascending order without overlap.
///
/// ```
/// use tx_text::terminology::with_terms;
///
/// assert_eq!(with_terms("Der Hund, der bellt.", [(4..8, "dog")]), "Der ⟦ dog ⟧, der bellt.");
/// ```
///
/// # Panics
///
/// If a range does not begin or end between characters, or is out of bounds or order.
pub fn with_terms<'a>(
    text: &str,
    terms: impl IntoIterator<Item = (Range<usize>, &'a str)>,
) -> String {
    let (mut written, mut end) = (String::with_capacity(text.len()), 0);
    for (range, translation) in terms {
        written += &text[end..range.start];
        written.extend([OPEN, ' ']);
        written += translation;
        written.extend([' ', CLOSE]);
        end = range.end;
    }
    written + &text[end..]
}
