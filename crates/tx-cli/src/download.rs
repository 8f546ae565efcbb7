//! Arguments and progress of downloads.

use std::{
    io::{self, Write},
    sync::Mutex,
    time::Duration,
};

use clap::Args;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use tx_fetch::{Cache, Event, FetchError, Fetcher, Mode, Patience};

use crate::terminal::stderr;

/// Network access and output of a command that downloads files.
#[derive(Debug, Args)]
pub struct DownloadArgs {
    /// Use the cache only, without network access
    #[arg(long, conflicts_with = "refresh")]
    pub offline: bool,

    /// Download files again even if they are in the cache, and accept changed content
    #[arg(long)]
    pub refresh: bool,

    /// Retries for each URL if the server is busy or disconnects
    #[arg(long, value_name = "N", default_value_t = Patience::default().retries)]
    retries: u32,

    /// Timeout for the next byte from a server, in seconds
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = Patience::default().stall.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=3600)
    )]
    timeout: u64,

    /// Print results and errors only
    #[arg(short, long)]
    pub quiet: bool,
}

impl DownloadArgs {
    /// Returns a fetcher with the cache of the user.
    ///
    /// # Errors
    ///
    /// If there is no folder for the cache.
    pub fn fetcher(&self) -> Result<Fetcher, FetchError> {
        let mode = match (self.offline, self.refresh) {
            (true, _) => Mode::Offline,
            (_, true) => Mode::Refresh,
            _ => Mode::Online,
        };
        let stall = Duration::from_secs(self.timeout);
        fetcher(mode, Patience { retries: self.retries, stall, ..Patience::default() }, self.quiet)
    }
}

/// Returns a fetcher with the cache of the user, which shows its progress on standard error unless it is
/// `quiet`.
///
/// # Errors
///
/// If there is no folder for the cache.
pub fn fetcher(mode: Mode, patience: Patience, quiet: bool) -> Result<Fetcher, FetchError> {
    let fetcher = Fetcher::new(Cache::of_user()?, mode).patience(patience);
    if quiet {
        return Ok(fetcher);
    }
    let bar = Mutex::new(None);
    Ok(fetcher.show(move |event| {
        if let Ok(mut bar) = bar.lock() {
            // A closed standard error does not fail the download.
            drop(show(event, &mut bar));
        }
    }))
}

/// Prints a line for an event, and on a terminal a bar for the bytes of a file.
fn show(event: Event, bar: &mut Option<ProgressBar>) -> io::Result<()> {
    if !matches!(event, Event::Bytes(_))
        && let Some(bar) = bar.take()
    {
        bar.finish_and_clear();
    }
    match event {
        Event::Waiting { name } => {
            writeln!(stderr(), "waiting: another process is fetching `{name}`")
        }
        Event::Unprotected { address } => writeln!(
            stderr(),
            "warning: {address} is not encrypted; the file can be modified in transit"
        ),
        Event::Begin { name, address, have, total } => {
            let size = total.map_or_else(String::new, |total| format!(", {}", HumanBytes(total)));
            let rest = if have > 0 { format!(", resuming at byte {have}") } else { String::new() };
            *bar = Some(progress(&name, have, total));
            writeln!(stderr(), "fetching {address}{size}{rest}")
        }
        Event::Bytes(bytes) => {
            if let Some(bar) = bar {
                bar.set_position(bytes);
            }
            Ok(())
        }
        Event::Retry { address, problem, wait } => {
            let wait = wait.as_secs_f64();
            writeln!(stderr(), "retrying in {wait:.1} s: {address}: {problem}")
        }
        Event::Mirror { address, problem } => {
            writeln!(stderr(), "trying the next URL: {address}: {problem}")
        }
        Event::Done { name, record } => {
            let trust =
                if record.pinned { "as expected" } else { "recorded at the first download" };
            let size = HumanBytes(record.size);
            writeln!(stderr(), "fetched `{name}`: {size}, SHA-256 {} ({trust})", record.sha256)
        }
        _ => Ok(()),
    }
}

/// Returns a progress bar, which is visible on a terminal only.
fn progress(name: &str, have: u64, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}, {eta} left",
        ),
        None => (ProgressBar::no_length(), "{msg} {bytes} {bytes_per_sec}"),
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(name.to_owned());
    bar.set_position(have);
    bar.reset_eta();
    bar
}
