//! Case of letters and words.

/// Letters of the shortest text that is in capitals, or that can be without them.
pub(crate) const SHORTEST: usize = 4;

/// Whether a part of a text between white space is a word, with hyphens and apostrophes and between punctuation marks: no
/// address, placeholder or tag.
pub(crate) fn is_plain(part: &str) -> bool {
    let is_mark = |c: char| ".,;:!?…\"'()«»‹›„“”‚‘’–—¿¡".contains(c);
    let word = part.trim_matches(is_mark);
    word.chars().all(|c| c.is_alphabetic() || "-'’".contains(c))
}

/// Replaces the words of a text: letters and digits between other characters.
pub(crate) fn map_words(text: &str, mut map: impl FnMut(&str) -> String) -> String {
    let mut mapped = String::with_capacity(text.len());
    for part in text.split_inclusive(|c: char| !c.is_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_alphanumeric());
        if !word.is_empty() {
            mapped.push_str(&map(word));
        }
        mapped.push_str(&part[word.len()..]);
    }
    mapped
}

/// Whether a text has several letters, all of them capitals.
pub(crate) fn is_in_capitals(text: &str) -> bool {
    !text.chars().any(char::is_lowercase)
        && text.chars().filter(|c| c.is_uppercase()).take(SHORTEST).count() == SHORTEST
}

/// Lower case, except for letters whose lower case has another length in bytes.
pub(crate) fn lower(text: &str) -> String {
    text.chars().flat_map(|c| same_length(c, c.to_lowercase())).collect()
}

/// Sets the first letter of a word to upper case.
pub(crate) fn title(word: &str) -> String {
    let mut is_before = true;
    let letter = |c: char| {
        let is_first = is_before && c.is_alphabetic();
        is_before &= !is_first;
        if is_first { same_length(c, c.to_uppercase()) } else { vec![c] }
    };
    word.chars().flat_map(letter).collect()
}

/// Upper case, except for letters whose upper case has another length in bytes.
pub(crate) fn upper(text: &str) -> String {
    text.chars().flat_map(|c| same_length(c, c.to_uppercase())).collect()
}

/// Returns `mapped` if it is as long as `c` in bytes, and else `c`.
fn same_length(c: char, mapped: impl Iterator<Item = char>) -> Vec<char> {
    let mapped: Vec<char> = mapped.collect();
    match mapped.iter().map(|c| c.len_utf8()).sum::<usize>() == c.len_utf8() {
        true => mapped,
        false => vec![c],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ı` and `I`, `ẞ` and `ß` have other lengths; `ß` and `SS` have the same.
    #[test]
    fn lengths_in_bytes_do_not_change() {
        for (text, expected) in [("straße", "STRASSE"), ("ılık", "ıLıK"), ("ŉ", "ŉ")] {
            assert_eq!(upper(text), expected);
            assert_eq!(upper(text).len(), text.len());
        }
        assert_eq!(lower("GROẞ İÄ"), "groẞ İä");
    }
}
