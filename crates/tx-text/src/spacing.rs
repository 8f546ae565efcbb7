//! White space between words and sentences, which some scripts do not use.

/// Whether a character is of a script without spaces between words: Chinese or Japanese, Thai, Lao,
/// Burmese or Khmer.
pub fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3000}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}'
        | '\u{FF00}'..='\u{FFEF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Whether a space separates two sentences that are joined: unless one of them has white space, or a
/// letter or mark of a script without spaces, at their boundary.
pub fn needs_space(left: &str, right: &str) -> bool {
    let [Some(left), Some(right)] = [left.chars().next_back(), right.chars().next()] else {
        return false;
    };
    !left.is_whitespace() && !is_unspaced(left) && !is_unspaced(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_decide_about_spaces() {
        for (left, right, expected) in [
            ("One.", "Two.", true),
            ("One. ", "Two.", false),
            ("", "Two.", false),
            ("一。", "二。", false),
            ("One.", "二。", false),
            ("ไป", "มา", false),
            ("하나.", "둘.", true),
        ] {
            assert_eq!(needs_space(left, right), expected, "{left} {right}");
        }
    }
}
