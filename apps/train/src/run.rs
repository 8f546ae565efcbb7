//! From the command line to a trained bundle.

use std::{
    io::{Write, stderr},
    path::{Path, PathBuf},
    process::ExitCode,
};

use burn::tensor::Device;
use clap::{CommandFactory, error::ErrorKind};
use tx_infer::device::{Adapter, DeviceError, DeviceName};
use tx_train::{
    CheckpointSelection, ConfigBuilder, OnMismatch, Outcome, ResumeFrom, RunLock, TrainError,
    Trainer, reporting::progress::ProgressMode,
};

use crate::{
    args::{Cli, DataArgs, RunArgs},
    command::{command, quoted},
    fetch, gpu,
    signals::Signals,
};

/// Trains, and prints what to do with the result. The exit code tells an interrupted run.
pub fn train(args: RunArgs) -> anyhow::Result<ExitCode> {
    // Clap does not ask for what would contradict `--run`.
    for (name, given) in [("from", args.from.is_some()), ("take", args.take.is_some())] {
        if given && args.resume.is_none() {
            let problem = format!("--{name} is only for --resume");
            Cli::command().error(ErrorKind::MissingRequiredArgument, problem).exit();
        }
    }
    let (names, mut others) = open(&args.device)?;
    let device = others.remove(0);
    let trainer = match &args.resume {
        Some(run) => {
            let from = args.from.map_or(ResumeFrom::Last, ResumeFrom::Step);
            let take = match args.take.as_deref() {
                Some("old") => Some(OnMismatch::Old),
                Some(_) => Some(OnMismatch::New),
                None => None,
            };
            Trainer::resume(run, from, take, device, |layers| {
                lay_data(&args.data, layers);
                lay_run(&args, layers);
                lay_settings(&args.data, layers)
            })?
        }
        None => {
            let mut layers = layers(&args.data)?;
            lay_run(&args, &mut layers);
            lay_settings(&args.data, &mut layers)?;
            let config = layers.build()?;
            let name = config.recipe.clone().unwrap_or_else(|| "custom".into());
            let run = args.run.clone().unwrap_or_else(|| PathBuf::from("runs").join(name));
            Trainer::new(config, run, device)
        }
    };
    let quiet = args.data.quiet;
    if args.data.fetch {
        fetch::fetch_for(&trainer.config().data, quiet)?;
    }
    let show = match (args.tui, quiet) {
        (true, _) => ProgressMode::Dashboard,
        (_, true) => ProgressMode::Quiet,
        _ => ProgressMode::Lines,
    };
    let signals = Signals::listen(show == ProgressMode::Lines)?;
    if !quiet {
        tell(&format!("device: {names}\n"));
        if let Some(note) = gpu::unused() {
            tell(&format!("{note}\n"));
        }
    }
    let outcome = trainer
        .with_devices(others)
        .with_corpora(fetch::corpora())
        .with_progress(show)
        .with_interrupt(signals.stop())
        .run()?;
    if !quiet {
        tell(&farewell(&outcome));
    }
    Ok(if outcome.interrupted { ExitCode::from(signals.exit_code()) } else { ExitCode::SUCCESS })
}

/// Prints to standard error. A terminal that has hung up does not fail a run that went well.
fn tell(text: &str) {
    drop(stderr().write_all(text.as_bytes()));
}

/// Opens devices, of which the command line has one at least, and says what they are.
pub fn open(names: &[DeviceName]) -> Result<(String, Vec<Device>), DeviceError> {
    let (mut about, mut devices) = (Vec::new(), Vec::new());
    for name in names {
        let (kind, device) = name.open()?;
        about.push(match Adapter::of(&device) {
            Some(adapter) => format!("{} ({})", kind.name(), adapter.name),
            None => kind.name().to_owned(),
        });
        devices.push(device.to_burn());
    }
    Ok((about.join(", "), devices))
}

/// Writes a bundle with the mean of some checkpoints, and says how it came about.
pub fn average(
    run: &Path,
    selection: CheckpointSelection,
    output: Option<PathBuf>,
) -> anyhow::Result<()> {
    let output = output.unwrap_or_else(|| run.join("average"));
    let _lock = output.starts_with(run).then(|| RunLock::acquire(run)).transpose()?;
    let (bundle, steps) = tx_train::average(run, selection, &Device::flex())?;
    bundle.save(&output)?;
    let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
    writeln!(stderr(), "bundle: {} (mean of updates {})", output.display(), steps.join(", "))?;
    Ok(())
}

/// The configuration that the command line starts from, with the data that it names; `--set` comes
/// last, by [`lay_settings`].
pub fn layers(args: &DataArgs) -> Result<ConfigBuilder, TrainError> {
    let mut layers = match (&args.config, &args.recipe) {
        (Some(path), _) => ConfigBuilder::from_file(path)?,
        (None, Some(name)) => ConfigBuilder::from_recipe(name)?,
        (None, None) if [&args.source, &args.tsv, &args.file].into_iter().any(Option::is_some) => {
            ConfigBuilder::from_recipe("small")?
        }
        (None, None) => ConfigBuilder::from_recipe("phrasebook")?,
    };
    lay_data(args, &mut layers);
    Ok(layers)
}

/// Lays files and seed over the configuration.
fn lay_data(args: &DataArgs, layers: &mut ConfigBuilder) {
    let files = [
        ("data.train_source", &args.source),
        ("data.train_target", &args.target),
        ("data.train_tsv", &args.tsv),
        ("data.valid_source", &args.valid_source),
        ("data.valid_target", &args.valid_target),
        ("data.valid_tsv", &args.valid_tsv),
        ("data.train_file", &args.file),
        ("data.valid_file", &args.valid_file),
    ];
    for (key, path) in files {
        if let Some(path) = path {
            // Validation pairs may come from files where training pairs do not.
            if key.starts_with("data.train") {
                layers.set_value("data.source", "files");
            }
            layers.set_value(key, path.to_string_lossy().into_owned());
        }
    }
    if let Some(seed) = args.seed {
        layers.set_value("train.seed", seed as i64);
    }
}

/// Lays over the configuration what only training asks for.
fn lay_run(args: &RunArgs, layers: &mut ConfigBuilder) {
    if let Some(folder) = &args.prepared {
        layers.set_value("data.prepared", folder.to_string_lossy().into_owned());
    }
    if let Some(every) = args.checkpoint_every {
        layers.set_value("checkpoint.every", String::from(every));
    }
    if let Some(what) = &args.on_nonfinite {
        layers.set_value("train.on_nonfinite", what.clone());
    }
}

/// Lays each `--set` over the configuration.
pub fn lay_settings(args: &DataArgs, layers: &mut ConfigBuilder) -> Result<(), TrainError> {
    args.set.iter().try_for_each(|setting| layers.set(setting))
}

/// The best model, and a command to try it with; how to resume, if the run was interrupted.
fn farewell(outcome: &Outcome) -> String {
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
    if let Some(example) = outcome.examples.first() {
        let (translate, example) = (command("translate"), quoted(example));
        text += &format!("try it:\n  {translate} --model {run} --text {example}\n");
    }
    text
}
