//! Trains translation models. This is glue: the work is in `tx-train`.

mod allocator;
mod args;
mod bench;
mod data;
mod devices;
mod fetch;
mod run;

use std::{
    io::{self, Write, stderr, stdout},
    process::ExitCode,
};

use args::{Cli, Command};
use clap::Parser;
use tx_infer::device::DeviceError;
use tx_train::{RECIPES, Recipe, TrainError, Which};

fn main() -> ExitCode {
    allocator::keep_freed_pages();
    let cli = Cli::parse();
    let result = match cli.command {
        None => run::train(cli.run),
        Some(Command::Recipes) => print(&recipes()),
        Some(Command::Config { recipe }) => {
            Recipe::find(&recipe).map_err(Into::into).and_then(|recipe| print(recipe.toml))
        }
        Some(Command::Fetch(args)) => fetch::fetch(args).and_then(|output| print(&output)),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Devices) => print(&devices::devices()),
        Some(Command::Report { run }) => tx_train::report::write(&run)
            .map_err(Into::into)
            .and_then(|path| print(&format!("{}\n", path.display()))),
        Some(Command::Compare { runs }) => {
            tx_train::compare(&runs).map_err(Into::into).and_then(|table| print(&table))
        }
        Some(Command::Data { command }) => data::data(*command),
        Some(Command::Average { run, last, best, output }) => {
            run::average(&run, best.map_or(Which::Last(last), Which::Best), output)
        }
    };
    match result {
        Err(error) if !is_broken_pipe(&error) => report(&error),
        _ => ExitCode::SUCCESS,
    }
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
    let hint = train.and_then(TrainError::hint).or_else(|| device.and_then(DeviceError::hint));
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
