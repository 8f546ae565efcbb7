//! Lines of a text or an input, and their results in the same order.

use std::io::{self, Write};

use serde_json::Value;
use tx_cli::terminal::{printable, stderr, stdout};

use crate::{
    args::TranslateArgs,
    input::{Input, Window},
    progress::Progress,
    unknown_words::UnknownWords,
};

/// Lines of the input that are worked on, and the warnings about them.
pub struct Lines {
    input: Input,
    window: usize,
    quiet: bool,
    progress: Progress,
    unknown: UnknownWords,
}

impl Lines {
    /// Opens the text or the input of `args`.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened.
    pub fn open(args: &TranslateArgs) -> anyhow::Result<Self> {
        let (invalid, window) = (args.invalid.into(), args.batch_size.get());
        let progress = Progress::new(args.input.as_deref(), args.quiet);
        let input = match (&args.text, &args.input) {
            (Some(text), _) => Input::text(text.clone()),
            (None, Some(path)) => Input::file(path, invalid)?,
            (None, None) => Input::standard(invalid, window),
        };
        Ok(Self { input, window, quiet: args.quiet, progress, unknown: UnknownWords::default() })
    }

    /// Passes the lines to `work` in groups, each with the number of its first line, from 0.
    ///
    /// # Errors
    ///
    /// The first error of the input or of `work`.
    pub fn each_window(
        mut self,
        mut work: impl FnMut(&mut Report<'_>, &[String], u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut first = 0;
        loop {
            let Window { lines, end } = self.input.window(self.window);
            self.progress.read(self.input.bytes_read(), lines.iter().map(String::as_str));
            let (quiet, progress) = (self.quiet, &self.progress);
            let mut report = Report { quiet, progress, unknown: &mut self.unknown };
            work(&mut report, &lines, first)?;
            first += lines.len() as u64;
            if let Some(end) = end {
                if let Some(summary) = self.unknown.summary().filter(|_| !self.quiet) {
                    self.progress
                        .suspend(|| writeln!(stderr(), "warning: unknown words: {summary}"))?;
                }
                return Ok(end?);
            }
        }
    }
}

/// Progress and warnings.
pub struct Report<'a> {
    quiet: bool,
    progress: &'a Progress,
    unknown: &'a mut UnknownWords,
}

impl Report<'_> {
    /// Adds lines that are done.
    pub fn advance(&self, lines: &[String]) {
        self.progress.advance(lines.iter().map(String::as_str));
    }

    /// Warns that line `line`, from 1, was truncated to `max_len` tokens.
    pub fn truncated(&self, line: u64, max_len: usize) -> io::Result<()> {
        self.warn(format_args!(
            "line {line} was truncated to {max_len} tokens, the maximum of this model"
        ))
    }

    /// Warns about the unknown words of line `line`, from 1.
    pub fn unknown(&mut self, line: u64, words: &[String]) -> io::Result<()> {
        match self.unknown.add(words) {
            Some(words) => {
                self.warn(format_args!("unknown words in line {line}, read as <unk>: {words}"))
            }
            None => Ok(()),
        }
    }

    fn warn(&self, warning: std::fmt::Arguments<'_>) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        self.progress.suspend(|| writeln!(stderr(), "warning: {warning}"))
    }
}

/// Adds the number of a line, from 1, and its text under `key` to a result.
pub fn of_line(mut result: Value, number: u64, key: &str, text: &str) -> Value {
    result["line"] = number.into();
    result[key] = text.into();
    result
}

/// Writes fields separated by tabs as a line. Control characters in them are escaped.
pub fn write_fields(out: &mut impl Write, fields: &[String]) -> io::Result<()> {
    let fields: Vec<String> = fields.iter().map(|field| printable(field)).collect();
    writeln!(out, "{}", fields.join("\t"))
}

/// Writes `lines` to standard output at once.
pub fn write_lines<T>(
    results: &[T],
    mut write: impl FnMut(&mut dyn Write, &T) -> io::Result<()>,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(stdout());
    results.iter().try_for_each(|result| write(&mut out, result))?;
    out.flush()
}
