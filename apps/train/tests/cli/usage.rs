use crate::{Run, Workshop, set};

#[test]
fn the_nearest_name_is_suggested_for_an_unknown_recipe() {
    let run = Workshop::new().train(&["--recipe", "revers"]);
    run.failed(2, &["there is no recipe `revers`", "hint: did you mean `reverse`?"]);
    let run = Workshop::new().train(&["config", "phrase-book"]);
    run.failed(2, &["there is no recipe `phrase-book`", "hint: did you mean `phrasebook`?"]);
}

#[test]
fn the_nearest_key_is_suggested_for_an_unknown_key_in_a_setting() {
    let run = Workshop::new().train(&["--recipe", "toy", "--set", "train.epoch=3"]);
    run.failed(2, &["unknown field `epoch`", "hint: did you mean `epochs`?"]);
    let run = Workshop::new().train(&["--recipe", "toy", "--set", "trian.epochs=3"]);
    run.failed(2, &["unknown field `trian`", "hint: did you mean `train`?"]);
}

#[test]
fn line_and_nearest_key_are_named_for_an_unknown_key_in_a_file() {
    let workshop = Workshop::new();
    workshop.write("my.toml", "recipe = \"toy\"\n\n[model]\nd_modl = 64\n");
    let run = workshop.train(&["--config", "my.toml"]);
    run.failed(2, &["`my.toml`", "line 4", "`d_modl`", "hint: did you mean `d_model`?"]);
}

#[test]
fn invalid_toml_and_a_setting_without_a_value_are_named() {
    let workshop = Workshop::new();
    workshop.write("my.toml", "recipe = \"toy\"\n[model\n");
    workshop.train(&["--config", "my.toml"]).failed(2, &["`my.toml`", "line 2"]);
    let run = workshop.train(&["--recipe", "toy", "--set", "train.epochs"]);
    run.failed(2, &["`--set train.epochs`", "expected `section.key=value`"]);
    let run = workshop.train(&["--recipe", "toy", "--set", "train.epochs=many"]);
    run.failed(2, &["epochs", "many"]);
}

#[test]
fn all_violated_rules_are_listed_at_once() {
    let settings = ["model.n_heads=7", "train.learning_rate=0", "train.epochs=0", "data.max_len=2"];
    let arguments = [&["--recipe", "toy"], &set(&settings)[..]].concat();
    Workshop::new().train(&arguments).failed(
        2,
        &[
            "[model] `n_heads` = 7 must divide `d_model` = 512 (remainder 1)",
            "[train] `learning_rate` = 0",
            "[train] `epochs` must be at least 1",
            "[data] `max_len` = 2 leaves no room",
        ],
    );
}

#[test]
fn a_recipe_for_files_without_files_names_their_arguments() {
    let run = Workshop::new().train(&["--recipe", "small"]);
    run.failed(2, &["`train_source` and `train_target`", "hint: ", "`--source` and `--target`"]);
}

#[test]
fn devices_that_do_not_exist_or_are_not_built_in_are_refused() {
    let workshop = Workshop::new();
    workshop.train(&["--device", "gpu"]).failed(2, &["unknown device `gpu`", "vulkan"]);
    let run = workshop.train(&["--recipe", "toy", "--device", "cpu:1"]);
    run.failed(2, &["there is no device `cpu:1`: 1 found"]);
    if !cfg!(feature = "cuda") {
        let run = workshop.train(&["--recipe", "toy", "--device", "cuda"]);
        run.failed(
            2,
            &["built without `cuda`", "available: cpu, ndarray", "hint: ", "--features cuda"],
        );
    }
    assert!(!workshop.path("runs").exists(), "no run was started");
}

