//! Line breaks of plain text.

/// Treatment of single line breaks in plain text. An empty line always ends a paragraph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineBreaks {
    /// A line break ends a sentence and is kept.
    #[default]
    Keep,
    /// The lines of a paragraph are joined, as in text that was wrapped at a fixed width.
    Join,
}

impl LineBreaks {
    /// Returns the text to translate.
    pub fn apply(self, text: &str) -> String {
        match self {
            Self::Keep => text.to_owned(),
            Self::Join => joined(text),
        }
    }
}

/// Joins the lines of each paragraph. Items of lists, quotations and indented lines begin a new line.
fn joined(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    // Start of the last line of the result: searching for it would be quadratic.
    let mut start = 0;
    for line in text.split('\n') {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if result.is_empty() {
            result.push_str(line);
            continue;
        }
        let before = &result[start..];
        if before.trim().is_empty() || line.trim().is_empty() || starts_line(line) {
            result.push('\n');
            start = result.len();
            result.push_str(line);
            continue;
        }
        let next = line.trim_start();
        let is_divided = before.ends_with('\u{ad}');
        result.truncate(result.trim_end().len());
        if is_divided {
            result.pop();
        } else if !result.ends_with('-') {
            // A hyphen at the end of a line belongs to a compound such as `well-known`.
            result.push(' ');
        }
        result.push_str(next);
    }
    result
}

/// Whether a line is not the continuation of the one before.
fn starts_line(line: &str) -> bool {
    let is_indented = line.starts_with([' ', '\t']);
    let mut rest = line.chars();
    let is_marked = rest.next().is_some_and(|c| "-*+•–>#|".contains(c))
        && rest.next().is_none_or(|c| !c.is_alphanumeric());
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_numbered = number.len() < line.len() && number.starts_with(['.', ')']) && {
        number[1..].starts_with(' ')
    };
    is_indented || is_marked || is_numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LibreTranslate#610.
    #[test]
    fn wrapped_lines_are_joined_on_request() {
        let text = "A text that was\r\nwrapped at a well-\nknown width.\n\nNew paragraph\nhere.\n- item one\n- item\n1. first\n  code";
        assert_eq!(
            LineBreaks::Join.apply(text),
            "A text that was wrapped at a well-known width.\n\nNew paragraph here.\n- item one\n- item\n1. first\n  code"
        );
        assert_eq!(LineBreaks::Keep.apply(text), text);
        for text in ["", "\n", "a\n\n\nb\n", "\u{ad}\n\u{ad}"] {
            assert!(LineBreaks::Join.apply(text).len() <= text.len() + 1);
        }
        assert_eq!(LineBreaks::Join.apply("Wör\u{ad}\nter"), "Wörter");
    }
}
