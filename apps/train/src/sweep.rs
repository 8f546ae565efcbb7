//! `train sweep`: runs for every combination of some settings and seeds.

use std::{
    fs,
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use clap::{Args, ValueHint};
use tx_cli::{
    called,
    terminal::{stderr, stdout},
    usage::Usage,
};
use tx_train::{
    RunLock, TrainError,
    recording::checkpoint::Checkpoints,
    reporting::seeds::{SeedGroup, means_over_seeds},
};

use crate::{parent, signals::Signals};

/// Marks a run of a sweep that has ended successfully.
const DONE: &str = "done";
/// File with the options of all runs, one a line.
const OPTIONS: &str = "options";
/// Time between two looks at running processes.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time to wait for a process of a killed sweep to end.
const ORPHANS: Duration = Duration::from_secs(60);
/// Maximum number of runs.
const MAX_RUNS: usize = 1_000;

/// Arguments of `train sweep`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  train sweep --out runs/sweep --seeds 1,2,3 --vary train.r_drop=0,1,5 -- --config my.toml
  train sweep --out runs/sweep --vary 'train.batch={ tokens = 1024 },{ tokens = 4096 }' \\
      --vary train.learning_rate=1e-3,2e-3 --jobs 2 -- --source a.de --target a.en

The same command continues an interrupted sweep: finished runs are skipped, others are resumed.")]
pub struct SweepArgs {
    /// Folder for the runs and their logs
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: PathBuf,

    /// Values of a setting, separated by commas (repeatable; all combinations are run)
    #[arg(long, value_name = "SECTION.KEY=VALUES")]
    pub vary: Vec<String>,

    /// Seeds, each of which every combination is run with
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [1])]
    pub seeds: Vec<u64>,

    /// Number of runs at the same time; they share the cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub jobs: u16,

    /// Options of each run, as those of a training run
    #[arg(last = true, value_name = "OPTIONS")]
    pub options: Vec<String>,
}

/// A setting and its values.
#[derive(Debug, PartialEq, Eq)]
struct Varied {
    key: String,
    values: Vec<String>,
}

/// Run of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    /// Settings other than the seed, `key=value`.
    settings: Vec<String>,
    seed: u64,
}

impl Cell {
    /// Returns the name of the combination without the seed.
    fn group(&self) -> String {
        match self.settings.is_empty() {
            true => "all".into(),
            false => self.settings.join(" "),
        }
    }

    /// Returns the name of the run's folder: short keys, and characters that every file system allows.
    fn folder(&self) -> String {
        let seed = format!("seed={}", self.seed);
        let short = |setting: &String| {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            format!("{}={value}", key.rsplit('.').next().unwrap_or(key))
        };
        let name = self.settings.iter().map(short).chain([seed]).collect::<Vec<_>>().join(",");
        let allowed = |c: char| if c.is_alphanumeric() || "=,.-_+".contains(c) { c } else { '_' };
        name.chars().map(allowed).collect()
    }
}

