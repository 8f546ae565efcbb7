//! `translate serve`: a server with several models.

use std::{net::SocketAddr, num::NonZero, path::PathBuf, time::Duration};

use anyhow::Context;
use clap::{Args, ValueHint};
use tracing::Level;
use tx_cli::log;
use tx_infer::Precision;
use tx_serve::{
    Cors, GlossarySpec, HostName, Limits, ModelSpec, OfflinePage, PublicUrl, Server, ServerOptions,
};

use crate::args::model::with_downloaded;

/// Arguments of `translate serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Signals:
  SIGTERM, SIGINT  finish the requests in progress and stop
  SIGHUP           load models, glossaries and keys again

Examples:
  translate serve --model en-de=runs/en-de
  translate serve --model en-de=runs/en-de --model de-en=runs/de-en --listen 0.0.0.0:5000 --keys keys.toml")]
pub struct ServeArgs {
    /// Bundle to serve, or model of `translate models`, with a name (repeatable). If the bundle does not
    /// record its languages, the name or the folder is the pair, as in `en-de`
    #[arg(long, value_name = "[NAME=]DIR", required = true, value_hint = ValueHint::DirPath)]
    model: Vec<ModelSpec>,

    /// Glossary that requests select by its name (repeatable): lines with a term, a tab and its translation; also
    /// .csv and .tbx. The name is that of the file by default
    #[arg(long, value_name = "[NAME=]FILE", value_hint = ValueHint::FilePath)]
    glossary: Vec<GlossarySpec>,

    /// Address to listen on; port 0 selects a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5000")]
    listen: SocketAddr,

    /// File of API keys [default: no key is needed]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    keys: Option<PathBuf>,

    /// Threads that translate [default: all cores]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,

    /// Precision of the search: f32 or int8 [default: that of each bundle]
    #[arg(long, value_name = "DTYPE")]
    precision: Option<Precision>,

    /// Maximum size of a batch: source tokens including padding, times hypotheses [default: 1024 on the device cpu,
    /// otherwise 4096]
    #[arg(long, value_name = "N")]
    batch_tokens: Option<usize>,

    /// Maximum number of waiting sentences; further requests get the status 429
    #[arg(long, value_name = "N", default_value_t = 4096)]
    queue: usize,

    /// Time limit of a request, and of each part of a file, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,

    /// Time after SIGTERM in which the server is not ready, but answers requests, so that load
    /// balancers stop sending them, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2)]
    stop_delay: u64,

    /// Time limit of requests in progress after a signal to stop, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain: u64,

    /// Limits of requests
    #[command(flatten)]
    limits: LimitArgs,

    /// Origin of the web pages that may call the server: `*`, `local` (pages of this machine), `none`, or
    /// one such as `https://example.org` [default: local on a loopback address, otherwise *]
    #[arg(long, value_name = "ORIGIN", value_parser = origins)]
    cors: Option<Origins>,

    /// Host name that clients use (repeatable). Requests for others are refused, on a loopback address also
    /// without this option; IP addresses and localhost are always accepted
    #[arg(long, value_name = "NAME")]
    host: Vec<HostName>,

    /// Address of the server behind a proxy, as in `https://example.org/translate`, for the links to
    /// translated files
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,

    /// Take the address of a client from the last entry of `X-Forwarded-For`, and that of the server from
    /// `X-Forwarded-Proto` and `X-Forwarded-Host`, behind a proxy that sets them
    #[arg(long)]
    trust_proxy: bool,

    /// Folder of the page that translates in the browser, which is served at `/offline/`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    offline: Option<PathBuf>,

    /// Model that this page may download, without a key (repeatable) [default: none; the page opens files]
    #[arg(long, value_name = "NAME", requires = "offline")]
    offline_model: Vec<String>,

    /// Include translations in the log
    #[arg(long)]
    log_text: bool,
}

/// Limits of requests.
#[derive(Debug, Args)]
struct LimitArgs {
    /// Maximum size of a request in bytes
    #[arg(long, value_name = "N", default_value_t = Limits::default().body)]
    max_body: usize,

    /// Maximum number of characters of a request
    #[arg(long, value_name = "N", default_value_t = Limits::default().characters)]
    max_characters: usize,

    /// Maximum number of files that are translated at once; further ones get the status 429
    #[arg(long, value_name = "N", default_value_t = NonZero::new(8).unwrap_or(NonZero::<usize>::MIN))]
    max_documents: NonZero<usize>,

    /// Maximum number of texts of a request
    #[arg(long, value_name = "N", default_value_t = Limits::default().texts)]
    max_texts: usize,

    /// Maximum number of alternatives to a translation
    #[arg(long, value_name = "N", default_value_t = Limits::default().alternatives)]
    max_alternatives: usize,

    /// Maximum number of hypotheses that a request may ask for
    #[arg(long, value_name = "N", default_value_t = Limits::default().beam)]
    max_beam: usize,

    /// Maximum number of requests per minute of an address [default: no limit]; keys have their own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_minute: Option<u32>,
}

/// Value of `--cors`.
type Origins = Option<Cors>;

/// Parses the value of `--cors`.
fn origins(text: &str) -> Result<Origins, String> {
    match text {
        "*" => Ok(Some(Cors::Any)),
        "local" => Ok(Some(Cors::Local)),
        "none" => Ok(None),
        origin => Cors::origin(origin).map(Some),
    }
}

/// Serves until a signal.
pub fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let limits = args.limits;
    let found = |spec: ModelSpec| ModelSpec { folder: with_downloaded(spec.folder), ..spec };
    let mut options = ServerOptions::new(args.model.into_iter().map(found).collect());
    options.listen = args.listen;
    options.keys = args.keys;
    options.glossaries = args.glossary;
    options.execution.precision = args.precision;
    options.execution.batch_tokens = args.batch_tokens;
    if let Some(threads) = args.threads {
        options.execution.threads = threads.get();
    }
    options.queue = args.queue;
    options.stop_delay = Duration::from_secs(args.stop_delay);
    options.drain = Duration::from_secs(args.drain);
    options.limits = Limits {
        body: limits.max_body,
        characters: limits.max_characters,
        texts: limits.max_texts,
        alternatives: limits.max_alternatives,
        beam: limits.max_beam,
        requests_per_minute: limits.requests_per_minute,
        timeout: Duration::from_secs(args.timeout),
    };
    options.cors = args.cors.unwrap_or(Some(Cors::default_of(args.listen)));
    options.hosts = args.host;
    options.public_url = args.public_url;
    options.documents = limits.max_documents.get();
    options.trusts_proxy = args.trust_proxy;
    options.logs_text = args.log_text;
    options.offline = args.offline.map(|folder| OfflinePage { folder, models: args.offline_model });
    log::start(Level::INFO);
    let server = Server::bind(options)?;
    let address = server.address().context("cannot read the address")?;
    let models = server.service().registry.models().len();
    let connections = server.connections();
    tracing::info!(%address, url = %format!("http://{address}/"), models, connections, "listening");
    Ok(server.run(None)?)
}
