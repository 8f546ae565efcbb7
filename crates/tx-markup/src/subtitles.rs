//! Subtitles in the formats SubRip (`.srt`) and WebVTT (`.vtt`).
//!
//! Files are read leniently, because many are not quite valid: cues without empty lines between them, empty
//! lines in cues, missing numbers. Only a line of times begins a cue. What is not the text of a cue is
//! copied byte by byte, so numbers, times, settings and line ends never change.

mod tags;
mod utterance;

#[cfg(test)]
mod tests;

use crate::markup::{Format, has_words};
use tags::Tags;
use utterance::Utterance;

/// Format of subtitles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubtitleFormat {
    /// SubRip: text with some tags, such as `<i>`.
    Srt,
    /// WebVTT: text with tags and character references, and blocks that are not cues.
    Vtt,
}

/// A file of subtitles.
#[derive(Debug, Clone)]
pub struct Subtitles {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    /// Lines that are copied.
    Raw(String),
    /// Lines of a cue that one person says.
    Utterance { utterance: Utterance, tags: Tags },
}

/// A line of a file.
#[derive(Debug, Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    /// Characters that end it, if it is not the last one.
    ending: &'a str,
}

impl Line<'_> {
    fn is_blank(self) -> bool {
        self.text.trim().is_empty()
    }
}

impl SubtitleFormat {
    /// Format of the texts.
    pub fn text_format(self) -> Format {
        match self {
            Self::Srt => Format::Text,
            Self::Vtt => Format::Html,
        }
    }

    /// Whether a line after an empty one begins a block that is not a cue.
    fn begins_block(self, line: &str) -> bool {
        let name = line.split([' ', '\t']).next().unwrap_or_default();
        self == Self::Vtt && ["NOTE", "STYLE", "REGION"].contains(&name)
    }
}

impl Subtitles {
    /// Reads subtitles.
    pub fn parse(file: &str, format: SubtitleFormat) -> Self {
        let lines: Vec<Line<'_>> = Lines(file).collect();
        let mut subtitles = Self { parts: Vec::new() };
        let mut cue = None;
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_timing(line.text)) {
            let before = identifier(&lines[..index], cue, format);
            match cue {
                Some(cue) => subtitles.cue(&lines[cue..before], format),
                None => subtitles.raw(&lines[..before]),
            }
            subtitles.raw(&lines[before..index]);
            subtitles.raw(&[*line]);
            cue = Some(index + 1);
        }
        match cue {
            Some(cue) => subtitles.cue(&lines[cue..], format),
            None => subtitles.raw(&lines),
        }
        subtitles
    }

    /// Adds lines that are copied.
    fn raw(&mut self, lines: &[Line<'_>]) {
        for line in lines {
            if !matches!(self.parts.last(), Some(Part::Raw(_))) {
                self.parts.push(Part::Raw(String::new()));
            }
            if let Some(Part::Raw(raw)) = self.parts.last_mut() {
                raw.push_str(line.text);
                raw.push_str(line.ending);
            }
        }
    }

    /// Adds the lines after the times of a cue.
    fn cue(&mut self, lines: &[Line<'_>], format: SubtitleFormat) {
        let mut is_block = false;
        let mut after_blank = false;
        let mut texts = lines;
        while let Some((line, rest)) = texts.split_first() {
            is_block &= !line.is_blank();
            is_block |= after_blank && format.begins_block(line.text);
            after_blank = line.is_blank();
            if is_block || after_blank {
                self.raw(&[*line]);
                texts = rest;
                continue;
            }
            let count = texts.iter().take_while(|line| !line.is_blank()).count();
            let (block, rest) = texts.split_at(count);
            for lines in utterance::divided(block) {
                self.utterance(lines, format);
            }
            texts = rest;
        }
    }

    fn utterance(&mut self, lines: &[Line<'_>], format: SubtitleFormat) {
        let mut utterance = Utterance::new(lines);
        if !has_words(&utterance.text) {
            return self.raw(lines);
        }
        let tags = match format {
            // Tags in plain text are kept anyway.
            SubtitleFormat::Srt => Tags::default(),
            SubtitleFormat::Vtt => Tags::replace(&mut utterance.text),
        };
        self.parts.push(Part::Utterance { utterance, tags });
    }

    /// Returns the texts of the cues, one for each utterance.
    pub fn texts(&self) -> Vec<String> {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Raw(_) => None,
            Part::Utterance { utterance, .. } => Some(utterance.text.clone()),
        });
        texts.collect()
    }

    /// Returns the file with these texts, each on as many lines as before.
    pub fn with_texts(&self, texts: &[String]) -> String {
        let mut texts = texts.iter();
        let mut file = String::new();
        for part in &self.parts {
            match part {
                Part::Raw(raw) => file.push_str(raw),
                Part::Utterance { utterance, tags } => {
                    // An empty line would end the cue.
                    let text = texts.next().filter(|text| !text.trim().is_empty());
                    utterance.write(&tags.restored(text.unwrap_or(&utterance.text)), &mut file);
                }
            }
        }
        file
    }
}

/// Returns the index of the number or identifier of a cue, whose times follow `lines`; their number if
/// there is none. `cue` is the first line of the cue before.
fn identifier(lines: &[Line<'_>], cue: Option<usize>, format: SubtitleFormat) -> usize {
    let first = cue.unwrap_or_default();
    let Some(last) = lines.iter().rposition(|line| !line.is_blank()).filter(|at| *at >= first)
    else {
        return lines.len();
    };
    if is_number(lines[last].text) {
        return last;
    }
    // Programs read lines between an empty one and the times as an identifier, or skip them.
    match lines[first..].iter().rposition(|line| line.is_blank()) {
        Some(blank) if format == SubtitleFormat::Vtt => first + blank + 1,
        Some(_) | None => lines.len(),
    }
}

/// Whether a line is the number of a cue.
fn is_number(line: &str) -> bool {
    let number = line.trim_start_matches('\u{feff}').trim();
    !number.is_empty() && number.chars().all(|c| c.is_ascii_digit())
}

/// Whether a line has the times of a cue: `00:00:01,000 --> 00:00:02,000`, also without hours, with other
/// separators, with settings after them, or with an arrow of one dash.
fn is_timing(line: &str) -> bool {
    let Some((from, to)) = line.split_once("->") else { return false };
    let is_long = from.ends_with('-');
    let is_time = |time: &str| {
        let time = time.trim_start_matches(['-', '+']);
        time.starts_with(|c: char| c.is_ascii_digit())
            && time.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | '.' | ','))
            && (time.contains(':') || is_long && time.contains(['.', ',']))
    };
    // Some programs write spaces inside of a time.
    let from: String = from.trim_start_matches('\u{feff}').split_whitespace().collect();
    let to = to.split_whitespace().next().unwrap_or_default();
    is_time(from.trim_end_matches('-')) && (to.is_empty() || is_time(to))
}

/// The lines of a file. A line ends at `\n`, `\r\n`, `\r\r\n` or `\r`.
struct Lines<'a>(&'a str);

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        let file = self.0;
        if file.is_empty() {
            return None;
        }
        let end = file.find(['\n', '\r']).unwrap_or(file.len());
        let (text, rest) = file.split_at(end);
        let endings = ["\r\r\n", "\r\n", "\r", "\n"];
        let ending = endings.into_iter().find(|ending| rest.starts_with(ending));
        let (ending, rest) = rest.split_at(ending.map_or(0, str::len));
        self.0 = rest;
        Some(Line { text, ending })
    }
}
