//! Corpora by name, with their files, licenses and columns.
//!
//! | name | corpus |
//! |---|---|
//! | `opus_books` | OPUS Books from Hugging Face, any of its language pairs |
//! | `OWNER/DATASET` | any Hugging Face dataset with a `translation` column or two text columns |
//! | `opus:CORPUS`, `opus:CORPUS/VERSION` | any corpus of OPUS, in Moses format |
//! | `manythings` | Tatoeba sentences from ManyThings.org, English and another language |
//! | `d2l-fra-eng` | the English–French edition of these in the course "Dive into Deep Learning" |
//! | `multi30k` | Multi30k, task 1, raw text: English, German, French, Czech |
//! | `https://…` | any file or archive, optionally followed by `!MEMBER` |
//!
//! The [`Fetcher`] decides whether files may be downloaded.
//!
//! Each publisher is a file of this module and an entry of [`KNOWN`].

mod corpus;
mod endpoints;
mod publisher;
mod request;

mod address;
mod d2l;
mod hub;
mod manythings;
mod multi30k;
mod opus;

use std::env;

use self::publisher::unknown;
use tx_fetch::{FetchError, Fetcher, remedy::Remedy, without_login};

pub use corpus::{Corpus, Files, Part, Piece};
pub use endpoints::{CorpusCache, Endpoint, Endpoints};
pub use publisher::Publisher;
pub use request::Request;

/// All publishers.
pub const KNOWN: &[Publisher] = &[
    hub::OPUS_BOOKS,
    multi30k::MULTI30K,
    manythings::MANYTHINGS,
    d2l::D2L,
    opus::OPUS,
    hub::HUB,
    address::ADDRESS,
];

impl Request {
    /// Returns `true` if `name` has the form of a source name; does not check that the source
    /// exists.
    pub fn is_name(name: &str) -> bool {
        KNOWN.iter().any(|publisher| (publisher.is_name)(name))
    }
}

impl Endpoints {
    /// Returns the official addresses, or those that environment variables set.
    pub fn from_env() -> Self {
        let set = |name: &str| {
            let value = env::var(name).ok().map(|value| without_login(value.trim_end_matches('/')));
            value.filter(|value| !value.is_empty())
        };
        let endpoints = KNOWN.iter().flat_map(|publisher| publisher.endpoints);
        let mirrors = endpoints.filter_map(|of| Some((of.variable, set(of.variable)?)));
        let official = Self { token: set("HF_TOKEN"), ..Self::default() };
        mirrors.fold(official, |all, (variable, url)| all.with_mirrors(variable, vec![url]))
    }
}

/// Finds a corpus. File lists come from the cache or, if `fetcher` permits, from the network.
///
/// # Errors
///
/// If the corpus does not exist or lacks a language, or a list is unavailable.
pub fn find(
    request: &Request,
    fetcher: &Fetcher,
    endpoints: &Endpoints,
) -> Result<Corpus, FetchError> {
    let Request { name, source, target, .. } = request;
    if source.is_empty() || target.is_empty() {
        return Err(unknown(
            format!("`{name}` requires the languages of both sides"),
            Some(Remedy::NameLanguages),
        ));
    }
    if let Some(code) = [source, target].into_iter().find(|code| !is_code(code)) {
        return Err(unknown(
            format!("`{code}` is not a language code, expected a code such as `en` or `pt-BR`"),
            None,
        ));
    }
    match KNOWN.iter().find(|publisher| (publisher.is_name)(name)) {
        Some(publisher) => (publisher.find)(request, fetcher, endpoints),
        None => {
            let known: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            let known = known.join(", ");
            Err(unknown(format!("unknown source `{name}`; available: {known}"), None))
        }
    }
}

/// Returns `true` if the code is safe in an address.
fn is_code(code: &str) -> bool {
    (2..=20).contains(&code.len())
        && code.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

#[cfg(test)]
mod tests;
