//! Words of a text, and the places of names.

use std::ops::Range;

use crate::letter_case::lower;

/// Bytes of the longest word of a lexicon. A comparison takes time in proportion.
pub(crate) const MAX_WORD: usize = 256;

/// Words of a text, in order: letters and digits between other characters. Longer ones than
/// [`MAX_WORD`] are left out.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| (1..=MAX_WORD).contains(&word.len()))
}

/// Whether a word of a text is the first in quotation marks. Apostrophes are within words.
pub(super) fn is_quoted(text: &str, word: &str) -> bool {
    let mut before = text[..offset(text, word)].chars().rev();
    let is_mark = |c| matches!(c, '"' | '\'' | '“' | '„' | '‚' | '‘' | '«' | '»' | '‹' | '›');
    before.next().is_some_and(is_mark) && !before.next().is_some_and(char::is_alphanumeric)
}

/// Returns the places of a text that have the words of a name next to each other, in any case.
pub(crate) fn found_in(text: &str, name: &str) -> Vec<Range<usize>> {
    let all: Vec<&str> = words(text).collect();
    let name: Vec<String> = words(name).map(lower).collect();
    let mut found = Vec::new();
    let mut next = 0;
    while let Some(part) = all.get(next..next + name.len()).filter(|part| !part.is_empty()) {
        if part.iter().zip(&name).all(|(word, of_name)| lower(word) == *of_name) {
            let last = part[part.len() - 1];
            found.push(offset(text, part[0])..offset(text, last) + last.len());
            next += part.len();
        } else {
            next += 1;
        }
    }
    found
}

/// Position of a part of a text, in bytes.
pub(super) fn offset(text: &str, part: &str) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

/// Whether a word is a number.
pub(super) fn is_number(word: &str) -> bool {
    word.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a word is a number of two digits or more.
pub(super) fn is_long_number(word: &str) -> bool {
    word.len() > 1 && is_number(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_words_in_any_case() {
        for (text, name, expected) in [
            ("In new york.", "New York", &["new york"][..]),
            ("An all-star game, All Star", "All Star", &["all-star", "All Star"]),
            ("a a a", "a a", &["a a"]),
            ("New, York", "New York", &["New, York"]),
            ("York New", "New York", &[]),
            ("Yorker", "York", &[]),
            ("", "York", &[]),
            ("York", "", &[]),
        ] {
            let found: Vec<&str> =
                found_in(text, name).into_iter().map(|place| &text[place]).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
