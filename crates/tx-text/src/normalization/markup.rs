//! HTML and XML tags and entities of crawled text.

use super::aligned::Output;

/// Maximum length of a tag or entity, so that text after a stray `<` is not treated as a tag.
const MAX_TAG_LEN: usize = 200;
const MAX_ENTITY_LEN: usize = 10;

/// Returns `true` if the text contains a tag or an entity.
pub fn has_markup(text: &str) -> bool {
    text.bytes().enumerate().any(|(at, byte)| match byte {
        b'<' => text.get(at..).is_some_and(|rest| tag(rest).is_some()),
        b'&' => text.get(at..).is_some_and(|rest| entity(rest).is_some()),
        _ => false,
    })
}

/// Replaces each tag with a space and each entity with its character.
pub(super) fn replaced<O: Output>(text: &str) -> O {
    let mut plain = O::default();
    let mut at = 0;
    while let Some(rest) = text.get(at..)
        && let Some(c) = rest.chars().next()
    {
        let (found, length) = match (c, tag(rest), entity(rest)) {
            ('<', Some(length), _) => (' ', length),
            ('&', _, Some((c, length))) => (c, length),
            _ => (c, c.len_utf8()),
        };
        plain.put([found].into_iter(), at..at + length);
        at += length;
    }
    plain
}

/// Length in bytes of the tag at the start of `text`: `<b>`, `</b>`, `<br/>`, `<a href="…">`, `<!--
/// … -->`. `a < b` and `<3` are not tags.
fn tag(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('<')?;
    let name = inside.strip_prefix('/').unwrap_or(inside);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?') {
        return None;
    }
    let end = inside.bytes().take(MAX_TAG_LEN).position(|b| b == b'>' || b == b'<')?;
    (inside.as_bytes().get(end) == Some(&b'>')).then_some(end + 2)
}

/// Character of the entity at the start of `text`, and the entity's length in bytes.
fn entity(text: &str) -> Option<(char, usize)> {
    let inside = text.strip_prefix('&')?;
    let end = inside.bytes().take(MAX_ENTITY_LEN).position(|b| b == b';')?;
    let name = inside.get(..end)?;
    let c = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
        None => match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            "nbsp" => ' ',
            "ndash" => '–',
            "mdash" => '—',
            "hellip" => '…',
            "laquo" => '«',
            "raquo" => '»',
            "shy" => '\u{ad}',
            _ => return None,
        },
    };
    Some((c, end + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_entities_are_distinguished_from_text() {
        for (text, plain) in [
            ("<b>bold</b> text", " bold  text"),
            ("a<br/>b", "a b"),
            ("<a href=\"x\">link</a>", " link "),
            ("<!-- note -->x", " x"),
            ("R&amp;D &lt;3 &#233;&#xE9;", "R&D <3 éé"),
        ] {
            assert!(has_markup(text), "{text}");
            assert_eq!(replaced::<String>(text), plain);
        }
        for text in ["a < b > c", "I <3 you", "AT&T; no", "< b >", "x &unknown; y", "&", "<", "<é>"]
        {
            assert!(!has_markup(text), "{text}");
            assert_eq!(replaced::<String>(text), text);
        }
    }
}
