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

use crate::{FILES, Run, TASKS, Workshop, set};

/// Dropout in all places, and a moving average of the weights.
pub const NOISY: [&str; 6] = [
    "--set",
    "model.dropout={ embedding = 0.2, residual = 0.2, attention = 0.1, activation = 0.1, token = 0.1, layer = 0.2 }",
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
        run.trained().logged(&["resuming after epoch 2 (update 8)"]);
        assert_same(&workshop, "whole", "parts");
    }
}

/// In both precisions, also with another number of threads; other weights than in single precision.
#[test]
fn a_run_with_products_of_bf16_numbers_resumes_exactly() {
    for precision in ["train.precision=bf16", "train.precision=bf16x3"] {
        let workshop = Workshop::new();
        let settings = [precision, "train.epochs=3", "model.d_ff=2048"];
        let settings = [&NOISY[..], &set(&settings)].concat();
        let run = workshop.train_tiny("whole", &settings);
        if !is_supported(&run) {
            return;
        }
        run.trained().logged(&["matrix products: bf16", ", with a"]);
        let stop = [&settings[..], &["--set", "train.max_steps=6"]].concat();
        workshop.train_tiny("parts", &stop).trained();
        let mut resume = workshop.command(&["--resume", "parts", "--set", "train.max_steps=1000"]);
        Run::of(resume.env("RAYON_NUM_THREADS", "1").output().unwrap()).trained();
        assert_same(&workshop, "whole", "parts");
        let single = [&settings[..], &["--set", "train.precision=f32"]].concat();
        workshop.train_tiny("single", &single).trained();
        assert_ne!(weights(&workshop.path("whole")), weights(&workshop.path("single")));
    }
}

/// Whether the CPU has the instructions of a run; prints that it has not.
fn is_supported(run: &Run) -> bool {
    let is_missing = run.code == Some(2) && run.stderr.contains("needs a CPU with");
    if is_missing {
        eprintln!("skipped: {}", run.stderr);
    }
    !is_missing
}

#[test]
fn a_run_that_ended_within_an_epoch_resumes_there() {
    let workshop = Workshop::new();
    let train = |run: &str, stop: &[&str]| {
        let epochs = ["--set", "train.epochs=3"];
        workshop.train_tiny(run, &[&NOISY[..], &epochs, stop].concat()).trained();
    };
    train("whole", &[]);
    train("parts", &["--set", "train.max_steps=6"]);
    let run = workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    run.logged(&["resuming after epoch 1 and 2 batches (update 6)"]);
    assert_same(&workshop, "whole", "parts");
}

/// The copies are the same in both runs.
#[test]
fn a_run_with_noise_resumes_within_an_epoch() {
    let workshop = Workshop::new();
    let noise = ["train.epochs=3", "data.noise={ typos = 0.5, concatenation = 0.5 }"];
    let settings = [&NOISY[..], &set(&noise)].concat();
    workshop.train_tiny("whole", &settings).trained().logged(&["of them noisy copies"]);
    let stop = [&settings[..], &["--set", "train.max_steps=11"]].concat();
    workshop.train_tiny("parts", &stop).trained();
    let run = workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    run.logged(&["batches (update 11)"]);
    assert_same(&workshop, "whole", "parts");
}

/// Resumes from checkpoints before, at and after a validation, and at the end of an epoch.
#[test]
fn a_run_resumed_from_any_checkpoint_equals_an_uninterrupted_one() {
    let workshop = Workshop::new();
    let settings = ["train.epochs=3", "validation.every_steps=3", "checkpoint.keep_last=100"];
    let arguments = [&NOISY[..], &set(&settings), &["--set", "checkpoint.every=1 step"]].concat();
    workshop.train_tiny("whole", &arguments).trained();
    workshop.train_tiny("parts", &arguments).trained();
    // Four batches per epoch.
    for (step, position) in [
        (11, "epoch 2 and 3 batches"),
        (8, "epoch 1 and 4 batches"),
        (6, "epoch 1 and 2 batches"),
        (2, "epoch 0 and 2 batches"),
    ] {
        assert_same_from(&workshop, step, position);
    }
    let run = workshop.train(&["--resume", "parts", "--step", "99"]);
    run.failed(1, &["it has no checkpoint of update 99; available: 1, 2, 3,"]);
}

/// Three epochs, of which the first two sample segmentations.
#[test]
fn a_run_with_sampled_segmentations_resumes_exactly() {
    let workshop = Workshop::new();
    let settings = [
        "train.epochs=3",
        "tokenizer.kind=unigram",
        "tokenizer.vocab_size=60",
        "train.unigram_alpha=0.1",
        "train.segmentation_epochs=2",
        "checkpoint.keep_last=100",
        "checkpoint.every=1 step",
    ];
    let arguments = set(&settings);
    workshop.train_tiny("whole", &arguments).trained();
    workshop.train_tiny("parts", &arguments).trained();
    for (step, position) in [(9, "epoch 2 and 1 batches"), (6, "epoch 1 and 2 batches")] {
        assert_same_from(&workshop, step, position);
    }
    let plain = [&arguments[..], &set(&["train.segmentation_epochs=", "train.unigram_alpha="])];
    workshop.train_tiny("plain", &plain.concat()).trained();
    assert_ne!(weights(&workshop.path("whole")), weights(&workshop.path("plain")));
}

