use std::{fs, path::Path, process::Command};

use serde_json::Value;
use tx_infer::{Classifier, Device, FillMask, Generator};

use crate::{TASKS, Workshop, cli::training::weights, set};

/// Settings that validate on all 36 texts.
const ON_ALL: [&str; 4] =
    ["data.valid_share=0", "train.epochs=30", "validation.every_epochs=10", NO_DROPOUT];

const NO_DROPOUT: &str = "model.dropout={ embedding = 0.0, residual = 0.0 }";

/// Returns the validations of a run.
fn validations(workshop: &Workshop, run: &str) -> Vec<Value> {
    let records = workshop.metrics(run).into_iter();
    records.filter(|record| record["kind"] == "validation").collect()
}

#[test]
fn every_task_gives_a_bundle_that_runs() {
    for task in TASKS {
        let workshop = Workshop::new();
        let run = workshop.train_task(task, "run", &set(&ON_ALL)).trained();
        run.logged(&["epoch 30  step ", "validation: loss ", "bundle: run (best of epoch "]);
        let command = run.command_after("try it:");
        assert!(command.contains(" --model run --text '"), "{command}");
        // `translate` may or may not have been built beside `train`.
        let built = Path::new(env!("CARGO_BIN_EXE_train")).with_file_name("translate");
        if cfg!(unix) && command.starts_with(&*built.to_string_lossy()) {
            let mut shell = Command::new("sh");
            let output = shell.args(["-c", &command]).current_dir(workshop.path("")).output();
            let output = output.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), 1);
        }

        let run = workshop.path("run");
        let tensorboard = fs::read_dir(run.join("tensorboard")).unwrap().next().unwrap().unwrap();
        assert!(tensorboard.metadata().unwrap().len() > 100);
        match task {
            "classify" => {
                let classifier = Classifier::open(run, &Device::Cpu).unwrap();
                for (text, label) in [("six six", "equal"), ("five two", "sorted")] {
                    assert_eq!(classifier.classify(text).unwrap().label(), Some(label), "{text}");
                }
            }
            "generate" => {
                let generator = Generator::open(run, &Device::Cpu).unwrap();
                let text = generator.continue_text("three").unwrap().text;
                let words: Vec<&str> = text.split(' ').collect();
                assert!(words.len() == 2 && words[0] == "three", "{text}");
            }
            _ => {
                let model = FillMask::open(run, &Device::Cpu).unwrap();
                let filled = model.fill("four <mask>").unwrap();
                assert!(filled.text.starts_with("four "), "{filled:?}");
                assert_eq!(filled.masks.len(), 1);
            }
        }
    }
}

/// Every text is a document of two words and `<eos>`, so three tokens are predicted. No distribution of
/// texts gives the 36 texts together a higher probability than (1/36)^36, so the loss per token is at least
/// ln(36) / 3, unless a row of two documents shows one to the other or a token to itself.
#[test]
fn the_loss_of_a_language_model_approaches_the_entropy_of_its_texts() {
    let workshop = Workshop::new();
    workshop.train_task("generate", "run", &set(&ON_ALL)).trained();
    let entropy = 36_f64.ln() / 3.0;
    for validation in validations(&workshop, "run") {
        let loss = validation["loss"].as_f64().unwrap();
        assert!(loss > entropy - 1e-6, "{loss} is less than {entropy}");
    }
    let best = validations(&workshop, "run").pop().unwrap();
    let number = |key: &str| best[key].as_f64().unwrap();
    assert!(number("loss") < 1.1 * entropy, "{best}");
    // 36 texts of 3 tokens, of 2 words, and of as many characters as the file has without line breaks.
    let sum = 36.0 * 3.0 * number("loss");
    let text = fs::read_to_string(workshop.path("source.txt")).unwrap();
    let characters = text.chars().filter(|character| *character != '\n').count();
    for (key, units) in [
        ("perplexity", 36.0 * 3.0),
        ("word_perplexity", 36.0 * 2.0),
        ("character_perplexity", characters as f64),
    ] {
        assert!((number(key).ln() * units - sum).abs() < 1e-6 * sum, "{key}: {best}");
    }
}

