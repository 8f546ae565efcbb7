//! `train data`: statistics and preparation of a corpus.

use std::{io::Write, path::PathBuf};

use clap::{Args, Subcommand, ValueHint};
use tx_cli::terminal::{stderr, stdout};
use tx_train::{
    Statistics, TrainConfig, TrainError,
    data::{self, ShardOptions, ShardPart},
};

use crate::{configuration::DataArgs, fetch, signals::Signals};

/// Commands of `train data`.
#[derive(Debug, Subcommand)]
pub enum DataCommand {
    /// Show sizes, lengths, vocabulary and overlap of the data of a run
    Stats(StatsArgs),
    /// Clean, split and tokenize the data of a run, and write it to a folder for
    /// --set data.prepared=DIR
    ///
    /// --file, or --source and --target, can be patterns such as 'pairs/*.parquet'. Then each file
    /// becomes a shard, several processes with different --shard can prepare one folder at the same
    /// time, and the same command continues an interrupted preparation.
    Prepare(PrepareArgs),
}

/// Arguments of `train data stats`: the data arguments of training, and the output format.
#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Configuration and data
    #[command(flatten)]
    data: DataArgs,
}

/// Arguments of `train data prepare`: the data arguments of training, and the output folder.
#[derive(Debug, Args)]
pub struct PrepareArgs {
    /// Folder for the prepared data
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output: PathBuf,

    /// Shards that this process prepares at the same time, each in its own memory [default: number of
    /// cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Prepare a part of the shards, of N parts number I, such as 2/8; afterwards, the same command
    /// without --shard completes the corpus
    #[arg(long, value_name = "I/N")]
    shard: Option<ShardPart>,

    /// Configuration and data
    #[command(flatten)]
    data: DataArgs,
}

/// Runs a command of `train data`.
pub fn data(command: DataCommand) -> anyhow::Result<u8> {
    match command {
        DataCommand::Stats(StatsArgs { json, data }) => {
            let found = Statistics::of(&config(&data)?, fetch::corpora().as_ref())?;
            let text = match json {
                true => found.to_json()?,
                false => found.to_string(),
            };
            stdout().write_all(text.as_bytes())?;
        }
        DataCommand::Prepare(args) => return prepare(args),
    }
    Ok(0)
}

fn prepare(args: PrepareArgs) -> anyhow::Result<u8> {
    let PrepareArgs { output, threads, shard, data } = args;
    let config = config(&data)?;
    let log = |line: &str| {
        if !data.quiet {
            // A closed standard error does not fail the preparation.
            drop(writeln!(stderr(), "{line}"));
        }
    };
    let signals = Signals::listen(false)?;
    let corpora = fetch::corpora();
    let (corpora, stop) = (corpora.as_ref(), signals.stop());
    let mut shards = ShardOptions::default();
    shards.threads = threads.map_or(shards.threads, usize::from);
    let done = match shard {
        Some(part) => {
            shards.part = part;
            data::prepare_shard_part(&config, &output, corpora, shards, &stop, &log)
                .map(|()| format!("part {part} of the shards is complete"))
        }
        None => data::prepared(&config, &output, corpora, shards, &stop, &log).map(|corpus| {
            let record = corpus.record;
            let bytes: u64 = record.files.values().map(|file| file.bytes).sum();
            format!(
                "{} training and {} validation pairs, {} training tokens, {:.1} MB",
                record.training_pairs,
                record.validation_pairs,
                record.training_ids,
                bytes as f64 / 1e6
            )
        }),
    };
    match done {
        Err(TrainError::Interrupted) => {
            log(match output.exists() {
                true => "interrupted: complete shards are kept, and the same command continues",
                false => "interrupted: nothing was written",
            });
            Ok(signals.exit_code())
        }
        done => {
            log(&done?);
            Ok(0)
        }
    }
}

/// Returns the configuration of the command line, after fetching its corpus if `--fetch` is given.
fn config(args: &DataArgs) -> anyhow::Result<TrainConfig> {
    let config = args.layers()?.build()?;
    if args.fetch {
        fetch::fetch_for(&config, args.quiet)?;
    }
    Ok(config)
}
