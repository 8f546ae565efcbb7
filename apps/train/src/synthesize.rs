//! `train back-translate` and `train diversify`: synthetic pairs from translations.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use anyhow::Context;
use clap::{Args, ValueHint};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tx_cli::{terminal::stderr, usage::Usage};
use tx_infer::{
    BundleInfo, Cancellation, Sampling, SearchOptions, Translator, device::DeviceName,
    file::write_whole,
};
use tx_train::{
    TrainError,
    synthetic::{PairCounts, Synthesis, remove, translations, write_pairs},
    tx_data::source::read::{ReadOptions, lines, pairs, parallel},
    tx_text::SentencePair,
};

use crate::signals::Signals;

/// Search of the translations.
#[derive(Debug, Args)]
pub struct SynthesisArgs {
    /// Hypotheses of beam search; 1 is greedy
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub beam: usize,

    /// Sample N translations of each text instead of beam search (Edunov et al. 2018)
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,

    /// With --samples: sample from the N likeliest tokens; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 0, requires = "samples")]
    pub top_k: usize,

    /// With --samples: softmax temperature
    #[arg(long, value_name = "T", default_value_t = 1.0, requires = "samples")]
    pub temperature: f32,

    /// With --samples: seed
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "samples")]
    pub seed: u64,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth of its kind
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,

    /// Print errors only
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `train back-translate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example, for a model from German to English:
  train back-translate --model runs/en-de --input news.en --output synthetic.tsv
  train --config mixture.toml      # with [[data.train]] file = \"synthetic.tsv\", tag = \"<bt>\"

The same command continues an interrupted one.")]
pub struct BackTranslateArgs {
    /// Bundle that translates from the target language to the source language
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub model: PathBuf,

    /// Text in the target language, one sentence a line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub input: PathBuf,

    /// TSV file for the pairs: the translation, and the text itself
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Multilingual models: language of the input
    #[arg(long, value_name = "CODE")]
    pub source_lang: Option<String>,

    /// Multilingual models: language of the translations
    #[arg(long, value_name = "CODE")]
    pub target_lang: Option<String>,

    /// Search
    #[command(flatten)]
    pub search: SynthesisArgs,
}

/// Arguments of `train diversify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  train diversify --source train.de --target train.en --forward runs/de-en-1 --forward runs/de-en-2 \\
      --backward runs/en-de-1 --backward runs/en-de-2 --output diversified.tsv
  train --file diversified.tsv --valid-source valid.de --valid-target valid.en

The same command continues an interrupted one.")]
pub struct DiversifyArgs {
    /// Source side of the pairs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "target")]
    pub source: Option<PathBuf>,

    /// Target side of the pairs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "source")]
    pub target: Option<PathBuf>,

    /// File with both sides of the pairs
    #[arg(
        long,
        value_name = "FILE",
        value_hint = ValueHint::FilePath,
        conflicts_with = "source",
        required_unless_present = "source"
    )]
    pub file: Option<PathBuf>,

    /// Bundle that translates the sources (repeatable)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub forward: Vec<PathBuf>,

    /// Bundle that translates the targets back (repeatable)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub backward: Vec<PathBuf>,

    /// TSV file for the original pairs and the translations of each model
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    /// Search
    #[command(flatten)]
    pub search: SynthesisArgs,
}

/// Side of the pairs that a model translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl Direction {
    /// Returns the pair of a text and its translation.
    fn pair(self, text: &str, translation: &str) -> SentencePair {
        match self {
            Self::Forward => SentencePair::new(text, translation),
            Self::Backward => SentencePair::new(translation, text),
        }
    }
}

impl SynthesisArgs {
    fn options(&self) -> SearchOptions {
        match self.samples {
            Some(samples) => SearchOptions::sampling(Sampling {
                samples,
                temperature: self.temperature,
                top_k: self.top_k,
                seed: self.seed,
                ..Sampling::default()
            }),
            None => SearchOptions::default().with_beam(self.beam),
        }
    }
}

/// Writes pairs of translated text.
pub fn back_translate(args: &BackTranslateArgs) -> anyhow::Result<u8> {
    check_output(&args.output)?;
    let texts = lines(&args.input, &ReadOptions::default())?.collect::<Result<Vec<_>, _>>()?;
    let languages = [args.source_lang.as_deref(), args.target_lang.as_deref()];
    let signals = Signals::listen(!args.search.quiet)?;
    let raw = raw_file(&args.output, "back-translation");
    if !translate(&args.model, languages, &texts, &raw, &args.search, &signals)? {
        return Ok(signals.exit_code());
    }
    let found = translations(&raw)?;
    let rows = args.search.samples.unwrap_or(1).max(1);
    let of_text = texts.iter().zip(found.chunks(rows));
    let pairs = of_text
        .flat_map(|(text, found)| found.iter().map(|one| Direction::Backward.pair(text, one)));
    let counts = write_pairs(pairs, &args.output)?;
    record(&args.output, "back-translate", &[&args.model], &args.search, counts)?;
    remove(&raw).context("cannot remove temporary files")?;
    report(&args.output, counts, args.search.quiet);
    Ok(0)
}

