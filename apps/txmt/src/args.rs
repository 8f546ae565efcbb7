//! Command line of `txmt`.

use clap::{Parser, Subcommand};

/// Train Transformers for machine translation, translate with them, score, convert and serve
///
/// The folder of a training run is a bundle that the other commands open. `txmt COMMAND --help`
/// describes a command.
#[derive(Debug, Parser)]
#[command(
    name = "txmt",
    version,
    after_help = "\
Examples:
  txmt train                                English-Italian phrases, offline
  txmt train --source a.de.gz --target a.en.gz --valid-source v.de.gz --valid-target v.en.gz
  txmt translate --model runs/phrasebook --text 'Where is the cat?'
  txmt score --reference test.en --hypothesis test.hyp
  txmt models get argos-en-it
  txmt serve --model en-de=runs/en-de"
)]
pub struct Cli {
    /// Command to run
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of `txmt`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model, and everything about training: recipes, corpora, sweeps
    Train(Box<train::Cli>),
    /// Run a model on text
    Translate(Box<translate::Cli>),
    /// Command of `translate`
    #[command(flatten)]
    OfTranslate(Box<translate::Command>),
}
