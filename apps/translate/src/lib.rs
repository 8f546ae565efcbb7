//! The program `translate`: runs trained models on text (translates, classifies, continues texts,
//! fills masks), and scores translations. It only parses arguments and prints results; `tx-infer` and
//! `tx-eval` do the work.

mod args;

mod file;
mod task;
mod text;

mod classify;
mod fill_mask;
mod generate;
mod lines;

mod document;
mod input;
mod output;
mod sentences;
mod unknown_words;

mod align;
mod attention;
mod bench;
mod calibrate;
mod check;
mod editor;
mod explain;
mod export;
mod force;
mod import;
mod inspect;
mod interactive;
mod lexicon;
#[cfg(feature = "models")]
mod models;
mod pack;
mod quantize;
mod rerank;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod shortlist;

mod hint;
mod progress;

use std::{env, io::Write};

pub use args::{Cli, Command, usage_hint};
use clap::{CommandFactory, FromArgMatches};
use tx_cli::{allocator, failure, free_text, png, terminal::stdout, usage};

/// Runs the program with the arguments of the command line, and exits on a usage error. Returns the exit
/// code.
pub fn main() -> u8 {
    let exit = |error: clap::Error| -> ! { failure::exit(&error, usage_hint(&error).as_deref()) };
    let arguments: Vec<_> = env::args_os().collect();
    let matches =
        Cli::command().try_get_matches_from(&arguments).unwrap_or_else(|error| exit(error));
    free_text::check(Cli::command(), arguments.into_iter().skip(1))
        .unwrap_or_else(|error| exit(error));
    match Cli::from_arg_matches(&matches) {
        Ok(cli) => run(cli.with_matches(&matches)),
        Err(error) => exit(error),
    }
}

/// Runs the program with its arguments, before any other thread has started. Returns the exit code.
pub fn run(cli: Cli) -> u8 {
    match cli.command {
        None => report(|| task::run(cli.translate)),
        Some(command) => run_command(command, Cli::command()),
    }
}

/// Runs a command, before any other thread has started, and returns the exit code. `program` is the
/// program whose completions and manual pages are written.
pub fn run_command(command: Command, program: clap::Command) -> u8 {
    report(|| match command {
        Command::Score(args) => score::score(args),
        Command::Force(args) => force::force(args),
        Command::Align(args) => align::align(args),
        Command::Attention(args) => attention::attention(args),
        Command::Explain(args) => explain::explain(args),
        Command::Inspect(args) => inspect::inspect(args),
        Command::Check(args) => check::check(args),
        Command::Bench(args) => bench::bench(&args),
        Command::Import(args) => import::import(&args),
        Command::Export(args) => export::export(&args),
        Command::Calibrate(args) => calibrate::calibrate(&args),
        Command::Quantize(args) => quantize::quantize(&args),
        Command::Pack(args) => pack::pack(&args),
        Command::Lexicon(args) => lexicon::lexicon(&args),
        Command::Shortlist(args) => shortlist::shortlist(&args),
        Command::Rerank(args) => rerank::rerank(args),
        #[cfg(feature = "models")]
        Command::Models(args) => models::models(args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => {
            // A server keeps its memory small between requests.
            allocator::set_purge_delay(Some(1));
            serve::serve(args)
        }
        Command::Completions(args) => args.print(program),
        Command::Manual(args) => args.write(program),
    })
}

/// Does the work of the program, and reports an error.
fn report(work: impl FnOnce() -> anyhow::Result<()>) -> u8 {
    // Loading a model frees more memory than the model occupies, so freed pages are returned to the
    // system, but not while the next step of a search uses them again.
    allocator::set_purge_delay(Some(100));
    // A line without an end is still in the buffer.
    match work().and_then(|()| Ok(stdout().flush()?)) {
        Err(error) if !failure::is_broken_pipe(&error) => {
            hint::failure(&error).report(&error, hint::hint(&error).as_deref())
        }
        _ => 0,
    }
}
