//! Progress of a long file, shown at a terminal.

use std::{
    fmt, fs,
    io::{IsTerminal, stderr, stdout},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// A line on standard error with the number of lines done. It shows only where standard error is a
/// terminal and standard output is none: on a terminal the translations themselves are the progress.
pub struct Progress {
    bar: ProgressBar,
    counts: Mutex<Counts>,
}

/// Amounts read and translated so far.
#[derive(Default)]
struct Counts {
    /// Bytes of the input file that have been read, compressed where the file is.
    file: u64,
    /// Bytes of text that they gave.
    read: u64,
    /// Bytes of that text that are done.
    done: u64,
    lines: u64,
}

impl Counts {
    /// Bytes of the file that are done: compression is taken as even.
    fn position(&self) -> u64 {
        let share = self.done as f64 / self.read.max(1) as f64;
        (self.file as f64 * share) as u64
    }
}

impl Progress {
    /// For the lines of `file`, or of an input of unknown length. Nothing is read: a pipe can be read
    /// only once.
    pub fn new(file: Option<&Path>, quiet: bool) -> Self {
        if quiet || !stderr().is_terminal() || stdout().is_terminal() {
            return Self { bar: ProgressBar::hidden(), counts: Mutex::default() };
        }
        let bar = match file.and_then(size) {
            Some(size) => {
                ProgressBar::new(size).with_style(style("{wide_bar} {percent} %, {msg}, {left}"))
            }
            None => ProgressBar::new_spinner().with_style(style("{spinner} {msg}, {elapsed}")),
        };
        bar.set_message("0 lines");
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, counts: Mutex::default() }
    }

    /// Lines have been read, up to so many bytes of the file.
    pub fn read<'a>(&self, file: u64, lines: impl IntoIterator<Item = &'a str>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.file = file;
        counts.read += lines.into_iter().map(bytes).sum::<u64>();
    }

    /// More lines are done.
    pub fn advance<'a>(&self, lines: impl IntoIterator<Item = &'a str>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines {
            counts.done += bytes(line);
            counts.lines += 1;
        }
        self.bar.set_position(counts.position());
        self.bar.set_message(format!("{} lines", HumanCount(counts.lines)));
    }

    /// Writes to standard error without breaking the line.
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

/// Bytes of a line with its end.
fn bytes(line: &str) -> u64 {
    line.len() as u64 + 1
}

/// The size of a regular file; none of a pipe, or of what cannot be read, which is reported later.
fn size(path: &Path) -> Option<u64> {
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    // Nothing is known of the time left before the first lines are done.
    let left = |state: &ProgressState, text: &mut dyn fmt::Write| {
        // Writing to a string cannot fail.
        let _ = match state.pos() {
            0 => text.write_str("starting"),
            _ => write!(text, "{} left", HumanDuration(state.eta())),
        };
    };
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key("left", left)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 20 bytes of a compressed file, which gave 80 bytes of text, a quarter is done, then all.
    #[test]
    fn the_position_is_the_share_of_the_text_that_is_done() {
        let progress = Progress::new(None, true);
        let position = || progress.counts.lock().unwrap().position();
        assert_eq!(position(), 0);
        let line = "x".repeat(19);
        progress.read(20, [&*line; 4]);
        progress.advance([&*line]);
        assert_eq!(position(), 5);
        progress.advance([&*line; 3]);
        assert_eq!(position(), 20);
    }
}
