//! Runs with an observer.
//!
//! A process of its own, because tests beside this one would draw random numbers of the device.

#![allow(
    clippy::unwrap_used,
    reason = "clippy recognizes test functions as tests, but not their helpers"
)]

use std::{
    fs,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
};

use burn::tensor::Device;
use tx_train::{
    ConfigBuilder, Outcome, ResumeFrom, Trainer,
    ranks::Alone,
    reporting::{
        observer::{Event, UpdateEvent},
        progress::ProgressMode,
    },
    validation_report::Figure,
};

/// A run of six updates in three epochs, whose observer stops it after the event `last`.
fn run(trainer: Trainer, last: Option<usize>) -> (Outcome, Vec<Event>) {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    let observer = move |event: &Event| {
        let mut seen = seen.lock().unwrap();
        seen.push(event.clone());
        if Some(seen.len()) == last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let outcome = trainer.with_progress(ProgressMode::Quiet).with_observer(observer).run().unwrap();
    let events = events.lock().unwrap().clone();
    (outcome, events)
}

fn new(folder: &Path) -> Trainer {
    let mut builder = ConfigBuilder::from_recipe("reverse").unwrap();
    for setting in [
        "model.d_model=16",
        "model.d_ff=16",
        "train.epochs=3",
        "data.train_pairs=16",
        "data.valid_pairs=4",
        "train.batch={ sentences = 8 }",
        "train.accumulate=1",
    ] {
        builder.set(setting).unwrap();
    }
    Trainer::new(builder.build().unwrap(), folder, Device::flex())
}

/// Numbers of an event that do not depend on time.
fn numbers(event: &Event) -> (usize, usize, Vec<f64>) {
    match event {
        Event::Update(update) => {
            let UpdateEvent { loss, nll, accuracy, learning_rate, gradient_norm, .. } = *update;
            (update.epoch, update.step, vec![loss, nll, accuracy, learning_rate, gradient_norm])
        }
        Event::Validation(validation) => {
            let is_timeless = |it: &&Figure| !it.key.contains("second");
            let figures = validation.figures.iter().filter(is_timeless);
            (validation.epoch, validation.step, figures.map(|figure| figure.value).collect())
        }
    }
}

#[test]
fn a_run_that_its_observer_stops_continues_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let (outcome, all) = run(new(&whole), None);
    assert!(!outcome.interrupted);
    // Two updates and a validation in each epoch.
    let kinds: Vec<bool> = all.iter().map(|it| matches!(it, Event::Update(_))).collect();
    assert_eq!(kinds, [[true, true, false]; 3].concat());
    let weights = |run: &Path| fs::read(run.join("model.safetensors")).unwrap();
    for last in 1..=all.len() {
        let part = folder.path().join(last.to_string());
        let (outcome, first) = run(new(&part), Some(last));
        assert!(outcome.interrupted);
        let from = ResumeFrom::Last;
        let resumed =
            Trainer::resume(&part, from, None, Device::flex(), Arc::new(Alone), |_| Ok(()));
        let (_, rest) = run(resumed.unwrap(), None);
        let parts: Vec<_> = first.iter().chain(&rest).map(numbers).collect();
        assert_eq!(parts, all.iter().map(numbers).collect::<Vec<_>>(), "stopped after {last}");
        assert_eq!(weights(&part), weights(&whole), "stopped after {last}");
    }
}
