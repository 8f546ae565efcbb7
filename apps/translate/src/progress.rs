//! Progress of a long input, shown on a terminal.

use std::{
    fmt, fs,
    io::{IsTerminal, stderr, stdout},
    path::Path,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use indicatif::{HumanCount, HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// Progress bar on standard error with the number of translated lines. It is visible only if standard
/// error is a terminal and standard output is not, because translations on a terminal show the progress
/// themselves.
pub struct Progress {
    bar: ProgressBar,
    counts: Mutex<Counts>,
}

/// Amounts read and translated.
#[derive(Default)]
struct Counts {
    /// Bytes read from the input file, before decompression.
    file: u64,
    /// Bytes of text read, after decompression.
    read: u64,
    /// Bytes of text translated.
    done: u64,
    lines: u64,
}

impl Counts {
    /// Translated bytes of the file, under the assumption that the compression ratio is constant.
    fn position(&self) -> u64 {
        let fraction = self.done as f64 / self.read.max(1) as f64;
        (self.file as f64 * fraction) as u64
    }
}

impl Progress {
    /// Starts the progress of `file`, or of an input of unknown length. The lines of `file` are not
    /// counted, because it may be a pipe, which can be read only once.
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

    /// Adds lines that were read, up to byte `file` of the file.
    pub fn read<'a>(&self, file: u64, lines: impl IntoIterator<Item = &'a str>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.file = file;
        counts.read += lines.into_iter().map(bytes).sum::<u64>();
    }

    /// Adds lines that were translated.
    pub fn advance<'a>(&self, lines: impl IntoIterator<Item = &'a str>) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for line in lines {
            counts.done += bytes(line);
            counts.lines += 1;
        }
        self.bar.set_position(counts.position());
        self.bar.set_message(format!("{} lines", HumanCount(counts.lines)));
    }

    /// Hides the bar while `write` writes to standard error.
    pub fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

/// Bytes of a line including its end.
fn bytes(line: &str) -> u64 {
    line.len() as u64 + 1
}

/// Returns the size of a regular file; none for a pipe or an unreadable file, which is reported later.
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
    // The remaining time is unknown until the first lines are translated.
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

    /// 20 bytes of a compressed file decompress to 80 bytes of text, of which a quarter is translated,
    /// then all.
    #[test]
    fn the_position_follows_the_fraction_of_translated_text() {
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
