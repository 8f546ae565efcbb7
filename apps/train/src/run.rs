//! From the command line to a trained bundle.

use std::{
    io::{Write, stderr},
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use burn::tensor::Device;
use clap::{CommandFactory, error::ErrorKind};
use tx_infer::device::{Adapter, DeviceError, DeviceName};
use tx_train::{Layers, Outcome, ResumeFrom, Take, TrainError, Trainer, Which, progress::Show};

use crate::{
    args::{Cli, RunArgs},
    fetch,
};

/// Trains, and says what to do with the result.
pub fn train(args: RunArgs) -> anyhow::Result<()> {
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
                Some("old") => Some(Take::Old),
                Some(_) => Some(Take::New),
                None => None,
            };
            Trainer::resume(run, from, take, device, |layers| lay(&args, layers))?
        }
        None => {
            let layers = layers(&args)?;
            let config = layers.finish()?;
            if args.fetch {
                fetch::fetch_for(&config.data, args.quiet)?;
            }
            let name = config.recipe.clone().unwrap_or_else(|| "custom".into());
            let run = args.run.clone().unwrap_or_else(|| PathBuf::from("runs").join(name));
            Trainer::new(config, run, device)
        }
    };
    if !args.quiet {
        writeln!(stderr(), "device: {names}")?;
    }
    let show = match (args.tui, args.quiet) {
        (true, _) => Show::Dashboard,
        (_, true) => Show::Nothing,
        _ => Show::Lines,
    };
    let trainer = trainer.share_with(others).show(show);
    let outcome = trainer.stop_when(on_signal(show != Show::Lines)?).run()?;
    if !args.quiet {
        write!(stderr(), "{}", farewell(&outcome))?;
    }
    Ok(())
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
        devices.push(device);
    }
    Ok((about.join(", "), devices))
}

/// Writes a bundle with the mean of some checkpoints, and says how it came about.
pub fn average(run: &Path, which: Which, output: Option<PathBuf>) -> anyhow::Result<()> {
    let (bundle, steps) = tx_train::average(run, which, &Device::flex())?;
    let output = output.unwrap_or_else(|| run.join("average"));
    bundle.save(&output)?;
    let steps: Vec<String> = steps.iter().map(usize::to_string).collect();
    writeln!(stderr(), "bundle: {} (mean of updates {})", output.display(), steps.join(", "))?;
    Ok(())
}

/// What the first Ctrl-C or SIGTERM sets; the second ends the program at once.
fn on_signal(quiet: bool) -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
        if !quiet {
            // Nobody to tell that nobody listens.
            drop(writeln!(stderr(), "stopping after this update; once more to stop at once"));
        }
    })?;
    Ok(stop)
}

/// The configuration that the command line asks for.
pub fn layers(args: &RunArgs) -> Result<Layers, TrainError> {
    let mut layers = match (&args.config, &args.recipe) {
        (Some(path), _) => Layers::file(path)?,
        (None, Some(name)) => Layers::recipe(name)?,
        (None, None) if [&args.source, &args.tsv, &args.file].into_iter().any(Option::is_some) => {
            Layers::recipe("small")?
        }
        (None, None) => Layers::recipe("phrasebook")?,
    };
    lay(args, &mut layers)?;
    Ok(layers)
}

/// Lays what the command line says over the configuration.
fn lay(args: &RunArgs, layers: &mut Layers) -> Result<(), TrainError> {
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
    if let Some(folder) = &args.prepared {
        layers.set_value("data.prepared", folder.to_string_lossy().into_owned());
    }
    if let Some(seed) = args.seed {
        layers.set_value("train.seed", seed as i64);
    }
    if let Some(every) = args.checkpoint_every {
        layers.set_value("checkpoint.every", String::from(every));
    }
    if let Some(what) = &args.on_nonfinite {
        layers.set_value("train.on_nonfinite", what.clone());
    }
    args.set.iter().try_for_each(|setting| layers.set(setting))
}

/// The best model, and a command to try it with.
fn farewell(outcome: &Outcome) -> String {
    let run = outcome.run.display();
    // Cargo tells its children where it is.
    let program = |name: &str| match std::env::var_os("CARGO") {
        Some(_) => format!("cargo run --release --bin {name} --"),
        None => name.to_owned(),
    };
    let mut text = String::new();
    if outcome.stopped {
        let (step, train) = (outcome.state.step, program("train"));
        text += &format!("stopped after update {step}; go on with:\n  {train} --resume {run}\n");
    }
    let Some(best) = &outcome.state.best else {
        if !outcome.stopped {
            text += &format!("nothing was left to train in {run}\n");
        }
        return text;
    };
    text += &format!("bundle: {run} (best of epoch {})\n", best.epoch);
    let translate = program("translate");
    if let Some(example) = outcome.examples.first() {
        let example = example.replace('\'', "'\\''");
        text += &format!("try it:\n  {translate} --model {run} --text '{example}'\n");
    }
    text
}
