//! The probability that a model gives to translations.

use std::{
    io::{self, BufWriter, Write},
    num::NonZero,
    path::PathBuf,
};

use clap::{Args, ValueHint};
use serde_json::json;
use tx_infer::{TargetScore, Translator, device::DeviceName, tx_text::Lines, tx_text::TextError};

use crate::terminal::{stderr, stdout};

/// Lines scored together.
const WINDOW: usize = 1_000;

/// What to score with which model.
#[derive(Debug, Args)]
pub struct ForceArgs {
    /// Folder written by `train`; several, whose probabilities are averaged, may be given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, required = true)]
    pub model: Vec<PathBuf>,

    /// File of source sentences, plain or gzip
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub source: PathBuf,

    /// File of translations, line N of which translates line N of the source
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub target: PathBuf,

    /// Print a JSON object a line, with the log-probability of each token
    #[arg(long)]
    pub json: bool,

    /// Tokens scored at once, padding counted; bounds memory
    #[arg(long, value_name = "N", default_value_t = 4_096)]
    pub batch_tokens: usize,

    /// Threads on the device cpu, each with a batch at a time [default: all cores]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZero<usize>>,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,

    /// Print nothing but scores and errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Prints how likely each target is, and on standard error the perplexity of all.
pub fn force(args: ForceArgs) -> anyhow::Result<()> {
    let (_, device) = args.device.open()?;
    let mut translator =
        Translator::open_ensemble(&args.model, &device)?.with_batch_tokens(args.batch_tokens);
    if let Some(threads) = args.threads {
        translator = translator.with_threads(threads.get());
    }
    let mut sources = Lines::open(&args.source)?;
    let mut targets = Lines::open(&args.target)?;
    let (mut first, mut tokens, mut total) = (0, 0, 0.0);
    loop {
        let window = |lines: &mut Lines| lines.take(WINDOW).collect::<Result<Vec<String>, _>>();
        let pairs = (window(&mut sources)?, window(&mut targets)?);
        if pairs.0.len() != pairs.1.len() {
            let rest = |lines: Lines| lines.count();
            return Err(TextError::LineCount {
                source_lines: first + pairs.0.len() + rest(sources),
                target_lines: first + pairs.1.len() + rest(targets),
                source_path: args.source,
                target_path: args.target,
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
                    "warning: line {line} of the source was truncated to the {max_len} tokens that \
                     this model can read"
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
        writeln!(stderr(), "perplexity {perplexity:.4} of {first} lines with {tokens} tokens")?;
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