/// Settings of each task with random numbers that a resumed run must repeat.
fn noisy_task(task: &str) -> Vec<&'static str> {
    let pieces = ["tokenizer.kind=bpe", "tokenizer.vocab_size=40"];
    let mut settings = match task {
        "classify" => [&pieces[..], &["train.bpe_dropout=0.3"]].concat(),
        "fill-mask" => [&pieces[..], &["masking.whole_words=true"]].concat(),
        _ => Vec::new(),
    };
    settings.extend(["train.label_smoothing=0.1", "classification.class_weights=balanced"]);
    [&NOISY[..2], &NOISY[4..], &set(&settings)].concat()
}

/// Resumes from checkpoints before, at and after a validation, and at the end of an epoch.
#[test]
fn a_run_of_any_task_resumes_exactly_from_any_checkpoint() {
    for task in TASKS {
        let workshop = Workshop::new();
        let settings = ["train.epochs=3", "validation.every_steps=3", "checkpoint.keep_last=100"];
        let every_step = ["--set", "checkpoint.every=1 step"];
        let arguments = [&noisy_task(task)[..], &set(&settings), &every_step].concat();
        workshop.train_task(task, "whole", &arguments).trained();
        workshop.train_task(task, "parts", &arguments).trained();
        // Four batches per epoch.
        for (step, position) in [
            (11, "epoch 2 and 3 batches"),
            (8, "epoch 1 and 4 batches"),
            (6, "epoch 1 and 2 batches"),
            (2, "epoch 0 and 2 batches"),
        ] {
            assert_same_from(&workshop, step, position);
        }
    }
}

/// Two devices with two batches each per update, and a checkpoint within an epoch.
#[test]
fn a_run_of_any_task_on_two_devices_resumes_exactly() {
    for task in TASKS {
        let workshop = Workshop::new();
        let device = ["--device", "cpu,cpu"];
        let settings = ["train.accumulate=2", "train.epochs=3", "validation.every_steps=3"];
        let settings = set(&settings);
        let arguments = [&noisy_task(task)[..], &settings, &device].concat();
        workshop.train_task(task, "whole", &arguments).trained();
        let stop = [&arguments[..], &["--set", "train.max_steps=3"]].concat();
        workshop.train_task(task, "parts", &stop).trained();
        let more = [&["--resume", "parts", "--set", "train.max_steps=1000"], &device[..]].concat();
        workshop
            .train(&more)
            .trained()
            .logged(&["resuming after epoch 1 and 2 batches (update 3)"]);
        assert_same(&workshop, "whole", "parts");
    }
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
    let three = ["--set", "checkpoint.every=3 steps", "--set", "checkpoint.keep_last=3"];
    assert_eq!(checkpoints("three", &three), ["step-3", "step-6", "step-8"]);
    let often = ["--set", "checkpoint.every=0.00001 min", "--set", "checkpoint.keep_last=2"];
    assert_eq!(checkpoints("often", &often), ["step-7", "step-8"]);
}

/// An epoch has an update of three batches and one of a single batch. Checkpoints are saved after whole
/// updates, so a run that ends within an update repeats all of its batches.
#[test]
fn updates_of_several_batches_and_a_decaying_rate_resume_exactly() {
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
    let arguments = [&NOISY[..], &set(&settings), &["--set", "checkpoint.every=1 step"]].concat();
    let run = workshop.train_tiny("whole", &arguments).trained();
    run.logged(&["learning rate: ", "as the last validation found no better model"]);
    workshop.train_tiny("parts", &arguments).trained();
    // Two updates per epoch, of three batches and of one.
    for (step, position) in [
        (11, "epoch 5 and 3 batches"),
        (7, "epoch 3 and 3 batches"),
        (4, "epoch 1 and 4 batches"),
        (1, "epoch 0 and 3 batches"),
    ] {
        assert_same_from(&workshop, step, position);
    }
    let average = |run: &str, which: &[&str]| {
        let output = format!("{run}/average");
        workshop.train(&[&["average", run, "--output", &output], which].concat()).trained();
        workshop.weights(&output)
    };
    let last = average("whole", &["--last", "2"]);
    assert!(average("parts", &["--last", "2"]) == last);
    assert!(average("parts", &["--best", "2"]) == average("whole", &["--best", "2"]));
}

