//! Characters that a reader does not see.

/// Returns `true` if a text has no visible character: white space, control characters and characters
/// that Unicode ignores by default only. Such a text is an empty one.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || is_ignorable(c))
}

/// Property `Default_Ignorable_Code_Point` of Unicode, and the marks of annotations.
fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

/// Returns `true` for a character that is removed at least after some characters.
pub(crate) fn may_be_removed(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && !c.is_whitespace();
    }
    is_never_spelled(c) || is_joiner(c) || is_selector(c)
}

/// Returns `true` for a character that is removed after `before`, the last character that is not
/// removed, or at the start of a text.
///
/// The zero-width joiner and non-joiner are kept in scripts and emoji that are spelled with them, such
/// as Persian, Hindi and families. In Latin text, the non-joiner prevents a ligature only.
pub(super) fn is_removed(c: char, before: Option<char>) -> bool {
    is_never_spelled(c)
        || (is_joiner(c) && !before.is_some_and(joins))
        || (is_selector(c) && !before.is_some_and(varies))
}

/// Soft hyphen, grapheme joiner, zero-width space, marks and embeddings of the writing direction, word
/// joiner, invisible operators, byte order mark, marks of annotations, and control characters.
fn is_never_spelled(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
    ) || (c.is_control() && !c.is_whitespace())
}

/// Zero-width non-joiner and joiner.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Variation selectors, such as those of emoji.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Characters that joiners have an effect on: letters from Hebrew on, without the additions to Latin
/// and Greek, and symbols from arrows on.
fn joins(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{1dff}' | '\u{2190}'..)
}

/// Characters that a variation selector has an effect on: those of [`joins`], joiners, and symbols and
/// digits that are emoji with a selector.
fn varies(c: char) -> bool {
    let is_emoji = matches!(
        c,
        '0'..='9' | '#' | '*' | '©' | '®' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
    );
    is_emoji || (joins(c) && !is_selector(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_texts() {
        for text in
            ["", " ", "\u{200b}", "\u{feff}\u{ad}\0", "\u{200d}\u{fe0f}", "\u{2028}\u{3164}"]
        {
            assert!(is_blank(text), "{text:?}");
        }
        for text in ["a", "\u{ad}.", "\u{301}", "\u{fffd}", "😀"] {
            assert!(!is_blank(text), "{text:?}");
        }
    }

    #[test]
    fn only_invisible_characters_are_removed() {
        for c in '\0'..=char::MAX {
            if may_be_removed(c) {
                assert!(is_ignorable(c) || c.is_control(), "{c:?}");
            }
            let may = is_removed(c, None) || is_removed(c, Some('a')) || is_removed(c, Some('ک'));
            assert_eq!(may, may_be_removed(c), "{c:?}");
        }
    }
}
