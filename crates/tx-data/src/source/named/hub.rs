//! Hugging Face datasets, read from the files in their repositories.
//!
//! The hub's API returns the list of files, with sizes and (for large files) SHA-256. A dataset
//! without files in a supported format, such as one built by a script, is read from the Parquet
//! files into which the hub converts it.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tx_fetch::{FetchError, Fetcher, Remote, below, remedy::Remedy};

use super::{
    corpus::{Corpus, Files, Part, Piece},
    endpoints::{Endpoint, Endpoints},
    publisher::{Publisher, list, unknown},
    request::Request,
};
use crate::source::language::fit;

pub(super) const OPUS_BOOKS: Publisher = Publisher {
    name: "opus_books",
    about: "books, any pair of 16 languages (Hugging Face)",
    is_name: |name| name == "opus_books",
    endpoints: &[API],
    find: |request, fetcher, endpoints| find(BOOKS, request, fetcher, endpoints),
};

pub(super) const HUB: Publisher = Publisher {
    name: "OWNER/DATASET",
    about: "any Hugging Face dataset with two text columns",
    is_name: is_dataset,
    endpoints: &[API],
    find: |request, fetcher, endpoints| find(&request.name, request, fetcher, endpoints),
};

const API: Endpoint = Endpoint { variable: "HF_ENDPOINT", official: &[OFFICIAL] };
const OFFICIAL: &str = "https://huggingface.co";

/// Dataset of the corpus `opus_books`.
const BOOKS: &str = "Helsinki-NLP/opus_books";

/// Maximum number of pages in a list of files; a page has 1,000 entries.
const MAX_PAGES: usize = 100;

/// Characters escaped in a path: all except `/` and the unreserved ones of RFC 3986, section 2.3.
const IN_PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// File endings that are read from a dataset.
const ENDINGS: [&str; 6] = ["parquet", "jsonl", "json", "csv", "tsv", "tmx"];

fn find(
    dataset: &str,
    request: &Request,
    fetcher: &Fetcher,
    endpoints: &Endpoints,
) -> Result<Corpus, FetchError> {
    let revision = request.revision.as_deref().unwrap_or("main");
    if !revision.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)) {
        return Err(unknown(format!("`{revision}` is not a branch, tag or commit"), None));
    }
    let files = files(dataset, revision, fetcher, endpoints)?;
    let found = if files.is_empty() { converted(dataset, fetcher, endpoints)? } else { files };
    let chosen = choose(dataset, found, request)?;
    let mut pieces = Vec::new();
    let requested = request.split.as_deref().unwrap_or("train");
    let requested = usual(requested).unwrap_or(requested);
    for file in chosen {
        let part = match file.split.as_str() {
            _ if usual(requested).is_none()
                && names(&file.path).any(|name| is_split(name, requested)) =>
            {
                Part::Training
            }
            split if split == requested => Part::Training,
            "validation" if requested == "train" => Part::Validation,
            "test" if requested == "train" => Part::Test,
            _ => continue,
        };
        pieces.push(Piece { part, files: Files::Both(file.remote, None), columns: None });
    }
    if !pieces.iter().any(|piece| piece.part == Part::Training) {
        let problem = format!("`{dataset}` has no split `{requested}` for this pair");
        return Err(unknown(problem, Some(Remedy::NameSplit)));
    }
    pieces.sort_by_key(|piece| piece.part);
    let (license, citation) = credits(dataset);
    Ok(Corpus { title: request.title(), license, citation, pieces })
}

fn credits(dataset: &str) -> (String, String) {
    if dataset == BOOKS {
        return (
            "free for personal, educational and research use; no commercial use".into(),
            "Tiedemann 2012, \"Parallel Data, Tools and Interfaces in OPUS\"; aligned by Andras \
             Farkas, farkastranslations.com"
                .into(),
        );
    }
    let page = format!("{OFFICIAL}/datasets/{dataset}");
    (format!("see {page}"), page)
}

/// File of a dataset.
#[derive(Debug, Clone)]
struct File {
    /// Path in the repository, or subset and split in the same form.
    path: String,
    /// `train`, `validation`, `test` or the dataset's own name of the split.
    split: String,
    remote: Remote,
}

