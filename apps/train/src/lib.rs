//! The program `train`: trains models for translation, classification and language modeling. It only
//! parses arguments and prints results; `tx-train` does the work.

mod args;

mod configuration;
mod processes;
mod run;

mod bench;
mod data;
mod devices;
mod explain;
mod fetch;

mod command;
mod gpu;
mod hint;
mod log;
mod lr_find;
mod parent;
mod removed;
mod signals;
mod sweep;
mod synthesize;

use std::{env, io::Write};

pub use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use processes::Processes;
use tx_cli::{Failure, allocator, failure, terminal::stdout};
use tx_train::{CheckpointSelection, RECIPES, Recipe, RunLock, TaskKind};

/// Runs the program with the arguments of the command line, and exits on a usage error. Returns the exit
/// code.
pub fn main() -> u8 {
    let cli = Cli::try_parse_from(env::args_os())
        .unwrap_or_else(|error| failure::exit(&error, usage_hint(&error).as_deref()));
    run(cli)
}

/// Returns the next step after an error of the command line, if one is known.
pub fn usage_hint(error: &clap::Error) -> Option<String> {
    removed::hint(error)
}

/// Runs the program with its arguments, before any other thread has started. Returns the exit code.
pub fn run(cli: Cli) -> u8 {
    // Each training step allocates and frees tensors of the same sizes. If their pages were
    // returned to the system, it would clear them again, which took a sixth of the time of a step.
    allocator::set_purge_delay(None);
    parent::watch();
    let processes = match Processes::connect() {
        Ok(processes) => processes,
        Err(error) => return Failure::Usage.report(&error.into(), None),
    };
    let result = match cli.command {
        None => run::train(cli.run, &processes),
        Some(command) => other(command, &processes),
    };
    // A line without an end is still in the buffer.
    match result.and_then(|code| stdout().flush().map(|()| code).map_err(anyhow::Error::from)) {
        Ok(code) => code,
        Err(error) if failure::is_broken_pipe(&error) => 0,
        Err(error) => {
            processes.let_first_report();
            let failure = hint::failure(&error);
            let code = failure.report(&error, hint::hint(&error).as_deref());
            processes.fail(failure.code());
            code
        }
    }
}

fn other(command: Command, processes: &Processes) -> anyhow::Result<u8> {
    match command {
        Command::Recipes => print(&recipes()),
        Command::Config { recipe } => print(Recipe::find(&recipe)?.toml),
        Command::Fetch(args) => print(&fetch::fetch(args)?),
        Command::Bench(args) => bench::bench(&args, processes),
        Command::Devices => print(&devices::list()),
        Command::Explain(args) => explain::explain(args),
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
        Command::LrFind(args) => return lr_find::find(&args),
        Command::Sweep(args) => return sweep::sweep(&args),
        Command::BackTranslate(args) => return synthesize::back_translate(&args),
        Command::Diversify(args) => return synthesize::diversify(&args),
        Command::Completions(args) => args.print(Cli::command()),
        Command::Manual(args) => args.write(Cli::command()),
    }?;
    Ok(0)
}

fn print(text: &str) -> anyhow::Result<()> {
    Ok(stdout().write_all(text.as_bytes())?)
}

/// Recipes, grouped by task.
fn recipes() -> String {
    let mut text = String::new();
    for task in TaskKind::ALL {
        text += &format!("{}\n", heading(task));
        for recipe in RECIPES.iter().filter(|recipe| recipe.task == task) {
            text += &format!("  {:<16}{}\n", recipe.name, recipe.about);
        }
    }
    text
}

/// Heading of the recipes of a task.
fn heading(task: TaskKind) -> &'static str {
    match task {
        TaskKind::Translate => "Translation (encoder and decoder)",
        TaskKind::Classify => "Classification (encoder)",
        TaskKind::Generate => "Language modeling (decoder)",
        TaskKind::FillMask => "Masked language modeling (encoder)",
    }
}
