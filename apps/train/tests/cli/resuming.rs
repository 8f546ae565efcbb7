use std::{collections::BTreeMap, fs, path::Path, thread, time::Duration};

use burn_pack::Reader;

use crate::Workshop;

/// Dropout everywhere, and a schedule that does not depend on the budget.
const NOISY: [&str; 2] = [
    "--set",
    "model.dropout={ embedding = 0.2, residual = 0.2, attention = 0.1, activation = 0.1 }",
];

#[test]
fn a_resumed_run_equals_an_uninterrupted_one_bit_for_bit() {
    for device in ["cpu", "ndarray"] {
        let workshop = Workshop::new();
        let device = ["--device", device];
        let train = |run: &str, epochs: &str| {
            let epochs = ["--set", epochs];
            workshop.train_tiny(run, &[device, NOISY, epochs].concat()).trained();
        };
        train("whole", "train.epochs=4");
        train("parts", "train.epochs=2");
        assert_ne!(weights(&workshop.path("whole")), weights(&workshop.path("parts")));
        let resume = ["--resume", "parts", "--set", "train.epochs=4"];
        let run =
            workshop.train(&[resume, ["--device", device[1], "--set", "train.epochs=4"]].concat());
        run.trained().says(&["resuming after epoch 2 (update 8)"]);
        assert_same(&workshop, "whole", "parts");
    }
}

#[test]
fn a_run_stopped_within_an_epoch_goes_on_from_the_epoch_before() {
    let workshop = Workshop::new();
    let train = |run: &str, stop: &[&str]| {
        let epochs = ["--set", "train.epochs=3"];
        workshop.train_tiny(run, &[&NOISY[..], &epochs, stop].concat()).trained();
    };
    train("whole", &[]);
    train("parts", &["--set", "train.max_steps=6"]);
    let run = workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    run.says(&["resuming after epoch 1 (update 4)"]);
    assert_same(&workshop, "whole", "parts");
}

/// Killed without warning at any place, with epochs of different length and a schedule that ends
/// at the last update: the hardest case. A run that is over before it is killed passes too.
#[test]
fn a_killed_run_goes_on_as_if_nothing_had_happened() {
    let workshop = Workshop::new();
    let settings = [
        "train.epochs=40",
        "train.schedule=cosine",
        "train.grouping=random",
        "train.batch={ tokens = 30 }",
    ];
    // Two to nine tokens a line: how many fill a batch depends on their order.
    let lines: Vec<String> =
        (0..48).map(|index| format!("{index} ").repeat(index % 8 + 1)).collect();
    workshop.write("lines.txt", lines.join("\n"));
    let files = ["--source", "lines.txt", "--target", "lines.txt"];
    let mut arguments = NOISY.to_vec();
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    workshop.train_tiny_on(&files, "whole", &arguments).trained();

    let mut child = workshop.start_tiny_on(&files, "parts", &arguments);
    let epoch = || {
        let state = fs::read_to_string(workshop.path("parts/state.toml")).unwrap_or_default();
        state.lines().find_map(|line| line.strip_prefix("epoch = ")?.parse::<usize>().ok())
    };
    while epoch().is_none_or(|epoch| epoch < 3) && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    workshop.train(&["--resume", "parts"]).trained().says(&["resuming after epoch "]);
    assert_same(&workshop, "whole", "parts");
}

#[test]
fn what_a_killed_run_left_half_written_is_not_in_the_way() {
    let workshop = Workshop::new();
    workshop.train_tiny("whole", &["--set", "train.epochs=3"]).trained();
    workshop.train_tiny("parts", &[]).trained();
    for name in ["checkpoint/model-3.bpk", "checkpoint/optim-3.bpk", "state.toml.partial"] {
        workshop.write(&format!("parts/{name}"), "half");
    }
    workshop.train(&["--resume", "parts", "--set", "train.epochs=3"]).trained();
    assert_same(&workshop, "whole", "parts");
}

#[test]
fn a_run_that_is_over_changes_nothing_when_resumed() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &[]).trained();
    let before = weights(&workshop.path("run"));
    workshop.train(&["--resume", "run"]).trained().says(&["bundle: run (best of epoch "]);
    assert_eq!(weights(&workshop.path("run")), before);
}

/// # Panics
///
/// When bundle, checkpoint or state of two runs differ in anything but the time they took.
fn assert_same(workshop: &Workshop, first: &str, second: &str) {
    let [first, second] = [first, second].map(|run| workshop.path(run));
    let read = |run: &Path, file: &str| fs::read(run.join(file)).unwrap();
    assert!(
        read(&first, "model.safetensors") == read(&second, "model.safetensors"),
        "the best weights differ"
    );
    assert_eq!(weights(&first), weights(&second));
    let state = |run: &Path| {
        let state = fs::read_to_string(run.join("state.toml")).unwrap();
        let lines = state.lines().filter(|line| !line.starts_with("seconds = "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(state(&first), state(&second));
}

/// Weights, optimizer moments and counts of a run's checkpoint, by the path of the weight.
fn weights(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(run.join("checkpoint")).unwrap() {
        let path = file.unwrap().path();
        let part = path.file_stem().unwrap().to_string_lossy().into_owned();
        let part = part.split('-').next().unwrap().to_owned();
        let reader = Reader::from_file(&path).unwrap();
        // Weights are known by a number of their own in each run; the optimizer's file says whose.
        let named = |name: &str| {
            let (id, field) = name.split_once('.').unwrap_or((name, ""));
            match reader.metadata().get(id) {
                Some(path) => format!("{part}: {path}: {field}"),
                None => format!("{part}: {name}"),
            }
        };
        for name in reader.tensor_names() {
            found.insert(named(name), reader.tensor_data(name).unwrap());
        }
        for (name, scalar) in reader.scalars() {
            found.insert(named(name), format!("{scalar:?}").into_bytes());
        }
    }
    assert!(found.len() > 50, "{:?}", found.keys());
    found
}
