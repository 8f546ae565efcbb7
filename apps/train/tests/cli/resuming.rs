use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use burn_pack::Reader;

use crate::{Run, Workshop, set};

/// Dropout everywhere, and a moving average of the weights.
pub const NOISY: [&str; 6] = [
    "--set",
    "model.dropout={ embedding = 0.2, residual = 0.2, attention = 0.1, activation = 0.1 }",
    "--set",
    "train.word_dropout=0.1",
    "--set",
    "train.ema_decay=0.9",
];

#[test]
fn a_resumed_run_equals_an_uninterrupted_one_bit_for_bit() {
    for device in ["cpu", "ndarray"] {
        let workshop = Workshop::new();
        let device = ["--device", device];
        let train = |run: &str, epochs: &str| {
            let epochs = ["--set", epochs];
            workshop.train_tiny(run, &[&device[..], &NOISY, &epochs].concat()).trained();
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
fn a_run_that_ended_within_an_epoch_goes_on_there() {
    let workshop = Workshop::new();
    let train = |run: &str, stop: &[&str]| {
        let epochs = ["--set", "train.epochs=3"];
        workshop.train_tiny(run, &[&NOISY[..], &epochs, stop].concat()).trained();
    };
    train("whole", &[]);
    train("parts", &["--set", "train.max_steps=6"]);
    let run = workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    run.says(&["resuming after epoch 1 and 2 batches (update 6)"]);
    assert_same(&workshop, "whole", "parts");
}

/// Checkpoints where they hurt most: before, at and after a validation, and at the end of an epoch;
/// gone on from any of them.
#[test]
fn any_checkpoint_leads_to_the_same_end() {
    let workshop = Workshop::new();
    let settings = ["train.epochs=3", "validation.every_steps=3", "checkpoint.keep_last=100"];
    let arguments = [&NOISY[..], &set(&settings), &["--checkpoint-every", "1 step"]].concat();
    workshop.train_tiny("whole", &arguments).trained();
    workshop.train_tiny("parts", &arguments).trained();
    // Four batches an epoch.
    for (step, place) in [
        (11, "epoch 2 and 3 batches"),
        (8, "epoch 1 and 4 batches"),
        (6, "epoch 1 and 2 batches"),
        (2, "epoch 0 and 2 batches"),
    ] {
        assert_same_from(&workshop, step, place);
    }
    let run = workshop.train(&["--resume", "parts", "--from", "99"]);
    run.failed(1, &["it has no checkpoint of update 99; available: 1, 2, 3,"]);
}

#[test]
fn the_last_checkpoints_are_kept() {
    let workshop = Workshop::new();
    let checkpoints = |run: &str, arguments: &[&str]| {
        workshop.train_tiny(run, arguments).trained();
        let mut names: Vec<String> = fs::read_dir(workshop.path(run).join("checkpoints"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(checkpoints("one", &[]), ["step-8"]);
    let three = ["--checkpoint-every", "3 steps", "--set", "checkpoint.keep_last=3"];
    assert_eq!(checkpoints("three", &three), ["step-3", "step-6", "step-8"]);
    let often = ["--checkpoint-every", "0.00001 min", "--set", "checkpoint.keep_last=2"];
    assert_eq!(checkpoints("often", &often), ["step-7", "step-8"]);
}

/// Updates of three batches, and of the one that is left at the end of an epoch: a checkpoint lies
/// after whole updates, so a run that ends among the batches of one makes them all again.
#[test]
fn updates_of_several_batches_and_a_falling_rate_go_on_as_well() {
    let workshop = Workshop::new();
    let settings = [
        "train.epochs=6",
        "train.accumulate=3",
        "train.schedule=reduce-on-plateau",
        "train.plateau_patience=1",
        "train.learning_rate=0.2",
        "checkpoint.keep_last=100",
        "checkpoint.keep_best=2",
    ];
    let arguments = [&NOISY[..], &set(&settings), &["--checkpoint-every", "1 step"]].concat();
    let run = workshop.train_tiny("whole", &arguments).trained();
    run.says(&["learning rate: ", "as the last validation found no better model"]);
    workshop.train_tiny("parts", &arguments).trained();
    // Two updates an epoch, of three batches and of one.
    for (step, place) in [
        (11, "epoch 5 and 3 batches"),
        (7, "epoch 3 and 3 batches"),
        (4, "epoch 1 and 4 batches"),
        (1, "epoch 0 and 3 batches"),
    ] {
        assert_same_from(&workshop, step, place);
    }
    let average = |run: &str, which: &[&str]| {
        let output = format!("{run}/average");
        workshop.train(&[&["average", run, "--output", &output], which].concat()).trained();
        fs::read(workshop.path(&output).join("model.safetensors")).unwrap()
    };
    let last = average("whole", &["--last", "2"]);
    assert!(average("parts", &["--last", "2"]) == last);
    assert!(average("parts", &["--best", "2"]) == average("whole", &["--best", "2"]));
}

/// Asked to stop, again and again, at whatever place it happens to be.
#[cfg(unix)]
#[test]
fn a_stopped_run_says_how_to_go_on_and_equals_an_uninterrupted_one() {
    let workshop = Workshop::new();
    let mut arguments = NOISY.to_vec();
    arguments.extend(["--set", "train.epochs=400", "--set", "validation.every_epochs=50"]);
    arguments.extend(["--checkpoint-every", "20 epochs"]);
    workshop.train_tiny("whole", &arguments).trained();

    let files = ["--source", "source.txt", "--target", "target.txt.gz"];
    let mut command = workshop.command(&crate::tiny(&files, "parts", &arguments));
    let mut stops = 0;
    for (signal, code) in [("TERM", 143), ("INT", 130), ("TERM", 143), ("INT", 130)] {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let first = saved(&workshop.path("parts")).map(|(step, _)| step);
        // Signals are heard from before the data is read; then some updates more.
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("memory: ") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        thread::sleep(Duration::from_millis(300));
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        stderr.read_to_string(&mut said).unwrap();
        let ended = child.wait().unwrap().code();
        command = workshop.command(&["--resume", "parts"]);
        if said.contains("interrupted after update") {
            assert_eq!(ended, Some(code), "{said}");
            let run = Run { code: ended, stdout: String::new(), stderr: said };
            // As the user would type it.
            command = Command::new("sh");
            let resume = run.command_after("resume with:");
            command.args(["-c", &format!("exec {resume}")]).current_dir(workshop.path(""));
            let last = saved(&workshop.path("parts")).map(|(step, _)| step);
            assert!(last >= first, "{first:?} {last:?}");
            stops += 1;
        } else {
            assert_eq!(ended, Some(0), "{said}");
        }
    }
    assert!(stops > 0, "the run was over before it could be stopped");
    workshop.train(&["--resume", "parts"]).trained();
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
    let arguments = [&NOISY[..], &set(&settings), &["--checkpoint-every", "7 steps"]].concat();
    workshop.train_tiny_on(&files, "whole", &arguments).trained();

    let mut child = workshop.start_tiny_on(&files, "parts", &arguments);
    let step = || saved(&workshop.path("parts")).map_or(0, |(step, _)| step);
    while step() < 30 && child.try_wait().unwrap().is_none() {
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
    fs::create_dir(workshop.path("parts/checkpoints/step-12.partial")).unwrap();
    workshop.write("parts/checkpoints/step-12.partial/model-12.bpk", "half");
    workshop.train(&["--resume", "parts", "--set", "train.epochs=3"]).trained();
    assert_same(&workshop, "whole", "parts");
    assert!(!workshop.path("parts/checkpoints/step-12.partial").exists());
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
/// When `parts`, gone on with from its checkpoint after update `step`, does not end as `whole`.
fn assert_same_from(workshop: &Workshop, step: usize, place: &str) {
    let run = workshop.train(&["--resume", "parts", "--from", &step.to_string()]).trained();
    run.says(&[&format!("resuming after {place} (update {step})")]);
    assert_same(workshop, "whole", "parts");
}

/// # Panics
///
/// When bundle, checkpoint or state of two runs differ in anything but the time they took.
pub fn assert_same(workshop: &Workshop, first: &str, second: &str) {
    let [first, second] = [first, second].map(|run| workshop.path(run));
    let read = |run: &Path, file: &str| fs::read(run.join(file)).unwrap();
    assert!(
        read(&first, "model.safetensors") == read(&second, "model.safetensors"),
        "the best weights differ"
    );
    assert_eq!(weights(&first), weights(&second));
    let state = |run: &Path| {
        let (_, folder) = saved(run).unwrap();
        let state = fs::read_to_string(folder.join("state.toml")).unwrap();
        // They may have been told different things; and the files differ in the numbers by which
        // weights are known.
        let lines = state.lines().take_while(|line| *line != "[state.config]");
        let lines =
            lines.filter(|line| !line.starts_with("seconds = ") && !line.starts_with("# SHA"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(state(&first), state(&second));
}

/// The last checkpoint: its update and its folder.
pub fn saved(run: &Path) -> Option<(usize, PathBuf)> {
    let folders = fs::read_dir(run.join("checkpoints")).ok()?;
    let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok();
    folders
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter_map(|path| Some((step(&path)?, path)))
        .max()
}

/// Weights, optimizer moments and counts of a run's checkpoint, by the path of the weight.
fn weights(run: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let (_, folder) = saved(run).unwrap();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "bpk") {
            continue;
        }
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
