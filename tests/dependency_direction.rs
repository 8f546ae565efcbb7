//! The arrows between the crates, as `docs/architecture.md` draws them, and a few things that stand
//! in one place only.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// What each package of the workspace may use of the others, in what it ships.
const ARROWS: [(&str, &[&str]); 8] = [
    ("tx-data", &[]),
    ("tx-eval", &[]),
    ("tx-model", &[]),
    ("tx-infer", &["tx-data", "tx-model"]),
    ("tx-train", &["tx-data", "tx-eval", "tx-infer", "tx-model"]),
    ("train", &["tx-infer", "tx-train"]),
    ("translate", &["tx-eval", "tx-infer"]),
    // Nothing but tests.
    ("tx-tests", &[]),
];

/// What tests and examples of a package may use beside that.
const ARROWS_OF_TESTS: [(&str, &[&str]); 2] = [
    ("translate", &["tx-data", "tx-model"]),
    ("tx-tests", &["tx-data", "tx-eval", "tx-infer", "tx-model", "tx-train"]),
];

#[test]
fn no_arrow_between_the_crates_runs_back() {
    let metadata = cargo(&["metadata", "--format-version", "1", "--offline", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into();
    let allowed_in_tests: BTreeMap<&str, &[&str]> = ARROWS_OF_TESTS.into();
    assert_eq!(ours, allowed.keys().map(|&name| name.to_owned()).collect(), "the packages");

    for package in packages {
        let from = name(package);
        for dependency in package["dependencies"].as_array().unwrap() {
            let to = name(dependency);
            // `kind` is null for what is shipped, else `dev` or `build`.
            let in_tests = dependency["kind"] == "dev"
                && allowed_in_tests.get(&*from).is_some_and(|list| list.contains(&&*to));
            assert!(
                !ours.contains(&to) || allowed[&*from].contains(&&*to) || in_tests,
                "`{from}` must not depend on `{to}`"
            );
        }
    }
}

/// A tree of one package, not the workspace's: there, features of others would be turned on too.
#[test]
fn translating_needs_nothing_that_training_needs() {
    for package in ["translate", "tx-infer"] {
        let reached = tree(package);
        assert!(reached.contains("burn-core") && reached.contains("tx-model"), "{reached:?}");
        // The last are for fetching and reading corpora.
        let training = ["tx-train", "burn-train", "burn-autodiff", "burn-optim", "ureq", "parquet"];
        for banned in training {
            assert!(!reached.contains(banned), "`{package}` reaches `{banned}`");
        }
    }
}

#[test]
fn scoring_needs_no_tensors_and_models_need_no_text() {
    let scoring = tree("tx-eval");
    assert!(!scoring.iter().any(|name| name.starts_with("burn")), "{scoring:?}");
    let model = tree("tx-model");
    let foreign = |name: &String| name == "tokenizers" || name.starts_with("burn");
    assert!(!model.iter().any(foreign), "{model:?}");
}

#[test]
fn no_library_turns_on_a_backend() {
    for package in ["tx-data", "tx-eval", "tx-model", "tx-infer", "tx-train"] {
        let reached = tree(package);
        for backend in ["burn-flex", "burn-ndarray", "burn-wgpu", "burn-cuda"] {
            // Burn's own Learner brings `flex` along, asked or not.
            if reached.contains("burn-train") && backend == "burn-flex" {
                continue;
            }
            assert!(!reached.contains(backend), "`{package}` reaches `{backend}`");
        }
    }
}

#[test]
fn models_open_no_file_and_print_nothing() {
    for path in sources("crates/tx-model/src") {
        for line in code(&path).lines() {
            for banned in ["std::fs", "File::", "std::net", "print!", "println!", "dbg!", "stdout"]
            {
                assert!(!line.contains(banned), "{}: `{banned}` in: {line}", path.display());
            }
        }
    }
}

/// A GPU stands still while the program waits for it. An update reads once, by a transaction in
/// `step.rs`; see also `laws/conformance/synchronization.rs`.
#[test]
fn an_update_waits_for_no_device_elsewhere() {
    let update = ["step", "loss", "adam", "ema"].map(|file| format!("tx-train/src/{file}.rs"));
    let update = update.iter().map(|file| root().join("crates").join(file));
    for path in sources("crates/tx-model/src").into_iter().chain(update) {
        // Reads on processors alone.
        if path.ends_with("tx-model/src/dropout.rs") || path.ends_with("packed/module_weights.rs") {
            continue;
        }
        for waits in ["into_data", "to_data", "into_scalar", "memory_pool_usage", ".sync()"] {
            assert!(!code(&path).contains(waits), "{}: `{waits}`", path.display());
        }
    }
}

#[test]
fn special_ids_are_decided_in_one_place() {
    for path in ["crates", "apps"].into_iter().flat_map(sources) {
        if path.ends_with("tx-data/src/special.rs") {
            continue;
        }
        for name in ["PAD", "BOS", "EOS", "UNK"] {
            let constant = format!("const {name}:");
            assert!(!code(&path).contains(&constant), "{}: `{constant}`", path.display());
        }
    }
}

/// What cargo prints for the workspace.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Names of the packages that `package` ships with, with default features.
fn tree(package: &str) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package"];
    cargo(&[&arguments[..], &[package]].concat())
        .lines()
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Rust files below a folder of the workspace that are no tests.
fn sources(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                open.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

/// A file without its comments and without the tests at its foot.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}
