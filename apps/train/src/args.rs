//! Command line of `train`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use tx_cli::manual::{CompletionsArgs, ManualArgs};

use crate::{
    bench::BenchArgs,
    configuration::DataArgs,
    data::DataCommand,
    devices::DeviceArgs,
    explain::ExplainArgs,
    fetch::FetchArgs,
    log::LogArgs,
    lr_find::LrFindArgs,
    sweep::SweepArgs,
    synthesize::{BackTranslateArgs, DiversifyArgs},
};

/// Train a Transformer for translation, classification or language modeling
///
/// Without arguments, trains the recipe `phrasebook`: a small English-Italian model, offline, in
/// minutes. The recipes `classify`, `generate` and `fill-mask` start the other tasks. The folder of a run is a bundle that `translate --model` opens. Progress, samples and
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
  train --recipe classify --file reviews.tsv
  train --recipe generate --source book.txt
  train --from runs/small --source new.de --target new.en --run runs/tuned
  train --resume runs/phrasebook --set train.epochs=10

Exit codes: 0 completed, 1 failed, 2 wrong usage or configuration; 130, 143 or 129 interrupted by
Ctrl-C (SIGINT), SIGTERM or SIGHUP, with a checkpoint to resume from. A second signal ends the
program at once. Under nohup SIGHUP is ignored."
)]
pub struct Cli {
    /// Command to run instead of training
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Training options
    #[command(flatten)]
    pub run: RunArgs,
}

/// Commands other than training.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the recipes by task
    Recipes,
    /// Print the configuration of a recipe, to edit and pass to --config
    Config {
        /// Name of the recipe
        recipe: String,
    },
    #[expect(missing_docs, reason = "the arguments have the text")]
    Fetch(FetchArgs),
    #[expect(missing_docs, reason = "the arguments have the text")]
    Bench(BenchArgs),
    /// List the devices that this program can train on
    Devices,
    /// Draw figures of concepts of training: the learning rate
    Explain(ExplainArgs),
    /// Regenerate report.html of a run from its metrics
    Report {
        /// Folder of the run
        #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
        run: PathBuf,
    },
    /// Compare runs side by side: progress, scores and the configuration keys that differ
    Compare {
        /// Folders of the runs
        #[arg(value_name = "RUN", required = true, value_hint = ValueHint::DirPath)]
        runs: Vec<PathBuf>,
    },
    /// Show statistics of a corpus, or prepare one that is larger than memory
    Data {
        /// Command for the corpus
        #[command(subcommand)]
        command: Box<DataCommand>,
    },
    /// Average the weights of the last or best checkpoints of a run into a bundle
    Average {
        /// Folder of the run
        #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
        run: PathBuf,
        /// Number of last checkpoints to average
        #[arg(long, value_name = "N", default_value_t = 5)]
        last: usize,
        /// Number of best checkpoints to average instead; checkpoint.keep_best keeps them
        #[arg(long, value_name = "N", conflicts_with = "last")]
        best: Option<usize>,
        /// Folder for the bundle [default: RUN/average]
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        output: Option<PathBuf>,
    },
    /// Measure the loss over growing learning rates, and print the one where it falls most steeply
    LrFind(LrFindArgs),
    /// Train every combination of some settings and seeds, and print the means
    Sweep(SweepArgs),
    /// Translate text in the target language back, and write synthetic pairs
    BackTranslate(BackTranslateArgs),
    /// Add translations of both sides of a corpus to it (data diversification)
    Diversify(DiversifyArgs),
    /// Print the completions of a shell for this program
    Completions(CompletionsArgs),
    /// Write the manual pages of this program
    Manual(ManualArgs),
}

/// Options of a training run.
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
        conflicts_with_all = ["run", "recipe", "config", "from"]
    )]
    pub resume: Option<PathBuf>,

    /// With --resume: update of the checkpoint to resume from [default: the last]
    #[arg(long, value_name = "STEP")]
    pub step: Option<usize>,

    /// With --resume, if the configuration or the data has changed: use the configuration of the
    /// checkpoint (`old`), or the current configuration and data (`new`)
    #[arg(long, value_enum, value_name = "VERSION", hide_possible_values = true)]
    pub take: Option<Version>,

    /// Folder for the run, which must not contain a checkpoint or a bundle [default: runs/RECIPE]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub run: Option<PathBuf>,

    /// Devices to train on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Show bars and curves in the terminal; q, then s, stops the run with a checkpoint
    #[arg(long, conflicts_with = "quiet")]
    pub tui: bool,

    /// Log of events
    #[command(flatten)]
    pub log: LogArgs,
}

/// Version of a configuration that differs from that of the checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Version {
    /// The configuration of the checkpoint.
    Old,
    /// The current configuration and data.
    New,
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