/// Accuracy and macro F1 follow from the confusion matrix, whose rows count the texts of each label.
#[test]
fn a_classifier_reports_its_confusion_matrix() {
    let workshop = Workshop::new();
    workshop.train_task("classify", "run", &set(&ON_ALL)).trained();
    for validation in validations(&workshop, "run") {
        assert_eq!(validation["labels"], serde_json::json!(["equal", "reversed", "sorted"]));
        let row = |row: &Value| -> Vec<f64> {
            row.as_array().unwrap().iter().map(|count| count.as_f64().unwrap()).collect()
        };
        let matrix: Vec<Vec<f64>> =
            validation["confusion"].as_array().unwrap().iter().map(row).collect();
        let texts: Vec<f64> = matrix.iter().map(|row| row.iter().sum()).collect();
        assert_eq!(texts, [6.0, 15.0, 15.0]);
        let correct: f64 = (0..3).map(|class| matrix[class][class]).sum();
        assert_eq!(validation["accuracy"].as_f64().unwrap(), correct / 36.0);
        let mut f1 = 0.0;
        for class in 0..3 {
            let predicted: f64 = matrix.iter().map(|row| row[class]).sum();
            f1 += 2.0 * matrix[class][class] / (texts[class] + predicted) / 3.0;
        }
        assert!((validation["macro_f1"].as_f64().unwrap() - f1).abs() < 1e-12, "{validation}");
    }
    let best = validations(&workshop, "run").pop().unwrap();
    assert_eq!(best["accuracy"], 1.0, "{best}");
}

/// Labels and texts are written by users and must not become markup.
#[test]
fn the_report_of_a_classifier_has_its_tables_and_escapes_labels() {
    let workshop = Workshop::new();
    let labeled = fs::read_to_string(workshop.path("labeled.tsv")).unwrap();
    let labeled = labeled.replace("\tequal", "\t<b>&").replace("six", "<script>");
    workshop.write("labeled.tsv", labeled);
    workshop.train_task("classify", "run", &["--set", "data.valid_share=0"]).trained();
    let page = fs::read_to_string(workshop.path("run/report.html")).unwrap();
    for text in [
        "<h2>Confusion matrix of the best model</h2>",
        "<th>label / predicted</th><th class=\"number\">&lt;b&gt;&amp;</th>",
        "<td>&lt;b&gt;&amp;</td><td class=\"number\">6</td>",
        "<h2>Classes of the best model</h2>",
        "<title>Macro F1",
        "<polyline",
    ] {
        assert!(page.contains(text), "no `{text}` in\n{page}");
    }
    assert!(!page.contains("<b>") && !page.contains("<script>"), "{page}");
}

#[test]
fn runs_of_different_tasks_are_compared_and_reported() {
    let workshop = Workshop::new();
    for task in TASKS {
        workshop.train_task(task, task, &[]).trained();
        let page = workshop.path(task).join("report.html");
        let before = fs::read_to_string(&page).unwrap();
        fs::remove_file(&page).unwrap();
        assert_eq!(workshop.train(&["report", task]).stdout, format!("{task}/report.html\n"));
        assert_eq!(fs::read_to_string(&page).unwrap(), before);
        assert!(before.contains("<h2>Samples</h2>") && before.contains("<polyline"), "{before}");
    }
    workshop.train_tiny("translate", &[]).trained();
    let table = workshop.train(&[&["compare", "translate"], &TASKS[..]].concat()).stdout;
    let row = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no `{name}` in\n{table}"));
        line[name.len()..].split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(row("updates"), ["8"; 4]);
    assert_eq!(row("task"), TASKS.map(|task| format!("\"{task}\"")), "the default has no value");
    // Metrics that a task does not have.
    for (name, values) in [
        ("BLEU", [true, false, false, false]),
        ("macro F1, %", [false, true, false, false]),
        ("per word", [false, false, true, false]),
        ("loss", [true; 4]),
    ] {
        let found: Vec<bool> = row(name).iter().map(|value| value != "–").collect();
        assert_eq!(found, values, "{name} in\n{table}");
    }
}

