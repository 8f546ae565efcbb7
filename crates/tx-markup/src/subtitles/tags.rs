//! Tags of WebVTT as elements of HTML with numbers: `<v Ann>`, `<c.yellow>`, `<00:00:01.000>`.

use super::utterance::tag_length;

/// The tags of a text, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags(Vec<String>);

impl Tags {
    /// Replaces the tags of a text: an element by `<x-0>…</x-0>`, a time or an end tag without a start tag by
    /// `<x-1/>`.
    pub fn replace(text: &mut String) -> Self {
        let (mut tags, mut replaced, mut open) = (Self::default(), String::new(), Vec::new());
        let mut rest = text.as_str();
        while let Some(at) = rest.find('<') {
            let (before, tag) = rest.split_at(at);
            replaced.push_str(before);
            let Some(length) = tag_length(tag) else {
                replaced.push('<');
                rest = &tag[1..];
                continue;
            };
            let (tag, after) = tag.split_at(length);
            rest = after;
            let name = name(tag);
            // An end tag ends the innermost element only.
            if tag.starts_with("</")
                && let Some((_, number)) = open.pop_if(|(open, _)| *open == name)
            {
                replaced.push_str(&format!("</x-{number}>"));
                continue;
            }
            let number = tags.0.len();
            tags.0.push(tag.to_owned());
            if tag.starts_with("</") || name.starts_with(|c: char| c.is_ascii_digit()) {
                replaced.push_str(&format!("<x-{number}/>"));
            } else {
                open.push((name, number));
                replaced.push_str(&format!("<x-{number}>"));
            }
        }
        replaced.push_str(rest);
        *text = replaced;
        tags
    }

    /// Returns a text with its tags.
    pub fn restored(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        let mut restored = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('<') {
            let (before, tag) = rest.split_at(at);
            restored.push_str(before);
            // A `<` that begins no tag is followed by text.
            let length = tag[1..].find(['<', '>']).map_or(tag.len(), |end| end + 1);
            let length = length + usize::from(tag[length..].starts_with('>'));
            let (tag, after) = tag.split_at(length);
            rest = after;
            match self.original(tag) {
                Some(original) => restored.push_str(&original),
                None => restored.push_str(tag),
            }
        }
        restored.push_str(rest);
        restored
    }

    fn original(&self, tag: &str) -> Option<String> {
        let name = tag.strip_prefix('<')?.strip_suffix('>')?;
        let number = |name: &str| {
            let number: usize = name.strip_prefix("x-")?.parse().ok()?;
            self.0.get(number)
        };
        match name.strip_prefix('/') {
            Some(end) => Some(format!("</{}>", self::name(number(end)?))),
            None => number(name.strip_suffix('/').unwrap_or(name)).cloned(),
        }
    }
}

/// Name of a tag without its classes.
fn name(tag: &str) -> &str {
    let name = tag.trim_start_matches(['<', '/']);
    name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default()
}
