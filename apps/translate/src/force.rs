//! `translate force`: scores of given translations or texts by forced decoding.

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use clap::{Args, ValueHint};
use serde_json::json;
use tx_cli::terminal::{stderr, stdout};
use tx_infer::{Bundle, Device, Generator, TargetScore, TaskKind, Translator};
use tx_text::{Lines, TextError};

use crate::{
    args::model::{BatchArgs, DeviceArgs, LanguageArgs, ThreadArgs, bundle_path},
    usage::Usage,
};

mod texts;

/// Number of lines scored together.
const WINDOW: usize = 1_000;

/// Arguments of `translate force`.
#[derive(Debug, Args)]
pub struct ForceArgs {
    /// Bundle to score with (repeatable: probabilities are averaged)
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        required = true,
        value_parser = bundle_path()
    )]
    pub model: Vec<PathBuf>,

    /// File with source sentences, or with the texts of a language model, one per line, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub source: PathBuf,

    /// File with translations of the source sentences, line by line, plain or gzip; none for a
    /// language model
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub target: Option<PathBuf>,

    /// Print a JSON object per line, with the log-probability of each token
    #[arg(long)]
    pub json: bool,

    /// Size of a batch
    #[command(flatten)]
    pub batch: BatchArgs,

    /// Threads of the device `cpu`
    #[command(flatten)]
    pub threads: ThreadArgs,

    /// Languages of a multilingual model
    #[command(flatten)]
    pub languages: LanguageArgs,

    /// Device to run on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Print scores and errors only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Prints the log-probability of each target or text, and to standard error their perplexity.
pub fn force(args: ForceArgs) -> anyhow::Result<()> {
    let (_, device) = args.device.open()?;
    let Some((model, others)) = args.model.split_first() else { return Ok(()) };
    let bundle = Bundle::open_for_model(model)?;
    match bundle.task.kind() {
        TaskKind::Generate => {
            if args.target.is_some() {
                return Err(Usage::new(
                    "`--target` conflicts with the task of the bundle, `generate`, which scores the \
                     lines of `--source`",
                )
                .into());
            }
            if args.languages.is_given() {
                return Err(LanguageArgs::conflict(TaskKind::Generate).into());
            }
            let alone = Generator::new(&bundle, &device)?;
            let generator = others.iter().try_fold(alone, |all, path| {
                all.with_member(model, path, Generator::open(path, &device)?)
            })?;
            let generator = generator
                .with_batch_tokens(args.batch.batch_tokens)
                .with_threads(args.threads.count());
            texts::force(&args, &generator)
        }
        TaskKind::Translate | TaskKind::Classify | TaskKind::FillMask => {
            bundle.expect(TaskKind::Translate)?;
            let missing = "`--target` is required: the translations to score";
            let target = args.target.clone().ok_or_else(|| Usage::new(missing))?;
            translations(&args, bundle, others, target, &device)
        }
    }
}

/// Scores pairs of lines with a model for translation, or with an ensemble.
fn translations(
    args: &ForceArgs,
    bundle: Bundle,
    others: &[PathBuf],
    target: PathBuf,
    device: &Device,
) -> anyhow::Result<()> {
    let alone = Translator::new(bundle, device)?;
    let translator = others.iter().try_fold(alone, |all, path| {
        all.with_member(&args.model[0], path, Translator::open(path, device)?)
    })?;
    let translator = args
        .languages
        .apply(translator)?
        .with_batch_tokens(args.batch.batch_tokens)
        .with_threads(args.threads.count());
    let mut sources = Lines::open(&args.source)?;
    let mut targets = Lines::open(&target)?;
    let (mut first, mut tokens, mut total) = (0, 0, 0.0);
    loop {
        let window = |lines: &mut Lines| lines.take(WINDOW).collect::<Result<Vec<String>, _>>();
        let pairs = (window(&mut sources)?, window(&mut targets)?);
        if pairs.0.len() != pairs.1.len() {
            let rest = |lines: Lines| lines.count();
            return Err(TextError::LineCount {
                source_lines: first + pairs.0.len() + rest(sources),
                target_lines: first + pairs.1.len() + rest(targets),
                source_path: args.source.clone(),
                target_path: target,
            }
            .into());
        }
        let pairs: Vec<(String, String)> = pairs.0.into_iter().zip(pairs.1).collect();
        if pairs.is_empty() {
            break;
        }
        let found = translator.score(&pairs, first as u64)?;
        let mut out = BufWriter::new(stdout());
        if first == 0 && !args.json {
            writeln!(out, "log_probability\ttokens\tperplexity")?;
        }
        for (index, forced) in found.iter().enumerate() {
            let line = first + index + 1;
            if forced.truncated && !args.quiet {
                let max_len = translator.config().max_len;
                writeln!(
                    stderr(),
                    "warning: line {line} of the source was truncated to {max_len} tokens, the \
                     maximum of this model"
                )?;
            }
            tokens += forced.ids.len();
            total += forced.log_probability();
            write_one(&mut out, &translator, line, forced, args.json)?;
        }
        out.flush()?;
        first += pairs.len();
    }
    if !args.quiet {
        let perplexity = (-total / (tokens.max(1) as f64)).exp();
        writeln!(stderr(), "perplexity {perplexity:.4} ({first} lines, {tokens} tokens)")?;
    }
    Ok(())
}

fn write_one(
    out: &mut impl Write,
    translator: &Translator,
    line: usize,
    forced: &TargetScore,
    as_json: bool,
) -> io::Result<()> {
    let (log_probability, perplexity) = (forced.log_probability(), forced.perplexity());
    if !as_json {
        return writeln!(out, "{log_probability:.6}\t{}\t{perplexity:.6}", forced.ids.len());
    }
    let vocabulary = &translator.tokenizers().target;
    let tokens: Vec<Option<String>> = forced.ids.iter().map(|&id| vocabulary.token(id)).collect();
    let object = json!({
        "line": line,
        "log_probability": log_probability,
        "perplexity": perplexity,
        "tokens": tokens,
        "ids": forced.ids,
        "log_probabilities": forced.log_probabilities,
    });
    writeln!(out, "{object}")
}