/// Interrupts a run several times, at arbitrary updates.
#[cfg(unix)]
#[test]
fn an_interrupted_run_prints_how_to_resume_and_equals_an_uninterrupted_one() {
    let workshop = Workshop::new();
    let mut arguments = NOISY.to_vec();
    arguments.extend(["--set", "train.epochs=400", "--set", "validation.every_epochs=50"]);
    arguments.extend(["--set", "checkpoint.every=20 epochs"]);
    workshop.train_tiny("whole", &arguments).trained();

    let mut command = workshop.command(&crate::tiny(&FILES, "parts", &arguments));
    let mut stops = 0;
    for (signal, code) in [("TERM", 143), ("INT", 130), ("TERM", 143), ("INT", 130)] {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let first = saved(&workshop.path("parts")).map(|(step, _)| step);
        // The handlers are set before the data is read; then some updates follow.
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut log = String::new();
        while !log.contains("memory: ") {
            assert!(stderr.read_line(&mut log).unwrap() > 0, "{log}");
        }
        thread::sleep(Duration::from_millis(300));
        let id = child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        stderr.read_to_string(&mut log).unwrap();
        let ended = child.wait().unwrap().code();
        command = workshop.command(&["--resume", "parts"]);
        if log.contains("interrupted after update") {
            assert_eq!(ended, Some(code), "{log}");
            let run = Run { code: ended, stdout: String::new(), stderr: log };
            // The printed command is run by a shell, as the user would.
            command = Command::new("sh");
            let resume = run.command_after("resume with:");
            command.args(["-c", &format!("exec {resume}")]).current_dir(workshop.path(""));
            let last = saved(&workshop.path("parts")).map(|(step, _)| step);
            assert!(last >= first, "{first:?} {last:?}");
            stops += 1;
        } else {
            assert_eq!(ended, Some(0), "{log}");
        }
    }
    assert!(stops > 0, "the run was over before it could be stopped");
    workshop.train(&["--resume", "parts"]).trained();
    assert_same(&workshop, "whole", "parts");
}

/// SIGKILL at an arbitrary update, with epochs of different lengths and a schedule that ends at the last
/// update. A run that completes before it is killed passes too.
#[test]
fn a_killed_run_equals_an_uninterrupted_one_after_resuming() {
    let workshop = Workshop::new();
    let settings = [
        "train.epochs=40",
        "train.schedule=cosine",
        "train.grouping=random",
        "train.batch={ tokens = 30 }",
    ];
    // Two to nine tokens per line, so that the number of batches depends on the order of the lines.
    let lines: Vec<String> =
        (0..48).map(|index| format!("{index} ").repeat(index % 8 + 1)).collect();
    workshop.write("lines.txt", lines.join("\n"));
    let files = ["--source", "lines.txt", "--target", "lines.txt"];
    let arguments = [&NOISY[..], &set(&settings), &["--set", "checkpoint.every=7 steps"]].concat();
    workshop.train_tiny_on(&files, "whole", &arguments).trained();

    let mut child = workshop.start_tiny_on(&files, "parts", &arguments);
    let step = || saved(&workshop.path("parts")).map_or(0, |(step, _)| step);
    while step() < 30 && child.try_wait().unwrap().is_none() {
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    workshop.train(&["--resume", "parts"]).trained().logged(&["resuming after epoch "]);
    assert_same(&workshop, "whole", "parts");
}

#[test]
fn a_partial_checkpoint_of_a_killed_run_is_removed() {
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
fn a_complete_run_changes_nothing_when_resumed() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &[]).trained();
    let before = weights(&workshop.path("run"));
    workshop.train(&["--resume", "run"]).trained().logged(&["bundle: run (best of epoch "]);
    assert_eq!(weights(&workshop.path("run")), before);
}

/// # Panics
///
/// If `parts`, resumed from its checkpoint after update `step`, does not end as `whole`.
pub fn assert_same_from(workshop: &Workshop, step: usize, position: &str) {
    let run = workshop.train(&["--resume", "parts", "--step", &step.to_string()]).trained();
    run.logged(&[&format!("resuming after {position} (update {step})")]);
    assert_same(workshop, "whole", "parts");
}

/// # Panics
///
/// If bundle, checkpoint or state of two runs differ, apart from durations.
pub fn assert_same(workshop: &Workshop, first: &str, second: &str) {
    assert!(workshop.weights(first) == workshop.weights(second), "the best weights differ");
    let [first, second] = [first, second].map(|run| workshop.path(run));
    assert_eq!(weights(&first), weights(&second));
    let state = |run: &Path| {
        let (_, folder) = saved(run).unwrap();
        let state = fs::read_to_string(folder.join("state.toml")).unwrap();
        // The configurations may differ, and so may the hashes, because ids of weights do.
        let lines = state.lines().take_while(|line| *line != "[state.config]");
        let lines =
            lines.filter(|line| !line.starts_with("seconds = ") && !line.starts_with("# SHA"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(state(&first), state(&second));
}

/// Returns update and folder of the last checkpoint.
pub fn saved(run: &Path) -> Option<(usize, PathBuf)> {
    let folders = fs::read_dir(run.join("checkpoints")).ok()?;
    let step = |path: &Path| path.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok();
    folders
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter_map(|path| Some((step(&path)?, path)))
        .max()
}

/// Reads weights, optimizer moments and counts of the last checkpoint, by the path of the weight.
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
        // Weights have another id in each run; the metadata of the optimizer maps ids to paths.
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