#[test]
fn precisions_that_the_device_does_not_have_are_refused() {
    let workshop = Workshop::new();
    for precision in ["bf16", "bf16x3"] {
        let setting = format!("train.precision={precision}");
        let arguments = ["--recipe", "toy", "--set", &setting];
        let mut limited = workshop.command(&arguments);
        let run = Run::of(limited.env("TX_MAX_INSTRUCTIONS", "avx512-vnni").output().unwrap());
        let reason =
            format!("`{precision}` needs a CPU with amx-bf16 or avx512-bf16; usable here: ");
        run.failed(2, &["[train] `precision`: ", &reason]);
        let run = workshop.train(&[&arguments[..], &["--device", "ndarray"]].concat());
        let reason = format!("`{precision}` is for the device `cpu`, not for `ndarray`");
        run.failed(2, &["[train] `precision`: ", &reason]);
        let bench = ["bench", "--recipe", "toy", "--device", "ndarray", "--precision", precision];
        workshop.train(&bench).failed(2, &[&reason]);
    }
    let run = workshop.train(&["--recipe", "toy", "--set", "train.precision=f16"]);
    run.failed(2, &["`f16` needs a GPU with matrix units for f16, which `cpu` is not"]);
    let run = workshop.train(&["--recipe", "toy", "--set", "train.precision=f64"]);
    run.failed(2, &["f64", "bf16x3"]);
    let mut unknown = workshop.command(&["--recipe", "toy", "--set", "train.precision=bf16"]);
    let run = Run::of(unknown.env("TX_MAX_INSTRUCTIONS", "fast").output().unwrap());
    run.failed(2, &["`TX_MAX_INSTRUCTIONS` has the unknown value `fast`", "avx512-bf16"]);
    assert!(!workshop.path("runs").exists(), "no run was started");
}

#[test]
fn generated_pairs_conflict_with_files() {
    let workshop = Workshop::new();
    workshop.write("valid.tsv", "a\tb\n");
    let words = ["`valid_…` names files, but `source` = \"toy\" generates its own pairs"];
    workshop.train(&["--recipe", "toy", "--valid-file", "valid.tsv"]).failed(2, &words);
}

#[test]
fn arguments_that_contradict_each_other_are_refused() {
    let workshop = Workshop::new();
    for arguments in [
        &["--source", "source.txt"][..],
        &["--recipe", "toy", "--config", "my.toml"],
        &["--resume", "run", "--run", "other"],
        &["--no-such-option"],
        &["--set", "train.seed=-1"],
        &["--resume", "run", "--recipe", "toy"],
        // Arguments of training only.
        &["data", "stats", "--resume", "run"],
        &["data", "stats", "--device", "cpu"],
        &["data", "prepare", "--output", "corpus", "--tui"],
    ] {
        workshop.train(arguments).failed(2, &["error: "]);
    }
}

#[test]
fn a_dashboard_without_a_terminal_is_refused() {
    let workshop = Workshop::new();
    let run = workshop.train_tiny("run", &["--tui"]);
    run.failed(2, &["the dashboard needs a terminal", "hint: omit `--tui`"]);
    assert!(!workshop.path("run").exists());
    workshop.train_tiny("run", &["--tui", "--quiet"]).failed(2, &["--tui", "--quiet"]);
    workshop.train_tiny("run", &["--take", "new"]).failed(2, &["--take", "--resume"]);
}

#[test]
fn the_hint_for_a_removed_argument_names_its_replacement() {
    let workshop = Workshop::new();
    for (removed, replacement) in [
        ("--tsv", "--file FILE"),
        ("--valid-tsv", "--valid-file FILE"),
        ("--seed", "--set train.seed=N"),
        ("--prepared", "--set data.prepared=DIR"),
        ("--checkpoint-every", "--set checkpoint.every=INTERVAL"),
        ("--on-nonfinite", "--set train.on_nonfinite=ACTION"),
    ] {
        let error = format!("error: unexpected argument '{removed}' found");
        let hint = format!("hint: `{removed}` was removed; use `{replacement}`\n");
        workshop.train(&[removed, "1"]).failed(2, &[&error, &hint]);
    }
}
