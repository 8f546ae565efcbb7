use std::fs;

use serde_json::Value;

use crate::Workshop;

/// Returns the events of a log.
fn events(workshop: &Workshop, name: &str) -> Vec<Value> {
    let text = fs::read_to_string(workshop.path(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the steps of the events with a message.
fn steps(events: &[Value], message: &str) -> Vec<u64> {
    let found = events.iter().filter(|event| event["message"] == message);
    found.map(|event| event["step"].as_u64().unwrap()).collect()
}

/// One epoch has four batches. The resumed run appends to the log.
#[test]
fn a_log_has_the_events_of_a_run_at_its_level() {
    let workshop = Workshop::new();
    let log = ["--quiet", "--log", "events.jsonl", "--log-level", "trace"];
    let arguments = [&log[..], &["--set", "train.epochs=1"]].concat();
    assert_eq!(workshop.train_tiny("run", &arguments).trained().stderr, "");
    let found = events(&workshop, "events.jsonl");
    assert_eq!(found.first().unwrap()["message"], "started");
    assert_eq!(found.last().unwrap()["message"], "ended");
    assert_eq!(steps(&found, "update"), [1, 2, 3, 4]);
    assert_eq!(steps(&found, "updates"), [4]);
    assert_eq!(steps(&found, "checkpoint written"), [4]);
    let validation = found
        .iter()
        .find(|event| event["message"].as_str().unwrap().starts_with("validation: loss "));
    let validation = validation.unwrap();
    assert_eq!((&validation["level"], &validation["step"]), (&"info".into(), &4.into()));
    // The metrics file has the same numbers.
    let metrics = workshop.metrics("run").into_iter();
    let metrics = metrics.filter(|record| record["kind"] == "training").collect::<Vec<_>>();
    let updates = found.iter().find(|event| event["message"] == "updates").unwrap();
    for key in ["loss", "nll", "accuracy", "learning_rate", "gradient_norm"] {
        assert_eq!(updates[key], metrics[0][key], "{key}");
    }

    let resumed = ["--resume", "run", "--set", "train.epochs=2", "--log", "events.jsonl"];
    workshop.train(&resumed).trained();
    let all = events(&workshop, "events.jsonl");
    let new = &all[found.len()..];
    assert_eq!(new.last().unwrap()["step"], 8);
    assert!(new.iter().all(|event| event["level"] == "info"), "{new:?}");
    assert!(steps(new, "update").is_empty());
}

#[test]
fn warnings_and_the_error_of_a_run_are_logged() {
    let workshop = Workshop::new();
    let diverging = ["train.learning_rate=1e30", "train.on_nonfinite=skip", "train.epochs=10"];
    let settings = crate::set(&diverging);
    let log = ["--quiet", "--log", "events.jsonl", "--log-level", "warn"];
    workshop.train_tiny("run", &[&log[..], &settings].concat()).failed(1, &["20 batches in a row"]);
    let found = events(&workshop, "events.jsonl");
    let levels: Vec<&str> = found.iter().map(|event| event["level"].as_str().unwrap()).collect();
    assert_eq!(levels, [&["warn"; 19][..], &["error"]].concat());
    assert!(found[0]["message"].as_str().unwrap().contains("is NaN"), "{}", found[0]);
}

#[test]
fn a_log_that_cannot_be_written_and_a_level_without_log_are_refused() {
    let workshop = Workshop::new();
    let run = workshop.train_tiny("run", &["--log", "missing/events.jsonl"]);
    run.failed(1, &["cannot write to `missing/events.jsonl`"]);
    assert!(!workshop.path("run").exists());
    workshop.train_tiny("run", &["--log-level", "debug"]).failed(2, &["--log <FILE>"]);
}
