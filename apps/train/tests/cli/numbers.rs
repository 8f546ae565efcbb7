use std::path::Path;

use crate::{FILES, Run, TASKS, TINY, Workshop, labeled, set};

/// Trains a tiny classifier on `file`.
fn classify(workshop: &Workshop, run: &str, file: &str, settings: &[&str]) -> Run {
    let recipe = ["--recipe", "classify", "--run", run, "--file", file];
    workshop.train(&[&recipe[..], &set(&TINY), &set(settings)].concat())
}

/// Numbers give the weights that the same labels as text give.
#[test]
fn labels_of_json_lines_can_be_integers_or_booleans() {
    let workshop = Workshop::new();
    let lines = |label: &dyn Fn(&str) -> serde_json::Value| {
        let json = |line: &str| {
            let (text, name) = line.split_once('\t').unwrap();
            format!("{}\n", serde_json::json!({ "id": 7, "text": text, "label": label(name) }))
        };
        labeled("\t").lines().map(json).collect::<String>()
    };
    let number = |name: &str| ["equal", "reversed", "sorted"].iter().position(|&n| n == name);
    workshop.write("integers.jsonl", lines(&|name| number(name).into()));
    workshop.write("text.jsonl", lines(&|name| number(name).unwrap().to_string().into()));
    workshop.write("booleans.jsonl", lines(&|name| (name == "sorted").into()));
    for run in ["integers", "text"] {
        let log = classify(&workshop, run, &format!("{run}.jsonl"), &[]).trained();
        log.logged(&["training: ", " texts, longest ", "labels: 0 ", ", 1 ", ", 2 "]);
        assert!(!log.stderr.contains("pairs"), "{}", log.stderr);
    }
    assert!(workshop.weights("integers") == workshop.weights("text"), "the weights differ");
    let run = classify(&workshop, "booleans", "booleans.jsonl", &[]).trained();
    run.logged(&["labels: false ", ", true "]);

    workshop.append("integers.jsonl", "{\"text\": \"one\", \"label\": 0.5}\n");
    classify(&workshop, "run", "integers.jsonl", &[]).failed(
        1,
        &["`integers.jsonl` line 37: `label` is the number 0.5, expected text, an integer or a bool"],
    );
    // A sentence is text.
    let arguments = ["--file", "booleans.jsonl", "--run", "run"];
    workshop.train(&arguments).failed(1, &["no column for the target; text columns: `text`"]);
}

#[test]
fn labels_of_a_parquet_file_can_be_integers_or_booleans() {
    let workshop = Workshop::new();
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/tx-data/tests/fixtures");
    let file = fixtures.join("labeled.parquet");
    let all = "data.valid_share=0";
    let run = classify(&workshop, "integers", file.to_str().unwrap(), &[all]).trained();
    run.logged(&["1 dropped (first: text 5)\n", "labels: -1 1, 0 1, 1 2\n"]);
    let settings = [all, "data.label_column=required"];
    let run = classify(&workshop, "booleans", file.to_str().unwrap(), &settings).trained();
    run.logged(&["labels: false 2, true 3\n"]);
    let settings = [all, "data.label_column=double"];
    classify(&workshop, "run", file.to_str().unwrap(), &settings)
        .failed(1, &["column `double` has numbers that are not integers, expected text, integers"]);
}

#[test]
fn a_column_can_be_given_as_a_number() {
    let workshop = Workshop::new();
    let columns = labeled("\t").lines().map(|line| format!("note\t{line}\n")).collect::<String>();
    workshop.write("columns.tsv", columns);
    let settings = ["data.text_column=2", "data.label_column=3"];
    let run = classify(&workshop, "run", "columns.tsv", &settings).trained();
    run.logged(&["labels: equal "]);
    let settings = ["data.text_column=2.5", "data.label_column=3"];
    classify(&workshop, "wrong", "columns.tsv", &settings)
        .failed(2, &["expected the name of a column, or its number from 1", "text_column"]);
}

#[test]
fn messages_about_labeled_texts_do_not_count_pairs() {
    let workshop = Workshop::new();
    workshop.write("valid.tsv", "one one\tequal\none two\tsorted\n");
    let valid = ["data.valid_file=valid.tsv", "validation.sentences=1"];
    let run = classify(&workshop, "run", "labeled.tsv", &valid).trained();
    run.logged(&[
        "cleaning: 36 texts in, 36 out\n",
        "validation: 2 of 2 texts have a near duplicate in training",
        "validation: 1 of 2 texts are used, of all lengths",
    ]);
    assert!(!run.stderr.contains("pair"), "{}", run.stderr);
    assert!(!run.stderr.contains(" target "), "{}", run.stderr);
    classify(&workshop, "short", "labeled.tsv", &["data.max_len=3"])
        .failed(1, &["no usable text with a label in the training data: ", "hint: "]);
}

#[test]
fn data_of_another_task_is_not_prepared() {
    let workshop = Workshop::new();
    for task in TASKS {
        let arguments = ["data", "prepare", "--output", "corpus", "--recipe", task];
        let problem = format!("prepared data has sentence pairs, and `task` = \"{task}\" has none");
        workshop.train(&arguments).failed(2, &[&problem]);
        assert!(!workshop.path("corpus").exists());
    }
    let arguments = [&["data", "prepare", "--output", "corpus"], &FILES[..]].concat();
    workshop.train(&arguments).trained();
}

#[test]
fn generated_pairs_are_no_documents() {
    let workshop = Workshop::new();
    for task in ["generate", "fill-mask"] {
        for source in ["toy", "reverse"] {
            let setting = format!("data.source={source}");
            let run = workshop.train(&["--recipe", task, "--run", "run", "--set", &setting]);
            let problem = format!(
                "`source` = \"{source}\" has no documents for the task \"{task}\"; accepted are \
                 \"files\" and \"phrasebook\""
            );
            run.failed(2, &[&problem]);
        }
    }
}
