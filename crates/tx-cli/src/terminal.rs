//! Standard output and standard error that are safe to show on a terminal.
//!
//! Translations, tokens, file names and values in files are untrusted input. A terminal interprets
//! control characters in them: they move the cursor, change the title or reverse the direction of
//! the text. They are therefore written to a terminal as escapes; pipes and files receive every
//! byte. Writing to a closed standard output is an error.

use std::io::{self, IsTerminal, StderrLock, StdoutLock, Write};

use crate::closed_output;

/// Locks standard output.
pub fn stdout() -> Terminal<StdoutLock<'static>> {
    let inner = io::stdout().lock();
    Terminal { escapes: inner.is_terminal(), is_closed: closed_output::is_closed(), inner }
}

/// Locks standard error.
pub fn stderr() -> Terminal<StderrLock<'static>> {
    let inner = io::stderr().lock();
    Terminal { escapes: inner.is_terminal(), is_closed: false, inner }
}

/// Writer that escapes control characters if it is a terminal. Each write must end at a character
/// boundary, as those of `write!` do.
#[derive(Debug)]
pub struct Terminal<W> {
    inner: W,
    escapes: bool,
    is_closed: bool,
}

impl<W: Write> Write for Terminal<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_closed {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "standard output is closed"));
        }
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

/// Replaces characters that move the cursor, command a terminal or change the direction of text by
/// escapes.
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
    fn characters_that_a_terminal_interprets_are_escaped() {
        assert_eq!(printable("a\u{1b}[2J\u{202e} é"), "a\\u{1b}[2J\\u{202e} é");
        for letter in "\0\u{7}\r\n\u{7f}\u{85}\u{9b}\u{61c}\u{200e}\u{200f}".chars() {
            assert_eq!(printable(&letter.to_string()), letter.escape_unicode().to_string());
        }
        for letter in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            assert_eq!(printable(&letter.to_string()), letter.escape_unicode().to_string());
        }
        // Letters of any script, and the joiner inside an emoji.
        let text = "für 日本 שלום 👩\u{200d}🚀";
        assert_eq!(printable(text), text);
    }

    #[test]
    fn lines_and_columns_are_kept_and_pipes_receive_every_byte() {
        let text = "one\ttwo\u{1b}]0;title\u{7}\n\r\nthree";
        let written = |escapes| {
            let mut out = Terminal { inner: Vec::new(), escapes, is_closed: false };
            write!(out, "{text}").unwrap();
            String::from_utf8(out.inner).unwrap()
        };
        assert_eq!(written(false), text);
        assert_eq!(written(true), "one\ttwo\\u{1b}]0;title\\u{7}\n\\u{d}\nthree");
    }
}
