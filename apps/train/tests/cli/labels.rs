use std::{fs, path::Path};

use tx_infer::{Classifier, Device};

use crate::{Run, TINY, Workshop, corpus, gzip, labeled, set};

/// Trains a tiny classifier on other files.
fn train(workshop: &Workshop, run: &str, files: &[&str], settings: &[&str]) -> Run {
    let recipe = ["--recipe", "classify", "--run", run];
    workshop.train(&[&recipe[..], files, &set(&TINY), &set(settings)].concat())
}

#[test]
fn labeled_texts_are_read_from_every_format() {
    let workshop = Workshop::new();
    let tsv = fs::read(workshop.path("labeled.tsv")).unwrap();
    train(&workshop, "tsv", &["--file", "labeled.tsv"], &[]).trained();
    workshop.write("labeled.tsv.gz", gzip(&tsv));
    workshop.write("labeled.csv", format!("text,label\n{}", labeled(",")));
    let json = |line: &str| {
        let (text, label) = line.split_once('\t').unwrap();
        format!("{}\n", serde_json::json!({ "label": label, "text": text }))
    };
    let lines: String = labeled("\t").lines().map(json).collect();
    workshop.write("labeled.jsonl", lines);
    let labels: String = labeled("\t")
        .lines()
        .map(|line| line.split_once('\t').unwrap().1.to_owned() + "\n")
        .collect();
    workshop.write("labels.txt", labels);
    for (run, files) in [
        ("gzip", &["--file", "labeled.tsv.gz"][..]),
        ("csv", &["--file", "labeled.csv"]),
        ("json", &["--file", "labeled.jsonl"]),
        ("two", &["--source", "source.txt", "--target", "labels.txt"]),
    ] {
        let log = train(&workshop, run, files, &[]).trained();
        log.logged(&["labels: equal ", ", reversed ", ", sorted "]);
        assert!(workshop.weights(run) == workshop.weights("tsv"), "{run}: other weights");
    }
}

/// The file has 30 rows, in which the text of column `en` is one of ten.
#[test]
fn columns_of_a_parquet_file_are_text_and_label() {
    let workshop = Workshop::new();
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/tx-data/tests/fixtures");
    let file = fixtures.join("flat.none.parquet");
    let files = ["--file", file.to_str().unwrap()];
    let settings = ["data.text_column=de", "data.label_column=en", "data.valid_share=0"];
    train(&workshop, "run", &files, &settings)
        .trained()
        .logged(&["labels: sentence 0 3, sentence 1 3, "]);
    let classifier = Classifier::open(workshop.path("run"), &Device::Cpu).unwrap();
    assert_eq!(classifier.labels().len(), 10);
}

#[test]
fn empty_texts_and_labels_and_long_texts_are_counted() {
    let workshop = Workshop::new();
    let long = "one two three four five six seven eight";
    workshop.append("labeled.tsv", &format!("\tequal\n  \tequal\nsix\t\n{long}\tsorted\n"));
    workshop.write("valid.tsv", format!("one one\tequal\n\tequal\n{long}\tsorted\ntwo one\t \n"));
    let files = ["--file", "labeled.tsv", "--valid-file", "valid.tsv"];
    // Eight words, `<bos>` and `<eos>`.
    let run = train(&workshop, "skipped", &files, &["data.max_len=9"]).trained();
    run.logged(&[
        "3 dropped (first: text 37)\n",
        "training: 36 texts, longest 10 tokens; 1 too long left out\n",
        "validation: 1 texts, longest 10 tokens; 2 with an empty text or label left out \
         (first: line 2); 1 too long left out\n",
    ]);
    let settings = ["data.max_len=9", "data.long=truncate"];
    let run = train(&workshop, "truncated", &files, &settings).trained();
    run.logged(&["training: 37 texts, ", "validation: 2 texts, ", "; 1 too long truncated\n"]);
}

