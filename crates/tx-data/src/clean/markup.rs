//! HTML and XML tags and entities of crawled text.

/// Maximum length of a tag or entity, so that text after a stray `<` is not treated as a tag.
const MAX_TAG_LEN: usize = 200;
const MAX_ENTITY_LEN: usize = 10;

/// Returns `true` if the text contains a tag or an entity.
pub(super) fn has_markup(text: &str) -> bool {
    text.char_indices().any(|(at, c)| match c {
        '<' => tag(&text[at..]).is_some(),
        '&' => entity(&text[at..]).is_some(),
        _ => false,
    })
}

/// Replaces each tag with a space and each entity with its character.
pub(super) fn strip(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['<', '&']) {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let (found, length) = match (tag(rest), entity(rest)) {
            (Some(length), _) => (' ', length),
            (None, Some((c, length))) => (c, length),
            // Both characters are one byte long.
            (None, None) => (if rest.starts_with('<') { '<' } else { '&' }, 1),
        };
        plain.push(found);
        rest = &rest[length..];
    }
    plain + rest
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
            assert_eq!(strip(text), plain);
        }
        for text in ["a < b > c", "I <3 you", "AT&T; no", "< b >", "x &unknown; y", "&", "<", "<é>"]
        {
            assert!(!has_markup(text), "{text}");
            assert_eq!(strip(text), text);
        }
    }
}
