//! Tags and placeholders in plain text: `<br />`, `{\an8}`, `{name}`, `%s`.
//!
//! - Tags become markup of a [`Segment`].
//! - [`blocks`] are not shown to the model: messages with plural forms, footnote marks.
//! - [`words`] are shown to the model, which may keep them: placeholders and addresses.
//! - [Symbols](without_symbols) are not shown to a model that does not have them.

use std::{ops::Range, sync::LazyLock};

use regex::Regex;

use super::{
    Format, Inline, InlineKind, Segment, Spacing,
    segment::{denormalized, without_ranges},
};

/// Tags, numbered ones of localization formats, and the overrides of subtitles.
static MARKUP: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let patterns = [
        r#"</?[A-Za-z][A-Za-z0-9:-]*(?:\s(?:[^<>"']|"[^"<>]*"|'[^'<>]*')*)?/?>"#,
        r#"<[A-Za-z][A-Za-z0-9:-]*(?:\s+[A-Za-z_:][\w:.-]*(?:="[^"]*"|='[^']*'|=[^\s"'<>]+)?)*\s*/?>"#,
        r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>",
        r"</?[0-9]{1,4}\s*/?>",
        r"<!--[^<>]*-->",
        r"\{\\[^{}]*\}",
    ];
    Regex::new(&patterns.join("|")).ok()
});

/// Placeholders that are part of a sentence, and addresses. A group has the placeholder without what must
/// be before it.
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"\{\{\{?[^{}]*\}?\}\}",
        r"\{%[^{}]*%\}",
        r"\[\[[^\[\]]*\]\]",
        r"[$%#]\{[^{}]*\}",
        r"\$t\((?:[^(){}]|\{[^{}]*\}|\{\{[^{}]*\}\})*\)",
        r"@(?:\.\w+)?:(?:[\w.-]*\w|\([^()]*\)|\{[^{}]*\})",
        r"%\([A-Za-z_]\w*\)[-+0# ]*\d*(?:\.\d+)?[a-z]",
        r"%<[A-Za-z_]\w*>[-+0#]*\d*(?:\.\d+)?[a-z]",
        r"\{\s*[$@-]?[\w.\[\]-]*(?:![a-z])?(?::[^{}\s]*)?\s*\}",
        r"\{[A-Za-z0-9_.:,-]*\}",
        r"%(?:\d+\$)?[-+0#,]*\d*(?:\.\d+)?(?:ll?|hh?|z|j|t)?(?:[sdiufxXeEgGcp]\b|@)",
        r"%%",
        r"%[A-Za-z_][\w.-]*%",
        r"(?:https?://|\bwww\.)[^\s<>]*[^\s<>.,;:!?)'\x22]",
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
        r"&(?:[A-Za-z][A-Za-z0-9]*|#[0-9]+|#[xX][0-9A-Fa-f]+);",
        r"\\[nrt]",
        r#"(?:^|[\s(\["'“‘«>])(:[A-Za-z_][\w-]*\w:?)"#,
        r#"(?:^|[\s(\["'“‘«>])(@[A-Za-z_]\w*)"#,
    ];
    Regex::new(&patterns.join("|")).ok()
});

/// Start of a message with plural forms or another format, as in ICU.
static MESSAGE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let kinds = "plural|select|selectordinal|selectOrdinal|number|date|time|spellout|ordinal|duration|choice|list|bool";
    Regex::new(&format!(r"^\{{\s*[\w.]+\s*,\s*(?:{kinds})\s*[,}}]")).ok()
});

/// References to notes, such as `[1]` and `[2, 3]`.
static REFERENCE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?:\[[0-9]{1,3}(?:\s?[,–-]\s?[0-9]{1,3})*\])+").ok());

/// Symbols, with the characters that modify them. Letters, digits and the punctuation of sentences are
/// none.
static SYMBOLS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let symbol = r##"[\p{S}\p{P}\p{Co}\x{1F000}-\x{1FAFF}--[.,;:!?'"()‘’<>_\-]]"##;
    let modifier = r"[\x{FE0E}\x{FE0F}\x{20E3}\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}]";
    Regex::new(&format!(
        r"[0-9#*]\x{{FE0F}}?\x{{20E3}}|{symbol}{modifier}*(?:\x{{200D}}?{symbol}{modifier}*)*"
    ))
    .ok()
});

/// Removes tags and overrides from a text, and keeps all of its white space.
pub fn without_markup(text: &str) -> Segment {
    let Some(regex) = &*MARKUP else { return Segment { text: text.into(), inlines: Vec::new() } };
    let mut segment = Segment::default();
    let mut end = 0;
    for found in regex.find_iter(text) {
        segment.text.push_str(&text[end..found.start()]);
        end = found.end();
        let raw = found.as_str().to_owned();
        segment.inlines.push(Inline { at: segment.text.len(), kind: kind(&raw), raw });
    }
    segment.text.push_str(&text[end..]);
    segment
}

fn kind(raw: &str) -> InlineKind {
    let name = raw.trim_start_matches(['<', '/']);
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == ':' || c == '-';
    let name = name.split(|c: char| !is_part(c)).next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    if raw.starts_with("</") {
        InlineKind::Close(name)
    } else if raw.starts_with('{') || raw.starts_with("<!") {
        InlineKind::Void
    } else if raw.ends_with("/>") || matches!(&*name, "br" | "img" | "hr" | "wbr") {
        InlineKind::Atom(Spacing::default())
    } else {
        InlineKind::Open(name)
    }
}

