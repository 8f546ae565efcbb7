//! How far a long file is, where someone watches.

use std::{
    fmt,
    io::{IsTerminal, stderr, stdout},
    path::Path,
    time::Duration,
};

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use tx_infer::tx_data::source::local::Lines;

/// A line on standard error that counts lines. It shows only where standard error is a terminal and
/// standard output is none: on a terminal the translations themselves are the progress.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// For the lines of `file`, which are counted first, or of who knows how many.
    pub fn new(file: Option<&Path>, quiet: bool) -> Self {
        if quiet || !stderr().is_terminal() || stdout().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        // What cannot be read is reported when it is translated.
        let count = file.and_then(|path| Lines::open(path).ok()).map(|lines| lines.count() as u64);
        let bar = match count {
            Some(count) => ProgressBar::new(count).with_style(style(
                "{wide_bar} {human_pos} of {human_len} lines, {per_sec}, {left}",
            )),
            None => ProgressBar::new_spinner()
                .with_style(style("{spinner} {human_pos} lines, {per_sec}, {elapsed}")),
        };
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// So many more lines are done.
    pub fn advance(&self, lines: usize) {
        self.bar.inc(lines as u64);
    }

    /// Says something on standard error without breaking the line.
    pub fn suspend<T>(&self, say: impl FnOnce() -> T) -> T {
        self.bar.suspend(say)
    }
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
