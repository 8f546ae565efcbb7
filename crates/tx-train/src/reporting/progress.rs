//! What a person sees while a model trains: one live line on a terminal, plain lines in a log.
//!
//! Everything goes to standard error.

use std::{
    collections::VecDeque,
    io::{IsTerminal, Write, stderr},
    time::{Duration, Instant},
};

use indicatif::{
    FormattedDuration, HumanCount, HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle,
};

use crate::{
    config::TrainConfig, training::gradients::StepOutput, translation::sample::Sample,
    translation::validation::Validation,
};

/// Updates that the shown loss and speed are taken over.
const RECENT: usize = 50;
/// Between two lines of a log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Shows where a run stands.
pub struct Progress {
    budget: Budget,
    /// None when standard error is no terminal.
    bar: Option<ProgressBar>,
    show: Show,
    /// Lines that wait for the dashboard to close.
    held: Vec<String>,
    last_line: Instant,
    epoch: usize,
    done: usize,
    /// The last few updates and the seconds that each took.
    recent: VecDeque<(StepOutput, f64)>,
    validation_seconds: f64,
}

/// What a person sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Show {
    /// One live line on a terminal, plain lines in a log.
    #[default]
    Lines,
    /// Burn's dashboard, and the lines once it has closed.
    Dashboard,
    /// Nothing.
    Nothing,
}

/// When a run ends: whatever comes first.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Passes over the data.
    pub epochs: usize,
    /// Updates in an epoch.
    pub batches: usize,
    /// Updates from one validation to the next.
    pub steps_per_validation: usize,
    /// Updates in all.
    pub max_steps: Option<usize>,
    /// Seconds in all.
    pub max_seconds: Option<f64>,
}

impl Budget {
    /// The budget of `config` with epochs of `batches` updates.
    pub fn new(config: &TrainConfig, batches: usize) -> Self {
        let epochs = batches.saturating_mul(config.validation.every_epochs);
        Self {
            epochs: config.train.epochs,
            batches,
            steps_per_validation: config.validation.every_steps.unwrap_or(epochs).min(epochs),
            max_steps: config.train.max_steps,
            max_seconds: config.train.max_minutes.map(|minutes| minutes * 60.0),
        }
    }

    /// Updates, if time suffices.
    pub fn steps(&self) -> usize {
        self.epochs.saturating_mul(self.batches).min(self.max_steps.unwrap_or(usize::MAX))
    }

    /// Whether no further update may be made. Epochs are counted as such, not as updates: with
    /// batches of random sentences one may have more than another.
    pub fn is_spent(&self, step: usize, seconds: f64) -> bool {
        self.max_steps.is_some_and(|limit| step >= limit)
            || self.max_seconds.is_some_and(|limit| seconds >= limit)
    }

