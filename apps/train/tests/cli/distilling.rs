use std::fs;

use crate::{
    Workshop,
    cli::{
        resuming::{NOISY, assert_same},
        training::weights,
    },
    set,
};

/// Splits the pairs, and so learns the vocabularies, independently of the seed.
const BY_HASH: &str = "data.split_by=hash";

/// Folder with the teachers `first` and `second`, with other weights and the same tokenizers.
fn workshop() -> Workshop {
    let workshop = Workshop::new();
    for (run, seed) in [("first", "train.seed=1"), ("second", "train.seed=2")] {
        workshop.train_tiny(run, &set(&[seed, BY_HASH])).trained();
    }
    workshop
}

fn distill(workshop: &Workshop, run: &str, teacher: &str, settings: &[&str]) -> crate::Run {
    let teacher = format!("train.distill={{ teacher = {teacher}, weight = 0.7 }}");
    workshop.train_tiny(run, &[&NOISY[..], &set(&[BY_HASH, &teacher]), &set(settings)].concat())
}

/// The mean of two equal predictions is that of one. Another teacher changes the model.
#[test]
fn a_student_learns_the_mean_prediction_of_its_teachers() {
    let workshop = workshop();
    for (run, teacher) in [
        ("one", r#""first""#),
        ("list", r#"["first"]"#),
        ("twice", r#"["first", "first"]"#),
        ("both", r#"["first", "second"]"#),
    ] {
        distill(&workshop, run, teacher, &[]).trained();
        for file in ["source.tokenizer.json", "target.tokenizer.json"] {
            let read = |run: &str| fs::read(workshop.path(run).join(file)).unwrap();
            assert_eq!(read(run), read("first"), "{file}");
        }
    }
    let weights = |run: &str| weights(&workshop.path(run));
    assert_eq!(weights("list"), weights("one"));
    assert_eq!(weights("twice"), weights("one"));
    assert_ne!(weights("both"), weights("one"));
}

#[test]
fn a_run_with_two_teachers_resumes_exactly() {
    let workshop = workshop();
    let teachers = r#"["first", "second"]"#;
    distill(&workshop, "whole", teachers, &["train.epochs=3"]).trained();
    distill(&workshop, "parts", teachers, &["train.epochs=3", "train.max_steps=6"]).trained();
    workshop.train(&["--resume", "parts", "--set", "train.max_steps=1000"]).trained();
    assert_same(&workshop, "whole", "parts");
}

#[test]
fn teachers_that_do_not_fit_are_refused() {
    let workshop = workshop();
    workshop.train_tiny("other", &set(&["tokenizer.kind=character"])).trained();
    let hint = "models of an ensemble need the same tokenizers";
    distill(&workshop, "run", r#"["first", "other"]"#, &[]).failed(1, &["first", "other", hint]);
    distill(&workshop, "run", "[]", &[]).failed(2, &["[train] `distill.teacher` is an empty list"]);
    distill(&workshop, "run", "3", &[])
        .failed(2, &["expected the folder of a bundle, or a list of folders"]);
    distill(&workshop, "run", r#"["first", "none"]"#, &[]).failed(1, &["`none` is not a bundle"]);
    let settings = ["model.max_len=32", "data.max_len=32"];
    let problem = "`distill.teacher`: `first` has 16 positions, and the run needs 32";
    distill(&workshop, "run", r#""first""#, &settings).failed(2, &[problem]);
}
