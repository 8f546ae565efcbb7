//! Trains translation models. This is glue: the work is in `tx-train`.

mod allocator;
mod args;
mod bench;
mod command;
mod data;
mod devices;
mod fetch;
mod gpu;
mod run;
mod signals;

use std::{
    io::{self, Write, stderr, stdout},
    process::ExitCode,
};

use args::{Cli, Command};
use clap::Parser;
use command::{command, quoted};
use tx_infer::device::DeviceError;
use tx_train::tx_data::source::named::Request;
use tx_train::{CheckpointSelection, RECIPES, Recipe, RunLock, TrainError};

fn main() -> ExitCode {
    allocator::keep_freed_pages();
    let cli = Cli::parse();
    let result = match cli.command {
        None => run::train(cli.run),
        Some(command) => other(command),
    };
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

fn other(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Recipes => print(&recipes()),
        Command::Config { recipe } => print(Recipe::find(&recipe)?.toml),
        Command::Fetch(args) => print(&fetch::fetch(args)?),
        Command::Bench(args) => bench::bench(&args),
        Command::Devices => print(&devices::devices()),
        Command::Report { run } => {
            let _lock = RunLock::acquire(&run)?;
            print(&format!("{}\n", tx_train::reporting::report::write(&run)?.display()))
        }
        Command::Compare { runs } => print(&tx_train::compare(&runs)?),
        Command::Average { run, last, best, output } => run::average(
            &run,
            best.map_or(CheckpointSelection::Last(last), CheckpointSelection::Best),
            output,
        ),
        Command::Data { command } => return data::data(*command),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Whoever read the output has had enough, as `head` does.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn print(text: &str) -> anyhow::Result<()> {
    Ok(stdout().write_all(text.as_bytes())?)
}

fn recipes() -> String {
    RECIPES.iter().map(|recipe| format!("{:<16}{}\n", recipe.name, recipe.about)).collect()
}

/// Prints the chain of causes and what to try; wrong usage is 2, all else 1.
fn report(error: &anyhow::Error) -> ExitCode {
    let train = error.downcast_ref::<TrainError>();
    let device = error.downcast_ref::<DeviceError>();
    let hint = train.and_then(hint).or_else(|| device.and_then(DeviceError::hint));
    // Nobody to tell that nobody listens.
    drop(writeln!(stderr(), "error: {error:#}"));
    if let Some(hint) = hint {
        drop(writeln!(stderr(), "hint: {hint}"));
    }
    let usage = matches!(
        train,
        Some(
            TrainError::UnknownRecipe { .. }
                | TrainError::Config { .. }
                | TrainError::Problems { .. }
                | TrainError::NoTerminal
        )
    ) || device.is_some();
    ExitCode::from(if usage { 2 } else { 1 })
}

/// The next thing to try, as a command where there is one.
fn hint(error: &TrainError) -> Option<String> {
    match error {
        TrainError::RunExists { path, resumable: true } => Some(format!(
            "resume it with `{} --resume {}`, or choose another folder with `--run`",
            command("train"),
            quoted(&path.to_string_lossy())
        )),
        TrainError::RunExists { resumable: false, .. } => {
            Some("choose another folder with `--run`".into())
        }
        TrainError::NotFetched { request, .. } => {
            let mut fetch = format!("{} fetch {}", command("train"), quoted(&request.name));
            let Request { source, target, subset, split, revision, .. } = &**request;
            for (name, value) in [
                ("source", Some(source)),
                ("target", Some(target)),
                ("subset", subset.as_ref()),
                ("split", split.as_ref()),
                ("revision", revision.as_ref()),
            ] {
                if let Some(value) = value {
                    fetch += &format!(" --{name} {}", quoted(value));
                }
            }
            Some(format!("fetch it with `{fetch}`, or add `--fetch`"))
        }
        error => error.hint(),
    }
}