/// Each weight is the mean of those of two checkpoints.
#[test]
fn checkpoints_of_any_task_are_averaged() {
    for task in TASKS {
        let workshop = Workshop::new();
        let settings =
            set(&["checkpoint.keep_last=3", "checkpoint.keep_best=1", "train.ema_decay=0.5"]);
        let often = ["--set", "checkpoint.every=1 epoch"];
        workshop.train_task(task, "run", &[&settings[..], &often].concat()).trained();
        let average = |which: &[&str], output: &str| {
            let arguments = [&["average", "run", "--output", output], which].concat();
            workshop.train(&arguments).trained()
        };
        average(&["--last", "2"], "two").logged(&["bundle: two (mean of updates 4, 8)"]);
        average(&["--last", "1"], "last").logged(&["(mean of updates 8)"]);
        average(&["--best", "1"], "best");
        let back = ["--resume", "run", "--step", "4", "--set", "train.max_steps=4"];
        workshop.train(&back).trained();
        average(&["--last", "1"], "first").logged(&["(mean of updates 4)"]);
        let [two, last, first] = ["two", "last", "first"].map(|name| weights(&workshop.path(name)));
        assert_ne!(first, last);
        for (name, two) in &two {
            for ((two, first), last) in two.iter().zip(&first[name]).zip(&last[name]) {
                let mean = ((f64::from(*first) + f64::from(*last)) / 2.0) as f32;
                assert_eq!(*two, mean, "{task}: {name}");
            }
        }
    }
}

/// The bundle of a run with a moving average has other weights than its last checkpoint.
#[test]
fn the_moving_average_of_any_task_is_validated_and_saved() {
    for task in TASKS {
        let workshop = Workshop::new();
        workshop.train_task(task, "plain", &[]).trained();
        workshop.train_task(task, "ema", &["--set", "train.ema_decay=0.9"]).trained();
        assert_ne!(workshop.weights("plain"), workshop.weights("ema"));
        let last = |run: &str| {
            let output = format!("{run}/last");
            workshop.train(&["average", run, "--last", "1", "--output", &output]).trained();
            weights(&workshop.path(output))
        };
        assert_eq!(last("plain"), last("ema"), "{task}: the average changed the training");
    }
}

#[test]
fn a_run_of_any_task_stops_early_without_a_better_model() {
    for task in TASKS {
        let workshop = Workshop::new();
        // The rate is so high that the loss rises.
        let settings = ["train.epochs=200", "train.learning_rate=3", "validation.patience=3"];
        let run = workshop.train_task(task, "run", &set(&settings)).trained();
        run.logged(&["stopping early: the last 3 validations found no better model"]);
        let best: Vec<bool> = validations(&workshop, "run")
            .iter()
            .map(|validation| validation["best"].as_bool().unwrap())
            .collect();
        assert!(best.ends_with(&[true, false, false, false]), "{task}: {best:?}");
    }
}

/// The same device twice replaces two devices.
#[test]
fn two_devices_train_any_task_as_one_does() {
    for task in TASKS {
        let workshop = Workshop::new();
        let settings = set(&["train.accumulate=2", NO_DROPOUT]);
        workshop.train_task(task, "one", &settings).trained();
        let two = [&settings[..], &["--device", "cpu,cpu"]].concat();
        workshop.train_task(task, "two", &two).trained().logged(&["device: cpu, cpu"]);
        let [one, two] = ["one", "two"].map(|run| weights(&workshop.path(run)));
        for (name, one) in one {
            for (one, two) in one.iter().zip(&two[&name]) {
                assert!((one - two).abs() < 1e-4, "{task}: {name}: {one} and {two}");
            }
        }
    }
}

#[test]
fn updates_of_every_task_are_measured_without_data() {
    for task in TASKS {
        let settings = set(&["model.d_model=16", "model.d_ff=16", "train.batch={ sentences = 2 }"]);
        let bench = ["bench", "--recipe", task, "--device", "cpu", "--len", "5", "--updates", "3"];
        let run = Workshop::new().train(&[&bench[..], &settings].concat());
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let row = run.stdout.lines().nth(2).unwrap();
        assert!(row.starts_with(&format!("| {task} | cpu | update of 2 × 5 tokens | ")), "{row}");
    }
}
