use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use tx_infer::{Device, Translator};

use crate::{FILES, Workshop, corpus, set, tiny};

/// Settings that overfit all 36 pairs and validate on them.
const OVERFIT: [&str; 6] = [
    "--set",
    "train.epochs=30",
    "--set",
    "data.valid_share=0",
    "--set",
    "model.dropout={ embedding = 0.0, residual = 0.0 }",
];

#[test]
fn two_files_give_a_bundle_that_translates_on_both_cpu_backends() {
    for device in ["cpu", "ndarray"] {
        let workshop = Workshop::new();
        let run = workshop.train_tiny("run", &[&["--device", device], &OVERFIT[..]].concat());
        let run = run.trained();
        run.logged(&[&format!("device: {device}\n"), "bundle: run (best of epoch "]);
        let command = run.command_after("try it:");
        let program = command.strip_suffix(" --model run --text 'one one'").unwrap();
        // `translate` may or may not have been built beside `train`.
        let built = Path::new(env!("CARGO_BIN_EXE_train")).with_file_name("translate");
        assert!(
            Path::new(program) == built || program.ends_with(" --bin translate --"),
            "{command}"
        );
        if cfg!(unix) && Path::new(program) == built {
            let mut shell = Command::new("sh");
            shell.args(["-c", &command]).current_dir(workshop.path(""));
            assert_eq!(shell.output().unwrap().stdout, b"uno uno\n");
        }
        run.logged(&["training: 36 pairs, longest source 3 and target 4 tokens\n"]);
        assert!(!run.stderr.contains("too long left out"), "{}", run.stderr);

        let translator = Translator::open(workshop.path("run"), &Device::Cpu).unwrap();
        assert_eq!(translator.translate("three four").unwrap().text, "tre quattro", "{device}");
    }
}

/// As models of OpenNMT. The longest source has one token less than with `<eos>`.
#[test]
fn a_model_whose_sources_have_no_eos_learns() {
    let workshop = Workshop::new();
    let without = ["--set", "tokenizer.source_eos=false"];
    let run = workshop.train_tiny("run", &[&without[..], &OVERFIT].concat()).trained();
    run.logged(&["training: 36 pairs, longest source 2 and target 4 tokens\n"]);
    let translator = Translator::open(workshop.path("run"), &Device::Cpu).unwrap();
    assert_eq!(translator.translate("three four").unwrap().text, "tre quattro");
    assert_eq!(translator.translate("\u{ad}").unwrap().text, "");
}

#[test]
fn a_quiet_run_prints_nothing() {
    let workshop = Workshop::new();
    let run = workshop.train_tiny("run", &["--quiet"]).trained();
    assert_eq!(run.stderr, "");
    assert!(workshop.path("run/model.safetensors").is_file());
}

/// The first update moves all weights to 1e30, whose products overflow.
#[test]
fn a_loss_of_nan_stops_before_the_update_or_skips_batches() {
    let workshop = Workshop::new();
    let arguments = ["--set", "train.learning_rate=1e30", "--set", "checkpoint.every=1 step"];
    let run = workshop.train_tiny("stopped", &arguments);
    run.failed(
        1,
        &["of step 2 (epoch 1, batch 2) is NaN: the update was not applied", "hint: lower"],
    );
    assert!(workshop.path("stopped/checkpoints/step-1").is_dir());

    let skip = [&arguments[..], &["--set", "train.on_nonfinite=skip"]].concat();
    let run = workshop.train_tiny("skipped", &skip).trained();
    let warnings = run.stderr.lines().filter(|line| line.starts_with("warning: the ")).count();
    assert_eq!(warnings, 7, "{}", run.stderr);
    let metrics = fs::read_to_string(workshop.path("skipped/metrics.jsonl")).unwrap();
    assert!(metrics.lines().any(|line| line.contains("\"skipped\":")), "{metrics}");

    // All of the 40 batches except the first are skipped.
    let run = workshop.train_tiny("endless", &[&skip[..], &["--set", "train.epochs=10"]].concat());
    run.failed(1, &["20 batches in a row were skipped; the last: the ", "hint: lower"]);
    let warnings = run.stderr.lines().filter(|line| line.starts_with("warning: the ")).count();
    assert_eq!(warnings, 19, "{}", run.stderr);
}

/// Four pairs are held out for validation.
#[test]
fn validation_on_a_part_of_the_pairs_is_reported() {
    let workshop = Workshop::new();
    let run = workshop.train_tiny("part", &["--set", "validation.sentences=3"]).trained();
    run.logged(&[
        "validation: 3 of 4 pairs are used, of all lengths (`validation.sentences` = 3)\n",
    ]);
    let run = workshop.train_tiny("whole", &["--set", "validation.sentences=4"]).trained();
    assert!(!run.stderr.contains("pairs are used"), "{}", run.stderr);
}

