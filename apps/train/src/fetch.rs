//! `train fetch` and `train --fetch`: download of named corpora into the cache.

use std::{fmt::Write as _, io::Write};

use clap::Args;
use indicatif::HumanBytes;
use tx_cli::{
    download::{self, DownloadArgs},
    terminal::stderr,
};
use tx_train::{
    TrainConfig, TrainError, corpus,
    tx_data::{
        DataError,
        source::named::{self, Corpus, CorpusCache, Endpoints, Part, Request},
        tx_fetch::{Cache, FetchError, Fetcher, Mode, Patience, Remote},
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

    /// Print the files that would be downloaded, without downloading them; lists of files are still
    /// downloaded if necessary
    #[arg(long)]
    dry_run: bool,

    /// Network access and output
    #[command(flatten)]
    download: DownloadArgs,
}

/// Fetches a corpus, or lists the known ones; returns the text for standard output.
pub fn fetch(args: FetchArgs) -> anyhow::Result<String> {
    let Some(name) = args.name else { return Ok(list()) };
    let fetcher = args.download.fetcher().map_err(failed)?;
    let request = Request {
        name,
        source: args.source.unwrap_or_default(),
        target: args.target.unwrap_or_default(),
        subset: args.subset,
        split: args.split,
        revision: args.revision,
    };
    let corpus = named::find(&request, &fetcher, &Endpoints::from_env()).map_err(failed)?;
    if !args.download.quiet {
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
    let fetcher = download::fetcher(Mode::Online, Patience::default(), quiet).map_err(failed)?;
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
