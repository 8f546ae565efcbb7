//! Options of the server.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use crate::model::{Execution, ModelSpec};

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// Models.
    pub models: Vec<ModelSpec>,
    /// Threads and size of batches.
    pub execution: Execution,
    /// Maximum number of waiting sentences.
    pub queue: usize,
    /// Maximum number of requests in progress.
    pub requests: usize,
    /// File of keys; without it requests need no key.
    pub keys: Option<PathBuf>,
    /// Limits of requests.
    pub limits: Limits,
    /// Origins that browsers may call the server from; `None` permits only its own page.
    pub cors: Option<Cors>,
    /// Whether the last address of `X-Forwarded-For` is that of the client, as behind a proxy.
    pub trusts_proxy: bool,
    /// Whether the log contains texts.
    pub logs_text: bool,
    /// Time after SIGTERM in which the server is not ready, but answers requests, so that load
    /// balancers stop sending them.
    pub stop_delay: Duration,
    /// Maximum time to finish requests after a signal to stop.
    pub drain: Duration,
}

/// Origins of cross-origin requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cors {
    /// All origins.
    Any,
    /// One origin, such as `https://example.org`.
    Origin(String),
}

/// Limits of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body.
    pub body: usize,
    /// Characters of all texts of a request.
    pub characters: usize,
    /// Texts of a request.
    pub texts: usize,
    /// Alternatives to a translation.
    pub alternatives: usize,
    /// Hypotheses of the search.
    pub beam: usize,
    /// Requests per minute of an address without a key; `None` is no limit.
    pub requests_per_minute: Option<u32>,
    /// Time of a request.
    pub timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: 2 << 20,
            characters: 100_000,
            texts: 1_000,
            alternatives: 5,
            beam: 8,
            requests_per_minute: None,
            timeout: Duration::from_secs(30),
        }
    }
}

impl ServerOptions {
    /// Options with defaults for models.
    pub fn new(models: Vec<ModelSpec>) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 5000)),
            models,
            execution: Execution { threads, batch_tokens: 4_096, precision: None },
            queue: 4_096,
            requests: 1_024,
            keys: None,
            limits: Limits::default(),
            cors: Some(Cors::Any),
            trusts_proxy: false,
            logs_text: false,
            stop_delay: Duration::from_secs(2),
            drain: Duration::from_secs(30),
        }
    }
}