/// Runs all combinations and prints their means.
pub fn sweep(args: &SweepArgs) -> anyhow::Result<u8> {
    let cells = cells(args)?;
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create `{}`", args.out.display()))?;
    let _lock = RunLock::acquire(&args.out)?;
    check_options(args)?;
    let signals = Signals::listen(true)?;
    let stop = signals.stop();
    let mut waiting = cells.iter().rev().collect::<Vec<_>>();
    let mut running: Vec<(&Cell, Child)> = Vec::new();
    let mut failed = Vec::new();
    loop {
        let is_stopped = stop.load(Ordering::Relaxed);
        while running.len() < usize::from(args.jobs) && !is_stopped {
            let Some(cell) = waiting.pop() else { break };
            if args.out.join(cell.folder()).join(DONE).exists() {
                log(&format!("{}: done", cell.folder()));
                continue;
            }
            running.push((cell, start(cell, args)?));
        }
        if running.is_empty() {
            break;
        }
        thread::sleep(INTERVAL);
        let mut next = Vec::new();
        for (cell, mut child) in running {
            match child.try_wait()? {
                None => next.push((cell, child)),
                Some(status) if status.success() => {
                    File::create(args.out.join(cell.folder()).join(DONE))?;
                    log(&format!("{}: done", cell.folder()));
                }
                Some(_) if stop.load(Ordering::Relaxed) => {}
                Some(status) => {
                    log(&format!("{}: failed, {status}; see its log", cell.folder()));
                    failed.push(cell);
                }
            }
        }
        running = next;
    }
    if stop.load(Ordering::Relaxed) {
        log("interrupted; the same command continues the sweep");
        return Ok(signals.exit_code());
    }
    let mut groups: Vec<SeedGroup> = Vec::new();
    for cell in cells.iter().filter(|cell| !failed.contains(cell)) {
        let run = args.out.join(cell.folder());
        match groups.iter_mut().find(|group| group.name == cell.group()) {
            Some(group) => group.runs.push(run),
            None => groups.push(SeedGroup { name: cell.group(), runs: vec![run] }),
        }
    }
    if !groups.is_empty() {
        stdout().write_all(means_over_seeds(&groups)?.as_bytes())?;
    }
    if let [first, ..] = failed[..] {
        let (count, all) = (failed.len(), cells.len());
        let file = log_file(&args.out, first);
        anyhow::bail!("{count} of {all} runs failed; the first log is `{}`", file.display());
    }
    Ok(0)
}

/// Records the options of the runs in the folder of the sweep, or compares them with those recorded,
/// because finished runs are not trained again.
fn check_options(args: &SweepArgs) -> anyhow::Result<()> {
    let path = args.out.join(OPTIONS);
    let options = args.options.join("\n");
    match fs::read_to_string(&path) {
        Ok(found) if found == options => Ok(()),
        Ok(_) => {
            let problem = format!("`{}` has runs with other options", args.out.display());
            Err(Usage::new(problem).with_hint("choose another folder with `--out`").into())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::write(&path, options).with_context(|| format!("cannot write `{}`", path.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read `{}`", path.display())),
    }
}

fn log(text: &str) {
    drop(writeln!(stderr(), "{text}"));
}

fn log_file(out: &Path, cell: &Cell) -> PathBuf {
    out.join(format!("{}.log", cell.folder()))
}

/// Starts a run, or resumes it if it has a checkpoint.
fn start(cell: &Cell, args: &SweepArgs) -> anyhow::Result<Child> {
    let run = args.out.join(cell.folder());
    wait_for_lock(&run)?;
    let path = log_file(&args.out, cell);
    let writing = || format!("cannot write `{}`", path.display());
    let file = File::options().create(true).append(true).open(&path).with_context(writing)?;
    let mut command = called::start("train").context("cannot find this program")?;
    let is_resumed = !Checkpoints::of(&run).steps()?.is_empty();
    if is_resumed {
        command.arg("--resume").arg(&run);
        // The device is no part of the configuration.
        command.args(device_options(&args.options));
    } else {
        command.args(&args.options).arg("--run").arg(&run);
        for setting in &cell.settings {
            command.args(["--set", setting]);
        }
        command.arg("--set").arg(format!("train.seed={}", cell.seed));
    }
    log(&format!("{}: {}", cell.folder(), if is_resumed { "resumed" } else { "started" }));
    parent::end_with_this_process(&mut command);
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone().with_context(writing)?)
        .stderr(file)
        .spawn()
        .context("cannot start a run")
}

/// Waits until no process of a killed sweep writes to a run's folder.
fn wait_for_lock(run: &Path) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match RunLock::acquire(run) {
            Err(TrainError::RunLocked { .. }) if start.elapsed() < ORPHANS => {
                thread::sleep(INTERVAL);
            }
            // There is no such folder yet.
            Err(TrainError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(());
            }
            result => {
                drop(result?);
                return Ok(());
            }
        }
    }
}

/// Returns the options among `options` that a resumed run needs again.
fn device_options(options: &[String]) -> Vec<&String> {
    let mut found = Vec::new();
    let mut options = options.iter();
    while let Some(option) = options.next() {
        if ["--device", "--threads"].contains(&option.as_str()) {
            found.push(option);
            found.extend(options.next());
        } else if option.starts_with("--device=") || option.starts_with("--threads=") {
            found.push(option);
        }
    }
    found
}