/// Writes the original pairs and translations of both sides (data diversification, Nguyen et al. 2020).
pub fn diversify(args: &DiversifyArgs) -> anyhow::Result<u8> {
    check_output(&args.output)?;
    let DiversifyArgs { forward, backward, .. } = args;
    if forward.is_empty() && backward.is_empty() {
        return Err(Usage::new("no model is given")
            .with_hint("name bundles with `--forward` and `--backward`")
            .into());
    }
    let options = ReadOptions::default();
    let read = match (&args.source, &args.target, &args.file) {
        (Some(source), Some(target), _) => parallel(source, target, &options)?,
        (_, _, Some(file)) => pairs(file, &options)?,
        _ => return Err(Usage::new("`--source` and `--target`, or `--file`, are needed").into()),
    };
    let original = read.collect::<Result<Vec<_>, _>>()?;
    let signals = Signals::listen(!args.search.quiet)?;
    let models = forward.iter().map(|model| (Direction::Forward, model));
    let models: Vec<(Direction, &PathBuf)> =
        models.chain(backward.iter().map(|model| (Direction::Backward, model))).collect();
    let mut synthetic = Vec::new();
    for (number, &(direction, model)) in models.iter().enumerate() {
        let texts: Vec<String> = original
            .iter()
            .map(|pair| match direction {
                Direction::Forward => pair.source.clone(),
                Direction::Backward => pair.target.clone(),
            })
            .collect();
        let raw = raw_file(&args.output, &format!("model-{}", number + 1));
        if !translate(model, [None, None], &texts, &raw, &args.search, &signals)? {
            return Ok(signals.exit_code());
        }
        synthetic.push((direction, texts, raw));
    }
    let rows = args.search.samples.unwrap_or(1).max(1);
    let mut all = original;
    for (direction, texts, raw) in &synthetic {
        let found = translations(raw)?;
        for (text, found) in texts.iter().zip(found.chunks(rows)) {
            all.extend(found.iter().map(|one| direction.pair(text, one)));
        }
    }
    let counts = write_pairs(all.into_iter(), &args.output)?;
    let models: Vec<&PathBuf> = models.iter().map(|(_, model)| *model).collect();
    record(&args.output, "diversify", &models, &args.search, counts)?;
    for (_, _, raw) in &synthetic {
        remove(raw).context("cannot remove temporary files")?;
    }
    report(&args.output, counts, args.search.quiet);
    Ok(0)
}

/// Returns an error if the output exists, which is never replaced.
fn check_output(path: &Path) -> Result<(), Usage> {
    match path.exists() {
        false => Ok(()),
        true => Err(Usage::new(format!("`{}` exists", path.display()))
            .with_hint("choose another `--output`, or remove the file")),
    }
}

fn raw_file(output: &Path, name: &str) -> PathBuf {
    let mut file = output.as_os_str().to_owned();
    file.push(format!(".{name}"));
    file.into()
}

/// Translates `texts` into the file `raw`. Returns `false` if a signal interrupted it.
fn translate(
    model: &Path,
    [source, target]: [Option<&str>; 2],
    texts: &[String],
    raw: &Path,
    args: &SynthesisArgs,
    signals: &Signals,
) -> anyhow::Result<bool> {
    let (_, device) = args.device.open()?;
    let mut translator = Translator::open(model, &device)?;
    if source.is_some() || target.is_some() {
        translator = translator.with_languages(source, target)?;
    }
    let options = args.options();
    let synthesis = Synthesis {
        translator: &translator,
        model,
        options: &options,
        settings: format!("languages {source:?} {target:?}"),
    };
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(texts.len() as u64) };
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:24} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(model.display().to_string());
    let cancellation = Cancellation::from(signals.stop());
    let progress = |done: usize| bar.set_position(done as u64);
    match synthesis.run(texts, raw, &cancellation, &progress) {
        Err(TrainError::Interrupted) if signals.stop().load(Ordering::Relaxed) => Ok(false),
        result => {
            result?;
            bar.finish_and_clear();
            Ok(true)
        }
    }
}

/// Writes the origin of the pairs beside them.
fn record(
    output: &Path,
    command: &str,
    models: &[&PathBuf],
    args: &SynthesisArgs,
    counts: PairCounts,
) -> anyhow::Result<()> {
    let mut of_models = Vec::new();
    for &model in models {
        let info = BundleInfo::read(model)?;
        let files = info.files.iter();
        let hashes: serde_json::Map<String, serde_json::Value> =
            files.map(|file| (file.name.to_owned(), file.sha256.clone().into())).collect();
        of_models.push(json!({ "path": model.display().to_string(), "sha256": hashes }));
    }
    let PairCounts { written, empty, duplicates } = counts;
    let record = json!({
        "command": command,
        "tx_version": env!("CARGO_PKG_VERSION"),
        "models": of_models,
        "search": args.options(),
        "pairs": written,
        "duplicates": duplicates,
        "empty": empty,
    });
    let path = raw_file(output, "json");
    let text = format!("{}\n", serde_json::to_string_pretty(&record)?);
    write_whole(&path, text.as_bytes())
        .with_context(|| format!("cannot write `{}`", path.display()))
}

fn report(output: &Path, counts: PairCounts, quiet: bool) {
    if !quiet {
        drop(writeln!(stderr(), "written: {} ({counts})", output.display()));
    }
}
