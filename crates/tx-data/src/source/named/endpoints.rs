//! Addresses of the publishers.

use std::collections::BTreeMap;

use tx_fetch::{Cache, Remote};

/// Base addresses of a publisher, and the environment variable that sets a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// Environment variable with the address of a mirror.
    pub variable: &'static str,
    /// Addresses of the publisher, in the order in which they are tried.
    pub(super) official: &'static [&'static str],
}

/// Addresses of the publishers. Each can be set to a mirror.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Endpoints {
    /// Addresses by the variable of the endpoint; the official ones if it is missing.
    pub(super) mirrors: BTreeMap<&'static str, Vec<String>>,
    /// Token of Hugging Face.
    pub token: Option<String>,
}

impl Endpoints {
    /// Replaces the addresses of the endpoint with this environment variable.
    pub fn with_mirrors(mut self, variable: &'static str, addresses: Vec<String>) -> Self {
        self.mirrors.insert(variable, addresses);
        self
    }

    /// Addresses of an endpoint.
    pub(super) fn addresses(&self, endpoint: &Endpoint) -> Vec<&str> {
        match self.mirrors.get(endpoint.variable) {
            Some(mirrors) => mirrors.iter().map(String::as_str).collect(),
            None => endpoint.official.to_vec(),
        }
    }

    /// The preferred address of an endpoint.
    pub(super) fn address(&self, endpoint: &Endpoint) -> &str {
        match self.mirrors.get(endpoint.variable) {
            Some(mirrors) => mirrors.first().map(String::as_str).unwrap_or_default(),
            None => endpoint.official.first().copied().unwrap_or_default(),
        }
    }

    /// Returns `true` if an endpoint has its official addresses.
    pub(super) fn is_official(&self, endpoint: &Endpoint) -> bool {
        self.addresses(endpoint) == endpoint.official
    }

    /// File of an endpoint. Its key is the official address, also for a mirror.
    pub(super) fn file(&self, endpoint: &Endpoint, path: &str) -> Remote {
        let official = endpoint.official.first().copied().unwrap_or_default();
        let addresses =
            self.addresses(endpoint).iter().map(|base| format!("{base}/{path}")).collect();
        Remote { addresses, ..Remote::at(&format!("{official}/{path}")) }
    }
}

/// Cache of fetched files, and the addresses of the publishers that they came from.
#[derive(Debug, Clone)]
pub struct CorpusCache {
    /// Folder of the fetched files.
    pub cache: Cache,
    /// Addresses of the publishers.
    pub endpoints: Endpoints,
}
