//! Progress of a run on standard error: a live line on a terminal, plain lines in a log.

use std::{
    collections::VecDeque,
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

use indicatif::{
    FormattedDuration, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};

use crate::{config::Budget, task::StepOutput, validation_report::ValidationReport};

/// Number of updates over which the displayed loss and speed are averaged.
const RECENT: usize = 50;
/// Time between two lines of a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Display of the progress of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProgressMode {
    /// A live line on a terminal, plain lines in a log.
    #[default]
    Lines,
    /// Burn's dashboard; the lines follow once it has closed.
    Dashboard,
    /// No output.
    Quiet,
}

/// Progress of a run.
pub(crate) struct Progress {
    budget: Budget,
    /// Progress bar; `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    mode: ProgressMode,
    /// Lines to print once the dashboard has closed.
    deferred: Vec<String>,
    last_line: Instant,
    epoch: usize,
    /// Updates of the epoch.
    updates: usize,
    /// Last updates, each with its seconds.
    recent: VecDeque<(StepOutput, f64)>,
    validation_seconds: f64,
}

impl Progress {
    /// Starts without output.
    pub fn new(budget: Budget, mode: ProgressMode) -> Self {
        let bar = (mode == ProgressMode::Lines && stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(budget.batches as u64),
                ProgressDrawTarget::stderr_with_hz(8),
            );
            // The template is constant, so it is always valid.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            budget,
            bar,
            mode,
            deferred: Vec::new(),
            last_line: Instant::now(),
            epoch: 0,
            updates: 0,
            recent: VecDeque::with_capacity(RECENT),
            validation_seconds: 0.0,
        }
    }

    /// Prints a line of text, above the live line if there is one.
    pub fn line(&mut self, text: &str) {
        match (&self.bar, self.mode) {
            (Some(bar), _) => bar.println(text),
            (None, ProgressMode::Lines) => print(text),
            (None, ProgressMode::Dashboard) => self.deferred.push(text.into()),
            (None, ProgressMode::Quiet) => {}
        }
    }

    /// Starts an epoch, or resumes one of which `updates` are already made.
    pub fn start_epoch(&mut self, epoch: usize, updates: usize) {
        (self.epoch, self.updates) = (epoch, updates);
        if let Some(bar) = &self.bar {
            bar.set_length(self.budget.batches as u64);
            bar.set_position(updates as u64);
            bar.set_prefix(format!("epoch {epoch}/{}", self.budget.epochs));
        }
    }

    /// Reports update `step`, which took `took` seconds, after `seconds` of the run.
    pub fn update(&mut self, output: StepOutput, step: usize, seconds: f64, took: f64) {
        self.updates += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((output, took));
        if let Some(bar) = &self.bar {
            bar.set_position(self.updates as u64);
            bar.set_message(self.message(step, seconds));
        } else if self.mode == ProgressMode::Lines && self.last_line.elapsed() >= LOG_INTERVAL {
            self.last_line = Instant::now();
            let percent = 100 * self.updates / self.budget.batches.max(1);
            self.line(&format!(
                "epoch {}/{}  {percent:>3} %  step {step}  {}",
                self.epoch,
                self.budget.epochs,
                self.message(step, seconds)
            ));
        }
    }

    /// Loss, accuracy, speed and time left.
    fn message(&self, step: usize, seconds: f64) -> String {
        let mut sum = StepOutput::default();
        let mut took = 0.0;
        for (output, seconds) in &self.recent {
            sum.add(output);
            took += seconds;
        }
        let per_step = took / self.recent.len().max(1) as f64;
        let left = self.budget.seconds_left(step, seconds, per_step, self.validation_seconds);
        format!(
            "loss {:.3}  accuracy {:.1} %  {} tokens/s  {} left",
            sum.loss(),
            100.0 * sum.accuracy(),
            thousands(sum.target_tokens as f64 / took.max(1e-9)),
            HumanDuration(duration(left))
        )
    }

    /// Reports a validation after `step` updates and `seconds` of the run.
    pub fn validation<R: ValidationReport>(
        &mut self,
        (epoch, step, seconds): (usize, usize, f64),
        report: &R,
        is_best: bool,
    ) {
        self.validation_seconds = report.seconds();
        let best = if is_best { "  (best so far)" } else { "" };
        self.line(&format!(
            "epoch {epoch}  step {step}  {}  validation: {}{best}",
            clock(seconds),
            report.summary()
        ));
        for part in report.part_lines() {
            self.line(&format!("    {part}"));
        }
        for sample in report.sample_lines() {
            self.line(&format!("    {sample}"));
        }
        self.last_line = Instant::now();
    }

    /// Removes the live line, and returns the lines to print once the dashboard has closed.
    pub fn finish(self) -> Vec<String> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.deferred
    }
}

/// Prints a line of text. Errors are ignored, because a closed standard error is no reason to end a
/// run.
pub(crate) fn print(line: &str) {
    drop(writeln!(stderr(), "{line}"));
}

/// Formats seconds as `01:02:03`.
pub fn clock(seconds: f64) -> FormattedDuration {
    FormattedDuration(duration(seconds))
}

/// Formats a number as `12,345`.
pub fn thousands(number: f64) -> HumanCount {
    HumanCount(number.round() as u64)
}

/// Rounds to whole seconds; 0 for negative and other invalid times.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.round()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_are_formatted() {
        assert_eq!(clock(59.6).to_string(), "00:01:00");
        assert_eq!(clock(3_723.0).to_string(), "01:02:03");
        assert_eq!(clock(-1.0).to_string(), "00:00:00");
        assert_eq!(clock(f64::NAN).to_string(), "00:00:00");
        assert_eq!(thousands(999.4).to_string(), "999");
        assert_eq!(thousands(1_234_567.0).to_string(), "1,234,567");
    }
}
