//! Dependencies between the crates as in `docs/architecture.md`, and definitions that must exist in
//! one place only.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// Packages of the workspace that each package may depend on.
const ARROWS: [(&str, &[&str]); 22] = [
    ("tx-cli", &["tx-fetch"]),
    ("tx-text", &[]),
    ("tx-phrasebook", &["tx-text"]),
    ("tx-fetch", &["tx-text"]),
    ("tx-data", &["tx-fetch", "tx-phrasebook", "tx-text"]),
    ("tx-eval", &[]),
    ("tx-kernels", &[]),
    ("tx-model", &["tx-kernels"]),
    ("tx-engine", &["tx-kernels", "tx-model"]),
    ("tx-infer", &["tx-data", "tx-engine", "tx-eval", "tx-kernels", "tx-model", "tx-text"]),
    ("tx-convert", &["tx-infer", "tx-model", "tx-text"]),
    ("tx-catalogue", &["tx-convert", "tx-fetch", "tx-text"]),
    ("tx-markup", &["tx-infer"]),
    ("tx-serve", &["tx-infer", "tx-markup"]),
    ("tx-train", &["tx-data", "tx-eval", "tx-infer", "tx-kernels", "tx-model", "tx-text"]),
    ("tx-web", &["tx-infer"]),
    ("train", &["tx-cli", "tx-infer", "tx-train"]),
    (
        "translate",
        &[
            "tx-catalogue",
            "tx-cli",
            "tx-convert",
            "tx-eval",
            "tx-fetch",
            "tx-infer",
            "tx-markup",
            "tx-serve",
            "tx-text",
        ],
    ),
    ("txmt", &["train", "translate", "tx-cli"]),
    (
        "tx-python",
        &[
            "tx-catalogue",
            "tx-cli",
            "tx-convert",
            "tx-eval",
            "tx-fetch",
            "tx-infer",
            "tx-serve",
            "tx-text",
            "tx-train",
            "txmt",
        ],
    ),
    // Tests only.
    ("tx-testing", &[]),
    ("tx-tests", &[]),
];

/// Additional packages that tests, examples and benchmarks may depend on.
const ARROWS_OF_TESTS: [(&str, &[&str]); 9] = [
    ("tx-fetch", &["tx-testing"]),
    ("tx-data", &["tx-testing"]),
    ("train", &["tx-testing"]),
    ("tx-convert", &["tx-engine"]),
    ("tx-catalogue", &["tx-infer", "tx-testing"]),
    ("tx-infer", &["tx-cli"]),
    ("tx-train", &["tx-cli"]),
    ("translate", &["tx-model"]),
    (
        "tx-tests",
        &[
            "tx-data",
            "tx-engine",
            "tx-eval",
            "tx-infer",
            "tx-kernels",
            "tx-model",
            "tx-text",
            "tx-train",
        ],
    ),
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
            // `kind` is null for normal dependencies, otherwise `dev` or `build`.
            let in_tests = dependency["kind"] == "dev"
                && allowed_in_tests.get(&*from).is_some_and(|list| list.contains(&&*to));
            assert!(
                !ours.contains(&to) || allowed[&*from].contains(&&*to) || in_tests,
                "`{from}` must not depend on `{to}`"
            );
        }
    }
}

/// The tree of one package is used, because the workspace's tree unifies the features of all
/// packages. Only the feature `models` of `translate` downloads anything.
#[test]
fn translating_needs_nothing_that_training_needs() {
    let without_models = ["--no-default-features", "--features", "cpu,ndarray,serve"];
    for (package, reached) in
        [("translate", tree_with("translate", &without_models)), ("tx-infer", tree("tx-infer"))]
    {
        assert!(reached.contains("tx-model") && reached.contains("tx-text"), "{reached:?}");
        // The last two download and read corpora.
        let training = ["tx-train", "burn-train", "burn-autodiff", "burn-optim", "ureq", "parquet"];
        for banned in training {
            assert!(!reached.contains(banned), "`{package}` reaches `{banned}`");
        }
    }
}

