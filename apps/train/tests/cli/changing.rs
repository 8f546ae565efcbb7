use std::fs;

use crate::{Workshop, set};

/// Returns the update of each validation, and whether its model was the best.
fn validations(workshop: &Workshop, run: &str) -> Vec<(u64, bool)> {
    let records = workshop.metrics(run).into_iter();
    let validations = records.filter(|record| record["kind"] == "validation");
    validations
        .map(|record| (record["step"].as_u64().unwrap(), record["best"].as_bool().unwrap()))
        .collect()
}

/// Exact matches reach 100 %, which no negated loss exceeds: if they were compared with each other, no
/// later model would be the best.
#[test]
fn the_best_model_is_chosen_anew_for_another_metric() {
    let workshop = Workshop::new();
    let settings = ["validation.best_by=exact-match", "data.valid_share=0", "train.epochs=4"];
    workshop.train_tiny("run", &set(&settings)).trained();
    let reset = "the best model so far is reset";
    let resume = |settings: &[&str]| {
        workshop.train(&[&["--resume", "run"][..], &set(settings)].concat()).trained()
    };
    // The run is complete, so its last model is validated at once.
    let run = resume(&["validation.best_by=loss"]);
    run.logged(&[reset, "epoch 4  step 20  ", "(best so far)", "bundle: run (best of epoch 4)"]);
    assert_eq!(validations(&workshop, "run").last(), Some(&(20, true)));
    // The metric does not change any more.
    let run = resume(&["train.epochs=6"]);
    assert!(!run.stderr.contains(reset), "{}", run.stderr);
    assert_eq!(validations(&workshop, "run").last().map(|(step, _)| *step), Some(30));
}

#[test]
fn the_best_model_is_chosen_anew_for_more_validation_sentences() {
    let workshop = Workshop::new();
    let settings = ["validation.sentences=2", "data.valid_share=0.3"];
    workshop.train_tiny("run", &set(&settings)).trained();
    let more = set(&["validation.sentences=3", "train.epochs=3"]);
    let run = workshop.train(&[&["--resume", "run"][..], &more].concat()).trained();
    run.logged(&["validation: 3 of ", "the best model so far is reset", "(best so far)"]);
}

/// An epoch has four batches of 8 pairs; the run stops after six, then has batches of 4.
#[test]
fn an_epoch_starts_over_with_other_batches() {
    let workshop = Workshop::new();
    let settings = ["train.epochs=3", "train.max_steps=6"];
    workshop.train_tiny("run", &set(&settings)).trained();
    let other = set(&["train.batch={ sentences = 4 }", "train.max_steps=1000"]);
    let run = workshop.train(&[&["--resume", "run"][..], &other].concat()).trained();
    run.logged(&[
        "batches differ from those of the checkpoint: epoch 2 starts over\n",
        "resuming after epoch 1 (update 6)\n",
        // 6 + two epochs of 8.
        "step 22  ",
    ]);
}

/// A saved configuration is complete: a limit deleted from it does not return from the recipe.
#[test]
fn a_limit_of_the_recipe_can_be_removed() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &[]).trained();
    let read = || fs::read_to_string(workshop.path("run/train.toml")).unwrap();
    assert!(
        read().contains("from_recipe = \"small\"\n") && read().contains("max_minutes = 10.0\n")
    );
    workshop.train(&["--resume", "run", "--set", "train.max_minutes="]).trained();
    assert!(!read().contains("max_minutes"), "{}", read());
    workshop.train(&["--resume", "run"]).trained();
    assert!(!read().contains("max_minutes"), "{}", read());
}

/// Earlier versions saved one fingerprint for training and validation data.
#[test]
fn a_checkpoint_with_one_fingerprint_of_all_data_is_resumed() {
    use sha2::{Digest, Sha256};

    let workshop = Workshop::new();
    workshop.write("valid.tsv", "one two\tuno due\n");
    workshop.write("train.tsv", "three four\ttre quattro\n");
    let files = ["--file", "train.tsv", "--valid-file", "valid.tsv"];
    workshop.train_tiny_on(&files, "run", &["--set", "data.overlap=report"]).trained();
    let path = workshop.path("run/checkpoints/step-2/state.toml");
    let state = fs::read_to_string(&path).unwrap();
    let hash = |text: &str| -> String {
        Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let together = hash("three four\0tre quattro\0one two\0uno due\0");
    let lines = state.lines().skip(1).filter(|line| !line.starts_with("validation_data = "));
    let body: String = lines
        .map(|line| match line.starts_with("data = ") {
            true => format!("data = \"1 + 1 pairs, SHA-256 {together}\"\n"),
            false => format!("{line}\n"),
        })
        .collect();
    fs::write(&path, format!("# SHA-256 of what follows: {}\n{body}", hash(&body))).unwrap();
    workshop.train(&["--resume", "run", "--set", "train.epochs=3"]).trained();
    assert!(workshop.path("run/checkpoints/step-3").is_dir());
}
