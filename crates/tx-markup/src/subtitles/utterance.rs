//! Lines of a cue that one person says, and their layout.

use super::{Line, is_number, is_timing};

/// Maximum number of characters of the name of a speaker.
const NAME: usize = 30;

/// Text of one or more lines, and what is around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Utterance {
    /// The text, whose lines are joined.
    pub text: String,
    /// Beginning of the line before the text: a dash, a note, white space.
    prefix: String,
    /// Rest of the line after the text, without the end of the line.
    suffix: String,
    /// Ends of the lines.
    endings: Vec<String>,
}

impl Utterance {
    /// Joins lines, of which there is at least one.
    pub fn new(lines: &[Line<'_>]) -> Self {
        let text: Vec<&str> = lines.iter().map(|line| line.text.trim()).collect();
        let first = lines.first().map_or("", |line| line.text);
        let last = lines.last().map_or("", |line| line.text);
        let text = text.join(" ");
        let start = mark(&text);
        let end = text.trim_end_matches(|c: char| is_note(c) || c.is_whitespace()).len().max(start);
        let indent = &first[..first.len() - first.trim_start().len()];
        let space = &last[last.trim_end().len()..];
        Self {
            prefix: [indent, &text[..start]].concat(),
            suffix: [&text[end..], space].concat(),
            text: text[start..end].to_owned(),
            endings: lines.iter().map(|line| line.ending.to_owned()).collect(),
        }
    }

    /// Writes the lines with another text.
    pub fn write(&self, text: &str, file: &mut String) {
        let Some((last, others)) = self.endings.split_last() else { return };
        let mut endings = others.iter();
        let lines = self.wrapped(text.trim());
        for (index, line) in lines.iter().enumerate() {
            if index > 0 {
                file.push_str(endings.next().map_or("\n", String::as_str));
            }
            let prefix = if index == 0 { &self.prefix } else { "" };
            let suffix = if index + 1 == lines.len() { &self.suffix } else { "" };
            let line = [prefix, line, suffix].concat();
            // A program would read such a line as the times of another cue.
            let is_timing = is_timing(&line);
            file.push_str(&if is_timing {
                line.replace("-->", "→").replace("->", "→")
            } else {
                line
            });
        }
        file.push_str(last);
    }

    /// Divides a text into lines of similar length, at most as many as before. A line ends at a single space, so
    /// that reading the lines again joins them to the same text, and only where the next line does not read as
    /// the beginning of another utterance or cue.
    fn wrapped<'a>(&self, text: &'a str) -> Vec<&'a str> {
        let words = words(text);
        let total: usize = words.iter().map(|(_, length)| length + 1).sum();
        let width = total.saturating_sub(1).div_ceil(self.endings.len().max(1));
        let whole = [&self.prefix, text, &self.suffix].concat();
        let last = whole.trim_end().chars().next_back();
        let mut bracket = closing_bracket(&whole);
        let (mut result, mut start, mut column, mut end) = (Vec::new(), 0, 0, 0);
        for (next, length) in words {
            let is_full =
                column > 0 && result.len() + 1 < self.endings.len() && column + length / 2 >= width;
            let (before, after) = text.split_at(end);
            // Neither line may be a description.
            let may_end = |bracket: char| !before.ends_with(bracket);
            let may_follow = |bracket| Some(bracket) != last;
            if is_full
                && bracket.is_none_or(may_end)
                && closing_bracket(after).is_none_or(may_follow)
                && !begins(after)
            {
                result.push(text[start..end].trim());
                (start, column) = (end, 0);
                bracket = closing_bracket(after);
            }
            column += length + usize::from(column > 0);
            end = next;
        }
        result.push(text[start..].trim());
        result
    }
}

/// Divides the lines of a cue into utterances. One begins at a dash of a dialog, at `>>`, at the name of a
/// speaker or a voice tag, at a note of music, and before and after a description in brackets.
pub fn divided<'l, 'a>(lines: &'l [Line<'a>]) -> impl Iterator<Item = &'l [Line<'a>]> {
    let dashes = lines.iter().filter(|line| dash(line.text).is_some()).count();
    lines.chunk_by(move |before, line| {
        // A single dash before a word in lower case continues the sentence, as does one without a word.
        let is_beginning = |c: char| !c.is_lowercase();
        let is_dialog = dash(line.text)
            .is_some_and(|rest| dashes > 1 || rest.trim_start().starts_with(is_beginning));
        !(is_dialog
            || is_speaker(line.text)
            || without_tags(line.text).starts_with(is_note)
            || is_description(line.text)
            || is_description(before.text))
    })
}