/// Lists the files of a repository that may contain pairs.
fn files(
    dataset: &str,
    revision: &str,
    fetcher: &Fetcher,
    endpoints: &Endpoints,
) -> Result<Vec<File>, FetchError> {
    let query = format!("/api/datasets/{dataset}/tree/{revision}?recursive=true");
    let mut page = Remote {
        name: "tree.json".into(),
        addresses: vec![format!("{}{query}", endpoints.address(&API))],
        token: endpoints.token.clone(),
        ..Remote::at(&format!("{OFFICIAL}{query}"))
    };
    let mut found = Vec::new();
    for _ in 0..MAX_PAGES {
        let (value, next) = list(&page, fetcher)?;
        for entry in value.as_array().map(Vec::as_slice).unwrap_or_default() {
            let Some(path) = entry["path"].as_str().filter(|path| is_data(path)) else { continue };
            if entry["type"] != "file" {
                continue;
            }
            let place = format!(
                "/datasets/{dataset}/resolve/{revision}/{}",
                utf8_percent_encode(path, IN_PATH)
            );
            let remote = Remote {
                addresses: vec![format!("{}{place}", endpoints.address(&API))],
                size: entry["size"].as_u64(),
                // Small files stored directly in git have no SHA-256.
                sha256: entry["lfs"]["oid"].as_str().map(str::to_owned),
                token: endpoints.token.clone(),
                ..Remote::at(&format!("{OFFICIAL}{place}"))
            };
            found.push(File { path: path.into(), split: split(path), remote });
        }
        match next {
            // The cache key remains the original address if a mirror answers.
            Some(next) => {
                let Some(place) = on_hub(&next, endpoints) else { break };
                page.key = format!("{OFFICIAL}{place}");
                page.addresses = vec![format!("{}{place}", endpoints.address(&API))];
            }
            None => break,
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Parquet files into which the hub converts a dataset: subset → split → addresses.
fn converted(
    dataset: &str,
    fetcher: &Fetcher,
    endpoints: &Endpoints,
) -> Result<Vec<File>, FetchError> {
    let query = format!("/api/datasets/{dataset}/parquet");
    let remote = Remote {
        name: "parquet.json".into(),
        addresses: vec![format!("{}{query}", endpoints.address(&API))],
        token: endpoints.token.clone(),
        ..Remote::at(&format!("{OFFICIAL}{query}"))
    };
    let (value, _) = list(&remote, fetcher)?;
    let mut found = Vec::new();
    for (subset, splits) in value.as_object().into_iter().flatten() {
        for (split, addresses) in splits.as_object().into_iter().flatten() {
            for address in addresses.as_array().into_iter().flatten().filter_map(Value::as_str) {
                let Some(path) = on_hub(address, endpoints) else { continue };
                let remote = Remote {
                    addresses: vec![format!("{}{path}", endpoints.address(&API))],
                    token: endpoints.token.clone(),
                    ..Remote::at(&format!("{OFFICIAL}{path}"))
                };
                let split = usual(split).unwrap_or(split).to_owned();
                found.push(File { path: format!("{subset}/{split}"), split, remote });
            }
        }
    }
    if found.is_empty() {
        let problem = format!("`{dataset}` has no file in a supported format");
        return Err(unknown(problem, Some(Remedy::ChooseReadable)));
    }
    Ok(found)
}

/// Path and query of an address on the hub or its mirror. The token is sent to no other host.
fn on_hub(address: &str, endpoints: &Endpoints) -> Option<String> {
    below(address, endpoints.address(&API)).or_else(|| below(address, OFFICIAL))
}

/// Files of the requested subset, or of the subset named after the two languages.
fn choose(dataset: &str, files: Vec<File>, request: &Request) -> Result<Vec<File>, FetchError> {
    let of = |wanted: &dyn Fn(&str) -> bool| -> Vec<File> {
        let below = |file: &&File| names(&file.path).any(wanted);
        files.iter().filter(below).cloned().collect()
    };
    let subsets = || {
        let mut subsets: Vec<&str> = files
            .iter()
            .filter_map(|file| file.path.split_once('/'))
            .map(|(subset, _)| subset)
            .filter(|subset| *subset != "data" && usual(subset).is_none())
            .collect();
        subsets.dedup();
        subsets
    };
    let listed = || {
        let mut subsets = subsets();
        if subsets.len() > 40 {
            subsets.truncate(40);
            subsets.push("…");
        }
        subsets.join(", ")
    };
    if let Some(subset) = &request.subset {
        let chosen = of(&|name| name.eq_ignore_ascii_case(subset));
        return if chosen.is_empty() {
            let problem = format!("`{dataset}` has no subset `{subset}`; available: {}", listed());
            Err(unknown(problem, None))
        } else {
            Ok(chosen)
        };
    }
    let chosen = of(&|name| is_pair(name, &request.source, &request.target));
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    if subsets().len() > 1 {
        let (source, target) = (&request.source, &request.target);
        let problem = format!("`{dataset}` has no {source}-{target}; available: {}", listed());
        return Err(unknown(problem, Some(Remedy::NameSubset)));
    }
    Ok(files)
}

/// Folder names of a path, and its file name without endings.
fn names(path: &str) -> impl Iterator<Item = &str> {
    let stem = |name| str::split(name, '.').next().unwrap_or_default();
    path.rsplit('/')
        .enumerate()
        .map(move |(above, name)| if above == 0 { stem(name) } else { name })
}

/// Returns `true` for a name such as `en-it` or `it_en`.
fn is_pair(name: &str, source: &str, target: &str) -> bool {
    name.char_indices().filter(|(_, c)| "-_".contains(*c)).any(|(at, _)| {
        let (first, second) = (&name[..at], &name[at + 1..]);
        let are = |a: &str, b: &str| fit(first, a).is_some() && fit(second, b).is_some();
        are(source, target) || are(target, source)
    })
}

fn is_data(path: &str) -> bool {
    let path = path.strip_suffix(".gz").or_else(|| path.strip_suffix(".zst")).unwrap_or(path);
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    let hidden = path.split('/').any(|name| name.starts_with('.'));
    // Metadata files of a dataset, which are JSON too.
    let about = ["dataset_infos.json", "dataset_info.json", "state.json", "config.json"];
    !hidden && ENDINGS.contains(&ending) && !about.iter().any(|name| path.ends_with(name))
}

/// Split named by the file or a folder of a path.
fn split(path: &str) -> String {
    names(path)
        .find_map(|name| {
            let word = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
            usual(word).or_else(|| usual(name.split(['_', '-']).next_back()?))
        })
        .unwrap_or("train")
        .to_owned()
}

/// Returns `true` if a name is that of a split or of one of its files: `train_sft-00000-of-00002`.
fn is_split(name: &str, requested: &str) -> bool {
    name.strip_prefix(requested).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Canonical name of a split.
fn usual(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "train" | "training" => Some("train"),
        "validation" | "valid" | "val" | "dev" => Some("validation"),
        "test" | "testing" => Some("test"),
        _ => None,
    }
}

/// Returns `true` for `owner/dataset` in the hub's syntax.
fn is_dataset(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    };
    name.split_once('/').is_some_and(|(owner, dataset)| part(owner) && part(dataset))
}
