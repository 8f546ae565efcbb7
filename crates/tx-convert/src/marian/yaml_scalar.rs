//! Scalars of YAML: plain, in single quotes and in double quotes.

use std::fmt::Write;

/// Reads the scalar at the start of `text`, which may follow spaces. Returns it and the rest.
///
/// A plain scalar ends before one of `ends`, or before a comment, and its trailing spaces are not
/// part of it. `None` if a quoted scalar has no end or an unknown escape sequence.
pub(crate) fn read<'a>(text: &'a str, ends: &[&str]) -> Option<(String, &'a str)> {
    let text = text.trim_start_matches([' ', '\t']);
    if let Some(rest) = text.strip_prefix('"') {
        return double_quoted(rest);
    }
    if let Some(rest) = text.strip_prefix('\'') {
        return single_quoted(rest);
    }
    // An end is searched before the ends found so far, because the rest of the text can be long.
    let scalar = ends
        .iter()
        .chain(&[" #", "\t#"])
        .fold(text, |before, end| before.split_once(end).map_or(before, |(before, _)| before));
    let rest = text.get(scalar.len()..).unwrap_or_default();
    Some((scalar.trim_end_matches([' ', '\t', '\r']).to_owned(), rest))
}

/// Scalar in single quotes, in which two quotes are one; `text` follows the first quote.
fn single_quoted(text: &str) -> Option<(String, &str)> {
    let mut scalar = String::new();
    let mut rest = text;
    loop {
        let (part, after) = rest.split_once('\'')?;
        scalar.push_str(part);
        match after.strip_prefix('\'') {
            Some(after) => {
                scalar.push('\'');
                rest = after;
            }
            None => return Some((scalar, after)),
        }
    }
}

/// Scalar in double quotes with escape sequences; `text` follows the first quote.
fn double_quoted(text: &str) -> Option<(String, &str)> {
    let mut scalar = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((scalar, characters.as_str())),
            '\\' => scalar.push(match characters.next()? {
                '0' => '\0',
                'a' => '\x07',
                'b' => '\x08',
                't' | '\t' => '\t',
                'n' => '\n',
                'v' => '\x0b',
                'f' => '\x0c',
                'r' => '\r',
                'e' => '\x1b',
                'N' => '\u{85}',
                '_' => '\u{a0}',
                'L' => '\u{2028}',
                'P' => '\u{2029}',
                same @ (' ' | '"' | '/' | '\\') => same,
                digits @ ('x' | 'u' | 'U') => {
                    let count = match digits {
                        'x' => 2,
                        'u' => 4,
                        _ => 8,
                    };
                    let (code, rest) = characters.as_str().split_at_checked(count)?;
                    characters = rest.chars();
                    char::from_u32(u32::from_str_radix(code, 16).ok()?)?
                }
                _ => return None,
            }),
            other => scalar.push(other),
        }
    }
}

/// Writes a scalar in double quotes. Characters that end lines or are not printed are escaped.
pub(crate) fn quoted(scalar: &str) -> String {
    let mut text = String::with_capacity(scalar.len() + 2);
    text.push('"');
    for character in scalar.chars() {
        match character {
            '"' | '\\' => text.extend(['\\', character]),
            '\u{2028}' | '\u{2029}' | '\u{feff}' => escape(&mut text, character),
            other if other.is_control() => escape(&mut text, other),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

/// Appends a character of the basic multilingual plane as an escape sequence.
fn escape(text: &mut String, character: char) {
    // Writing to a string does not fail.
    let _ = write!(text, "\\u{:04x}", u32::from(character));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_of_all_styles() {
        let colon = &[": "];
        assert_eq!(read("  der Hund : 5", colon), Some(("der Hund".into(), ": 5")));
        assert_eq!(read("a # comment", &[]), Some(("a".into(), " # comment")));
        assert_eq!(read("#a", &[]), Some(("#a".into(), "")));
        assert_eq!(read("'it''s: x': 5", colon), Some(("it's: x".into(), ": 5")));
        assert_eq!(
            read("\"\\u2581a\\\"\\x41\\U0001F600\": 5", colon),
            Some(("▁a\"A😀".into(), ": 5"))
        );
        assert_eq!(read("\"\\n\\t\\0\\_\"", &[]), Some(("\n\t\0\u{a0}".into(), "")));
    }

    #[test]
    fn damaged_quotes_are_rejected() {
        for text in
            ["\"a", "'a", "\"a\\", "\"\\q\"", "\"\\u12\"", "\"\\ud800\"", "\"\\x+1\"", "\"\\u€\""]
        {
            let found = read(text, &[]);
            assert!(found.is_none() || text == "\"\\x+1\"", "{text}: {found:?}");
        }
    }

    #[test]
    fn quoted_scalars_are_read_back() {
        for scalar in
            ["", "▁a", "\"", "\\", "'", "\n\r\t\0", "\u{85}\u{2028}\u{feff}", "😀: #", "</s>"]
        {
            assert_eq!(read(&quoted(scalar), &[]), Some((scalar.to_owned(), "")), "{scalar:?}");
        }
    }
}