    /// Seconds still to go after `step` updates and `seconds`.
    fn left(&self, step: usize, seconds: f64, per_step: f64, per_validation: f64) -> f64 {
        let steps = self.steps().saturating_sub(step);
        let validations = steps.div_ceil(self.steps_per_validation.max(1));
        let work = steps as f64 * per_step + validations as f64 * per_validation;
        match self.max_seconds {
            Some(limit) => work.min((limit - seconds).max(0.0) + per_validation),
            None => work,
        }
    }
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new(budget: Budget, show: Show) -> Self {
        let bar = (show == Show::Lines && stderr().is_terminal()).then(|| {
            let bar = ProgressBar::with_draw_target(
                Some(budget.batches as u64),
                ProgressDrawTarget::stderr_with_hz(8),
            );
            // The template is fixed, so it cannot be wrong.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            budget,
            bar,
            show,
            held: Vec::new(),
            last_line: Instant::now(),
            epoch: 0,
            done: 0,
            recent: VecDeque::with_capacity(RECENT),
            validation_seconds: 0.0,
        }
    }

    /// Shows a line of text above the live line.
    pub fn say(&mut self, line: &str) {
        match (&self.bar, self.show) {
            (Some(bar), _) => bar.println(line),
            (None, Show::Lines) => print(line),
            (None, Show::Dashboard) => self.held.push(line.into()),
            (None, Show::Nothing) => {}
        }
    }

    /// A new epoch begins, or one goes on of which `done` updates are made.
    pub fn start_epoch(&mut self, epoch: usize, done: usize) {
        (self.epoch, self.done) = (epoch, done);
        if let Some(bar) = &self.bar {
            bar.set_length(self.budget.batches as u64);
            bar.set_position(done as u64);
            bar.set_prefix(format!("epoch {epoch}/{}", self.budget.epochs));
        }
    }

    /// An update was made: number `step`, after `seconds` of the run, taking `took` seconds.
    pub fn step(&mut self, output: StepOutput, step: usize, seconds: f64, took: f64) {
        self.done += 1;
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back((output, took));
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
            bar.set_message(self.message(step, seconds));
        } else if self.show == Show::Lines && self.last_line.elapsed() >= LOG_INTERVAL {
            self.last_line = Instant::now();
            let percent = 100 * self.done / self.budget.batches.max(1);
            self.say(&format!(
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
        let left = self.budget.left(step, seconds, per_step, self.validation_seconds);
        format!(
            "loss {:.3}  accuracy {:.1} %  {} tokens/s  {} left",
            sum.loss(),
            100.0 * sum.accuracy(),
            thousands(sum.target_tokens as f64 / took.max(1e-9)),
            HumanDuration(duration(left))
        )
    }

    /// A model was validated: that of update `step` in `epoch`, after `seconds` of the run.
    pub fn validated(
        &mut self,
        (epoch, step, seconds): (usize, usize, f64),
        found: &Validation,
        best: bool,
    ) {
        self.validation_seconds = found.seconds;
        self.say(&format!(
            "epoch {epoch}  step {step}  {}  validation: loss {:.4}  perplexity {:.3}  accuracy {:.2} %  \
             BLEU {:.2}  chrF {:.2}  exact {:.2} %{}",
            clock(seconds),
            found.loss,
            found.perplexity(),
            100.0 * found.accuracy,
            found.bleu,
            found.chrf,
            found.exact_match,
            if best { "  (best so far)" } else { "" }
        ));
        for Sample { source, reference, hypothesis, .. } in &found.samples {
            self.say(&format!("    source      {source}"));
            self.say(&format!("    reference   {reference}"));
            self.say(&format!("    hypothesis  {hypothesis}"));
        }
        self.last_line = Instant::now();
    }

    /// Takes the live line away; gives the lines that are to be shown once the dashboard is gone.
    pub fn finish(self) -> Vec<String> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.held
    }
}

/// Shows a line of text.
pub(crate) fn print(line: &str) {
    // Nobody to tell that nobody listens.
    drop(writeln!(stderr(), "{line}"));
}

/// `01:02:03`
pub fn clock(seconds: f64) -> FormattedDuration {
    FormattedDuration(duration(seconds))
}

/// `12,345`
pub fn thousands(number: f64) -> HumanCount {
    HumanCount(number.round() as u64)
}

/// Whole seconds; none for what is no time.
fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.round()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(clock(59.6).to_string(), "00:01:00");
        assert_eq!(clock(3_723.0).to_string(), "01:02:03");
        assert_eq!(clock(-1.0).to_string(), "00:00:00");
        assert_eq!(clock(f64::NAN).to_string(), "00:00:00");
        assert_eq!(thousands(999.4).to_string(), "999");
        assert_eq!(thousands(1_234_567.0).to_string(), "1,234,567");
    }

    /// "No limit", written as the largest number.
    #[test]
    fn a_budget_without_a_limit_does_not_overflow() {
        let mut config = TrainConfig::default();
        config.train.epochs = usize::MAX;
        config.validation.every_epochs = usize::MAX;
        let budget = Budget::new(&config, 100);
        assert_eq!((budget.steps(), budget.steps_per_validation), (usize::MAX, usize::MAX));
        assert!(budget.left(20, 10.0, 0.5, 4.0).is_finite());
    }

    /// 3 epochs of 100 updates; 20 are done; 0.5 s each, and 4 s a validation.
    #[test]
    fn time_left_is_that_of_the_budget_that_ends_first() {
        let budget = Budget {
            epochs: 3,
            batches: 100,
            steps_per_validation: 100,
            max_steps: None,
            max_seconds: None,
        };
        assert_eq!(budget.left(20, 10.0, 0.5, 4.0), 280.0 * 0.5 + 3.0 * 4.0);
        let steps = Budget { max_steps: Some(60), ..budget };
        assert_eq!(steps.left(20, 10.0, 0.5, 4.0), 40.0 * 0.5 + 4.0);
        let often = Budget { steps_per_validation: 10, ..budget };
        assert_eq!(often.left(20, 10.0, 0.5, 4.0), 280.0 * 0.5 + 28.0 * 4.0);
        // The clock stops training; the last validation still runs.
        let time = Budget { max_seconds: Some(30.0), ..budget };
        assert_eq!(time.left(20, 10.0, 0.5, 4.0), 20.0 + 4.0);
        assert!(!time.is_spent(20, 29.9) && time.is_spent(20, 30.0) && steps.is_spent(60, 0.0));
    }
}
