//! Any file or archive by its address.

use tx_fetch::{Remote, without_login};

use super::{
    corpus::{Corpus, Files, Part, Piece},
    publisher::Publisher,
    request::Request,
};
pub(super) const ADDRESS: Publisher = Publisher {
    name: "https://…",
    about: "any file or archive; https://….tgz!MEMBER",
    is_name: is_address,
    endpoints: &[],
    find: |request, _, _| Ok(find(request)),
};

fn is_address(name: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| name.starts_with(scheme))
}

/// Corpus at an address; `!member` after it names a member of the archive.
fn find(request: &Request) -> Corpus {
    let (address, member) = match request.name.split_once('!') {
        Some((address, member)) => (address, Some(member.to_owned())),
        None => (request.name.as_str(), None),
    };
    let files = Files::Both(Remote::at(address), member);
    let address = without_login(address);
    Corpus {
        title: request.title(),
        license: "see the publisher".into(),
        citation: address,
        pieces: vec![Piece { part: Part::Training, files, columns: None }],
    }
}
