//! Training runs, and averages of their checkpoints.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use tx_cli::{terminal::stderr, usage::Usage};
use tx_infer::BundleInfo;
use tx_train::{
    CheckpointSelection, OnMismatch, Outcome, ResumeFrom, RunLock, Trainer,
    reporting::progress::ProgressMode,
};

use crate::{
    args::{RunArgs, Version},
    command::{command, option, quoted},
    fetch, gpu,
    processes::Processes,
    signals::Signals,
};

/// Trains, and prints the commands to run next. The exit code of an interrupted run identifies the
/// signal. Of several processes, only the first prints.
pub fn train(args: RunArgs, processes: &Processes) -> anyhow::Result<u8> {
    // Clap does not enforce `requires = "resume"` beside `--run`, which conflicts with `--resume`.
    for (name, given) in [("step", args.step.is_some()), ("take", args.take.is_some())] {
        if given && args.resume.is_none() {
            let problem = format!("--{name} has no effect without --resume");
            return Err(Usage::new(problem).into());
        }
    }
    let (names, mut others) = args.device.open(processes.local_rank())?;
    let ranks = processes.ranks();
    let device = others.remove(0);
    args.log.start(ranks.rank())?;
    let trainer = match &args.resume {
        Some(run) => {
            let from = args.step.map_or(ResumeFrom::Last, ResumeFrom::Step);
            let take = args.take.map(|version| match version {
                Version::Old => OnMismatch::Old,
                Version::New => OnMismatch::New,
            });
            let change = |layers: &mut _| args.data.override_values(layers);
            Trainer::resume(run, from, take, device, ranks.clone(), change)?
        }
        None => {
            let config = args.data.layers()?.build()?;
            let name = config.recipe.clone().unwrap_or_else(|| "custom".into());
            let run = args.run.clone().unwrap_or_else(|| PathBuf::from("runs").join(name));
            Trainer::new(config, run, device).with_ranks(ranks.clone())
        }
    };
    let quiet = args.data.quiet || !ranks.is_first();
    if args.data.fetch {
        if ranks.is_first() {
            fetch::fetch_for(trainer.config(), quiet)?;
        }
        ranks.wait();
    }
    let show = match (args.tui && ranks.is_first(), quiet) {
        (true, _) => ProgressMode::Dashboard,
        (_, true) => ProgressMode::Quiet,
        _ => ProgressMode::Lines,
    };
    let signals = Signals::listen(show == ProgressMode::Lines)?;
    if !quiet {
        log(&format!("device: {names}\n"));
        if ranks.count() > 1 {
            log(&format!("ranks: {}\n", ranks.count()));
        }
        if let Some(note) = gpu::unused() {
            log(&format!("{note}\n"));
        }
    }
    tracing::info!(device = %names, ranks = ranks.count(), rank = ranks.rank(), "started");
    let outcome = trainer
        .with_devices(others)
        .with_corpora(fetch::corpora())
        .with_progress(show)
        .with_interrupt(signals.stop())
        .run()
        .inspect_err(|error| tracing::error!(%error, "failed"))?;
    let step = outcome.state.step;
    tracing::info!(step, interrupted = outcome.interrupted, "ended");
    if !quiet {
        log(&summary(&outcome));
    }
    Ok(if outcome.interrupted { signals.exit_code() } else { 0 })
}

/// Prints to standard error. A closed terminal does not fail a successful run.
fn log(text: &str) {
    drop(stderr().write_all(text.as_bytes()));
}

/// Writes a bundle with the average of checkpoints, and prints the updates they belong to.
pub fn average(
    run: &Path,
    selection: CheckpointSelection,
    output: Option<PathBuf>,
) -> anyhow::Result<()> {
    let output = output.unwrap_or_else(|| run.join("average"));
    let _lock = output.starts_with(run).then(|| RunLock::acquire(run)).transpose()?;
    let steps = tx_train::average(run, selection, &output)?;
    let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
    writeln!(stderr(), "bundle: {} (mean of updates {})", output.display(), steps.join(", "))?;
    Ok(())
}

/// Describes the best model, with a command to try it, and a command to resume an interrupted run.
fn summary(outcome: &Outcome) -> String {
    let run = quoted(&outcome.run.to_string_lossy());
    let mut text = String::new();
    match (outcome.interrupted, outcome.checkpoint) {
        (true, Some(step)) => {
            let train = command("train");
            text += &format!("interrupted after update {step}; resume with:\n");
            text += &format!("  {train} --resume {run}\n");
        }
        (true, None) => {
            text += "interrupted before the first update; the same command starts the run over\n";
        }
        (false, _) => {}
    }
    let Some(best) = &outcome.state.best else {
        if !outcome.interrupted {
            text += &format!("nothing was left to train in {run}\n");
        }
        return text;
    };
    text += &format!("bundle: {} (best of epoch {})\n", outcome.run.display(), best.epoch);
    if let Some(setting) = outcome.state.longer_budget().filter(|_| !outcome.interrupted) {
        text += "validation still improved when the run ended; to go on:\n";
        text += &format!("  {} --resume {run} --set {setting}\n", command("train"));
    }
    // A text is one line here.
    let one_line = |text: &String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut examples = outcome.examples.iter().map(one_line);
    if let Some(example) = examples.find(|example| !example.is_empty()) {
        let (translate, example) = (command("translate"), option("--text", &example));
        let language = target_language(&outcome.run);
        text += &format!("try it:\n  {translate} --model {run}{language} {example}\n");
    }
    text
}

/// Returns the option of a language that a multilingual bundle needs; otherwise nothing.
fn target_language(bundle: &Path) -> String {
    let languages = BundleInfo::read(bundle).ok().and_then(|info| info.languages);
    let needed = languages.filter(|languages| languages.default_target.is_none());
    let code = needed.and_then(|languages| languages.target.first().map(|code| quoted(code)));
    code.map(|code| format!(" --target-lang {code}")).unwrap_or_default()
}
