//! `train fetch` and `train --fetch`: download of named corpora into the cache.

use std::{
    fmt::Write as _,
    io::{self, Write},
    sync::Mutex,
    time::Duration,
};

use clap::Args;
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use tx_cli::terminal::stderr;
use tx_train::{
    TrainConfig, TrainError, corpus,
    tx_data::{
        DataError,
        fetch::{Cache, Event, FetchError, Fetcher, Mode, Patience, Remote},
        source::named::{self, Corpus, CorpusCache, Endpoints, Part, Request},
    },
};

/// Fetch a corpus by name
///
/// Downloads files into the cache: TX_CACHE, else XDG_CACHE_HOME/tx, else ~/.cache/tx. Prints their
/// paths to standard output; license, progress and errors go to standard error. Without a name,
/// lists the known corpora.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  train fetch opus_books --source en --target it
  train fetch manythings --source en --target fr
  train fetch opus:Tatoeba --source de --target nl
  train fetch wmt/wmt14 --source de --target en --dry-run")]
pub struct FetchArgs {
    /// Name of the corpus [default: list the known names]
    pub name: Option<String>,

    /// Source language, as a code such as en
    #[arg(long, value_name = "CODE", requires = "name")]
    source: Option<String>,

    /// Target language, as a code such as it
    #[arg(long, value_name = "CODE", requires = "name")]
    target: Option<String>,

    /// Subset of a dataset [default: the one named after the languages]
    #[arg(long, value_name = "NAME", requires = "name")]
    subset: Option<String>,

    /// Split to train on [default: train]
    #[arg(long, value_name = "NAME", requires = "name")]
    split: Option<String>,

    /// Branch, tag or commit of a dataset, or version of a corpus [default: the newest]
    #[arg(long, value_name = "NAME", requires = "name")]
    revision: Option<String>,

    /// Use the cache only, without network access
    #[arg(long, conflicts_with = "refresh")]
    offline: bool,

    /// Download files again even if they are in the cache, and accept changed content
    #[arg(long)]
    refresh: bool,

    /// Print the files that would be downloaded, without downloading them; lists of files are still
    /// downloaded if necessary
    #[arg(long)]
    dry_run: bool,

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

    /// Print paths and errors only
    #[arg(short, long)]
    quiet: bool,
}

/// Fetches a corpus, or lists the known ones; returns the text for standard output.
pub fn fetch(args: FetchArgs) -> anyhow::Result<String> {
    let Some(name) = args.name else { return Ok(list()) };
    let mode = match (args.offline, args.refresh) {
        (true, _) => Mode::Offline,
        (_, true) => Mode::Refresh,
        _ => Mode::Online,
    };
    let stall = Duration::from_secs(args.timeout);
    let patience = Patience { retries: args.retries, stall, ..Patience::default() };
    let fetcher = fetcher(mode, patience, args.quiet)?;
    let request = Request {
        name,
        source: args.source.unwrap_or_default(),
        target: args.target.unwrap_or_default(),
        subset: args.subset,
        split: args.split,
        revision: args.revision,
    };
    let corpus = named::find(&request, &fetcher, &Endpoints::from_env()).map_err(failed)?;
    if !args.quiet {
        write!(stderr(), "{}", credits(&corpus))?;
    }
    let parts = [Part::Training, Part::Validation, Part::Test];
    let mut output = String::new();
    for remote in corpus.remotes(&parts) {
        if args.dry_run {
            output += &plan(remote, &fetcher);
        } else {
            let path = fetcher.get(remote).map_err(failed)?.path;
            writeln!(output, "{}", path.display())?;
        }
    }
    Ok(output)
}

/// Fetches the corpora that a configuration names.
pub fn fetch_for(config: &TrainConfig, quiet: bool) -> anyhow::Result<()> {
    let requests = corpus::requests(config);
    if requests.is_empty() {
        return Ok(());
    }
    let fetcher = fetcher(Mode::Online, Patience::default(), quiet)?;
    for request in &requests {
        let corpus = corpus::fetch(request, &fetcher, &Endpoints::from_env())?;
        if !quiet {
            write!(stderr(), "{}", credits(&corpus))?;
        }
    }
    Ok(())
}

/// Returns the user's cache of named corpora; none if there is no folder for it.
pub fn corpora() -> Option<CorpusCache> {
    let cache = Cache::of_user().ok()?;
    Some(CorpusCache { cache, endpoints: Endpoints::from_env() })
}

fn failed(error: FetchError) -> TrainError {
    DataError::from(error).into()
}

fn list() -> String {
    named::KNOWN.iter().map(|known| format!("{:<16}{}\n", known.name, known.about)).collect()
}

fn credits(corpus: &Corpus) -> String {
    let Corpus { title, license, citation, .. } = corpus;
    format!("corpus: {title}\nlicense: {license}\ncitation: {citation}\n")
}

fn plan(remote: &Remote, fetcher: &Fetcher) -> String {
    let size =
        remote.size.map_or_else(|| "size unknown".into(), |size| HumanBytes(size).to_string());
    let state = if fetcher.has(remote) { "in the cache" } else { "to fetch" };
    let address = remote.addresses.first().unwrap_or(&remote.key);
    format!("{state}\t{size}\t{address}\n")
}

fn fetcher(mode: Mode, patience: Patience, quiet: bool) -> anyhow::Result<Fetcher> {
    let cache = Cache::of_user().map_err(failed)?;
    let fetcher = Fetcher::new(cache, mode).patience(patience);
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
