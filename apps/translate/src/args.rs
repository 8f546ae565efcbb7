//! The command line of `translate`.

use std::{num::NonZero, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueHint};
use tx_infer::device::DeviceName;

use crate::{
    align::{AlignArgs, AlignmentFormat, AlignmentFrom},
    attention::AttentionArgs,
    check::CheckArgs,
    inspect::InspectArgs,
    score::ScoreArgs,
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
  translate score --reference test.en --hypothesis test.hyp
  translate --model runs/de-en --interactive
  translate attention --model runs/de-en --text 'Ein Hund.' --out page.html"
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

    /// Say which word of a translation came from which of its source
    Align(AlignArgs),

    /// Show where the model looks, as a page, a picture or JSON
    Attention(AttentionArgs),

    /// Show what is in a model: sizes, vocabulary, memory, provenance, files
    Inspect(InspectArgs),

    /// Try on this device whether a model obeys the laws that every model must obey
    Check(CheckArgs),
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
    #[arg(long, conflicts_with_all = ["text", "input"])]
    pub interactive: bool,

    /// Add to each translation which word came from which: `… ||| 0-0 1-2`, or as JSON
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub alignment: Option<AlignmentFormat>,

    /// From where alignments are taken
    #[command(flatten)]
    pub alignment_from: AlignmentFrom,

    /// Hypotheses kept per sentence; 1 is greedy search
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub beam: u16,

    /// Exponent of the length that log-probabilities are divided by; 0 favours short translations
    #[arg(long, value_name = "ALPHA", default_value_t = 1.0)]
    pub length_penalty: f32,

    /// Longest translation, in tokens per source token (and ten more)
    #[arg(long, value_name = "RATIO", default_value_t = 2.0)]
    pub max_len_ratio: f32,

    /// Tokens that a translation has at least before it may end
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub min_len: usize,

    /// Source tokens translated at once, padding and hypotheses counted; bounds memory
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub batch_tokens: usize,

    /// Threads on the device cpu, each with a batch at a time [default: all cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,

    /// Print nothing but translations and errors
    #[arg(short, long)]
    pub quiet: bool,
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
