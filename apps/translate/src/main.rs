//! Translates text and scores translations. This is glue: the work is in `tx-infer` and `tx-eval`.

mod allocator;
mod args;

mod text;

mod input;
mod output;
mod search_args;
mod unknown_words;

mod align;
mod attention;
mod bench;
mod check;
mod force;
mod inspect;
mod interactive;
mod score;

mod png;
mod progress;
mod terminal;
mod usage;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use args::{Cli, Command};
use clap::Parser;
use terminal::stderr;
use tx_infer::{InferError, device::DeviceError, tx_text::TextError};
use usage::Usage;

fn main() -> ExitCode {
    allocator::give_back_soon();
    let cli = Cli::parse();
    let result = match cli.command {
        None => text::translate(cli.translate),
        Some(Command::Score(args)) => score::score(args),
        Some(Command::Force(args)) => force::force(args),
        Some(Command::Align(args)) => align::align(args),
        Some(Command::Attention(args)) => attention::attention(args),
        Some(Command::Inspect(args)) => inspect::inspect(args),
        Some(Command::Check(args)) => check::check(args),
        Some(Command::Bench(args)) => bench::bench(&args),
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

/// Hint for an error, with the names of the programs.
fn hint(error: &InferError) -> Option<&'static str> {
    match error {
        InferError::NotABundle { .. } => {
            Some("pass the folder that `train` named, once its first epoch is done")
        }
        InferError::Format { found, newest, .. } if found > newest => {
            Some("the bundle is newer than this build: update `translate`")
        }
        InferError::NotFinite { .. } => {
            Some("with `--precision f16`, try f32; otherwise `translate check` tests the bundle")
        }
        _ => error.hint(),
    }
}

/// Prints the chain of causes and what to try; wrong usage is 2, all else 1.
fn report(error: &anyhow::Error) -> ExitCode {
    let infer = error.downcast_ref::<InferError>();
    let device = error.downcast_ref::<DeviceError>();
    let data = error.downcast_ref::<TextError>();
    let usage = error.downcast_ref::<Usage>();
    let hint = infer
        .and_then(hint)
        .or_else(|| data.and_then(TextError::hint))
        .or_else(|| usage.and_then(Usage::hint))
        .map(str::to_owned)
        .or_else(|| device.and_then(DeviceError::hint));
    // Nobody to tell that nobody listens.
    drop(writeln!(stderr(), "error: {error:#}"));
    if let Some(hint) = hint {
        drop(writeln!(stderr(), "hint: {hint}"));
    }
    let is_usage =
        usage.is_some() || device.is_some() || matches!(infer, Some(InferError::Search { .. }));
    ExitCode::from(if is_usage { 2 } else { 1 })
}