/// 20 updates are fewer than the interval between two lines of metrics.
#[test]
fn a_short_run_has_a_curve() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &["--set", "train.epochs=5"]).trained();
    let records = workshop.metrics("run").into_iter();
    let records = records.filter(|record| record["kind"] == "training");
    let steps: Vec<u64> = records.map(|record| record["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [20]);
}

#[test]
fn runs_are_compared_and_reported() {
    let workshop = Workshop::new();
    workshop.train_tiny("one", &[]).trained();
    workshop.train_tiny("two", &["--set", "train.seed=2", "--set", "model.d_ff=24"]).trained();
    let table = workshop.train(&["compare", "one", "two"]).stdout;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<_> = table.lines().map(words).collect();
    for line in [
        &["one", "two"][..],
        &["updates", "8", "8"],
        &["train.seed", "1", "2"],
        &["model.d_ff", "16", "24"],
    ] {
        assert!(lines.contains(&line.iter().map(|&word| word.to_owned()).collect()), "{table}");
    }
    assert!(!table.contains("train.epochs"), "{table}");

    let page = workshop.path("one/report.html");
    let before = fs::read_to_string(&page).unwrap();
    fs::remove_file(&page).unwrap();
    assert_eq!(workshop.train(&["report", "one"]).stdout, "one/report.html\n");
    assert_eq!(fs::read_to_string(&page).unwrap(), before);
    assert!(before.contains("<svg class=\"attention\"") && before.contains("<polyline"));
}

/// The initial rate is far too high. The rule of `docs/configuration.md` gives the rate after each validation
/// from the validations that found a better model.
#[test]
fn the_rate_decays_and_the_run_stops_early_on_a_plateau() {
    let workshop = Workshop::new();
    let settings = [
        "train.epochs=200",
        "train.schedule=reduce-on-plateau",
        "train.learning_rate=0.3",
        "train.plateau_patience=2",
        "train.plateau_factor=0.25",
        "validation.patience=5",
        "metrics.every_steps=1",
    ];
    let run = workshop.train_tiny("run", &set(&settings)).trained();
    run.logged(&["stopping early: the last 5 validations found no better model"]);
    let (mut rate, mut since, mut falls) = (0.3, 0, 0);
    for record in workshop.metrics("run") {
        if record["kind"] == "training" {
            let found = record["learning_rate"].as_f64().unwrap();
            assert!((found - rate).abs() < 1e-12, "{found} is not {rate} in {record}");
        } else if record["best"] == true {
            since = 0;
        } else {
            since += 1;
            if since % 2 == 0 {
                (rate, falls) = (0.25 * rate, falls + 1);
            }
        }
    }
    assert_eq!(since, 5);
    assert!(falls >= 2);
}

/// The same device twice replaces two devices. Dropout is off, because its random numbers depend on the
/// number of devices.
#[test]
fn two_devices_train_as_one_does() {
    let workshop = Workshop::new();
    let settings = [
        "--set",
        "train.accumulate=2",
        "--set",
        "model.dropout={ embedding = 0.0, residual = 0.0 }",
    ];
    workshop.train_tiny("one", &settings).trained();
    let run =
        workshop.train_tiny("two", &[&settings[..], &["--device", "cpu,cpu"]].concat()).trained();
    run.logged(&["device: cpu, cpu"]);
    let [one, two] = ["one", "two"].map(|run| {
        let bytes = workshop.weights(run);
        let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let mut numbers = BTreeMap::new();
        for (name, tensor) in tensors.tensors() {
            let (whole, _) = tensor.data().as_chunks::<4>();
            let values: Vec<f32> = whole.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            numbers.insert(name, values);
        }
        numbers
    });
    for (name, one) in one {
        for (one, two) in one.iter().zip(&two[&name]) {
            assert!((one - two).abs() < 1e-4, "{name}: {one} and {two}");
        }
    }
    let run = workshop.train_tiny("odd", &["--device", "cpu,cpu"]);
    run.failed(2, &["`accumulate` = 1 must be a multiple of the number of devices, 2"]);
}

/// The matrix products are large enough to be distributed over threads. A pool of one thread must not
/// wait for itself, and dropout must not depend on the order in which devices finish.
#[test]
fn two_devices_are_deterministic_and_need_only_one_thread() {
    let workshop = Workshop::new();
    let weights = |run: &str, threads: &str| {
        let arguments = [
            "--quiet",
            "--device",
            "cpu,cpu",
            "--set",
            "train.accumulate=2",
            "--set",
            "train.max_steps=2",
            "--set",
            "model.d_ff=2048",
        ];
        let mut child = workshop
            .command(&tiny(&FILES, run, &arguments))
            .env("RAYON_NUM_THREADS", threads)
            .spawn()
            .unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > Duration::from_secs(300) {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("a run of 2 updates hangs with {threads} threads");
            }
            sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "{status}");
        workshop.weights(run)
    };
    let one = weights("one", "1");
    for run in ["two", "again"] {
        assert!(weights(run, "2") == one, "{run}: other weights");
    }
}

