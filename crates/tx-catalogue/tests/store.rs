//! Downloads of models from a local server.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::write::GzEncoder;
use tempfile::TempDir;
use tx_catalogue::{Catalogue, CatalogueError, Store};
use tx_fetch::{Cache, Fetcher, Mode, Patience};
use tx_infer::{Bundle, Device, Shortlist, Translator};
use tx_testing::server::{Act, Server, good, head, status, truncated};

/// Files of a model of JoeyNMT.
const FILES: [&str; 4] = ["best.ckpt", "config.yaml", "src_vocab.txt", "trg_vocab.txt"];

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tx-convert/tests/fixtures/joeynmt/pre")
        .join(file)
}

/// Server with the files of a model, and a cache.
struct Bench {
    server: Server,
    cache: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { server: Server::new(), cache: tempfile::tempdir().unwrap() };
        for file in FILES {
            bench.server.file(&format!("/{file}"), fs::read(fixture(file)).unwrap());
        }
        bench
    }

    fn fetcher(&self, mode: Mode) -> Fetcher {
        let patience = Patience {
            stall: Duration::from_millis(400),
            backoff: Duration::from_millis(5),
            longest_wait: Duration::from_millis(50),
            retries: 2,
            ..Patience::default()
        };
        Fetcher::new(Cache::at(self.cache.path()), mode).patience(patience)
    }

    fn store(&self) -> Store {
        Store::in_cache(self.fetcher(Mode::Online).cache())
    }

    /// Catalogue with the model `toy`; `fields` are those of the file `best.ckpt`.
    fn catalogue(&self, fields: &str) -> String {
        let mut text = "[[models]]\nname = \"toy\"\nsource = \"en\"\ntarget = \"it\"\n\
                        format = \"joeynmt\"\nlicense = \"MIT\"\nfiles = [\n"
            .to_owned();
        for file in FILES {
            let fields = if file == "best.ckpt" { fields } else { "" };
            writeln!(text, "{{ url = \"{}/{file}\" {fields} }},", self.server.url).unwrap();
        }
        text + "]\n"
    }

    fn get_with(&self, fields: &str, mode: Mode) -> Result<PathBuf, CatalogueError> {
        let catalogue = Catalogue::parse(&self.catalogue(fields), "test").unwrap();
        self.store().get(catalogue.entry("toy").unwrap(), &self.fetcher(mode))
    }

    fn get(&self) -> Result<PathBuf, CatalogueError> {
        self.get_with("", Mode::Online)
    }

    /// Error of a download after which the store is empty.
    fn refused(&self, fields: &str) -> String {
        let error = self.get_with(fields, Mode::Online).unwrap_err();
        assert_eq!(self.store().names().unwrap(), [""; 0]);
        let folders = fs::read_dir(self.store().root()).into_iter().flatten().flatten();
        assert_eq!(folders.filter(|entry| entry.path().is_dir()).count(), 0);
        error.to_string()
    }
}

#[test]
fn a_model_is_downloaded_once_and_translates() {
    let bench = Bench::new();
    let bundle = bench.get().unwrap();
    assert_eq!(bench.store().bundle("toy").unwrap(), bundle);
    assert_eq!(bench.store().names().unwrap(), ["toy"]);
    let translator = Translator::open(&bundle, &Device::Cpu).unwrap();
    assert!(translator.translate("the dog sees the cat .").is_ok());
    let provenance = Bundle::open(&bundle).unwrap().provenance;
    assert_eq!(provenance["import"]["format"].as_str(), Some("joeynmt"));

    let requests = bench.server.seen().len();
    bench.get().unwrap();
    bench.get_with("", Mode::Offline).unwrap();
    assert_eq!(bench.server.seen().len(), requests);

    bench.store().remove("toy").unwrap();
    let error = bench.store().bundle("toy").unwrap_err().to_string();
    assert!(error.starts_with("no model `toy` was downloaded"), "{error}");
    assert!(bench.store().remove("toy").is_err());
    // The files are still in the cache.
    bench.get_with("", Mode::Offline).unwrap();
    assert_eq!(bench.server.seen().len(), requests);
}

/// A model of Firefox, whose files are compressed, with its shortlist.
#[test]
fn compressed_files_are_unpacked() {
    const FILES: [&str; 3] =
        ["model.ende.intgemm.alphas.bin", "vocab.ende.spm", "lex.12.6.ende.s2t.bin"];
    let bench = Bench::new();
    let mut text = "[[models]]\nname = \"firefox\"\nsource = \"en\"\ntarget = \"de\"\n\
                    format = \"marian\"\nlicense = \"MIT\"\nfiles = [\n"
        .to_owned();
    for file in FILES {
        let content = fs::read(fixture("../../firefox").join(file)).unwrap();
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&content).unwrap();
        bench.server.file(&format!("/{file}.gz"), packed.finish().unwrap());
        writeln!(text, "{{ url = \"{}/{file}.gz\" }},", bench.server.url).unwrap();
    }
    let catalogue = Catalogue::parse(&(text + "]\n"), "test").unwrap();
    let entry = catalogue.entry("firefox").unwrap();
    let bundle = bench.store().get(entry, &bench.fetcher(Mode::Online)).unwrap();
    let translator = Translator::open(&bundle, &Device::Cpu).unwrap();
    let shortlist = Shortlist::open(bundle.join("shortlist.safetensors")).unwrap();
    let translation =
        translator.with_shortlist(shortlist).unwrap().translate("nobody paints it today .");
    assert_eq!(translation.unwrap().text, "niemand malt es heute .");

    bench.server.file("/vocab.ende.spm.gz", b"\x1f\x8b\x08 no gzip".to_vec());
    let error = bench.store().get(entry, &bench.fetcher(Mode::Refresh)).unwrap_err();
    assert!(matches!(error, CatalogueError::Io { .. }), "{error}");
    assert!(bench.store().bundle("firefox").is_ok());
}

