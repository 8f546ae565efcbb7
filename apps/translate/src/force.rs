//! `translate force`: scores of given translations or texts by forced decoding.

use std::{
    io::{self, BufWriter, Write},
    path::PathBuf,
};

use clap::{Args, ValueHint};
use serde_json::json;
use tx_cli::terminal::{stderr, stdout};
use tx_infer::{Bundle, Cancellation, Device, Generator, Line, TargetScore, TaskKind, Translator};
use tx_text::{Lines, TextError};

use crate::{
    args::model::{BatchArgs, ContextArgs, DeviceArgs, LanguageArgs, ThreadArgs, bundle_path},
    document::Document,
    usage::Usage,
};

mod contrastive;
mod texts;

use contrastive::Contrastive;

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

    /// File with wrong translations, line by line, an empty line for none (repeatable): prints how often the
    /// translation of --target has a higher probability than all of them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "target")]
    pub contrastive: Vec<PathBuf>,

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

    /// Context of the source sentences
    #[command(flatten)]
    pub context: ContextArgs,

    /// Device to run on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Print scores and errors only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Prints the log-probability of each target or text, and to standard error their perplexity and the contrastive
/// accuracy.
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
            if args.context.context.is_some() {
                let problem = "`--context` conflicts with the task of the bundle, `generate`";
                return Err(Usage::new(problem).into());
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
        .context
        .apply(args.languages.apply(translator)?)?
        .with_batch_tokens(args.batch.batch_tokens)
        .with_threads(args.threads.count());
    let mut sources = Lines::open(&args.source)?;
    let mut targets = Lines::open(&target)?;
    let mut contrastive = Contrastive::open(&args.contrastive)?;
    let mut document = Document::new(translator.texts().context());
    let (mut first, mut lines, mut tokens, mut total) = (0, 0, 0, 0.0);
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
        let (sources, targets) = pairs;
        if sources.is_empty() {
            break;
        }
        document.add(&sources);
        let numbered = sources.iter().zip(first as u64..).enumerate();
        let numbered = numbered.map(|(index, (text, number))| Line {
            context: document.before(index),
            ..Line::new(text, number)
        });
        let numbered: Vec<Line<'_>> = numbered.collect();
        let texts = targets.iter().map(String::as_str);
        let pairs: Vec<_> = numbered.iter().copied().zip(texts).collect();
        let found = translator.score_lines(&pairs, &Cancellation::new())?;
        let wrong = contrastive.score(&translator, &numbered, &found)?;
        let mut out = BufWriter::new(stdout());
        if first == 0 && !args.json {
            let column = if contrastive.is_empty() { "" } else { "\tcontrastive" };
            writeln!(out, "log_probability\ttokens\tperplexity{column}")?;
        }
        for (index, (forced, wrong)) in found.iter().zip(wrong).enumerate() {
            let line = first + index + 1;
            if forced.truncated && !args.quiet {
                let max_len = translator.config().max_len;
                writeln!(
                    stderr(),
                    "warning: line {line} of the source was truncated to {max_len} tokens, the \
                     maximum of this model"
                )?;
            }
            // With context, a line that is empty on both sides is the end of a document.
            let is_blank = [&sources[index], &targets[index]].iter().all(|it| it.trim().is_empty());
            if !(is_blank && document.has_context()) {
                lines += 1;
                tokens += forced.ids.len();
                total += forced.log_probability();
            }
            let wrong = (!contrastive.is_empty()).then_some(wrong);
            write_one(&mut out, &translator, line, forced, wrong, args.json)?;
        }
        out.flush()?;
        first += pairs.len();
    }
    if !args.quiet {
        let perplexity = (-total / (tokens.max(1) as f64)).exp();
        writeln!(stderr(), "perplexity {perplexity:.4} ({lines} lines, {tokens} tokens)")?;
    }
    contrastive.finish(first)?;
    if !contrastive.is_empty() {
        contrastive.write(&mut stderr())?;
    }
    Ok(())
}

fn write_one(
    out: &mut impl Write,
    translator: &Translator,
    line: usize,
    forced: &TargetScore,
    wrong: Option<Vec<f64>>,
    as_json: bool,
) -> io::Result<()> {
    let (log_probability, perplexity) = (forced.log_probability(), forced.perplexity());
    if !as_json {
        write!(out, "{log_probability:.6}\t{}\t{perplexity:.6}", forced.ids.len())?;
        if let Some(wrong) = wrong {
            let most_likely = wrong.into_iter().max_by(f64::total_cmp);
            let shown = most_likely.map_or_else(String::new, |wrong| format!("{wrong:.6}"));
            write!(out, "\t{shown}")?;
        }
        return writeln!(out);
    }
    let vocabulary = &translator.tokenizers().target;
    let tokens: Vec<Option<String>> = forced.ids.iter().map(|&id| vocabulary.token(id)).collect();
    let mut object = json!({
        "line": line,
        "log_probability": log_probability,
        "perplexity": perplexity,
        "tokens": tokens,
        "ids": forced.ids,
        "log_probabilities": forced.log_probabilities,
    });
    if let Some(wrong) = wrong {
        object["contrastive"] = wrong.into();
    }
    writeln!(out, "{object}")
}
