//! Log of a run, for programs and for the search for faults.

use std::{fs::OpenOptions, path::PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use tracing::Level;

/// Options of the log.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// File to append events of the run to, one JSON object a line; ranks other than the first append
    /// their number to its name
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,

    /// Least severe events of the log
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "info", requires = "log")]
    log_level: LogLevel,
}

/// Severity of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogLevel {
    /// The run failed.
    Error,
    /// Skipped batches.
    Warn,
    /// Data, model, validations, checkpoints and the end of the run.
    Info,
    /// Also metrics of every `metrics.every_steps` updates.
    Debug,
    /// Also every update.
    Trace,
}

impl From<LogLevel> for Level {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

impl LogArgs {
    /// Starts the log of the process `rank`, if there is one.
    pub fn start(&self, rank: usize) -> anyhow::Result<()> {
        let Some(path) = &self.log else { return Ok(()) };
        let mut name = path.clone().into_os_string();
        if rank > 0 {
            name.push(format!(".{rank}"));
        }
        let path = PathBuf::from(name);
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.with_context(|| format!("cannot write to `{}`", path.display()))?;
        tx_cli::log::start_in(file, self.log_level.into());
        Ok(())
    }
}
