//! `train data`: looking at a corpus, and preparing one.

use std::{
    io::{Write, stderr, stdout},
    path::PathBuf,
};

use clap::{Args, Subcommand, ValueHint};
use tx_train::{Statistics, data};

use crate::{args::RunArgs, run};

/// What to do with a corpus.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Show sizes, lengths, vocabulary and overlap of the data that a run would have
    Stats(StatsArgs),
    /// Clean, split and tokenize the data of a run into a folder, to train from with --prepared
    Prepare(PrepareArgs),
}

/// What to look at: the arguments that choose data are those of training.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    run: RunArgs,
}

/// What to prepare: the arguments that choose data are those of training.
#[derive(Debug, Args)]
pub struct PrepareArgs {
    /// Folder to make
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    #[command(flatten)]
    run: RunArgs,
}

/// Does it.
pub fn data(command: DataCommand) -> anyhow::Result<()> {
    match command {
        DataCommand::Stats(StatsArgs { json, run }) => {
            let found = Statistics::of(&run::layers(&run)?.finish()?)?;
            let text = match json {
                true => found.to_json()?,
                false => found.to_string(),
            };
            Ok(stdout().write_all(text.as_bytes())?)
        }
        DataCommand::Prepare(PrepareArgs { output, run }) => {
            let config = run::layers(&run)?.finish()?;
            let say = |line: &str| {
                if !run.quiet {
                    // Nobody to tell that nobody listens.
                    drop(writeln!(stderr(), "{line}"));
                }
            };
            let corpus = data::prepared(&config, &output, &say)?;
            let record = corpus.record;
            let bytes: u64 = record.files.values().map(|file| file.bytes).sum();
            say(&format!(
                "{} training and {} validation pairs, {} training tokens, {:.1} MB",
                record.training_pairs,
                record.validation_pairs,
                record.training_ids,
                bytes as f64 / 1e6
            ));
            Ok(())
        }
    }
}