#[test]
fn the_log_has_plain_lines() {
    let run = Workshop::new().train_tiny("run", &[]).trained();
    assert!(!run.stderr.contains(['\u{1b}', '\r', '\u{8}']), "{:?}", run.stderr);
    for epoch in 1..=2 {
        let start = format!("epoch {epoch}  step {}  ", 5 * epoch - epoch);
        let line = run.stderr.lines().find(|line| line.starts_with(&start));
        let line = line.unwrap_or_else(|| panic!("no `{start}` in:\n{}", run.stderr));
        for word in ["validation: loss ", "perplexity ", "accuracy ", "BLEU ", "chrF ", "exact "] {
            assert!(line.contains(word), "{line}");
        }
    }
}

#[test]
fn a_budget_of_updates_ends_a_run_within_an_epoch() {
    let workshop = Workshop::new();
    let run = workshop.train_tiny("run", &["--set", "train.max_steps=3"]).trained();
    run.logged(&["step 3  ", "bundle: run (best of epoch 1)"]);
    assert!(!run.stderr.contains("step 4"), "{}", run.stderr);
    Translator::open(workshop.path("run"), &Device::Cpu).unwrap();
}

#[test]
fn a_budget_of_minutes_ends_a_run() {
    let workshop = Workshop::new();
    let start = Instant::now();
    let settings = ["--set", "train.max_minutes=0.01", "--set", "train.epochs=1000000"];
    workshop.train_tiny("run", &settings).trained().logged(&["bundle: run"]);
    assert!(start.elapsed().as_secs() < 30, "the budget was 0.6 seconds");
    Translator::open(workshop.path("run"), &Device::Cpu).unwrap();
}

#[test]
fn pairs_with_an_empty_side_and_long_ones_are_removed_and_counted() {
    let workshop = Workshop::new();
    let (source, target) = corpus();
    let long = "one ".repeat(5_000);
    workshop.write("odd.source", format!("{source}six\n \n{long}\nsix\n"));
    workshop.write("odd.target", format!("{target}\nsei\nuno\n{long}\n"));
    workshop.write("valid.tsv", format!("one two\tuno due\n{long}\tuno\n\tdue\n"));
    let files =
        [&["--source", "odd.source", "--target", "odd.target"][..], &["--valid-file", "valid.tsv"]];
    let any_length = set(&["data.clean.max_chars=0", "data.clean.max_ratio=0"]);
    let run = workshop.train_tiny_on(&files.concat(), "run", &any_length).trained();
    run.logged(&[
        "  empty side                            2 dropped (first: pair 37)\n",
        "training: 36 pairs, longest source 5001 and target 5002 tokens; 2 too long left out\n",
        "validation: 1 pairs, longest source 5001 and target 4 tokens; \
         1 with an empty side left out (first: line 3); 1 too long left out\n",
    ]);

    let truncated = [&any_length[..], &["--set", "data.long=truncate"]].concat();
    let run = workshop.train_tiny_on(&files.concat(), "truncated", &truncated).trained();
    run.logged(&["training: 38 pairs", "; 2 too long truncated\n"]);

    // By default, cleaning removes such long lines before they are tokenized.
    let run = workshop.train_tiny_on(&files.concat(), "clean", &[]).trained();
    run.logged(&["2 dropped (first: pair 39)\n", "training: 36 pairs, longest source 3 and"]);
}

#[test]
fn line_ends_and_a_byte_order_mark_change_nothing() {
    let workshop = Workshop::new();
    let (source, _) = corpus();
    workshop.write("dos.txt", format!("\u{feff}{}", source.replace('\n', "\r\n")));
    workshop.train_tiny("unix", &[]).trained();
    let files = ["--source", "dos.txt", "--target", "target.txt.gz"];
    workshop.train_tiny_on(&files, "dos", &[]).trained();
    assert!(workshop.weights("unix") == workshop.weights("dos"), "the weights differ");
}

#[test]
fn the_seed_determines_the_weights() {
    let workshop = Workshop::new();
    let weights = |run: &str, seed: &str| {
        workshop.train_tiny(run, &["--set", &format!("train.seed={seed}")]).trained();
        workshop.weights(run)
    };
    let first = weights("first", "7");
    assert!(first == weights("again", "7"), "the same seed gave other weights");
    assert!(first != weights("other", "8"), "another seed gave the same weights");
}