/// Neither Burn nor the crate that reads and batches corpora.
#[test]
fn translating_on_the_cpu_needs_no_burn() {
    let program = tree_with("translate", &["--no-default-features", "--features", "cpu,serve"]);
    let libraries = ["tx-infer", "tx-markup", "tx-serve"].map(|name| (name, tree(name)));
    for (name, reached) in libraries.into_iter().chain([("translate", program)]) {
        assert!(reached.contains("tx-model"), "{reached:?}");
        let is_banned = |reached: &&String| reached.starts_with("burn") || *reached == "tx-data";
        let banned: Vec<&String> = reached.iter().filter(is_banned).collect();
        assert!(banned.is_empty(), "`{name}` reaches {banned:?}");
    }
    for (features, reached) in [("burn", "burn-flex"), ("ndarray", "burn-ndarray")] {
        let tree = tree_with("translate", &["--no-default-features", "--features", features]);
        assert!(tree.contains(reached), "{features}: {tree:?}");
    }
}

#[test]
fn scoring_and_text_need_no_tensors_and_models_need_no_text() {
    for package in
        ["tx-engine", "tx-eval", "tx-kernels", "tx-model", "tx-phrasebook", "tx-text", "tx-web"]
    {
        let reached = tree(package);
        assert!(!reached.iter().any(|name| name.starts_with("burn")), "{package}: {reached:?}");
    }
    let model = tree_with("tx-model", &["--features", "burn"]);
    assert!(!model.contains("tokenizers") && model.contains("burn-core"), "{model:?}");
}

#[test]
fn no_library_turns_on_a_backend() {
    for package in [
        "tx-text",
        "tx-data",
        "tx-eval",
        "tx-kernels",
        "tx-model",
        "tx-engine",
        "tx-infer",
        "tx-markup",
        "tx-serve",
        "tx-train",
    ] {
        let reached = tree(package);
        for backend in ["burn-flex", "burn-ndarray", "burn-wgpu", "burn-cuda"] {
            // Burn's Learner always enables `flex`.
            if reached.contains("burn-train") && backend == "burn-flex" {
                continue;
            }
            assert!(!reached.contains(backend), "`{package}` reaches `{backend}`");
        }
    }
}

#[test]
fn models_open_no_file_and_print_nothing() {
    let crates = ["tx-kernels", "tx-model", "tx-engine"];
    for path in crates.into_iter().flat_map(|name| sources(&format!("crates/{name}/src"))) {
        for line in code(&path).lines() {
            for banned in ["std::fs", "File::", "std::net", "print!", "println!", "dbg!", "stdout"]
            {
                assert!(!line.contains(banned), "{}: `{banned}` in: {line}", path.display());
            }
        }
    }
}

/// A GPU idles while the program waits for it. An update reads from it once, by a transaction in
/// `gradients.rs`; see also `invariants/conformance/synchronization.rs`.
#[test]
fn an_update_waits_for_no_device_elsewhere() {
    let update = [
        "training/gradients",
        "training/adam",
        "training/ema",
        "loss",
        "translation/seq2seq",
        "classification/model",
        "language_modeling/model",
        "masked_language_modeling/model",
    ]
    .map(|file| format!("tx-train/src/{file}.rs"));
    let update = update.iter().map(|file| root().join("crates").join(file));
    for path in sources("crates/tx-model/src").into_iter().chain(update) {
        // Reads on CPUs only.
        if path.ends_with("tx-model/src/dropout.rs") {
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
        if path.ends_with("tx-text/src/special.rs") {
            continue;
        }
        for name in ["PAD", "BOS", "EOS", "UNK", "MASK"] {
            let constant = format!("const {name}:");
            assert!(!code(&path).contains(&constant), "{}: `{constant}`", path.display());
        }
    }
}

/// Output of a cargo command for the workspace.
fn cargo(arguments: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Names of the packages in the dependency tree of `package`, with default features.
fn tree(package: &str) -> BTreeSet<String> {
    tree_with(package, &[])
}

/// Names of the packages that `package` is built from; `features` are arguments of cargo.
fn tree_with(package: &str, features: &[&str]) -> BTreeSet<String> {
    let arguments = ["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package"];
    cargo(&[&arguments[..], &[package], features].concat())
        .lines()
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Rust source files below a folder of the workspace, without tests.
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

/// Code of a file without comments and unit tests.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let shipped = text.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = shipped.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}
