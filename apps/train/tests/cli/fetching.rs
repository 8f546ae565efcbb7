use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use sha2::{Digest, Sha256};
use tx_testing::server::{Act, Server, good, head, truncated};

use crate::{Run, Workshop, gzip, set};

/// File with the layout of opus_books, written by a committed script.
const BOOKS: &[u8] = include_bytes!("../../../../crates/tx-data/tests/fixtures/flat.zstd.parquet");

/// A workshop, and a local server that replaces all real ones.
struct World {
    workshop: Workshop,
    server: Server,
}

impl World {
    fn new() -> Self {
        let world = Self { workshop: Workshop::new(), server: Server::new() };
        let list = serde_json::json!([{
            "type": "file", "path": "en-it/train-00000-of-00001.parquet", "size": BOOKS.len(),
            "lfs": {"oid": hash(BOOKS), "size": BOOKS.len()},
        }]);
        let dataset = "Helsinki-NLP/opus_books";
        let tree = format!("/api/datasets/{dataset}/tree/main?recursive=true");
        world.server.file(&tree, list.to_string());
        world.server.file(&world.books(), BOOKS);
        world
    }

    fn books(&self) -> String {
        "/datasets/Helsinki-NLP/opus_books/resolve/main/en-it/train-00000-of-00001.parquet".into()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.workshop.command(arguments);
        let url = &self.server.url;
        for proxy in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY"] {
            command.env_remove(proxy).env_remove(proxy.to_lowercase());
        }
        command
            .env("TX_CACHE", self.workshop.path("cache"))
            .env("HF_ENDPOINT", url)
            .env("TX_D2L_URL", url)
            .env("TX_MANYTHINGS_URL", url)
            .env_remove("HF_TOKEN");
        command
    }

    fn train(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().unwrap())
    }

    /// Counts requests for paths that end with `end`.
    fn asked(&self, end: &str) -> usize {
        self.server.seen().iter().filter(|seen| seen.path.ends_with(end)).count()
    }
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

const FETCH_BOOKS: [&str; 6] = ["fetch", "opus_books", "--source", "en", "--target", "de"];

/// Settings that make a recipe small enough for a test.
const SMALL: [&str; 10] = [
    "model.d_model=16",
    "model.n_heads=2",
    "model.d_ff=16",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "train.epochs=1",
    "train.max_steps=4",
    "data.train_pairs=60",
    "validation.sentences=6",
    "validation.best_by=loss",
];