/// With random batches under a budget of tokens, the number of batches differs between epochs.
#[test]
fn every_epoch_is_complete_for_any_number_of_batches() {
    let workshop = Workshop::new();
    // 3 to 8 tokens per sentence.
    let pairs: String = (0..60)
        .map(|index| {
            let words = ["one", "two", "three"][index % 3];
            format!("{index} {0}\t{index} {0}\n", format!("{words} ").repeat(index % 6))
        })
        .collect();
    workshop.write("pairs.tsv", pairs);
    workshop.write("valid.tsv", "1 two\t1 two\n");
    let files = ["--file", "pairs.tsv", "--valid-file", "valid.tsv"];
    let settings = ["train.grouping=random", "train.batch={ tokens = 30 }", "train.epochs=6"];
    let run = workshop.train_tiny_on(&files, "run", &set(&settings)).trained();

    let last = fs::read_dir(workshop.path("run/checkpoints")).unwrap().next().unwrap().unwrap();
    let state = fs::read_to_string(last.path().join("state.toml")).unwrap();
    assert!(state.contains("epoch = 6\n"), "{state}\n{}", run.stderr);
    let steps: Vec<usize> = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("epoch ") && line.contains("validation"))
        .filter_map(|line| line.split("step ").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    let updates: Vec<usize> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let differ = updates.iter().any(|count| *count != updates[0]);
    assert!(differ, "the premise of this test does not hold: {updates:?}");
}

/// Each weight is the mean of those of two checkpoints, and of one.
#[test]
fn checkpoints_are_averaged() {
    let workshop = Workshop::new();
    let often = ["--set", "checkpoint.keep_last=3", "--set", "checkpoint.every=1 epoch"];
    workshop.train_tiny("run", &often).trained();
    let average = |last: &str, output: &str| {
        workshop.train(&["average", "run", "--last", last, "--output", output]).trained()
    };
    average("2", "two").logged(&["bundle: two (mean of updates 4, 8)"]);
    average("1", "last").logged(&["(mean of updates 8)"]);
    // After resuming from the first checkpoint, the last one is that of update 4.
    let settings = ["--step", "4", "--set", "train.max_steps=4"];
    workshop.train(&[&["--resume", "run"], &settings[..]].concat()).trained();
    average("1", "first").logged(&["(mean of updates 4)"]);

    let [two, last, first] = ["two", "last", "first"].map(|name| weights(&workshop.path(name)));
    assert_ne!(first, last);
    for (name, two) in &two {
        for ((two, first), last) in two.iter().zip(&first[name]).zip(&last[name]) {
            let mean = ((f64::from(*first) + f64::from(*last)) / 2.0) as f32;
            assert_eq!(*two, mean, "{name}");
        }
    }
    workshop.train(&["average", "run", "--last", "5"]).failed(
        1,
        &[
            "cannot average 5 checkpoints: `run` has 1",
            "hint: train with `--set checkpoint.keep_last=N`",
        ],
    );
}

/// Reads the weights of a bundle by name.
pub fn weights(bundle: &Path) -> BTreeMap<String, Vec<f32>> {
    let bytes = fs::read(bundle.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |data: &[u8]| {
        data.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
    };
    tensors.iter().map(|(name, tensor)| (name.to_owned(), numbers(tensor.data()))).collect()
}

/// The length penalty of the bundle is the one with the best BLEU among those of the configuration.
#[test]
fn the_length_penalty_is_selected_on_validation() {
    let workshop = Workshop::new();
    let settings = ["validation.length_penalties=[0.5, 1.5]", "train.epochs=4"];
    let run = workshop.train_tiny("run", &set(&settings)).trained();
    let line = run.stderr.lines().find(|line| line.starts_with("length penalty ")).unwrap();
    let scores: Vec<(f32, f64)> = line
        .split_once('(')
        .unwrap()
        .1
        .trim_end_matches(')')
        .split(", ")
        .map(|tried| tried.split_once(": ").unwrap())
        .map(|(penalty, score)| (penalty.parse().unwrap(), score.parse().unwrap()))
        .collect();
    assert_eq!([scores[0].0, scores[1].0], [0.5, 1.5]);
    let best = if scores[1].1 > scores[0].1 { 1.5 } else { 0.5 };
    let info = tx_infer::BundleInfo::read(&workshop.path("run")).unwrap();
    assert_eq!(info.search.unwrap().length_penalty, best);
    let settings = ["validation.length_penalties=", "data.lexicon=false"];
    let none = workshop.train_tiny("none", &set(&settings)).trained();
    assert!(!none.stderr.contains("length penalty"));
    assert_eq!(tx_infer::BundleInfo::read(&workshop.path("none")).unwrap().search, None);
}
