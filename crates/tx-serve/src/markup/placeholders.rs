//! Tags and placeholders in plain text: `<br />`, `{\an8}`, `{name}`, `%s`.

use std::sync::LazyLock;

use regex::Regex;

use super::{Inline, InlineKind, Segment};

/// Tags, and the overrides of subtitles.
static MARKUP: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>|\{\\[^{}]*\}").ok());

/// Placeholders that are part of a sentence, and addresses.
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"\{\{[^{}]*\}\}",
        r"[$%#]\{[^{}]*\}",
        r"%\([A-Za-z_]\w*\)[a-z]",
        r"\{[A-Za-z0-9_.:,-]*\}",
        r"%(?:\d+\$)?[-+0#]*\d*(?:\.\d+)?(?:ll?|hh?)?[sdiufxXeEgGcp@]\b",
        r"https?://[^\s<>]*[^\s<>.,;:!?)'\x22]",
        r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    ];
    Regex::new(&patterns.join("|")).ok()
});

/// Removes tags and overrides from a text.
pub fn without_markup(text: &str) -> Segment {
    let Some(regex) = &*MARKUP else { return Segment { text: text.into(), inlines: Vec::new() } };
    let mut segment = Segment::default();
    let mut end = 0;
    for found in regex.find_iter(text) {
        segment.text.push_str(&text[end..found.start()]);
        end = found.end();
        let raw = found.as_str();
        let kind = kind(raw);
        // White space at both sides becomes one space, which is put back with the markup.
        let spaced = kind == InlineKind::Atom && segment.text.ends_with(' ');
        if spaced && text[end..].starts_with(' ') {
            end += 1;
        }
        segment.inlines.push(Inline { at: segment.text.len(), raw: raw.to_owned(), kind });
    }
    segment.text.push_str(&text[end..]);
    segment
}

fn kind(raw: &str) -> InlineKind {
    let name = raw.trim_start_matches(['<', '/']);
    let name = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    if raw.starts_with("</") {
        InlineKind::Close(name)
    } else if raw.starts_with('{') {
        InlineKind::Void
    } else if raw.ends_with("/>") || matches!(&*name, "br" | "img" | "hr" | "wbr") {
        InlineKind::Atom
    } else {
        InlineKind::Open(name)
    }
}

/// Returns the placeholders of a sentence.
pub fn words(text: &str) -> Vec<&str> {
    WORDS
        .as_ref()
        .map_or_else(Vec::new, |regex| regex.find_iter(text).map(|found| found.as_str()).collect())
}

/// Whether `translation` has the placeholders `words`, each as often as they occur in the source.
pub fn survive(words: &[&str], translation: &str) -> bool {
    let mut found = self::words(translation);
    let mut expected = words.to_vec();
    found.sort_unstable();
    expected.sort_unstable();
    found == expected
}

/// Removes the placeholders from a sentence, in addition to the markup that was removed before.
///
/// White space at both sides of a placeholder becomes one space.
pub fn without_words(sentence: &Segment) -> Segment {
    let Some(regex) = &*WORDS else { return sentence.clone() };
    let text = &sentence.text;
    let mut removed = Segment::default();
    // Markup before a position moves with its text.
    let mut inlines = sentence.inlines.iter().peekable();
    let mut end = 0;
    let mut copy = |removed: &mut Segment, from: usize, to: usize| {
        let start = removed.text.len();
        let mut piece = &text[from..to];
        if (removed.text.is_empty() || removed.text.ends_with(char::is_whitespace)) && from > 0 {
            piece = piece.trim_start();
        }
        let skipped = to - from - piece.len();
        while let Some(inline) = inlines.next_if(|inline| inline.at <= to) {
            let at = start + inline.at.saturating_sub(from + skipped).min(piece.len());
            removed.inlines.push(Inline { at, ..inline.clone() });
        }
        removed.text.push_str(piece);
    };
    for found in regex.find_iter(text) {
        copy(&mut removed, end, found.start());
        end = found.end();
        let at = removed.text.len();
        let raw = found.as_str().to_owned();
        removed.inlines.push(Inline { at, raw, kind: InlineKind::Atom });
    }
    copy(&mut removed, end, text.len());
    removed
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
        assert_eq!(segment.inlines[3].kind, InlineKind::Atom);
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
    }

    #[test]
    fn placeholders_are_removed_with_their_white_space() {
        let sentence = without_markup("Hello {name}, you <b>have %d</b> mails");
        let removed = without_words(&sentence);
        assert_eq!(removed.text, "Hello , you have mails");
        let found: Vec<(usize, &str)> =
            removed.inlines.iter().map(|inline| (inline.at, &*inline.raw)).collect();
        assert_eq!(found, [(6, "{name}"), (12, "<b>"), (17, "%d"), (17, "</b>")]);
    }
}
