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

mod hub;
mod opus;

use std::{env, path::PathBuf, slice};

use super::{
    columns::Columns,
    input::Input,
    language::three_letters,
    pairs::Pairs,
    read::{self, ReadOptions},
};
use crate::{
    error::DataError,
    fetch::{Cache, FetchError, Fetcher, Mode, Published, Remote, without_login},
    remedy::Remedy,
};

/// Entry in the list of named sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct About {
    /// Name, or pattern of names.
    pub name: &'static str,
    /// Short description.
    pub about: &'static str,
}

/// Named sources, for lists.
pub const KNOWN: &[About] = &[
    About { name: "opus_books", about: "books, any pair of 16 languages (Hugging Face)" },
    About { name: "multi30k", about: "image captions, any pair of en, de, fr, cs" },
    About { name: "manythings", about: "short sentences, English and any of some 80 languages" },
    About {
        name: "d2l-fra-eng",
        about: "English-French sentences of the d2l course, from ManyThings",
    },
    About { name: "opus:CORPUS", about: "any corpus of opus.nlpl.eu; opus:CORPUS/VERSION" },
    About { name: "OWNER/DATASET", about: "any Hugging Face dataset with two text columns" },
    About { name: "https://…", about: "any file or archive; https://….tgz!MEMBER" },
];

/// Request for a named source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Name of the source.
    pub name: String,
    /// Language code of the source side.
    pub source: String,
    /// Language code of the target side.
    pub target: String,
    /// Subset of a dataset ("config" on Hugging Face); derived from the languages if `None`.
    pub subset: Option<String>,
    /// Split to train on. Default: `train`.
    pub split: Option<String>,
    /// Branch, tag or commit of a dataset, or version of a corpus. Default: the newest.
    pub revision: Option<String>,
}

impl Request {
    /// Returns true if `name` has the form of a source name; does not check that the source exists.
    pub fn is_name(name: &str) -> bool {
        KNOWN.iter().any(|known| known.name == name)
            || is_address(name)
            || name.strip_prefix("opus:").is_some_and(|rest| !rest.is_empty())
            || is_dataset(name)
    }
}

fn is_address(name: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| name.starts_with(scheme))
}

/// Returns true for `owner/dataset` in the hub's syntax.
fn is_dataset(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    name.split_once('/').is_some_and(|(owner, dataset)| part(owner) && part(dataset))
}

/// Addresses of the sources. Each can be set to a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// Hugging Face: `HF_ENDPOINT`.
    pub hub: String,
    /// Hugging Face token: `HF_TOKEN`.
    pub token: Option<String>,
    /// ManyThings: `TX_MANYTHINGS_URL`.
    pub manythings: String,
    /// Files of "Dive into Deep Learning": `TX_D2L_URL`.
    pub d2l: String,
    /// Multi30k and its mirrors: `TX_MULTI30K_URL`.
    pub multi30k: Vec<String>,
    /// OPUS: `TX_OPUS_URL`.
    pub opus: String,
    /// API of OPUS: `TX_OPUS_API_URL`.
    pub opus_api: String,
}

const HUB: &str = "https://huggingface.co";
const MANYTHINGS: &str = "https://www.manythings.org/anki";
const D2L: &str = "https://d2l-data.s3-accelerate.amazonaws.com";
const MULTI30K: [&str; 3] = [
    "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw",
    "https://github.com/multi30k/dataset/raw/master/data/task1/raw",
    "https://cdn.jsdelivr.net/gh/multi30k/dataset@master/data/task1/raw",
];

/// MD5 checksums of the files at [`MULTI30K`], as in torchtext 0.9.0.
const MULTI30K_MD5: [(&str, &str); 12] = [
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

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            hub: HUB.into(),
            token: None,
            manythings: MANYTHINGS.into(),
            d2l: D2L.into(),
            multi30k: MULTI30K.map(str::to_owned).into(),
            opus: opus::OBJECTS.into(),
            opus_api: opus::API.into(),
        }
    }
}

