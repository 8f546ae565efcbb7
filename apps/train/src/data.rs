//! `train data`: looking at a corpus, and preparing one.

use std::{
    io::{Write, stderr, stdout},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Subcommand, ValueHint};
use tx_train::{Statistics, TrainConfig, TrainError, data};

use crate::{args::DataArgs, fetch, run, signals::Signals};

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
    data: DataArgs,
}

/// What to prepare: the arguments that choose data are those of training.
#[derive(Debug, Args)]
pub struct PrepareArgs {
    /// Folder to make
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    #[command(flatten)]
    data: DataArgs,
}

/// Runs a command of `train data`.
pub fn data(command: DataCommand) -> anyhow::Result<ExitCode> {
    match command {
        DataCommand::Stats(StatsArgs { json, data }) => {
            let found = Statistics::of(&config(&data)?, fetch::corpora().as_ref())?;
            let text = match json {
                true => found.to_json()?,
                false => found.to_string(),
            };
            stdout().write_all(text.as_bytes())?;
        }
        DataCommand::Prepare(PrepareArgs { output, data }) => {
            let config = config(&data)?;
            let say = |line: &str| {
                if !data.quiet {
                    // Nobody to tell that nobody listens.
                    drop(writeln!(stderr(), "{line}"));
                }
            };
            let signals = Signals::listen(false)?;
            let corpora = fetch::corpora();
            let stop = signals.stop();
            let corpus = match data::prepared(&config, &output, corpora.as_ref(), &stop, &say) {
                Err(TrainError::Interrupted) => {
                    say("interrupted: nothing was written");
                    return Ok(ExitCode::from(signals.exit_code()));
                }
                corpus => corpus?,
            };
            let record = corpus.record;
            let bytes: u64 = record.files.values().map(|file| file.bytes).sum();
            say(&format!(
                "{} training and {} validation pairs, {} training tokens, {:.1} MB",
                record.training_pairs,
                record.validation_pairs,
                record.training_ids,
                bytes as f64 / 1e6
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The configuration that the arguments ask for, its corpus fetched if they say so.
fn config(args: &DataArgs) -> anyhow::Result<TrainConfig> {
    let mut layers = run::layers(args)?;
    run::lay_settings(args, &mut layers)?;
    let config = layers.build()?;
    if args.fetch {
        fetch::fetch_for(&config.data, args.quiet)?;
    }
    Ok(config)
}
