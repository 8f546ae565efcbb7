//! The command line of `train`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use tx_infer::device::DeviceName;
use tx_train::config::Interval;

use crate::{bench::BenchArgs, data::DataCommand, fetch::FetchArgs};

/// Train a translation model
///
/// Without arguments, trains the recipe `phrasebook`: a small English-Italian model, offline, in
/// minutes. The folder of a run is a bundle that `translate --model` opens. Progress, samples and
/// errors go to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "train",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  train                                     English-Italian phrases, offline
  train --recipe reverse --set train.epochs=3
  train --source a.de.gz --target a.en.gz --valid-source v.de.gz --valid-target v.en.gz
  train --file pairs.tmx --set data.source_language=en --set data.target_language=it
  train --recipe opus-books --fetch
  train --resume runs/phrasebook --set train.epochs=10

Exit codes: 0 trained, 1 failed, 2 wrong usage or configuration; 130, 143 or 129 interrupted by
Ctrl-C (SIGINT), SIGTERM or SIGHUP, with a checkpoint to resume from. A second signal ends the
program at once. Under nohup SIGHUP is ignored."
)]
pub struct Cli {
    /// What to do instead of training
    #[command(subcommand)]
    pub command: Option<Command>,

    /// How to train
    #[command(flatten)]
    pub run: RunArgs,
}

/// What to do instead of training.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the recipes
    Recipes,
    /// Print a recipe's configuration, to be changed and given to --config
    Config {
        /// Name of the recipe
        recipe: String,
    },
    Fetch(FetchArgs),
    Bench(BenchArgs),
    /// List the devices that this program can train on
    Devices,
    /// Write the page of a run, report.html, again from its metrics
    Report {
        /// Folder of the run
        #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
        run: PathBuf,
    },
    /// Show runs side by side: how far, how good, and what they were told differently
    Compare {
        /// Folders of the runs
        #[arg(value_name = "RUN", required = true, value_hint = ValueHint::DirPath)]
        runs: Vec<PathBuf>,
    },
    /// Look at a corpus, or prepare one that is larger than memory
    Data {
        /// What to do with it
        #[command(subcommand)]
        command: Box<DataCommand>,
    },
    /// Make a bundle of the mean of a run's last or best checkpoints
    Average {
        /// Folder of the run
        #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
        run: PathBuf,
        /// So many of the last checkpoints
        #[arg(long, value_name = "N", default_value_t = 5)]
        last: usize,
        /// So many of the best models' checkpoints instead, as checkpoint.keep_best keeps them
        #[arg(long, value_name = "N", conflicts_with = "last")]
        best: Option<usize>,
        /// Folder for the bundle [default: RUN/average]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        output: Option<PathBuf>,
    },
}

/// Configuration and data, of a run or of `train data`.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Recipe to start from [default: phrasebook, or small when files are given]
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    pub recipe: Option<String>,

    /// TOML file to start from; it may name a recipe to lay itself over
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Text file with the source side of the training pairs; plain, gzip, zstd, or in an archive
    /// as ARCHIVE!MEMBER
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "target")]
    pub source: Option<PathBuf>,

    /// Text file with the target side of the training pairs; line N translates line N
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "source")]
    pub target: Option<PathBuf>,

    /// File with both sides of the training pairs, separated by a tab
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "source")]
    pub tsv: Option<PathBuf>,

    /// File with both sides of the training pairs: TSV, CSV, JSON lines, Parquet or TMX; plain,
    /// gzip, zstd, or in an archive as ARCHIVE!MEMBER; - is standard input
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["source", "tsv"]
    )]
    pub file: Option<PathBuf>,

    /// Source side of the validation pairs [default: a tenth of the training pairs is set aside]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "valid_target")]
    pub valid_source: Option<PathBuf>,

    /// Target side of the validation pairs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "valid_source")]
    pub valid_target: Option<PathBuf>,

    /// File with both sides of the validation pairs, separated by a tab
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with = "valid_source"
    )]
    pub valid_tsv: Option<PathBuf>,

    /// File with both sides of the validation pairs, as with --file
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with_all = ["valid_source", "valid_tsv"]
    )]
    pub valid_file: Option<PathBuf>,

    /// Fetch the corpus that the recipe names, if it is not in the cache (see `train fetch`)
    #[arg(long)]
    pub fetch: bool,

    /// Seed of weights, data order and dropout; the same as --set train.seed=N [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,

    /// Change one value of the configuration, or reset it to its default with an empty VALUE; may be
    /// given often
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// A training run: what to train, where and on what.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration and data
    #[command(flatten)]
    pub data: DataArgs,

    /// Folder of an interrupted run to resume from its last checkpoint
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        conflicts_with_all = ["run", "recipe", "config"]
    )]
    pub resume: Option<PathBuf>,

    /// With --resume: the update whose checkpoint to resume from, instead of the last
    #[arg(long, value_name = "STEP")]
    pub from: Option<usize>,

    /// With --resume: what counts where train.toml or the data have changed since the checkpoint:
    /// the configuration as it was, or both as they are now
    #[arg(long, value_name = "WHICH", value_parser = ["old", "new"])]
    pub take: Option<String>,

    /// Folder of the data as ids, for a corpus larger than memory: trained from if it exists, made if
    /// it does not; the same as --set data.prepared=DIR
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub prepared: Option<PathBuf>,

    /// Folder for the run, which must not hold a checkpoint or a bundle yet [default: runs/RECIPE]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,

    /// Device to train on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth; several,
    /// separated by commas, share the batches of an update (train.accumulate)
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_delimiter = ',')]
    pub device: Vec<DeviceName>,

    /// Interval between checkpoints, as "500 steps", "1 epoch" or "10 min"; the same as
    /// --set checkpoint.every=... [default: 10 minutes]
    #[arg(long, value_name = "INTERVAL")]
    pub checkpoint_every: Option<Interval>,

    /// What to do when a loss or a gradient is not finite: stop, or skip the batch; the same as
    /// --set train.on_nonfinite=... [default: stop]
    #[arg(long, value_name = "WHAT", value_parser = ["stop", "skip"])]
    pub on_nonfinite: Option<String>,

    /// Show bars and curves in the terminal; press q to stop with a checkpoint
    #[arg(long, conflicts_with = "quiet")]
    pub tui: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_argument_definitions_are_consistent() {
        Cli::command().debug_assert();
    }
}
