//! The command line of `translate`.

use std::{num::NonZero, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use tx_infer::{Precision, device::DeviceName, tx_text::InvalidUtf8};

use crate::{
    align::{AlignArgs, AlignmentFormat, AlignmentFrom},
    attention::AttentionArgs,
    bench::BenchArgs,
    check::CheckArgs,
    force::ForceArgs,
    inspect::InspectArgs,
    score::ScoreArgs,
    search_args::SearchArgs,
};

/// Translate text with a trained model, one sentence per line
///
/// Reads sentences from the input and writes one translation per line, in the same order, to
/// standard output. Everything else goes to standard error, so the output can be piped. An empty
/// line gives an empty line.
#[derive(Debug, Parser)]
#[command(
    name = "translate",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  translate --model runs/phrasebook --text 'Where is the cat?'
  translate --model runs/de-en < test.de > test.hyp
  translate --model runs/de-en --beam 8 --n-best 3 --json < test.de
  translate --model runs/de-en --interactive
  translate force --model runs/de-en --source test.de --target test.en
  translate attention --model runs/de-en --text 'Ein Hund.' --out page.html
  translate score --reference test.en --hypothesis test.hyp"
)]
pub struct Cli {
    /// What to do instead of translating
    #[command(subcommand)]
    pub command: Option<Command>,

    /// How to translate
    #[command(flatten)]
    pub translate: TranslateArgs,
}

/// What to do instead of translating.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Score translations against references
    Score(ScoreArgs),
    /// Print how likely a model finds given translations
    Force(ForceArgs),

    /// Say which word of a translation came from which of its source
    Align(AlignArgs),

    /// Show where the model looks, as a page, a picture or JSON
    Attention(AttentionArgs),

    /// Show what is in a model: sizes, vocabulary, memory, provenance, files
    Inspect(InspectArgs),

    /// Check the invariants of a model on this device: causality, batches, cache, search, tokenizers
    Check(CheckArgs),

    Bench(BenchArgs),
}

/// What to translate and how.
#[derive(Debug, Args)]
pub struct TranslateArgs {
    /// Folder written by `train`: weights, configuration and tokenizers
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, required = true)]
    pub model: Option<PathBuf>,

    /// Sentence to translate, instead of a file
    #[arg(long, value_name = "TEXT", conflicts_with = "input")]
    pub text: Option<String>,

    /// File to translate, plain or gzip [default: standard input]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: Option<PathBuf>,

    /// Translate what is typed at a terminal, with history; `:help` lists commands
    #[arg(
        long,
        conflicts_with_all = ["text", "input", "json", "prefix", "prefix_file", "sample", "ensemble"]
    )]
    pub interactive: bool,

    /// Add to each translation which word came from which: `… ||| 0-0 1-2`, or as JSON
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        conflicts_with_all = ["json", "n_best", "samples", "ensemble"]
    )]
    pub alignment: Option<AlignmentFormat>,

    /// From where alignments are taken
    #[command(flatten)]
    pub alignment_from: AlignmentFrom,

    /// What every translation begins with
    #[arg(long, value_name = "TEXT", conflicts_with = "prefix_file")]
    pub prefix: Option<String>,

    /// File of what each translation begins with, line by line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "text")]
    pub prefix_file: Option<PathBuf>,

    /// Print a JSON object a line, with tokens and scores of all translations asked for
    #[arg(long)]
    pub json: bool,

    /// What to do with bytes that are not UTF-8
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub invalid: Invalid,

    /// Lines read at most before they are translated together; 1 answers each line at once
    #[arg(long, value_name = "N", default_value = "1000")]
    pub batch_size: NonZero<usize>,

    /// Source tokens translated at once, padding and hypotheses counted; bounds memory
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub batch_tokens: usize,

    /// Threads on the device cpu, each with a batch at a time [default: all cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,

    /// Numbers to compute in: f32, or f16 or bf16 where the device has them; for GPUs, as a processor
    /// is slower with them
    #[arg(long, value_name = "NUMBERS", default_value_t)]
    pub precision: Precision,

    /// Print nothing but translations and errors
    #[arg(short, long)]
    pub quiet: bool,

    /// How to search
    #[command(flatten)]
    pub search: SearchArgs,
}

/// What to do with bytes that are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Invalid {
    /// End with an error that names the line; lines before it are translated
    #[default]
    Error,
    /// Read each as U+FFFD, the replacement character
    Replace,
}

impl From<Invalid> for InvalidUtf8 {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::Error => Self::Reject,
            Invalid::Replace => Self::Replace,
        }
    }
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