#[test]
fn transfers_that_break_are_resumed_and_redirects_followed() {
    let bench = Bench::new();
    let body = fs::read(fixture("best.ckpt")).unwrap();
    let moved = format!("Location: {}/elsewhere\r\n", bench.server.url);
    bench.server.on("/best.ckpt", move |_, _| status("302 Found", &moved));
    bench.server.on("/elsewhere", move |seen, nth| match nth {
        0 => truncated(&body, 20_000, "\"v1\""),
        1 => status("503 Service Unavailable", ""),
        _ => good(seen, &body, "\"v1\""),
    });
    bench.get().unwrap();
    let ranges = bench.server.seen().iter().filter(|seen| seen.header("range").is_some()).count();
    assert!(ranges > 0);
}

#[test]
fn wrong_files_are_refused_and_leave_nothing() {
    let bench = Bench::new();
    let zeros = "0".repeat(64);
    let found = bench.refused(&format!(", sha256 = \"{zeros}\""));
    assert!(found.contains("The files of the model `toy`") && found.contains(&zeros), "{found}");
    assert!(found.contains("/trg_vocab.txt"), "{found}");

    let bench = Bench::new();
    let found = bench.refused(", bytes = 7");
    assert!(found.contains("expected 7"), "{found}");

    // A page in place of the file: the import finds out, because no checksum is known.
    let bench = Bench::new();
    bench.server.file("/best.ckpt", "<html>Please log in</html>");
    let found = bench.refused("");
    assert!(found.contains("best.ckpt"), "{found}");

    let bench = Bench::new();
    bench.server.on("/config.yaml", |_, _| status("404 Not Found", ""));
    assert!(bench.refused("").contains("404"));

    let bench = Bench::new();
    bench.server.on("/config.yaml", |_, _| {
        let mut acts = head("200 OK", "Content-Length: 1000\r\n");
        acts.push(Act::Wait(Duration::from_secs(5)));
        acts
    });
    let found = bench.refused("");
    assert!(found.contains("timeout"), "{found}");
}

/// A killed process leaves a folder, and several processes may want the same model.
#[test]
fn a_model_is_converted_by_one_process_at_a_time() {
    let bench = Bench::new();
    let left = bench.store().root().join(".new-left");
    fs::create_dir_all(&left).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| bench.get().unwrap());
        }
    });
    assert!(!left.exists());
    assert_eq!(bench.store().names().unwrap(), ["toy"]);
}

#[test]
fn a_failed_refresh_keeps_the_model() {
    let bench = Bench::new();
    let bundle = bench.get().unwrap();
    bench.server.file("/config.yaml", "data: 7\n");
    assert!(bench.get_with("", Mode::Refresh).is_err());
    assert!(Bundle::open(&bundle).is_ok());
    bench.server.file("/config.yaml", fs::read(fixture("config.yaml")).unwrap());
    bench.get_with("", Mode::Refresh).unwrap();
    assert!(Bundle::open(&bundle).is_ok());
}

#[test]
fn files_from_other_means_are_compared_with_the_catalogue() {
    let bench = Bench::new();
    let catalogue = |fields: &str| Catalogue::parse(&bench.catalogue(fields), "test").unwrap();
    let error = bench.get_with("", Mode::Offline).unwrap_err().to_string();
    assert!(error.contains("The files of the model") && error.contains("/config.yaml"), "{error}");

    let plain = catalogue("");
    let folder = fixture("");
    let bundle = bench.store().get_from(plain.entry("toy").unwrap(), &folder).unwrap();
    assert!(Bundle::open(&bundle).is_ok());
    let zeros = "0".repeat(64);
    for fields in [", bytes = 7", &format!(", sha256 = \"{zeros}\"")] {
        let other = catalogue(fields);
        let error = bench.store().get_from(other.entry("toy").unwrap(), &folder).unwrap_err();
        assert!(matches!(error, CatalogueError::OtherFile { .. }), "{error}");
    }
    let empty = tempfile::tempdir().unwrap();
    assert!(bench.store().get_from(plain.entry("toy").unwrap(), empty.path()).is_err());
    assert_eq!(bench.server.seen().len(), 0);
}

#[test]
fn a_catalogue_can_be_downloaded() {
    let bench = Bench::new();
    bench.server.file("/models.toml", bench.catalogue(""));
    let address = format!("{}/models.toml", bench.server.url);
    let catalogue = Catalogue::open(&address, &bench.fetcher(Mode::Online)).unwrap();
    assert_eq!(catalogue.entry("toy").unwrap().license, "MIT");
    bench.server.file("/broken.toml", "[[models]]\nname = 3\n");
    let address = format!("{}/broken.toml", bench.server.url);
    let error = Catalogue::open(&address, &bench.fetcher(Mode::Online)).unwrap_err().to_string();
    assert!(error.contains("broken.toml"), "{error}");
    assert!(Catalogue::open("/none.toml", &bench.fetcher(Mode::Online)).is_err());
}