#[test]
fn a_corpus_with_one_label_is_refused() {
    let workshop = Workshop::new();
    let one = labeled("\t").replace("\tequal", "\tsorted").replace("\treversed", "\tsorted");
    workshop.write("labeled.tsv", one);
    train(&workshop, "run", &["--file", "labeled.tsv"], &[])
        .failed(1, &["every text has the label `sorted`, expected at least two labels", "hint: "]);
    // The validation texts are not labels of training.
    workshop.write("valid.tsv", "one one\tequal\n");
    let files = ["--file", "labeled.tsv", "--valid-file", "valid.tsv"];
    train(&workshop, "run", &files, &[]).failed(1, &["every text has the label `sorted`"]);
    workshop.write("none.tsv", "one\t\ntwo\t \n");
    train(&workshop, "run", &["--file", "none.tsv"], &[])
        .failed(1, &["unusable labels in the training data: there is no label", "hint: "]);
}

#[test]
fn labels_of_another_length_are_refused_with_both_numbers() {
    let workshop = Workshop::new();
    workshop.write("labels.txt", "a\nb\n");
    let files = ["--source", "source.txt", "--target", "labels.txt"];
    let run = train(&workshop, "run", &files, &[]);
    run.failed(1, &["`source.txt` has 36 lines, but `labels.txt` has 2", "hint: "]);
    let run = train(&workshop, "run", &["--source", "source.txt"], &[]);
    run.failed(2, &["`train_source` and `train_target` go together"]);
    workshop.write("text.tsv", "one two\n");
    let run = train(&workshop, "run", &["--file", "text.tsv"], &[]);
    run.failed(1, &["`text.tsv` line 1: 1 columns, expected at least 2"]);
}

/// Empty lines before the unknown label count as lines.
#[test]
fn an_unknown_label_in_validation_is_refused_with_its_line() {
    let workshop = Workshop::new();
    workshop.write("valid.tsv", "one one\tequal\n\tequal\none two\tsotred\n");
    let files = ["--file", "labeled.tsv", "--valid-file", "valid.tsv"];
    train(&workshop, "run", &files, &[]).failed(
        1,
        &[
            "line 3 of the validation data has the label `sotred`, which does not occur in training",
            "accepted are `equal`, `reversed`, `sorted`",
            "hint: ",
        ],
    );
    assert!(!workshop.path("run/model.safetensors").exists());
}

/// A label of one text that is held out for validation.
#[test]
fn a_label_without_training_texts_is_refused() {
    let workshop = Workshop::new();
    let (texts, _) = corpus();
    let lines = texts.lines().enumerate();
    let lines: String = lines.map(|(class, text)| format!("{text}\tclass {class}\n")).collect();
    workshop.write("labeled.tsv", lines);
    let run = train(&workshop, "run", &["--file", "labeled.tsv"], &[]);
    run.failed(1, &["of the validation data has the label `class ", "does not occur in training"]);
}

#[test]
fn white_space_and_normal_forms_do_not_distinguish_labels() {
    let workshop = Workshop::new();
    workshop.write("labeled.tsv", "one\tcaf\u{e9}\ntwo\t cafe\u{301} \nthree\ttea\n");
    let run = train(&workshop, "run", &["--file", "labeled.tsv"], &["data.valid_share=0"]);
    run.trained().logged(&["labels: caf\u{e9} 2, tea 1\n"]);
}

