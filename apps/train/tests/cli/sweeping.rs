use std::{process::Command, thread, time::Duration};

use crate::{FILES, Run, TINY, Workshop, set};

const VARIED: [&str; 6] =
    ["--seeds", "1,2", "--vary", "train.label_smoothing=0,0.1", "--out", "sweep"];

fn sweep<'a>(options: &[&'a str], settings: &[&'a str]) -> Vec<&'a str> {
    [&["sweep"][..], &VARIED, options, &["--"], &FILES, &set(&TINY), settings].concat()
}

const RUNS: [&str; 4] = [
    "label_smoothing=0,seed=1",
    "label_smoothing=0,seed=2",
    "label_smoothing=0.1,seed=1",
    "label_smoothing=0.1,seed=2",
];

#[test]
fn every_combination_is_trained_and_summarized() {
    let workshop = Workshop::new();
    let run = workshop.train(&sweep(&["--jobs", "2"], &[]));
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for name in RUNS {
        assert!(workshop.path("sweep").join(name).join("model.safetensors").is_file(), "{name}");
    }
    // Means of the metrics of the best models of two runs.
    let mean = |name: &str, metric: &str| {
        let best = |seed: usize| -> f64 {
            let metrics = workshop.metrics(&format!("sweep/label_smoothing={name},seed={seed}"));
            let best = metrics.iter().rfind(|record| record["best"] == true).unwrap();
            let value = best[metric].as_f64().unwrap();
            format!("{value:.2}").parse().unwrap()
        };
        0.5 * (best(1) + best(2))
    };
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{}", run.stdout);
    for (line, name) in lines[1..].iter().zip(["0", "0.1"]) {
        assert!(line.starts_with(&format!("train.label_smoothing={name} ")), "{line}");
        assert!(line.contains(&format!("{:.2} ±", mean(name, "chrf"))), "{line}");
    }
    // A finished sweep starts nothing.
    let again = workshop.train(&sweep(&[], &[]));
    assert_eq!((again.code, again.stdout), (Some(0), run.stdout));
    assert_eq!(again.stderr.lines().filter(|line| line.ends_with(": done")).count(), 4);
    assert!(!again.stderr.contains("started"), "{}", again.stderr);
    // The results of other options must not be taken for those of these.
    let other = workshop.train(&sweep(&[], &["--set", "train.learning_rate=0.02"]));
    other.failed(2, &["`sweep` has runs with other options", "choose another folder"]);
}

/// The sweep is killed while two of its runs train. They end with checkpoints, and the same command
/// continues them; the weights are those of a sweep without interruption.
#[test]
fn a_killed_sweep_continues() {
    let workshop = Workshop::new();
    let longer = set(&["train.epochs=60", "checkpoint.every=1 step", "validation.every_epochs=30"]);
    let whole = sweep(&["--jobs", "2"], &longer);
    assert_eq!(workshop.train(&whole).code, Some(0));
    std::fs::rename(workshop.path("sweep"), workshop.path("whole")).unwrap();

    let mut child: std::process::Child = workshop.command(&whole).spawn().unwrap();
    let checkpoints = workshop.path("sweep").join(RUNS[0]).join("checkpoints");
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while std::fs::read_dir(&checkpoints).map_or(0, Iterator::count) == 0 {
        assert!(std::time::Instant::now() < deadline, "no checkpoint");
        thread::sleep(Duration::from_millis(10));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-9", &id]).status().unwrap().success());
    child.wait().unwrap();
    let run = workshop.train(&whole);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("label_smoothing=0,seed=1: resumed"), "{}", run.stderr);
    for name in RUNS {
        let weights = |sweep: &str| workshop.weights(&format!("{sweep}/{name}"));
        assert!(weights("sweep") == weights("whole"), "{name}");
    }
}

#[test]
fn wrong_sweeps_are_refused() {
    let workshop = Workshop::new();
    let sweep = |vary: &str| -> Run {
        workshop.train(&["sweep", "--out", "x", "--vary", vary, "--", "--recipe", "toy"])
    };
    sweep("train.seed").failed(2, &["expected `section.key=value,value`"]);
    sweep("train.r_drop=1,1").failed(2, &["two runs have the name `r_drop=1,seed=1`"]);
    let run = sweep("train.epoch=1,2");
    run.failed(1, &["epoch=1,seed=1: failed", "2 of 2 runs failed; the first log is"]);
    let log = std::fs::read_to_string(workshop.path("x/epoch=1,seed=1.log")).unwrap();
    assert!(log.contains("unknown field `epoch`"), "{log}");
}