/// Returns the ranges of a text that the model does not read, in order: messages with plural forms, which
/// contain several sentences, references to notes, and placeholders with white space, which a division
/// into sentences could break.
pub fn blocks(text: &str) -> Vec<Range<usize>> {
    let mut found = messages(text);
    if let Some(regex) = REFERENCE.as_ref().filter(|_| text.contains('[')) {
        found.extend(regex.find_iter(text).map(|found| found.range()));
    }
    found.extend(
        ranges(text).into_iter().filter(|range| text[range.clone()].contains(char::is_whitespace)),
    );
    found.sort_unstable_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    found.retain(|range| {
        let is_free = range.start >= end;
        end = end.max(range.end);
        is_free
    });
    found
}

/// Ranges of messages in braces. Those in another one are included.
fn messages(text: &str) -> Vec<Range<usize>> {
    let Some(regex) = MESSAGE.as_ref().filter(|_| text.contains('{')) else { return Vec::new() };
    let (mut found, mut open) = (Vec::new(), Vec::new());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => open.push(at),
            b'}' => {
                if let Some(start) = open.pop()
                    && regex.is_match(&text[start..=at])
                {
                    found.push(start..at + 1);
                }
            }
            _ => {}
        }
    }
    found
}

/// Ranges of the placeholders of a text.
fn ranges(text: &str) -> Vec<Range<usize>> {
    let Some(regex) = &*WORDS else { return Vec::new() };
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(found) = regex.captures_at(text, at) {
        let Some(word) = found.iter().skip(1).flatten().next().or(found.get(0)) else { break };
        at = word.end();
        // A folder of Windows, such as `C:\new`.
        let is_path = word.as_str().starts_with('\\') && text[..word.start()].ends_with(':');
        if !is_path {
            ranges.push(word.range());
        }
    }
    ranges
}

/// Returns the placeholders of a sentence.
pub fn words(text: &str) -> Vec<&str> {
    ranges(text).into_iter().map(|range| &text[range]).collect()
}

/// Whether `translation` has the placeholders `words`, each as often as they occur in the source.
pub fn survive(words: &[&str], translation: &str) -> bool {
    let mut found = self::words(translation);
    let mut expected = words.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    found == expected
}

/// Makes atoms of the placeholders of a sentence.
pub fn without_words(sentence: &Segment, format: Format) -> Segment {
    let raw = denormalized(sentence);
    without_ranges(&raw, &ranges(&raw.text), format)
}

/// Makes atoms of the symbols of a sentence that are not known; `None` if there is none.
pub fn without_symbols(
    sentence: &Segment,
    format: Format,
    mut is_known: impl FnMut(&str) -> bool,
) -> Option<Segment> {
    let regex = SYMBOLS.as_ref()?;
    if !regex.find_iter(&sentence.text).any(|found| !is_known(found.as_str())) {
        return None;
    }
    let raw = denormalized(sentence);
    // Braces and signs of placeholders are no symbols.
    let words = ranges(&raw.text);
    let is_word = |range: &Range<usize>| {
        let next = words.partition_point(|word| word.end <= range.start);
        words.get(next).is_some_and(|word| word.start < range.end)
    };
    let unknown = regex.find_iter(&raw.text).filter(|found| !is_known(found.as_str()));
    let unknown: Vec<Range<usize>> =
        unknown.map(|found| found.range()).filter(|range| !is_word(range)).collect();
    (!unknown.is_empty()).then(|| without_ranges(&raw, &unknown, format))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_removed_and_its_position_kept() {
        let segment = without_markup("{\\an8}One <i>two</i><br />three < 4 > 5");
        assert_eq!(segment.text, "One twothree < 4 > 5");
        let found: Vec<(usize, &str)> =
            segment.inlines.iter().map(|inline| (inline.at, &*inline.raw)).collect();
        assert_eq!(found, [(0, "{\\an8}"), (4, "<i>"), (7, "</i>"), (7, "<br />")]);
        assert_eq!(segment.inlines[1].kind, InlineKind::Open("i".into()));
        assert_eq!(segment.inlines[3].kind, InlineKind::Atom(Spacing::default()));
        assert_eq!(segment.inlines[0].kind, InlineKind::Void);
    }

    #[test]
    fn placeholders_of_common_formats_are_found() {
        let text = "{name} has {{count}} of ${total} in %s, %1$d and %(path)s: 50% of https://a.b/c?d=e. x@y.org {}";
        assert_eq!(
            words(text),
            [
                "{name}",
                "{{count}}",
                "${total}",
                "%s",
                "%1$d",
                "%(path)s",
                "https://a.b/c?d=e",
                "x@y.org",
                "{}"
            ]
        );
        assert!(survive(&["%s", "{a}"], "x {a} y %s.") && !survive(&["%s"], "%s %s"));
        assert!(words("100% sure, {not a placeholder}").is_empty());
        assert_eq!(words("see www.a-b.de, awww.no and www."), ["www.a-b.de"]);
    }

    #[test]
    fn placeholders_are_removed_with_their_white_space() {
        let sentence = without_markup("Hello {name}, you <b>have %d</b> mails");
        let removed = without_words(&sentence, Format::Text);
        assert_eq!(removed.text, "Hello, you have mails");
        let found: Vec<(usize, &str)> =
            removed.inlines.iter().map(|inline| (inline.at, &*inline.raw)).collect();
        assert_eq!(found, [(5, "{name}"), (11, "<b>"), (16, "%d"), (16, "</b>")]);
    }
}
