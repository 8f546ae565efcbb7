//! Options of the server.

use std::{net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use axum::http::Uri;
use tx_markup::File;

use crate::{
    glossaries::GlossarySpec,
    model::{Execution, ModelSpec},
};

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address to listen on; port 0 selects a free one.
    pub listen: SocketAddr,
    /// Models.
    pub models: Vec<ModelSpec>,
    /// Glossaries that every client can use.
    pub glossaries: Vec<GlossarySpec>,
    /// Threads and size of batches.
    pub execution: Execution,
    /// Maximum number of waiting sentences.
    pub queue: usize,
    /// Maximum number of requests in progress.
    pub requests: usize,
    /// Maximum number of documents that are read and translated at once.
    pub documents: usize,
    /// File of keys; without it requests need no key.
    pub keys: Option<PathBuf>,
    /// Limits of requests.
    pub limits: Limits,
    /// Origins that browsers may call the server from; `None` permits only its own page.
    pub cors: Option<Cors>,
    /// Host names of the server, besides addresses and names of the loopback address. Without any, all
    /// are accepted, unless the server listens on a loopback address.
    pub hosts: Vec<HostName>,
    /// Address of the server in answers; without it, that of the request is used.
    pub public_url: Option<PublicUrl>,
    /// Whether the last address of `X-Forwarded-For` is that of the client, and `X-Forwarded-Proto` and
    /// `X-Forwarded-Host` are those of the server, as behind a proxy.
    pub trusts_proxy: bool,
    /// Whether the log contains texts.
    pub logs_text: bool,
    /// Page that translates in the browser.
    pub offline: Option<OfflinePage>,
    /// Time after SIGTERM in which the server is not ready, but answers requests, so that load
    /// balancers stop sending them.
    pub stop_delay: Duration,
    /// Maximum time to finish requests after a signal to stop.
    pub drain: Duration,
}

/// A page that translates in the browser, without the server, once it has downloaded a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflinePage {
    /// Folder of the page, as `.ci/web` and the releases of tx provide it.
    pub folder: PathBuf,
    /// Names of the models that may be downloaded, without a key.
    pub models: Vec<String>,
}

/// Origins of cross-origin requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cors {
    /// All origins.
    Any,
    /// Pages of servers on this machine: `localhost` and addresses of loopback, with any port.
    Local,
    /// One origin, such as `https://example.org`.
    Origin(String),
}

impl Cors {
    /// The default of a server: on a loopback address, pages of this machine only, because all pages of
    /// a browser reach it.
    pub fn default_of(listen: SocketAddr) -> Self {
        if listen.ip().is_loopback() { Self::Local } else { Self::Any }
    }

    /// Parses an origin.
    ///
    /// # Errors
    ///
    /// If it is not a scheme and a host.
    pub fn origin(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an origin; expected a scheme and a host, as in https://example.org"
            )
        };
        let (_, host) = text.split_once("://").ok_or_else(wrong)?;
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        if uri.authority().is_none_or(|authority| authority.as_str() != host || host.contains('@'))
        {
            return Err(wrong());
        }
        Ok(Self::Origin(text.to_owned()))
    }
}

/// Host name without a port, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if text.is_empty() || !text.chars().all(is_name) {
            return Err(format!(
                "`{text}` is not a host name; expected a name without scheme and port"
            ));
        }
        Ok(Self(text.trim_end_matches('.').to_ascii_lowercase()))
    }
}

/// Address of a server without a final slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    url: String,
    host: String,
}

impl PublicUrl {
    /// The address.
    pub fn as_str(&self) -> &str {
        &self.url
    }

    /// Its host, in lower case.
    pub fn host(&self) -> &str {
        &self.host
    }
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not an address; expected one such as https://example.org/translate"
            )
        };
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(wrong)?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_http || uri.query().is_some() || text.contains(['#', '@', '"', '\\']) {
            return Err(wrong());
        }
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        Ok(Self { url: text.trim_end_matches('/').to_owned(), host })
    }
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
            body: File::MAX_BYTES,
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
        let listen = SocketAddr::from(([127, 0, 0, 1], 5000));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            listen,
            models,
            glossaries: Vec::new(),
            execution: Execution { threads, batch_tokens: None, precision: None },
            queue: 4_096,
            requests: 1_024,
            documents: 8,
            keys: None,
            limits: Limits::default(),
            cors: Some(Cors::default_of(listen)),
            hosts: Vec::new(),
            public_url: None,
            trusts_proxy: false,
            logs_text: false,
            offline: None,
            stop_delay: Duration::from_secs(2),
            drain: Duration::from_secs(30),
        }
    }

    /// Returns `true` if a model may be downloaded.
    pub(crate) fn offers(&self, model: &str) -> bool {
        self.offline.as_ref().is_some_and(|page| page.models.iter().any(|name| name == model))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_present_are_complete() {
        assert_eq!(
            Cors::origin("https://example.org:8443"),
            Ok(Cors::Origin("https://example.org:8443".into()))
        );
        for wrong in
            ["", " ", "example.org", "https://", "https://a/", "https://a/b", "https://u@a"]
        {
            assert!(Cors::origin(wrong).is_err(), "{wrong}");
        }
        let host = |text: &str| text.parse::<HostName>();
        assert_eq!(host("Translate.Example.org.").unwrap().as_str(), "translate.example.org");
        for wrong in ["", "a:80", "http://a", "a/b", "*"] {
            assert!(host(wrong).is_err(), "{wrong}");
        }
        let url = |text: &str| text.parse::<PublicUrl>();
        let found = url("https://Example.org:8443/mt/").unwrap();
        assert_eq!((found.as_str(), found.host()), ("https://Example.org:8443/mt", "example.org"));
        for wrong in ["", "/mt", "example.org", "ftp://a", "https://a?b", "https://u@a", "https://"]
        {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pages_of_other_machines_do_not_read_a_loopback_server() {
        let listen = |text: &str| Cors::default_of(text.parse().unwrap());
        assert_eq!((listen("127.0.0.1:1"), listen("[::1]:1")), (Cors::Local, Cors::Local));
        assert_eq!(listen("0.0.0.0:1"), Cors::Any);
    }
}