#[test]
fn the_corpora_are_listed() {
    let run = Workshop::new().train(&["fetch"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for name in ["opus_books", "multi30k", "manythings", "opus:CORPUS", "OWNER/DATASET"] {
        assert!(run.stdout.contains(name), "{}", run.stdout);
    }
}

#[test]
fn a_corpus_is_fetched_once_and_its_path_printed() {
    let world = World::new();
    let run = world.train(&["fetch", "opus_books", "--source", "en", "--target", "it"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.logged(&["license: free for personal", "Tiedemann 2012", "fetching ", "as expected"]);
    let path = run.stdout.trim_end().to_owned();
    assert_eq!(fs::read(&path).unwrap(), BOOKS);
    let offline = ["fetch", "opus_books", "--source", "en", "--target", "it", "--offline", "-q"];
    let again = world.train(&offline);
    assert_eq!((again.code, again.stdout.trim_end(), again.stderr.as_str()), (Some(0), &*path, ""));
    assert_eq!(world.server.seen().len(), 2);
    fs::write(&path, &BOOKS[..1000]).unwrap();
    world.train(&offline).failed(1, &["has changed since it was fetched: 1000 bytes", "hint: "]);
}

#[test]
fn a_dry_run_lists_the_files_to_download() {
    let world = World::new();
    let run = world.train(&[
        "fetch",
        "opus_books",
        "--source",
        "en",
        "--target",
        "it",
        "--dry-run",
        "--quiet",
    ]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("to fetch\t28."), "{}", run.stdout);
    assert_eq!(world.asked(".parquet"), 0);
}

#[test]
fn wrong_names_and_languages_are_explained() {
    let world = World::new();
    let words = ["has no subset `en-de`", "en-it"];
    world.train(&[&FETCH_BOOKS[..], &["--subset", "en-de"]].concat()).failed(1, &words);
    let run = world.train(&["fetch", "opus_boks"]);
    run.failed(1, &["`opus_boks` requires the languages of both sides", "hint"]);
    let pair = ["--source", "en", "--target", "de"];
    let run = world.train(&[&["fetch", "opus_boks"][..], &pair].concat());
    run.failed(1, &["unknown source `opus_boks`; available: opus_books, "]);
    let run = world.train(&["--recipe", "fra-eng", "--set", "data.source=opus_boks"]);
    run.failed(2, &["`source` = \"opus_boks\" is unknown; accepted are \"files\""]);
    let gone = [&["fetch", "me/gone", "--retries", "0"][..], &pair].concat();
    world.train(&gone).failed(1, &["cannot fetch `tree.json`", "404"]);
}

/// Trains the recipe `opus-books` from the list of files to a bundle. The columns `en` and `de` of the
/// fixture replace the two languages.
#[test]
fn the_recipe_opus_books_runs_from_a_server() {
    let world = World::new();
    // Its sentences differ in numbers only, so none can be held out for validation.
    let columns = ["data.target_column=de", "data.source_column=en", "data.valid_share=0"];
    let settings = set(&[&SMALL[..], &columns].concat());
    let recipe = [&["--recipe", "opus-books", "--run", "run"][..], &settings].concat();
    // Nothing is downloaded without `--fetch`.
    let train = env!("CARGO_BIN_EXE_train");
    let hint = format!(
        "hint: fetch it with `{train} fetch opus_books --source en --target it`, or add `--fetch`"
    );
    let missing = ["the corpus `opus_books` en-it has not been fetched", &hint];
    world.train(&recipe).failed(1, &missing);
    world
        .train(&[&["data", "stats", "--recipe", "opus-books"][..], &settings].concat())
        .failed(1, &missing);
    assert_eq!(world.server.seen().len(), 0);
    world
        .train(&[&recipe[..], &["--fetch"]].concat())
        .trained()
        .logged(&["license: ", "bundle: run"]);
    let asked = world.server.seen().len();
    // A second run and a resumed one need no network.
    let again = [&["--recipe", "opus-books", "--run", "again"][..], &settings].concat();
    world.train(&again).trained();
    world.train(&["--resume", "run", "--set", "train.max_steps=6"]).trained();
    assert_eq!(world.server.seen().len(), asked);
    // Without the cache, a resumed run needs `--fetch`.
    fs::remove_dir_all(world.workshop.path("cache")).unwrap();
    let resume = ["--resume", "run", "--set", "train.max_steps=8"];
    world.train(&resume).failed(1, &missing);
    world.train(&[&resume[..], &["--fetch"]].concat()).trained().logged(&["license: "]);
}

#[test]
fn the_recipe_fra_eng_runs_from_a_server() {
    let world = World::new();
    let table: String = (0..40).map(|n| format!("Go {n}.\tVa {n} !\tCC-BY\n")).collect();
    let archive = tar_gz("fra-eng/fra.txt", table.as_bytes());
    // The format is detected from the content: this tar.gz is named fra-eng.zip.
    world.server.file("/fra-eng.zip", archive);
    let settings = set(&SMALL);
    let recipe = [&["--recipe", "fra-eng", "--fetch", "--run", "run"][..], &settings].concat();
    world.train(&recipe).trained().logged(&[
        "CC BY 2.0",
        "recorded at the first download",
        "bundle: run",
    ]);
}

#[test]
fn validation_pairs_may_come_from_a_file_beside_a_named_corpus() {
    let world = World::new();
    let table: String = (0..40).map(|n| format!("Go {n}.\tVa {n} !\tCC-BY\n")).collect();
    world.server.file("/fra-eng.zip", tar_gz("fra-eng/fra.txt", table.as_bytes()));
    world.workshop.write("valid.tsv", "Stop!\tArrête !\nWait!\tAttends !\nRun!\tCours !\n");
    let settings = set(&[&SMALL[..], &["data.valid_share=0"]].concat());
    let recipe = ["--recipe", "fra-eng", "--fetch", "--run", "run", "--valid-file", "valid.tsv"];
    let run = world.train(&[&recipe[..], &settings].concat());
    run.trained().logged(&["training: 40 pairs", "validation: 3 pairs"]);
}

/// Returns a tar of one file: 512 bytes of header, the file, two empty blocks.
fn tar_gz(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", bytes.len()).as_bytes());
    header[148..156].copy_from_slice(b"        ");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let padding = vec![0; bytes.len().next_multiple_of(512) - bytes.len() + 1024];
    gzip(&[&header[..], bytes, &padding].concat())
}

#[test]
fn a_file_of_any_format_and_standard_input_are_read() {
    let world = World::new();
    // Distinct words, because sentences that differ in numbers only are not split.
    let words = || ('a'..='j').flat_map(|a| ('k'..='p').map(move |b| format!("{a}{b}")));
    let tmx = |word: String| {
        format!(
            "<tu><tuv xml:lang='en'><seg>{word}</seg></tuv><tuv xml:lang='it'><seg>{word}a\
             </seg></tuv></tu>"
        )
    };
    let units: String = words().map(tmx).collect();
    let tmx = format!("<tmx version='1.4'><body>{units}</body></tmx>");
    world.workshop.write("pairs.anything", gzip(tmx.as_bytes()));
    let languages = ["--set", "data.source_language=en", "--set", "data.target_language=it"];
    let run = world.workshop.train_tiny_on(&["--file", "pairs.anything"], "a", &languages);
    run.trained();

    let line = |word: String| format!("{{\"en\": \"{word}\", \"it\": \"{word}a\"}}\n");
    let lines: String = words().map(line).collect();
    let arguments = crate::tiny(&["--file", "-"], "b", &languages);
    let mut command = world.workshop.command(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    Run::of(child.wait_with_output().unwrap()).trained();

    world.workshop.write("bad.csv", "en,it\n1,2\n3\n");
    let run = world.workshop.train_tiny_on(&["--file", "bad.csv"], "c", &languages);
    run.failed(1, &["`bad.csv` line 3: 1 columns, expected at least 2", "hint: "]);
    let run =
        world.workshop.train_tiny_on(&["--file", "bad.csv", "--set", "data.format=doc"], "c", &[]);
    run.failed(2, &["unknown variant `doc`", "`parquet`"]);
}

#[test]
fn two_programs_fetch_one_file_once() {
    let world = World::new();
    world.server.on(&world.books(), |seen, _| {
        [vec![Act::Wait(Duration::from_millis(1500))], good(seen, BOOKS, "\"v1\"")].concat()
    });
    let arguments = ["fetch", "opus_books", "--source", "en", "--target", "it"];
    let runs: Vec<Run> = thread::scope(|scope| {
        let run = || scope.spawn(|| world.train(&arguments));
        let both = [run(), run()];
        both.map(|one| one.join().unwrap()).into()
    });
    assert!(runs.iter().all(|run| run.code == Some(0)), "{}{}", runs[0].stderr, runs[1].stderr);
    assert_eq!(runs[0].stdout, runs[1].stdout);
    assert_eq!(fs::read(runs[0].stdout.trim_end()).unwrap(), BOOKS);
    assert_eq!(world.asked(".parquet"), 1);
    assert!(runs.iter().any(|run| run.stderr.contains("another process is fetching")));
}

/// The next download continues a killed one; the cache has no partial file in between.
#[test]
fn a_killed_fetch_is_resumed() {
    let world = World::new();
    world.server.on(&world.books(), |seen, nth| match nth {
        0 => {
            [truncated(BOOKS, 20_000, "\"v1\""), vec![Act::Wait(Duration::from_secs(30))]].concat()
        }
        _ => good(seen, BOOKS, "\"v1\""),
    });
    let arguments = ["fetch", "opus_books", "--source", "en", "--target", "it", "--quiet"];
    let mut child = world.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    let part = || {
        let parts = walk(&world.workshop.path("cache"));
        parts.into_iter().find(|path| {
            path.ends_with("part") && fs::metadata(path).is_ok_and(|m| m.len() == 20_000)
        })
    };
    for _ in 0..1_000 {
        if part().is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let offline = [&arguments[..], &["--offline"]].concat();
    world.train(&offline).failed(1, &["is not in the cache"]);
    let run = world.train(&arguments);
    assert_eq!(fs::read(run.stdout.trim_end()).unwrap(), BOOKS, "{}", run.stderr);
    let last = world.server.seen().pop().unwrap();
    assert_eq!(last.header("range"), Some("bytes=20000-"));
}

#[test]
fn a_proxy_of_the_environment_is_used_unless_no_proxy_excludes_it() {
    let world = World::new();
    // A tunnel that answers itself; the pause leaves time to read before the connection closes.
    world.server.on("far.invalid:80", |_, _| {
        let open = Act::Send(b"HTTP/1.1 200 OK\r\n\r\n".to_vec());
        let pause = Act::Wait(Duration::from_millis(300));
        let answer = Act::Send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na\tb\n".to_vec());
        vec![open, pause.clone(), answer, pause]
    });
    let arguments = ["fetch", "http://far.invalid/pairs.tsv", "--source", "en", "--target", "it"];
    let fetch = |no_proxy: &str| {
        let mut command = world.command(&[&arguments[..], &["--retries", "0"]].concat());
        command.env("HTTP_PROXY", &world.server.url).env("NO_PROXY", no_proxy);
        Run::of(command.output().unwrap())
    };
    fetch("far.invalid").failed(1, &["cannot fetch `pairs.tsv`"]);
    assert_eq!(world.server.seen().len(), 0);
    let run = fetch("near.invalid");
    assert_eq!(fs::read(run.stdout.trim_end()).unwrap_or_default(), b"a\tb\n", "{}", run.stderr);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Runs `mount`; returns whether it succeeded.
#[cfg(target_os = "linux")]
fn mount(arguments: &[&str], folder: &std::path::Path) -> bool {
    let status = Command::new("mount").args(arguments).arg(folder).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_and_a_read_only_cache() {
    let world = World::new();
    let cache = world.workshop.path("cache");
    fs::create_dir(&cache).unwrap();
    if !mount(&["-t", "tmpfs", "-o", "size=64k", "tmpfs"], &cache) {
        eprintln!("SKIPPED: this user may not mount a small file system");
        return;
    }
    let file = |name: &str| format!("{}/{name}", world.server.url);
    world.server.on("/big.tsv", |_, _| {
        let body = "a\tb\n".repeat(50_000);
        let mut acts = head("200 OK", &format!("Content-Length: {}\r\n", body.len()));
        acts.push(Act::Send(body.into()));
        acts
    });
    world.server.file("/small.tsv", "a\tb\n");
    let pair = ["--source", "en", "--target", "it"];
    let fetch = |name: &str, more: &[&str]| {
        world.train(&[&["fetch", &file(name)][..], &pair, more].concat())
    };
    let full = fetch("big.tsv", &[]);
    let nothing = fetch("big.tsv", &["--offline"]);
    assert!(mount(&["-o", "remount,size=8m"], &cache));
    let small = fetch("small.tsv", &[]);
    assert!(mount(&["-o", "remount,ro"], &cache));
    let known = fetch("small.tsv", &[]);
    let unknown = fetch("big.tsv", &[]);
    assert!(mount(&["-o", "remount,rw"], &cache));
    let big = fetch("big.tsv", &[]);
    assert!(Command::new("umount").arg(&cache).status().unwrap().success());
    full.failed(1, &["cannot write `", "No space left on device", "hint: set `TX_CACHE`"]);
    nothing.failed(1, &["is not in the cache"]);
    assert_eq!((small.code, known.code, big.code), (Some(0), Some(0), Some(0)), "{}", big.stderr);
    unknown.failed(1, &["cannot write `", "Read-only file system"]);
}
