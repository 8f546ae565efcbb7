//! Standard output and standard error, made safe for terminals.
//!
//! Translations, tokens, names of files and values in them come from strangers. A terminal obeys control
//! characters among them: it would move the cursor, change its title or turn the direction of the text.
//! On a terminal they show as escapes; in pipes and files nothing changes.

use std::io::{self, IsTerminal, StderrLock, StdoutLock, Write};

/// Standard output.
pub fn stdout() -> Terminal<StdoutLock<'static>> {
    let inner = io::stdout().lock();
    Terminal { escapes: inner.is_terminal(), inner }
}

/// Standard error.
pub fn stderr() -> Terminal<StderrLock<'static>> {
    let inner = io::stderr().lock();
    Terminal { escapes: inner.is_terminal(), inner }
}

/// A writer that shows control characters as escapes where it is a terminal. Text must come in whole
/// characters, as from `write!`.
pub struct Terminal<W> {
    inner: W,
    escapes: bool,
}

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.escapes {
            return self.inner.write(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split_inclusive(['\n', '\t']);
        lines.try_for_each(|line| {
            let shown = line.strip_suffix(['\n', '\t']).unwrap_or(line);
            self.inner.write_all(printable(shown).as_bytes())?;
            self.inner.write_all(&line.as_bytes()[shown.len()..])
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// `text` with escapes for characters that move the cursor, command a terminal, or change the direction
/// of text.
pub fn printable(text: &str) -> String {
    let is_hidden = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(letter, '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .flat_map(|letter| match letter {
            letter if is_hidden(letter) => letter.escape_unicode().collect(),
            letter => vec![letter],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_obeys_show_as_escapes() {
        assert_eq!(printable("a\u{1b}[2J\u{202e} é"), "a\\u{1b}[2J\\u{202e} é");
        for letter in "\0\u{7}\r\n\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}".chars() {
            assert_eq!(printable(&letter.to_string()), letter.escape_unicode().to_string());
        }
        for letter in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            assert_eq!(printable(&letter.to_string()), letter.escape_unicode().to_string());
        }
        // Letters of any script, and what joins an emoji.
        let text = "für 日本 שלום 👩\u{200d}🚀";
        assert_eq!(printable(text), text);
    }

    #[test]
    fn lines_and_columns_stay_and_pipes_get_every_byte() {
        let text = "one\ttwo\u{1b}]0;title\u{7}\n\r\nthree";
        let written = |escapes| {
            let mut out = Terminal { inner: Vec::new(), escapes };
            write!(out, "{text}").unwrap();
            String::from_utf8(out.inner).unwrap()
        };
        assert_eq!(written(false), text);
        assert_eq!(written(true), "one\ttwo\\u{1b}]0;title\\u{7}\n\\u{d}\nthree");
    }
}
