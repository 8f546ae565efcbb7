//! English–French sentences of the course "Dive into Deep Learning", from ManyThings.

use tx_fetch::{FetchError, Published};

use super::{
    corpus::Corpus,
    endpoints::{Endpoint, Endpoints},
    manythings::tatoeba,
    publisher::{Publisher, unknown},
    request::Request,
};
use crate::source::language::three_letters;

pub(super) const D2L: Publisher = Publisher {
    name: "d2l-fra-eng",
    about: "English-French sentences of the d2l course, from ManyThings",
    is_name: |name| name == "d2l-fra-eng",
    endpoints: &[FILES],
    find: |request, _, endpoints| find(request, endpoints),
};

const FILES: Endpoint = Endpoint {
    variable: "TX_D2L_URL",
    official: &["https://d2l-data.s3-accelerate.amazonaws.com"],
};

fn find(request: &Request, endpoints: &Endpoints) -> Result<Corpus, FetchError> {
    let codes = [&request.source, &request.target].map(|code| three_letters(code));
    let english_first = match codes.each_ref().map(Option::as_deref) {
        [Some("eng"), Some("fra")] => true,
        [Some("fra"), Some("eng")] => false,
        _ => {
            return Err(unknown(
                format!("{} is not available, expected en and fr", request.title()),
                None,
            ));
        }
    };
    let mut remote = endpoints.file(&FILES, "fra-eng.zip");
    // Checksum published by the course; other servers may have another edition.
    let published = Published::Sha1("94646ad1522d915e7b0f9296181140edcf86a4f5");
    remote.published = endpoints.is_official(&FILES).then_some(published);
    let member = Some("fra-eng/fra.txt".to_owned());
    Ok(tatoeba(request, remote, english_first, member))
}