impl Endpoints {
    /// Original addresses, unless environment variables set others.
    pub fn from_env() -> Self {
        let set = |name: &str| {
            let value = env::var(name).ok().map(|value| without_login(value.trim_end_matches('/')));
            value.filter(|value| !value.is_empty())
        };
        let real = Self::default();
        Self {
            hub: set("HF_ENDPOINT").unwrap_or(real.hub),
            token: set("HF_TOKEN"),
            manythings: set("TX_MANYTHINGS_URL").unwrap_or(real.manythings),
            d2l: set("TX_D2L_URL").unwrap_or(real.d2l),
            multi30k: set("TX_MULTI30K_URL").map_or(real.multi30k, |url| vec![url]),
            opus: set("TX_OPUS_URL").unwrap_or(real.opus),
            opus_api: set("TX_OPUS_API_URL").unwrap_or(real.opus_api),
        }
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

/// Part of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Training set.
    Training,
    /// Validation set.
    Validation,
    /// Test set.
    Test,
}

/// Files that are read together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Files {
    /// One file with both sides, or an archive with an optional member.
    Both(Remote, Option<String>),
    /// One file per side.
    Apart(Remote, Remote),
}

/// Files of one part of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Part of the corpus.
    pub part: Part,
    /// Files to read.
    pub files: Files,
    /// Columns of the sides, if the source defines them.
    columns: Option<Columns>,
}

impl Piece {
    /// Files, source before target.
    pub fn remotes(&self) -> Vec<&Remote> {
        match &self.files {
            Files::Both(remote, _) => vec![remote],
            Files::Apart(source, target) => vec![source, target],
        }
    }
}

/// Corpus found by name: files, license and citation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Corpus {
    /// Name and languages.
    pub title: String,
    /// License as stated by the publisher.
    pub license: String,
    /// Citation.
    pub citation: String,
    /// Files to read, in order.
    pub pieces: Vec<Piece>,
}

impl Corpus {
    /// Returns true if the corpus has pairs of this part.
    pub fn has(&self, part: Part) -> bool {
        self.pieces.iter().any(|piece| piece.part == part)
    }

    /// Files of these parts, without duplicates.
    pub fn remotes(&self, parts: &[Part]) -> Vec<&Remote> {
        let mut remotes: Vec<&Remote> = Vec::new();
        let pieces = self.pieces.iter().filter(|piece| parts.contains(&piece.part));
        for remote in pieces.flat_map(Piece::remotes) {
            if !remotes.iter().any(|known| known.key == remote.key) {
                remotes.push(remote);
            }
        }
        remotes
    }

    /// Reads the pairs of a part, file by file.
    ///
    /// # Errors
    ///
    /// When a file is not cached and may not be downloaded, or cannot be read.
    pub fn read(
        &self,
        part: Part,
        fetcher: &Fetcher,
        options: &ReadOptions,
    ) -> Result<Pairs, DataError> {
        let mut readers = Vec::new();
        for piece in self.pieces.iter().filter(|piece| piece.part == part) {
            let mut options = options.clone();
            if let Some(columns) = &piece.columns {
                let asked = options.columns;
                options.columns = Columns {
                    source: asked.source.or_else(|| columns.source.clone()),
                    target: asked.target.or_else(|| columns.target.clone()),
                    header: asked.header.or(columns.header),
                    ..asked
                };
            }
            readers.push(match &piece.files {
                Files::Both(remote, member) => {
                    let input = Input::open(&fetcher.get(remote)?.path)?;
                    read::pairs_of(input, member.clone(), &options)?
                }
                Files::Apart(source, target) => {
                    let (source, target) = (fetcher.get(source)?.path, fetcher.get(target)?.path);
                    read::parallel(&source, &target, &options)?
                }
            });
        }
        Ok(Box::new(readers.into_iter().flatten()))
    }
}

/// Finds a corpus. File lists come from the cache or, if `fetcher` permits, from the network.
///
/// # Errors
///
/// When the corpus does not exist or lacks a language, or a list is unavailable.
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
    match name.as_str() {
        "opus_books" => hub::find("Helsinki-NLP/opus_books", request, fetcher, endpoints),
        "manythings" => manythings(request, endpoints),
        "d2l-fra-eng" => d2l(request, endpoints),
        "multi30k" => multi30k(request, endpoints),
        _ if is_address(name) => Ok(address(request)),
        _ => match name.strip_prefix("opus:") {
            Some(corpus) => opus::find(corpus, request, fetcher, endpoints),
            None if is_dataset(name) => hub::find(name, request, fetcher, endpoints),
            None => {
                let known: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
                let known = known.join(", ");
                Err(unknown(format!("unknown source `{name}`; available: {known}"), None))
            }
        },
    }
}

fn unknown(problem: String, remedy: Option<Remedy>) -> FetchError {
    FetchError::Unknown { problem, remedy }
}

