//! Named corpora from a local server with the responses of the real ones.

use tempfile::TempDir;
use tx_fetch::{Cache, Mode, Patience};
use tx_testing::server::{Act, Server, head, status};
use tx_text::SentencePair;

use super::{
    super::{
        columns::Columns,
        input::Limits,
        read::ReadOptions,
        tests::{csv_with, expected, jsonl, packings, tmx, tsv},
    },
    *,
};
const BOOKS: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/opus_books.en-it.parquet"));

/// Server that replaces all real ones, with a cache.
struct World {
    server: Server,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        Self { server: Server::new(), folder: tempfile::tempdir().unwrap() }
    }

    fn endpoints(&self) -> Endpoints {
        let url = self.server.url.clone();
        Endpoints::default()
            .with_mirrors("HF_ENDPOINT", vec![url.clone()])
            .with_mirrors("TX_MANYTHINGS_URL", vec![format!("{url}/anki")])
            .with_mirrors("TX_D2L_URL", vec![format!("{url}/d2l")])
            .with_mirrors("TX_MULTI30K_URL", vec![format!("{url}/gone"), format!("{url}/raw")])
            .with_mirrors("TX_OPUS_URL", vec![format!("{url}/objects")])
            .with_mirrors("TX_OPUS_API_URL", vec![format!("{url}/opusapi")])
    }

    fn fetcher(&self, mode: Mode) -> Fetcher {
        let patience = Patience { retries: 0, ..Patience::default() };
        Fetcher::new(Cache::at(self.folder.path()), mode).patience(patience)
    }

    fn find(&self, request: &Request) -> Result<Corpus, FetchError> {
        find(request, &self.fetcher(Mode::Online), &self.endpoints())
    }

    /// Finds and reads a corpus online and then offline; both results must be equal.
    fn read(&self, request: &Request, part: Part) -> Vec<SentencePair> {
        let read = |mode| {
            let fetcher = self.fetcher(mode);
            let corpus = find(request, &fetcher, &self.endpoints()).unwrap();
            let columns = Columns {
                source_language: Some(request.source.clone()),
                target_language: Some(request.target.clone()),
                ..Columns::default()
            };
            let options = ReadOptions { columns, format: None, limits: Limits::default() };
            corpus.read(part, &fetcher, &options).unwrap().collect::<Result<Vec<_>, _>>().unwrap()
        };
        let online = read(Mode::Online);
        let asked = self.server.seen().len();
        assert_eq!(read(Mode::Offline), online);
        assert_eq!(self.server.seen().len(), asked, "offline, no request is sent");
        online
    }

    /// Serves the list of files of a dataset, and the files.
    fn dataset(&self, name: &str, files: &[(&str, &[u8])]) {
        let entries: Vec<_> = files
            .iter()
            .map(|(path, bytes)| {
                serde_json::json!({
                    "type": "file", "oid": "0", "path": path, "size": bytes.len(),
                    "lfs": {"oid": sha256(bytes), "size": bytes.len(), "pointerSize": 130},
                })
            })
            .chain([serde_json::json!({"type": "directory", "oid": "0", "path": "en-it"})])
            .collect();
        let list = serde_json::to_vec(&entries).unwrap();
        self.server.file(&format!("/api/datasets/{name}/tree/main?recursive=true"), list);
        for (path, bytes) in files {
            self.server.file(&format!("/datasets/{name}/resolve/main/{path}"), *bytes);
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    tx_text::hash::hexadecimal(&sha2::Sha256::digest(bytes))
}

fn request(name: &str, source: &str, target: &str) -> Request {
    Request {
        name: name.into(),
        source: source.into(),
        target: target.into(),
        ..Request::default()
    }
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn zip(members: &[(&str, &str)]) -> Vec<u8> {
    use std::io::Write;
    let mut archive = ::zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, text) in members {
        archive.start_file(*name, ::zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[test]
fn opus_books_in_both_directions() {
    let world = World::new();
    world.dataset(
        "Helsinki-NLP/opus_books",
        &[
            ("README.md", b"---"),
            ("de-en/train-00000-of-00001.parquet", b"not this one"),
            ("en-it/train-00000-of-00001.parquet", BOOKS),
        ],
    );
    let pairs = world.read(&request("opus_books", "en", "it"), Part::Training);
    assert_eq!(pairs.len(), 6);
    assert_eq!(pairs[3].target, "«Cattiva gatta!» — disse.");
    let swapped = world.read(&request("opus_books", "it", "en"), Part::Training);
    assert_eq!(swapped[3].source, pairs[3].target);
    let corpus = world.find(&request("opus_books", "it", "en")).unwrap();
    assert!(!corpus.has(Part::Validation));
    let remote = corpus.remotes(&[Part::Training])[0];
    assert_eq!(remote.sha256, Some(sha256(BOOKS)));
    assert_eq!(
        remote.key,
        "https://huggingface.co/datasets/Helsinki-NLP/opus_books/resolve/main/en-it/\
         train-00000-of-00001.parquet"
    );
    let error = world.find(&request("opus_books", "en", "ja")).unwrap_err();
    assert!(error.to_string().contains("no en-ja; available: de-en, en-it"), "{error}");
}

#[test]
fn a_dataset_with_splits_and_several_files() {
    let world = World::new();
    let line = |de: &str, en: &str| {
        serde_json::json!({"translation": {"de": de, "en": en}}).to_string() + "\n"
    };
    let (first, second) = (line("a", "A"), line("b", "B"));
    let (valid, test, tune) = (line("v", "V"), line("t", "T"), line("s", "S"));
    world.dataset(
        "me/set",
        &[
            ("data/train-00001-of-00002.jsonl", second.as_bytes()),
            ("data/train-00000-of-00002.jsonl", first.as_bytes()),
            ("data/validation-00000-of-00001.jsonl", valid.as_bytes()),
            ("data/test.jsonl", test.as_bytes()),
            ("data/tune_sft-00000-of-00001.jsonl", tune.as_bytes()),
            ("dataset_infos.json", b"{}"),
        ],
    );
    let asked = request("me/set", "de", "en");
    let pair = SentencePair::new;
    // `tune_sft` is not known as another split, so it counts as training data; its name sorts last.
    let training = [pair("a", "A"), pair("b", "B"), pair("s", "S")];
    assert_eq!(world.read(&asked, Part::Training), training);
    assert_eq!(world.read(&asked, Part::Validation), [pair("v", "V")]);
    assert_eq!(world.read(&asked, Part::Test), [pair("t", "T")]);
    let split = |name: &str| Request { split: Some(name.into()), ..asked.clone() };
    assert_eq!(world.read(&split("dev"), Part::Training), [pair("v", "V")]);
    assert_eq!(world.read(&split("tune_sft"), Part::Training), [pair("s", "S")]);
    let error = world.find(&split("huge")).unwrap_err();
    assert!(error.to_string().contains("no split `huge`"), "{error}");
}

#[test]
fn subsets_are_chosen_by_languages_or_by_name() {
    let world = World::new();
    world.dataset(
        "me/pairs",
        &[
            ("en_US-de/train.tsv", b"a\tA\n"),
            ("x/eng-fra/train.tsv", b"b\tB\n"),
            ("easy/train.tsv", b"c\tC\n"),
        ],
    );
    let read = |request: &Request| world.read(request, Part::Training)[0].source.clone();
    assert_eq!(read(&request("me/pairs", "fr", "en")), "b");
    let subset = Request { subset: Some("EASY".into()), ..request("me/pairs", "en", "it") };
    assert_eq!(read(&subset), "c");
    let other = Request { subset: Some("hard".into()), ..request("me/pairs", "en", "it") };
    let error = world.find(&other).unwrap_err();
    assert!(
        error.to_string().contains("no subset `hard`; available: easy, en_US-de, x"),
        "{error}"
    );
}

#[test]
fn a_list_of_several_pages_is_followed() {
    let world = World::new();
    let path = "/api/datasets/me/long/tree/main?recursive=true";
    let next = format!("{path}&cursor=2");
    let link = format!("Link: <{}{next}>; rel=\"next\"\r\n", world.server.url);
    world.server.on(path, move |_, _| {
        let mut acts = head("200 OK", &format!("{link}Content-Length: 2\r\n"));
        acts.push(Act::Send(b"[]".to_vec()));
        acts
    });
    world.server.file(&next, r#"[{"type": "file", "path": "pairs.csv", "size": 8}]"#);
    world.server.file("/datasets/me/long/resolve/main/pairs.csv", "a,b\nc,d\n");
    let pairs = world.read(&request("me/long", "en", "it"), Part::Training);
    assert_eq!(pairs, [SentencePair::new("a", "b"), SentencePair::new("c", "d")]);
}

#[test]
fn a_dataset_made_by_a_script_is_read_from_the_hubs_parquet_files() {
    let world = World::new();
    world.server.file("/api/datasets/me/script/tree/main?recursive=true", "[]");
    let file = "/api/datasets/me/script/parquet/en-it/train/0.parquet";
    let list = format!(
        "{{\"de-en\": {{\"train\": []}}, \"en-it\": {{\"train\": [\"https://huggingface.co{file}\"]}}}}"
    );
    world.server.file("/api/datasets/me/script/parquet", list);
    world.server.on(file, |_, _| status("302 Found", "Location: /cdn\r\n"));
    world.server.file("/cdn", BOOKS);
    assert_eq!(world.read(&request("me/script", "it", "en"), Part::Training).len(), 6);
}

/// An address that begins like that of the hub but belongs to another host, as the next page of a
/// list and as a file.
#[test]
fn the_token_is_not_sent_to_an_address_that_only_begins_like_the_hub() {
    let world = World::new();
    let other = Server::new();
    let port = other.url.rsplit(':').next().unwrap().to_owned();
    let elsewhere = format!("{}@localhost:{port}", world.server.url);
    let link = format!("Link: <{elsewhere}/next>; rel=\"next\"\r\nContent-Length: 2\r\n");
    world.server.on("/api/datasets/me/data/tree/main?recursive=true", move |_, _| {
        let mut acts = head("200 OK", &link);
        acts.push(Act::Send(b"[]".to_vec()));
        acts
    });
    let list = serde_json::json!({ "en-it": { "train": [format!("{elsewhere}/0.parquet")] } });
    world.server.file("/api/datasets/me/data/parquet", list.to_string());
    let endpoints = Endpoints { token: Some("key".into()), ..world.endpoints() };
    let asked = request("me/data", "en", "it");
    let error = find(&asked, &world.fetcher(Mode::Online), &endpoints).unwrap_err();
    assert!(error.to_string().contains("no file in a supported format"), "{error}");
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

#[test]
fn the_token_is_sent_to_the_hub_and_denied_access_is_explained() {
    let world = World::new();
    world.server.on("/api/datasets/me/secret/tree/main?recursive=true", |seen, _| {
        match seen.header("authorization") {
            Some("Bearer key") => status("404 Not Found", ""),
            _ => status("401 Unauthorized", ""),
        }
    });
    let asked = request("me/secret", "en", "it");
    let error = world.find(&asked).unwrap_err();
    assert_eq!(error.remedy(), Some(Remedy::GiveToken), "{error}");
    let endpoints = Endpoints { token: Some("key".into()), ..world.endpoints() };
    let error = find(&asked, &world.fetcher(Mode::Online), &endpoints).unwrap_err();
    assert!(error.to_string().contains("404"), "{error}");
}

#[test]
fn manythings_and_d2l_have_either_direction() {
    let world = World::new();
    let table = "Go.\tVa !\tCC-BY 2.0\nHi.\tSalut !\tCC-BY 2.0\n";
    world.server.file("/anki/fra-eng.zip", zip(&[("_about.txt", "about"), ("fra.txt", table)]));
    let course = zip(&[("fra-eng/_about.txt", "about"), ("fra-eng/fra.txt", table)]);
    world.server.file("/d2l/fra-eng.zip", course);
    for name in ["manythings", "d2l-fra-eng"] {
        let read = |source, target| world.read(&request(name, source, target), Part::Training);
        assert_eq!(read("en", "fr")[1], SentencePair::new("Hi.", "Salut !"), "{name}");
        assert_eq!(read("fr", "en")[1], SentencePair::new("Salut !", "Hi."), "{name}");
        assert!(world.find(&request(name, "de", "fr")).is_err());
    }
    let corpus = world.find(&request("manythings", "en", "fr")).unwrap();
    assert!(corpus.license.contains("CC BY 2.0") && corpus.citation.contains("Tatoeba"));
}

#[test]
fn multi30k_falls_back_to_a_mirror() {
    let world = World::new();
    for (set, lines) in [("train", 3), ("val", 2), ("test_2016_flickr", 1)] {
        for language in ["en", "de"] {
            let text = format!("{language}\n").repeat(lines);
            world.server.file(&format!("/raw/{set}.{language}.gz"), gzip(&text));
        }
    }
    let asked = request("multi30k", "de", "en");
    for (part, pairs) in [(Part::Training, 3), (Part::Validation, 2), (Part::Test, 1)] {
        assert_eq!(world.read(&asked, part), vec![SentencePair::new("de", "en"); pairs]);
    }
    let error = world.find(&request("multi30k", "de", "it")).unwrap_err();
    assert!(error.to_string().contains("no language `it`; available: en, de, fr, cs"), "{error}");
}

#[test]
fn opus_pairs_are_ordered_and_the_newest_version_is_queried() {
    let world = World::new();
    let archive = zip(&[
        ("README", "about"),
        ("Books.en-it.en", "one\n"),
        ("Books.en-it.it", "uno\n"),
        ("Books.en-it.xml", "<x/>"),
    ]);
    world.server.file("/objects/OPUS-Books/v1/moses/en-it.txt.zip", archive);
    let query = "corpus=Books&source=en&target=it&preprocessing=moses&version=latest";
    world.server.file(
        &format!("/opusapi/?{query}"),
        r#"{"corpora": [{"corpus": "Books", "version": "v1", "url": "https://…"}]}"#,
    );
    let expected = [SentencePair::new("uno", "one")];
    assert_eq!(world.read(&request("opus:Books/v1", "it", "en"), Part::Training), expected);
    assert_eq!(world.server.seen().len(), 1);
    assert_eq!(world.read(&request("opus:Books", "it", "en"), Part::Training), expected);
    let query = "corpus=Bocks&source=en&target=it&preprocessing=moses&version=latest";
    world.server.file(&format!("/opusapi/?{query}"), r#"{"corpora": []}"#);
    let error = world.find(&request("opus:Bocks", "it", "en")).unwrap_err();
    assert!(error.to_string().contains("no corpus `Bocks` in en and it"), "{error}");
}

#[test]
fn an_address_is_a_name() {
    let world = World::new();
    world.server.file("/x/pairs.zip", zip(&[("a.tsv", "one\tuno\n"), ("b.tsv", "two\tdue\n")]));
    let name = format!("{}/x/pairs.zip!b.tsv", world.server.url);
    let pairs = world.read(&request(&name, "en", "it"), Part::Training);
    assert_eq!(pairs, [SentencePair::new("two", "due")]);
}

#[test]
fn every_format_in_every_packing_is_served() {
    let world = World::new();
    let texts = [tsv(), csv_with(",", "en,it\n"), jsonl(), tmx()];
    for (format, text) in texts.iter().enumerate() {
        for (index, (packing, bytes)) in packings("pairs", text.as_bytes()).into_iter().enumerate()
        {
            let path = format!("/{format}/{index}");
            world.server.file(&path, bytes);
            let name = format!("{}{path}", world.server.url);
            let pairs = world.read(&request(&name, "en", "it"), Part::Training);
            assert_eq!(pairs, expected(), "{format}, {packing}");
        }
    }
}

#[test]
fn invalid_names_are_rejected() {
    let world = World::new();
    for name in ["nothing", "opus:../x", "a/b/c", "../x", "a/..", "opus:"] {
        let error = world.find(&request(name, "en", "it")).unwrap_err();
        assert!(matches!(error, FetchError::Unknown { .. }), "{name}: {error}");
    }
    assert!(world.find(&request("opus_books", "en", "../it")).is_err());
    assert!(world.find(&request("opus_books", "", "it")).unwrap_err().remedy().is_some());
    assert_eq!(world.server.seen().len(), 0);
}

#[test]
fn the_official_addresses_are_the_default() {
    let endpoints = KNOWN.iter().flat_map(|publisher| publisher.endpoints);
    let official: Vec<&str> = endpoints
        .inspect(|of| assert!(Endpoints::default().is_official(of)))
        .flat_map(|of| of.official.to_vec())
        .collect();
    assert_eq!(official[0], "https://huggingface.co");
    assert!(official.iter().all(|address| address.starts_with("https://")));
}