fn cells(args: &SweepArgs) -> Result<Vec<Cell>, Usage> {
    let varied = args.vary.iter().map(|text| varied(text)).collect::<Result<Vec<_>, _>>()?;
    let mut cells = vec![Cell { settings: Vec::new(), seed: 0 }];
    for Varied { key, values } in &varied {
        let with = |cell: &Cell, value: &String| {
            let mut settings = cell.settings.clone();
            settings.push(format!("{key}={value}"));
            Cell { settings, ..*cell }
        };
        cells = cells
            .iter()
            .flat_map(|cell| values.iter().map(move |value| with(cell, value)))
            .collect();
        if cells.len() * args.seeds.len() > MAX_RUNS {
            return Err(Usage::new(format!("more than {MAX_RUNS} runs")));
        }
    }
    let seeded = |cell: &Cell| -> Vec<Cell> {
        args.seeds.iter().map(|&seed| Cell { seed, ..cell.clone() }).collect()
    };
    let cells: Vec<Cell> = cells.iter().flat_map(seeded).collect();
    for (number, cell) in cells.iter().enumerate() {
        if cells[..number].iter().any(|other| other.folder() == cell.folder()) {
            return Err(Usage::new(format!("two runs have the name `{}`", cell.folder())));
        }
    }
    Ok(cells)
}

/// Parses `section.key=value,value`; commas within brackets, braces and quotes separate no values.
fn varied(text: &str) -> Result<Varied, Usage> {
    let Some((key, values)) = text.split_once('=') else {
        let problem = format!("`--vary {text}`: expected `section.key=value,value`");
        return Err(Usage::new(problem));
    };
    let (mut depth, mut quote, mut parts) = (0_usize, None, vec![String::new()]);
    for c in values.chars() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    let values: Vec<String> = parts.iter().map(|part| part.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err(Usage::new(format!("`--vary {text}`: a value is empty")));
    }
    Ok(Varied { key: key.trim().to_owned(), values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(vary: &[&str], seeds: &[u64]) -> SweepArgs {
        SweepArgs {
            out: "runs".into(),
            vary: vary.iter().map(|&text| text.to_owned()).collect(),
            seeds: seeds.to_vec(),
            jobs: 1,
            options: Vec::new(),
        }
    }

    #[test]
    fn all_combinations_are_run_with_every_seed() {
        let cells = cells(&args(&["train.r_drop=0,5", "model.d_ff=256, 512"], &[1, 2])).unwrap();
        let names: Vec<String> = cells.iter().map(Cell::folder).collect();
        assert_eq!(
            names,
            [
                "r_drop=0,d_ff=256,seed=1",
                "r_drop=0,d_ff=256,seed=2",
                "r_drop=0,d_ff=512,seed=1",
                "r_drop=0,d_ff=512,seed=2",
                "r_drop=5,d_ff=256,seed=1",
                "r_drop=5,d_ff=256,seed=2",
                "r_drop=5,d_ff=512,seed=1",
                "r_drop=5,d_ff=512,seed=2",
            ]
        );
        assert_eq!(cells[7].group(), "train.r_drop=5 model.d_ff=512");
        assert_eq!(super::cells(&args(&[], &[3])).unwrap()[0].folder(), "seed=3");
    }

    #[test]
    fn commas_within_brackets_separate_no_values() {
        let values = |text: &str| varied(text).unwrap().values;
        assert_eq!(
            values("a.b={ x = 1, y = [2, 3] },{ x = 4 }"),
            ["{ x = 1, y = [2, 3] }", "{ x = 4 }"]
        );
        assert_eq!(values("a.b=\"x, y\",z"), ["\"x, y\"", "z"]);
        for wrong in ["a.b", "a.b=1,,2", "a.b="] {
            assert!(varied(wrong).is_err(), "{wrong}");
        }
        let error = cells(&args(&["a.b=1/2,1:2"], &[1])).unwrap_err();
        assert!(error.to_string().contains("two runs have the name"), "{error}");
    }
}