/// Returns true if the code is safe in an address.
fn is_code(code: &str) -> bool {
    (2..=20).contains(&code.len())
        && code.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn title(request: &Request) -> String {
    format!("{} {}-{}", without_login(&request.name), request.source, request.target)
}

/// Corpus at an address; `!member` after it names a member of the archive.
fn address(request: &Request) -> Corpus {
    let (address, member) = match request.name.split_once('!') {
        Some((address, member)) => (address, Some(member.to_owned())),
        None => (request.name.as_str(), None),
    };
    let files = Files::Both(Remote::at(address), member);
    let address = without_login(address);
    Corpus {
        title: title(request),
        license: "see the publisher".into(),
        citation: address,
        pieces: vec![Piece { part: Part::Training, files, columns: None }],
    }
}

const TATOEBA: &str = "sentences by the contributors of Tatoeba (tatoeba.org), prepared by \
                       ManyThings.org (manythings.org/anki)";

fn manythings(request: &Request, endpoints: &Endpoints) -> Result<Corpus, FetchError> {
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
    let remote = at(MANYTHINGS, slice::from_ref(&endpoints.manythings), &name);
    Ok(tatoeba(request, remote, source == "eng", None))
}

fn d2l(request: &Request, endpoints: &Endpoints) -> Result<Corpus, FetchError> {
    let codes = [&request.source, &request.target].map(|code| three_letters(code));
    let english_first = match codes.each_ref().map(Option::as_deref) {
        [Some("eng"), Some("fra")] => true,
        [Some("fra"), Some("eng")] => false,
        _ => {
            return Err(unknown(
                format!("{} is not available, expected en and fr", title(request)),
                None,
            ));
        }
    };
    let mut remote = at(D2L, slice::from_ref(&endpoints.d2l), "fra-eng.zip");
    // Checksum published by the course; other servers may have another edition.
    let published = Published::Sha1("94646ad1522d915e7b0f9296181140edcf86a4f5");
    remote.published = (endpoints.d2l == D2L).then_some(published);
    let member = Some("fra-eng/fra.txt".to_owned());
    Ok(tatoeba(request, remote, english_first, member))
}

/// Table with the columns English, other language, attribution.
fn tatoeba(
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
        title: title(request),
        license: "CC BY 2.0 FR, attribution to the contributors in the third column".into(),
        citation: TATOEBA.into(),
        pieces: vec![Piece {
            part: Part::Training,
            files: Files::Both(remote, member),
            columns: Some(columns),
        }],
    }
}

fn multi30k(request: &Request, endpoints: &Endpoints) -> Result<Corpus, FetchError> {
    let languages = ["en", "de", "fr", "cs"];
    let known = |code: &str| {
        let found =
            languages.iter().find(|language| super::language::fit(code, language).is_some());
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
        let md5 = MULTI30K_MD5.iter().find(|(of, _)| *of == name).map(|(_, md5)| *md5);
        let mut remote = at(MULTI30K[0], &endpoints.multi30k, &name);
        remote.published = md5.filter(|_| endpoints.multi30k == MULTI30K).map(Published::Md5);
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
        title: title(request),
        license: "non-commercial research and education; images and captions of Flickr30k".into(),
        citation: "Elliott, Frank, Sima'an and Specia 2016, \"Multi30K: Multilingual \
                   English-German Image Descriptions\"; Elliott et al. 2017 (fr), Barrault et \
                   al. 2018 (cs); github.com/multi30k/dataset"
            .into(),
        pieces: pieces.into(),
    })
}

/// File with the original address `real`, downloaded from one of `bases`.
fn at(real: &str, bases: &[String], path: &str) -> Remote {
    let addresses = bases.iter().map(|base| format!("{base}/{path}")).collect();
    let key = format!("{real}/{path}");
    Remote { addresses, ..Remote::at(&key) }
}

/// Fetches one page of a list and the address of the next.
fn list(
    remote: &Remote,
    fetcher: &Fetcher,
) -> Result<(serde_json::Value, Option<String>), FetchError> {
    let cached = fetcher.get(remote)?;
    let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
    match read(&cached.path) {
        Some(value) => Ok((value, cached.record.next)),
        None => Err(unknown(
            format!("the response of {} is not a JSON list", cached.record.address),
            (fetcher.mode() != Mode::Refresh).then_some(Remedy::AskAgain),
        )),
    }
}

#[cfg(test)]
mod tests;
