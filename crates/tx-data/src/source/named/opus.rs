//! OPUS (opus.nlpl.eu), with one zip of two text files per corpus and language pair.

use tx_fetch::{FetchError, Fetcher, Remote, remedy::Remedy};

use super::{
    corpus::{Corpus, Files, Part, Piece},
    endpoints::{Endpoint, Endpoints},
    publisher::{Publisher, list, unknown},
    request::Request,
};

pub(super) const OPUS: Publisher = Publisher {
    name: "opus:CORPUS",
    about: "any corpus of opus.nlpl.eu; opus:CORPUS/VERSION",
    is_name: |name| corpus_of(name).is_some(),
    endpoints: &[OBJECTS, API],
    find,
};

/// Server of the zip files.
const OBJECTS: Endpoint =
    Endpoint { variable: "TX_OPUS_URL", official: &["https://object.pouta.csc.fi"] };
/// API with the list of zip files.
const API: Endpoint = Endpoint { variable: "TX_OPUS_API_URL", official: &[OFFICIAL_API] };
const OFFICIAL_API: &str = "https://opus.nlpl.eu/opusapi";

/// `CORPUS` or `CORPUS/VERSION` of a name.
fn corpus_of(name: &str) -> Option<&str> {
    name.strip_prefix("opus:").filter(|corpus| !corpus.is_empty())
}

fn find(request: &Request, fetcher: &Fetcher, endpoints: &Endpoints) -> Result<Corpus, FetchError> {
    let corpus = corpus_of(&request.name).unwrap_or_default();
    let (corpus, version) = match corpus.split_once('/') {
        Some((corpus, version)) => (corpus, Some(version.to_owned())),
        None => (corpus, request.revision.clone()),
    };
    let plain = |text: &str| {
        !text.is_empty()
            && !text.starts_with('.')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    if !plain(corpus) || !version.as_deref().is_none_or(plain) {
        let problem = format!(
            "`{}` is not a corpus name of OPUS, expected a name such as `opus:Books`",
            request.name
        );
        return Err(unknown(problem, None));
    }
    // OPUS orders the languages of a pair alphabetically.
    let mut codes = [request.source.as_str(), request.target.as_str()];
    codes.sort_unstable();
    let [first, second] = codes;
    let version = match version {
        Some(version) => version,
        None => newest(corpus, first, second, fetcher, endpoints)?,
    };
    let path = format!("OPUS-{corpus}/{version}/moses/{first}-{second}.txt.zip");
    let remote = endpoints.file(&OBJECTS, &path);
    Ok(Corpus {
        title: format!("{}, version {version}", request.title()),
        license: format!("see opus.nlpl.eu/{corpus} and the archive"),
        citation: "Tiedemann 2012, \"Parallel Data, Tools and Interfaces in OPUS\"; and the \
                   corpus itself, as its page there says"
            .into(),
        pieces: vec![Piece {
            part: Part::Training,
            files: Files::Both(remote, None),
            columns: None,
        }],
    })
}

/// Queries the API for the newest version of a corpus with both languages.
fn newest(
    corpus: &str,
    first: &str,
    second: &str,
    fetcher: &Fetcher,
    endpoints: &Endpoints,
) -> Result<String, FetchError> {
    let query = format!(
        "/?corpus={corpus}&source={first}&target={second}&preprocessing=moses&version=latest"
    );
    let remote = Remote {
        name: format!("{corpus}.{first}-{second}.json"),
        addresses: vec![format!("{}{query}", endpoints.address(&API))],
        ..Remote::at(&format!("{OFFICIAL_API}{query}"))
    };
    let (value, _) = list(&remote, fetcher)?;
    let version = value["corpora"][0]["version"].as_str();
    version.map(str::to_owned).ok_or_else(|| {
        unknown(
            format!("OPUS has no corpus `{corpus}` in {first} and {second}"),
            Some(Remedy::SeeOpus),
        )
    })
}