#[test]
fn class_weights_change_the_training_and_name_unknown_labels() {
    let workshop = Workshop::new();
    let files = ["--file", "labeled.tsv"];
    let weights = |run: &str, weights: &str| {
        train(&workshop, run, &files, &[weights]).trained();
        workshop.weights(run)
    };
    let plain = weights("plain", "classification.class_weights=none");
    assert!(weights("ones", "classification.class_weights={ equal = 1.0, sorted = 1 }") == plain);
    assert!(weights("balanced", "classification.class_weights=balanced") != plain);
    assert!(weights("table", "classification.class_weights={ equal = 3.0 }") != plain);
    for (weights, problem) in [
        (
            "{ eqaul = 3.0 }",
            "[classification] `class_weights.eqaul`: no training text has this label; the labels are `equal`, `reversed`, `sorted`",
        ),
        ("{ equal = -3.0 }", "`class_weights.equal` = -3 must be a number of at least 0"),
        ("uniform", "expected \"none\", \"balanced\" or a table of weights by label"),
    ] {
        let setting = format!("classification.class_weights={weights}");
        train(&workshop, "run", &files, &[&setting]).failed(2, &[problem]);
    }
}

#[test]
fn changed_labels_are_refused_when_a_run_is_resumed() {
    let workshop = Workshop::new();
    let files = ["--file", "labeled.tsv"];
    train(&workshop, "run", &files, &[]).trained();
    workshop.append("labeled.tsv", "one two three\tthree\n");
    let resume = |more: &[&str]| {
        workshop.train(&[&["--resume", "run", "--set", "train.epochs=3"], more].concat())
    };
    resume(&[]).failed(1, &["the training data has changed since the checkpoint", "`--take new`"]);
    resume(&["--take", "new"]).failed(
        1,
        &[
            "the labels of the training data have changed since the checkpoint: \
             equal, reversed, sorted, three, was equal, reversed, sorted",
            "hint: start a new run",
        ],
    );
    // Other texts of the same labels.
    workshop.write("labeled.tsv", labeled("\t").replace("one two", "two two"));
    resume(&["--take", "new"]).trained().logged(&["resuming after epoch 2"]);
}

#[test]
fn another_task_is_refused_when_a_run_is_resumed() {
    let workshop = Workshop::new();
    train(&workshop, "run", &["--file", "labeled.tsv"], &[]).trained();
    let before = workshop.weights("run");
    let run = workshop.train(&[
        "--resume",
        "run",
        "--set",
        "task=translate",
        "--set",
        "validation.best_by=",
    ]);
    run.failed(1, &["`task` = \"translate\", but the run was started with \"classify\"", "hint: "]);
    let path = workshop.path("run/train.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("task = \"classify\"", "task = \"fill-mask\"")).unwrap();
    let refused = "`task` = \"fill-mask\", but the run was started with \"classify\"";
    workshop.train(&["--resume", "run"]).failed(1, &[refused]);
    workshop.train(&["--resume", "run", "--take", "new"]).failed(1, &[refused]);
    workshop.train(&["--resume", "run", "--take", "old"]).trained();
    assert_eq!(workshop.weights("run"), before);
}

#[test]
fn keys_of_other_tasks_are_refused() {
    let workshop = Workshop::new();
    for (setting, problem) in [
        (
            "validation.best_by=bleu",
            "`best_by` = \"bleu\" is not a metric of the task \"classify\": use \"accuracy\"",
        ),
        (
            "train.word_dropout=0.1",
            "[train] `word_dropout` is not available for the task \"classify\"",
        ),
        (
            "model.decoder_start=zero",
            "[model] `decoder_start` is not available for the task \"classify\"",
        ),
        ("train.bpe_dropout=0.1", "[train] `bpe_dropout` needs `tokenizer.kind` = \"bpe\""),
        ("data.noise.typos=0.1", "[data] `noise` is not available for the task \"classify\""),
        ("data.noise.copies=2", "[data] `noise.copies` = 2 must be in 0..1"),
        ("data.prepared=corpus", "[data] `prepared` is not available for the task \"classify\""),
        ("data.source=reverse", "`source` = \"reverse\" has no labels for the task \"classify\""),
        ("task=clasify", "clasify"),
        ("classification.pooling=last", "last"),
    ] {
        train(&workshop, "run", &["--file", "labeled.tsv"], &[setting]).failed(2, &[problem]);
    }
}
