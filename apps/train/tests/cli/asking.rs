use std::process::Command;

use crate::{Run, Workshop, set};

#[test]
fn recipes_are_listed_with_a_description() {
    let run = Workshop::new().train(&["recipes"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let names = names(&run.stdout);
    assert_eq!(names.first(), Some(&"phrasebook"), "the default comes first");
    for name in ["reverse", "toy", "small", "base", "classify", "generate", "fill-mask"] {
        assert!(names.contains(&name), "{}", run.stdout);
    }
    // Grouped by task.
    let headings: Vec<&str> = run.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(headings.len(), 4, "{}", run.stdout);
}

/// Names of the listed recipes, which are indented below the heading of their task.
fn names(listed: &str) -> Vec<&str> {
    let recipes = listed.lines().filter_map(|line| line.strip_prefix("  "));
    recipes.filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn every_printed_configuration_is_accepted_as_a_file() {
    let workshop = Workshop::new();
    let recipes = workshop.train(&["recipes"]).stdout;
    for name in names(&recipes) {
        let printed = workshop.train(&["config", name]);
        assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{name}");
        workshop.write("recipe.toml", &printed.stdout);
        // A violated rule ends the program after it has read the file and before it trains.
        let broken = "train.epochs=0";
        let run = workshop.train(&["--config", "recipe.toml", "--set", broken]);
        run.failed(2, &["[train] `epochs` must be at least 1"]);
        let others = run.stderr.lines().filter(|line| line.starts_with("  - "));
        let others: Vec<&str> = others
            .filter(|line| !line.contains("epochs") && !line.contains("train_file"))
            .collect();
        assert_eq!(others, [""; 0], "{name}");
    }
}

#[test]
fn a_printed_configuration_trains() {
    let workshop = Workshop::new();
    workshop.write("reverse.toml", workshop.train(&["config", "reverse"]).stdout);
    let small = ["data.train_pairs=32", "data.valid_pairs=8", "train.epochs=1", "model.d_model=16"];
    let arguments = [&["--config", "reverse.toml", "--run", "run"], &set(&small)[..]].concat();
    workshop.train(&arguments).trained();
    assert!(workshop.path("run/model.safetensors").is_file());
}

#[test]
fn devices_are_listed_including_those_not_built_in() {
    let workshop = Workshop::new();
    let run = workshop.train(&["devices"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let line = |name: &str| run.stdout.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("cpu:0").contains("CPU, all cores, "), "{}", run.stdout);
    assert!(line("ndarray:0").contains("cores"), "{}", run.stdout);
    let mut limited = workshop.command(&["devices"]);
    let limited = Run::of(limited.env("TX_MAX_INSTRUCTIONS", "none").output().unwrap());
    let cpu = limited.stdout.lines().find(|line| line.starts_with("cpu:0")).unwrap();
    assert!(cpu.contains(" cores, none"), "{cpu}");
    assert_eq!(run.stdout.matches(" (auto)").count(), 1, "{}", run.stdout);
    if !cfg!(feature = "cuda") {
        assert!(line("cuda").ends_with("not built in (--features cuda)"), "{}", run.stdout);
    }
}

#[test]
fn the_speed_of_updates_is_measured_without_data() {
    let settings = ["model.d_model=16", "model.d_ff=16", "train.batch={ sentences = 2 }"];
    let bench =
        [&["bench", "--device", "cpu", "--len", "5", "--updates", "3"], &set(&settings)[..]];
    let run = Workshop::new().train(&[&bench.concat()[..], &["--recipe", "base"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut lines = run.stdout.lines();
    assert!(lines.next().unwrap().starts_with("| model | device | work | tokens/s |"));
    let row = lines.nth(1).unwrap();
    assert!(row.starts_with("| base | cpu | update of 2 × 5 tokens | "), "{row}");
    let two = ["--recipe", "small", "--recipe", "reverse", "--json", "--set", "model.n_heads=2"];
    let run = Workshop::new().train(&[&bench.concat()[..], &two].concat());
    let reports: Vec<serde_json::Value> =
        run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 2, "{}", run.stderr);
    assert_eq!(reports[1]["timing"]["seconds"].as_array().unwrap().len(), 3);
    Workshop::new()
        .train(&["bench", "--recipe", "toy", "--set", "model.n_heads=7"])
        .failed(2, &["`n_heads` = 7 must divide"]);

    let workshop = Workshop::new();
    let config =
        "recipe = \"small\"\n[data]\ntrain_file = \"missing.tsv\"\nvalid_file = \"missing.tsv\"\n";
    std::fs::write(workshop.path("my.toml"), config).unwrap();
    let run = workshop.train(&[&bench.concat()[..], &["--config", "my.toml"]].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("| my.toml | cpu | update of 2 × 5 tokens | "), "{}", run.stdout);
}

/// The reader exits first, as in `train config base | true`.
#[test]
fn a_closed_pipe_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_train"));
    let output = command.args(["config", "base"]).stdout(writer).output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn the_schedule_is_drawn() {
    let workshop = Workshop::new();
    let run = workshop.train(&["explain", "schedule", "--out", "a.svg"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), "written: a.svg\n"));
    let svg = std::fs::read_to_string(workshop.path("a.svg")).unwrap();
    // (512 · 4000)^-0.5
    assert!(svg.contains("512:4000, peak 6.99e-4 at 4000"), "{svg}");
    let sizes = ["--size", "1024:400", "--updates", "500", "--out", "b.html", "--quiet"];
    let run = workshop.train(&[&["explain", "schedule"][..], &sizes].concat());
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(workshop.path("b.html")).unwrap();
    assert!(page.contains("1024:400, peak 1.56e-3 at 400"), "{page}");
    for (options, words) in [
        (&["--out", "a.pdf"][..], "does not end with .html, .svg or .png"),
        (&["--out", "a.svg", "--updates", "0"], "`--updates` = 0 must be at least 1"),
        (&["--out", "a.svg", "--size", "512"], "expected D_MODEL:WARMUP"),
        (&["--out", "none/a.svg"], "cannot write `none/a.svg`"),
    ] {
        let run = workshop.train(&[&["explain", "schedule"][..], options].concat());
        run.failed(if words.starts_with("cannot") { 1 } else { 2 }, &[words]);
    }
}

/// The toy corpus, whose loss falls at some learning rate and rises at others.
#[test]
fn a_learning_rate_is_found() {
    let workshop = Workshop::new();
    let options = ["lr-find", "--recipe", "toy", "--updates", "60", "--lowest", "1e-5"];
    let small = set(&["model.d_model=16", "model.d_ff=16", "model.n_heads=2"]);
    let run = workshop.train(&[&options[..], &["--out", "rates.svg"], &small].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let rate: f64 = run.stdout.trim().parse().unwrap();
    assert!(rate > 1e-5 && rate < 1.0, "{rate}");
    assert!(workshop.path("rates.svg").is_file() && !workshop.path("runs").exists());
    let run = workshop.train(&[&options[..], &["--highest", "1e-6"], &small].concat());
    run.failed(2, &["`--lowest` = 0.00001 must be above 0 and below `--highest` = 0.000001"]);
}
