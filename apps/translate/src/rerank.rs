//! `translate rerank`: features of n-best lists, their weights, and their use.

use std::{
    io::{BufWriter, Write},
    num::NonZero,
    path::{Path, PathBuf},
};

use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use tx_cli::terminal::{stderr, stdout};
use tx_eval::{Bleu, Chrf, Metric};
use tx_infer::{
    Generator, InferError, Translator,
    rerank::{
        features::{add_language_model, add_reverse},
        n_best_list::NBestList,
        tuning::{TuningOptions, tune},
        weights::Weights,
    },
};
use tx_text::{Lines, lines::read_lines};

use crate::args::model::{BatchArgs, DeviceArgs, LanguageArgs, ThreadArgs, bundle_path};

/// Arguments of `translate rerank`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  translate --model runs/de-en --beam 16 --n-best 16 < valid.de > valid.list
  translate rerank features --list valid.list --source valid.de --reverse runs/en-de > valid.features
  translate rerank tune --list valid.features --reference valid.en --output weights.toml
  translate rerank apply --list test.features --weights weights.toml > test.hyp")]
pub struct RerankArgs {
    /// Step of reranking
    #[command(subcommand)]
    pub step: Step,
}

/// Step of reranking.
#[derive(Debug, Subcommand)]
pub enum Step {
    /// Add the scores of a reverse model or a language model to each hypothesis of a list
    ///
    /// Prints the list with the feature `reverse`, the mean log-probability per token of the source
    /// given the hypothesis, and `lm`, that of the hypothesis.
    Features(FeaturesArgs),

    /// Find the weights of the features with the best score of a validation set, and write them as TOML
    Tune(TuneArgs),

    /// Print the hypothesis with the largest weighted sum of features for each sentence
    Apply(ApplyArgs),
}

/// N-best list to read.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// N-best list in the format of Moses, as `translate --n-best` prints it, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub list: PathBuf,
}

/// Arguments of `translate rerank features`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("model").args(["reverse", "language_model"]).multiple(true).required(true)))]
pub struct FeaturesArgs {
    /// List to read
    #[command(flatten)]
    pub list: ListArgs,

    /// File with the source of each sentence, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "reverse")]
    pub source: Option<PathBuf>,

    /// Bundle that translates hypotheses back to the source language
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        requires = "source",
        value_parser = bundle_path()
    )]
    pub reverse: Option<PathBuf>,

    /// Bundle of a language model of the target language
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        value_parser = bundle_path()
    )]
    pub language_model: Option<PathBuf>,

    /// Size of a batch
    #[command(flatten)]
    pub batch: BatchArgs,

    /// Threads of the device `cpu`
    #[command(flatten)]
    pub threads: ThreadArgs,

    /// Languages of a multilingual reverse model
    #[command(flatten)]
    pub languages: LanguageArgs,

    /// Device to run on
    #[command(flatten)]
    pub device: DeviceArgs,
}

/// Arguments of `translate rerank tune`.
#[derive(Debug, Args)]
pub struct TuneArgs {
    /// List to read
    #[command(flatten)]
    pub list: ListArgs,

    /// Files with reference translations of the sentences, one per line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, num_args = 1.., required = true)]
    pub reference: Vec<PathBuf>,

    /// Metric to maximize
    #[arg(long, value_enum, value_name = "METRIC", default_value_t = MetricName::Bleu)]
    pub metric: MetricName,

    /// Random starting points of the search for weights
    #[arg(long, value_name = "N", default_value_t = TuningOptions::default().restarts)]
    pub restarts: usize,

    /// Seed of the starting points
    #[arg(long, value_name = "N", default_value_t = TuningOptions::default().seed)]
    pub seed: u64,

    /// File of the weights to write
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Metric that weights maximize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MetricName {
    /// BLEU
    Bleu,
    /// chrF2
    Chrf,
}

impl MetricName {
    fn metric(self) -> Box<dyn Metric> {
        match self {
            Self::Bleu => Box::new(Bleu::default()),
            Self::Chrf => Box::new(Chrf::default()),
        }
    }
}

/// Arguments of `translate rerank apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// List to read
    #[command(flatten)]
    pub list: ListArgs,

    /// Weights that `translate rerank tune` has written
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub weights: PathBuf,

    /// Print a list of at most N hypotheses per sentence, with their weighted sums, instead of the best
    /// texts
    #[arg(long, value_name = "N")]
    pub n_best: Option<NonZero<usize>>,
}

/// Runs a step of reranking.
pub fn rerank(args: RerankArgs) -> anyhow::Result<()> {
    match args.step {
        Step::Features(args) => features(&args),
        Step::Tune(args) => find_weights(&args),
        Step::Apply(args) => apply(&args),
    }
}

fn features(args: &FeaturesArgs) -> anyhow::Result<()> {
    let mut list = read(&args.list.list)?;
    let (_, device) = args.device.open()?;
    if let (Some(reverse), Some(source)) = (&args.reverse, &args.source) {
        let sources = read_lines(source)?;
        let model = args.languages.apply(Translator::open(reverse, &device)?)?;
        let model =
            model.with_batch_tokens(args.batch.batch_tokens).with_threads(args.threads.count());
        add_reverse(&mut list, &sources, &model)?;
    }
    if let Some(model) = &args.language_model {
        let model = Generator::open(model, &device)?
            .with_batch_tokens(args.batch.batch_tokens)
            .with_threads(args.threads.count());
        add_language_model(&mut list, &model)?;
    }
    print_list(&list)
}

fn find_weights(args: &TuneArgs) -> anyhow::Result<()> {
    let list = read(&args.list.list)?;
    let references =
        args.reference.iter().map(|path| read_lines(path)).collect::<Result<Vec<_>, _>>()?;
    let metric = args.metric.metric();
    let options = TuningOptions { restarts: args.restarts, seed: args.seed };
    let weights = tune(&list, &references, &*metric, options)?;
    weights.save(&args.output)?;
    if !args.quiet {
        let (name, sentences) = (metric.name(), list.len());
        let [before, after] = [weights.before, weights.after].map(Option::unwrap_or_default);
        writeln!(
            stderr(),
            "{name} of {sentences} sentences: {before:.2} before, {after:.2} after\nwritten: {}",
            args.output.display()
        )?;
    }
    Ok(())
}

fn apply(args: &ApplyArgs) -> anyhow::Result<()> {
    let weights = Weights::open(&args.weights)?;
    let mut list = read(&args.list.list)?;
    list.rank(&weights.scores(&list)?);
    list.truncate(args.n_best.map_or(1, NonZero::get));
    if args.n_best.is_some() {
        return print_list(&list);
    }
    let mut out = BufWriter::new(stdout());
    for entry in list.entries() {
        writeln!(out, "{}", entry.text)?;
    }
    Ok(out.flush()?)
}

fn read(path: &Path) -> anyhow::Result<NBestList> {
    let lines = Lines::open(path)?.map(|line| line.map_err(InferError::from));
    Ok(NBestList::parse(lines)?)
}

fn print_list(list: &NBestList) -> anyhow::Result<()> {
    let mut out = BufWriter::new(stdout());
    write!(out, "{list}")?;
    Ok(out.flush()?)
}
