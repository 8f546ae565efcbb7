//! Runs trained models on text: translates, classifies, continues texts, fills masks; and scores
//! translations. This program only parses arguments and prints results; `tx-infer` and `tx-eval` do
//! the work.

mod args;

mod file;
mod task;
mod text;

mod classify;
mod fill_mask;
mod generate;
mod lines;

mod input;
mod output;
mod sentences;
mod unknown_words;

mod align;
mod attention;
mod bench;
mod check;
mod editor;
mod explain;
mod export;
mod force;
mod import;
mod inspect;
mod interactive;
#[cfg(feature = "models")]
mod models;
mod quantize;
mod rerank;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod shortlist;

mod hint;
mod progress;

use std::{io::Write, process::ExitCode};

use args::{Cli, Command};
use clap::CommandFactory;
use tx_cli::{allocator, failure, png, terminal::stdout, usage};

fn main() -> ExitCode {
    // Loading a model frees more memory than the model occupies, so freed pages are returned to the
    // system at once.
    allocator::set_purge_delay(Some(1));
    let cli = Cli::from_command_line();
    let result = match cli.command {
        None => task::run(cli.translate),
        Some(Command::Score(args)) => score::score(args),
        Some(Command::Force(args)) => force::force(args),
        Some(Command::Align(args)) => align::align(args),
        Some(Command::Attention(args)) => attention::attention(args),
        Some(Command::Explain(args)) => explain::explain(args),
        Some(Command::Inspect(args)) => inspect::inspect(args),
        Some(Command::Check(args)) => check::check(args),
        Some(Command::Bench(args)) => bench::bench(&args),
        Some(Command::Import(args)) => import::import(&args),
        Some(Command::Export(args)) => export::export(&args),
        Some(Command::Quantize(args)) => quantize::quantize(&args),
        Some(Command::Shortlist(args)) => shortlist::shortlist(&args),
        Some(Command::Rerank(args)) => rerank::rerank(args),
        #[cfg(feature = "models")]
        Some(Command::Models(args)) => models::models(args),
        #[cfg(feature = "serve")]
        Some(Command::Serve(args)) => serve::serve(args),
        Some(Command::Completions(args)) => args.print(Cli::command()),
        Some(Command::Manual(args)) => args.write(Cli::command()),
    };
    // A line without an end is still in the buffer.
    match result.and_then(|()| Ok(stdout().flush()?)) {
        Err(error) if !failure::is_broken_pipe(&error) => {
            hint::failure(&error).report(&error, hint::hint(&error).as_deref())
        }
        _ => ExitCode::SUCCESS,
    }
}
