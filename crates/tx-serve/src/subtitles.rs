//! Subtitles in the SubRip format (`.srt`).

/// A file of subtitles: cues, and the lines between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subtitles {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// Number, time or empty line.
    Line(String),
    /// Text of a cue, whose lines are joined, and their number.
    Text { text: String, lines: usize },
}

impl Subtitles {
    /// Reads subtitles. Lines that are not part of a cue are kept as they are.
    pub fn parse(file: &str) -> Self {
        let mut parts = Vec::new();
        let mut cue: Option<Vec<&str>> = None;
        for line in file.trim_start_matches('\u{feff}').lines() {
            match &mut cue {
                Some(lines) if !line.trim().is_empty() => lines.push(line.trim()),
                _ => {
                    parts.extend(cue.take().and_then(text_of));
                    parts.push(Part::Line(line.to_owned()));
                    if line.contains("-->") {
                        cue = Some(Vec::new());
                    }
                }
            }
        }
        parts.extend(cue.and_then(text_of));
        Self { parts }
    }

    /// Returns the texts of the cues.
    pub fn texts(&self) -> Vec<String> {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Line(_) => None,
            Part::Text { text, .. } => Some(text.clone()),
        });
        texts.collect()
    }

    /// Returns the file with these texts, each on as many lines as before.
    pub fn with_texts(&self, texts: &[String]) -> String {
        let mut texts = texts.iter();
        let mut file = String::new();
        for part in &self.parts {
            match part {
                Part::Line(line) => file.push_str(line),
                Part::Text { text, lines } => {
                    file.push_str(&wrapped(texts.next().unwrap_or(text), *lines));
                }
            }
            file.push('\n');
        }
        file
    }
}

fn text_of(lines: Vec<&str>) -> Option<Part> {
    if lines.is_empty() {
        return None;
    }
    // Lines of a dialog stay separate.
    let is_dialog = lines.iter().filter(|line| line.starts_with('-')).count() > 1;
    let (separator, count) = if is_dialog { ("\n", 0) } else { (" ", lines.len()) };
    Some(Part::Text { text: lines.join(separator), lines: count })
}

/// Divides a text into lines of similar length; 0 keeps its lines.
fn wrapped(text: &str, lines: usize) -> String {
    if lines <= 1 {
        return text.to_owned();
    }
    let width = text.chars().count().div_ceil(lines);
    let (mut result, mut column, mut line) = (String::new(), 0, 1);
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > 0 && line < lines && column + length / 2 >= width {
            result.push('\n');
            (column, line) = (0, line + 1);
        } else if column > 0 {
            result.push(' ');
            column += 1;
        }
        result.push_str(word);
        column += length;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}This is a text\non two lines.\n\n2\n00:00:03,000 --> 00:00:04,000\n- Yes?\n- No.\n\n3\n00:00:05,000 --> 00:00:06,000\n";

    #[test]
    fn cues_are_read_and_written() {
        let file = Subtitles::parse(FILE);
        let texts = file.texts();
        assert_eq!(texts, ["{\\an8}This is a text on two lines.", "- Yes?\n- No."]);
        let balanced = FILE.replace("This is a text\non two", "This is a\ntext on two");
        assert_eq!(file.with_texts(&texts), balanced);
        assert_eq!(Subtitles::parse("\u{feff}no subtitles").with_texts(&[]), "no subtitles\n");
        assert_eq!(wrapped("aa bb cc dd", 2), "aa bb\ncc dd");
    }
}