/// Whether a line in an utterance could be read as the beginning of another one, or as the number of a cue.
fn begins(line: &str) -> bool {
    dash(line).is_some()
        || without_tags(line).starts_with(is_note)
        || is_speaker(line)
        || is_number(line)
}

/// Returns the text after the dash or arrows of a dialog.
fn dash(line: &str) -> Option<&str> {
    let line = without_tags(line);
    let rest = line.trim_start_matches(is_dash);
    if rest.len() < line.len() {
        return Some(rest);
    }
    line.strip_prefix(">>").or_else(|| line.strip_prefix("&gt;&gt;"))
}

/// Length of what stands before the text of an utterance: a dash, a note or the name of a speaker, with the
/// tags before it.
fn mark(text: &str) -> usize {
    let rest = without_tags(text);
    let after = dash(text).map_or(rest, |after| after.trim_start_matches('>'));
    let after = after.trim_start_matches(|c| is_note(c) || c.is_whitespace());
    let after = named(after).map_or(after, str::trim_start);
    // Tags alone belong to the text.
    if after.len() == rest.len() { 0 } else { text.len() - after.len() }
}

/// The line without the tags at its begin.
fn without_tags(line: &str) -> &str {
    let mut line = line.trim_start();
    while let Some(length) = tag_length(line) {
        line = line[length..].trim_start();
    }
    line
}

/// Length of the tag at the begin of a text: `<i>`, `</i>`, `<00:01.000>`, `{\\an8}`.
pub fn tag_length(text: &str) -> Option<usize> {
    let (tag, end) = match text.strip_prefix("{\\") {
        Some(tag) => (tag, '}'),
        None => {
            let tag = text.strip_prefix('<')?;
            let name = tag.strip_prefix('/').unwrap_or(tag);
            (Some(tag).filter(|_| name.starts_with(|c: char| c.is_ascii_alphanumeric()))?, '>')
        }
    };
    let length = tag.find(['<', '>', '{', '}']).filter(|at| tag[*at..].starts_with(end))?;
    Some(text.len() - tag.len() + length + 1)
}

/// Whether a line begins with a voice tag, or a name in capital letters and a colon.
fn is_speaker(line: &str) -> bool {
    let line = line.trim_start();
    let is_voice = ["<v ", "<v."].iter().any(|tag| line.starts_with(tag));
    is_voice && tag_length(line).is_some() || named(without_tags(line)).is_some()
}

/// Returns the text after a name in capital letters and a colon.
fn named(line: &str) -> Option<&str> {
    // The line may be the rest of a long text.
    let end = line.char_indices().nth(NAME + 1).map_or(line.len(), |(at, _)| at);
    let (name, _) = line[..end].split_once(':')?;
    let is_name = |c: char| c.is_uppercase() || c.is_numeric() || " .'’-".contains(c);
    let is_named =
        name.chars().filter(|c| c.is_uppercase()).count() > 1 && name.chars().all(is_name);
    is_named.then(|| &line[name.len() + 1..])
}

/// Whether a line is a description of a sound, in brackets.
fn is_description(line: &str) -> bool {
    closing_bracket(line).is_some_and(|bracket| line.trim_end().ends_with(bracket))
}

/// Returns the bracket that closes the one at the beginning of a line.
fn closing_bracket(line: &str) -> Option<char> {
    match without_tags(line).chars().next()? {
        '[' => Some(']'),
        '(' => Some(')'),
        _ => None,
    }
}

fn is_dash(c: char) -> bool {
    matches!(c, '-' | '‐' | '‑' | '‒' | '–' | '—' | '―' | '−')
}

fn is_note(c: char) -> bool {
    matches!(c, '♩' | '♪' | '♫' | '♬' | '#' | '¶')
}

/// The end of each word and its length in characters. A space inside of a tag, or beside another space, is
/// part of a word. Tags have no length.
fn words(text: &str) -> Vec<(usize, usize)> {
    let (mut words, mut at, mut length) = (Vec::new(), 0, 0);
    while let Some(c) = text[at..].chars().next() {
        if let Some(tag) = tag_length(&text[at..]) {
            at += tag;
            continue;
        }
        let is_between = |other: Option<char>| other.is_some_and(|c| !c.is_whitespace());
        let (before, after) = (&text[..at], &text[at + c.len_utf8()..]);
        if c == ' '
            && length > 0
            && is_between(before.chars().next_back())
            && is_between(after.chars().next())
        {
            words.push((at, length));
            length = 0;
        } else if !c.is_whitespace() {
            length += 1;
        }
        at += c.len_utf8();
    }
    words.push((text.len(), length));
    words
}
