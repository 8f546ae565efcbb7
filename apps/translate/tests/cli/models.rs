use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

/// Runs the program with a cache of its own and without a network.
fn run(cache: &TempDir, arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_translate"))
        .args(arguments)
        .env("TX_CACHE", cache.path())
        .output()
        .unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), stdout, stderr)
}

/// Folder with the files of a model of JoeyNMT.
fn toy() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/tx-convert/tests/fixtures/joeynmt/pre")
}

/// A catalogue with this model, whose addresses no request reaches.
fn catalogue(folder: &TempDir) -> String {
    let files = ["best.ckpt", "config.yaml", "src_vocab.txt", "trg_vocab.txt"];
    let files = files.map(|file| format!("{{ url = \"http://127.0.0.1:9/{file}\" }}")).join(", ");
    let path = folder.path().join("models.toml");
    let text = format!(
        "[[models]]\nname = \"toy\"\nsource = \"en\"\ntarget = \"it\"\nformat = \"joeynmt\"\n\
         license = \"MIT\"\nfiles = [{files}]\n"
    );
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_downloaded_model_translates_by_its_name() {
    let cache = tempfile::tempdir().unwrap();
    let catalogue = catalogue(&cache);
    let from = toy();
    let from = from.to_str().unwrap();
    let (code, printed, shown) =
        run(&cache, &["models", "get", "toy", "--catalogue", &catalogue, "--from", from]);
    assert_eq!((code, &*shown), (0, "license: MIT\n"));
    assert!(Path::new(printed.trim()).ends_with("models/toy"), "{printed}");

    let (code, translated, shown) = run(&cache, &["--model", "toy", "--text", "the dog ."]);
    assert_eq!((code, translated.lines().count()), (0, 1), "{shown}");
    let (code, inspected, _) = run(&cache, &["inspect", "--model", "toy"]);
    assert!(code == 0 && inspected.contains("joeynmt"), "{inspected}");

    let downloaded = ["models", "list", "--catalogue", &catalogue, "--downloaded"];
    assert_eq!(run(&cache, &downloaded).1, "toy\ten\tit\tdownloaded\tMIT\n");
    // Its catalogue is not given.
    let (_, list, _) = run(&cache, &["models", "list", "--downloaded"]);
    assert_eq!(list, "toy\t-\t-\tdownloaded\t-\n");
    let (_, info, _) = run(&cache, &["models", "info", "toy", "--catalogue", &catalogue]);
    for part in ["en to it", "joeynmt", "http://127.0.0.1:9/best.ckpt", "models/toy"] {
        assert!(info.contains(part), "no `{part}` in:\n{info}");
    }
    assert_eq!(run(&cache, &["models", "remove", "toy"]).0, 0);
    let (code, _, shown) = run(&cache, &["--model", "toy", "--text", "the dog ."]);
    assert!(code == 1 && shown.contains("translate models get"), "{shown}");
    let (code, _, shown) = run(&cache, &["models", "remove", "toy"]);
    assert!(code == 1 && shown.contains("no model `toy` was downloaded"), "{shown}");
}

#[test]
fn the_shipped_catalogue_is_listed_without_a_network() {
    let cache = tempfile::tempdir().unwrap();
    let (code, list, shown) = run(&cache, &["models", "list", "--source", "en", "--target", "it"]);
    assert_eq!((code, &*shown), (0, ""));
    let names: Vec<&str> = list.lines().filter_map(|line| line.split('\t').next()).collect();
    assert_eq!(names, ["argos-en-it", "opus-mt-en-it", "firefox-en-it"]);
    let (code, _, shown) = run(&cache, &["models", "get", "argos-en-klingon"]);
    assert!(code == 1 && shown.contains("no model `argos-en-klingon`"), "{shown}");
    assert!(shown.contains("hint: `translate models list`"), "{shown}");
}

/// Nothing answers at the address.
#[test]
fn without_a_network_the_files_are_named() {
    let cache = tempfile::tempdir().unwrap();
    let catalogue = catalogue(&cache);
    for options in [&["--offline"][..], &["--retries", "0"]] {
        let get = [&["models", "get", "toy", "--catalogue", &catalogue], options].concat();
        let (code, printed, shown) = run(&cache, &get);
        assert_eq!((code, &*printed), (1, ""));
        for part in ["http://127.0.0.1:9/src_vocab.txt", "hint: ", "--from DIR"] {
            assert!(shown.contains(part), "no `{part}` in:\n{shown}");
        }
    }
}
