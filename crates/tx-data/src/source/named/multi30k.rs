//! Multi30k, task 1, raw text: English, German, French, Czech.

use tx_fetch::{FetchError, Published};

use super::{
    corpus::{Corpus, Files, Part, Piece},
    endpoints::{Endpoint, Endpoints},
    publisher::{Publisher, unknown},
    request::Request,
};
use crate::source::language::fit;

pub(super) const MULTI30K: Publisher = Publisher {
    name: "multi30k",
    about: "image captions, any pair of en, de, fr, cs",
    is_name: |name| name == "multi30k",
    endpoints: &[FILES],
    find: |request, _, endpoints| find(request, endpoints),
};

const FILES: Endpoint = Endpoint {
    variable: "TX_MULTI30K_URL",
    official: &[
        "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
        "https://github.com/multi30k/dataset/raw/master/data/task1/raw",
        "https://cdn.jsdelivr.net/gh/multi30k/dataset@master/data/task1/raw",
    ],
};

/// MD5 checksums of the files at [`FILES`], as in torchtext 0.9.0.
const MD5: [(&str, &str); 12] = [
    ("train.cs.gz", "d9a5fc268917725a2b0efce3a0cc8607"),
    ("train.de.gz", "81ff90b99829c0cd4b1b587d394afd39"),
    ("train.en.gz", "0065d13af80720a55ca8153d126e6627"),
    ("train.fr.gz", "6cb767741dcad3931f966fefbc05203f"),
    ("val.cs.gz", "83cdc082f646b769095615384cf5c0ca"),
    ("val.de.gz", "6e0e229eb049e3fc99a1ef02fb2d5f91"),
    ("val.en.gz", "2b69aa9253948ac9f67e94917272dd40"),
    ("val.fr.gz", "93fc564584b7e5ba410c761ea5a1c682"),
    ("test_2016_flickr.cs.gz", "3104872229daa1bef3b401d44dd2220b"),
    ("test_2016_flickr.de.gz", "efd67d314d98489b716b145475101932"),
    ("test_2016_flickr.en.gz", "ff2c0fcb4893a13bd73414306bc250ae"),
    ("test_2016_flickr.fr.gz", "08dc7cd4a662f31718412de95ca9bfe3"),
];

fn find(request: &Request, endpoints: &Endpoints) -> Result<Corpus, FetchError> {
    let languages = ["en", "de", "fr", "cs"];
    let known = |code: &str| {
        let found = languages.iter().find(|language| fit(code, language).is_some());
        found.copied().ok_or_else(|| {
            unknown(format!("Multi30k has no language `{code}`; available: en, de, fr, cs"), None)
        })
    };
    let (source, target) = (known(&request.source)?, known(&request.target)?);
    if source == target {
        return Err(unknown(format!("`{source}` and `{target}` are the same language"), None));
    }
    let side = |set: &str, language: &str| {
        let name = format!("{set}.{language}.gz");
        let md5 = MD5.iter().find(|(of, _)| *of == name).map(|(_, md5)| *md5);
        let mut remote = endpoints.file(&FILES, &name);
        remote.published = md5.filter(|_| endpoints.is_official(&FILES)).map(Published::Md5);
        remote
    };
    let sets =
        [(Part::Training, "train"), (Part::Validation, "val"), (Part::Test, "test_2016_flickr")];
    let pieces = sets.map(|(part, set)| Piece {
        part,
        files: Files::Apart(side(set, source), side(set, target)),
        columns: None,
    });
    Ok(Corpus {
        title: request.title(),
        license: "non-commercial research and education; images and captions of Flickr30k".into(),
        citation: "Elliott, Frank, Sima'an and Specia 2016, \"Multi30K: Multilingual \
                   English-German Image Descriptions\"; Elliott et al. 2017 (fr), Barrault et \
                   al. 2018 (cs); github.com/multi30k/dataset"
            .into(),
        pieces: pieces.into(),
    })
}
