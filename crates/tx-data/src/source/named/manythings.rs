//! ManyThings.org: sentences of Tatoeba, English and another language.

use tx_fetch::{FetchError, Remote, remedy::Remedy};

use super::{
    corpus::{Corpus, Files, Part, Piece},
    endpoints::{Endpoint, Endpoints},
    publisher::{Publisher, unknown},
    request::Request,
};
use crate::source::{columns::Columns, language::three_letters};

pub(super) const MANYTHINGS: Publisher = Publisher {
    name: "manythings",
    about: "short sentences, English and any of some 80 languages",
    is_name: |name| name == "manythings",
    endpoints: &[FILES],
    find: |request, _, endpoints| find(request, endpoints),
};

const FILES: Endpoint =
    Endpoint { variable: "TX_MANYTHINGS_URL", official: &["https://www.manythings.org/anki"] };

const TATOEBA: &str = "sentences by the contributors of Tatoeba (tatoeba.org), prepared by \
                       ManyThings.org (manythings.org/anki)";

fn find(request: &Request, endpoints: &Endpoints) -> Result<Corpus, FetchError> {
    let three = |code: &str| {
        three_letters(code)
            .ok_or_else(|| unknown(format!("ManyThings has no language `{code}`"), None))
    };
    let (source, target) = (three(&request.source)?, three(&request.target)?);
    let other = match (source.as_str(), target.as_str()) {
        ("eng", other) | (other, "eng") if other != "eng" => other,
        _ => {
            return Err(unknown(
                format!(
                    "ManyThings has pairs with English only, not {} and {}",
                    request.source, request.target
                ),
                Some(Remedy::ChooseTatoeba),
            ));
        }
    };
    let name = format!("{other}-eng.zip");
    let remote = endpoints.file(&FILES, &name);
    Ok(tatoeba(request, remote, source == "eng", None))
}

/// Table with the columns English, other language, attribution.
pub(super) fn tatoeba(
    request: &Request,
    remote: Remote,
    english_first: bool,
    member: Option<String>,
) -> Corpus {
    let number = |number: &str| Some(number.to_owned());
    let (source, target) = if english_first { ("1", "2") } else { ("2", "1") };
    let columns = Columns {
        source: number(source),
        target: number(target),
        header: Some(false),
        ..Columns::default()
    };
    Corpus {
        title: request.title(),
        license: "CC BY 2.0 FR, attribution to the contributors in the third column".into(),
        citation: TATOEBA.into(),
        pieces: vec![Piece {
            part: Part::Training,
            files: Files::Both(remote, member),
            columns: Some(columns),
        }],
    }
}
