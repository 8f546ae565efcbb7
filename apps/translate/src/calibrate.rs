//! `translate calibrate`: confidence of a model, from translations with references.

use std::{io::Write, path::PathBuf};

use clap::{Args, ValueHint};
use serde_json::json;
use tx_cli::{
    allocator::SmallPages,
    terminal::{stderr, stdout},
};
use tx_infer::{Bundle, Calibration, Cancellation, Reliability};
use tx_text::lines::read_lines;

use crate::{
    args::{
        model::{TranslatorArgs, bundle_path},
        search::SeedArgs,
    },
    usage::Usage,
};

/// Arguments of `translate calibrate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  translate calibrate --model runs/de-en --source valid.de --reference valid.en
  translate calibrate --model runs/de-en --source test.de --reference test.en --check
  translate --model runs/de-en --confidence --json < test.de")]
pub struct CalibrateArgs {
    /// Bundle to calibrate: the folder of a training run
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, value_parser = bundle_path())]
    pub model: PathBuf,

    /// File to translate, which was not used in training
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub source: PathBuf,

    /// Reference translations of --source, line by line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub reference: PathBuf,

    /// Measure the calibration of the bundle on these files, and change nothing
    #[arg(long)]
    pub check: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Execution and search options of the translator
    #[command(flatten)]
    pub translator: TranslatorArgs,

    /// Seed of sampling
    #[command(flatten)]
    pub seed: SeedArgs,
}

/// Fits the calibration of a bundle, or measures it.
pub fn calibrate(args: &CalibrateArgs) -> anyhow::Result<()> {
    let (sources, references) = (read_lines(&args.source)?, read_lines(&args.reference)?);
    if sources.len() != references.len() {
        let (found, expected) = (references.len(), sources.len());
        let [source, reference] = [&args.source, &args.reference].map(|path| path.display());
        let problem = format!("`{reference}` has {found} lines, but `{source}` has {expected}");
        return Err(Usage::new(problem).into());
    }
    let (_, device) = args.translator.device.open()?;
    let small_pages = SmallPages::new();
    let bundle = Bundle::open_for_model(&args.model)?;
    let small_pages = small_pages.while_packing(bundle.weight_bytes());
    let translator = args.translator.translator(&args.model, &bundle, &device, args.seed.seed)?;
    drop(small_pages);
    let lines = translator.document(&sources);
    let (options, never) = (translator.options(), Cancellation::new());
    let translations = translator.translate_all(&lines, options, &never)?;
    let calibration = match (args.check, bundle.calibration) {
        (true, Some(calibration)) => calibration,
        (true, None) => return Err(tx_infer::InferError::NotCalibrated.into()),
        (false, _) => translator.calibrate(&lines, &translations, &references)?,
    };
    let found = translator.reliability(&calibration, &lines, &translations, &references)?;
    if !args.check {
        Bundle::write_calibration(&args.model, calibration)?;
        writeln!(stderr(), "calibrated `{}`", args.model.display())?;
    }
    print(&calibration, &found, args.json)
}

fn print(calibration: &Calibration, found: &Reliability, as_json: bool) -> anyhow::Result<()> {
    let Reliability { words, right, raw_error, error, raw_correlation, correlation, .. } = found;
    let mut out = stdout();
    if as_json {
        let value = json!({
            "calibration": calibration,
            "words": words,
            "right": right,
            "ece_of_model": raw_error,
            "ece": error,
            "correlation_of_score": raw_correlation,
            "correlation": correlation,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    let share = 100.0 * *right as f64 / (*words).max(1) as f64;
    writeln!(out, "words                        {words}, {share:.1} % of them in the references")?;
    writeln!(
        out,
        "expected calibration error   {error:.4} (probabilities of the model: {raw_error:.4})"
    )?;
    writeln!(
        out,
        "correlation with chrF        {correlation:.4} (score of the search: {raw_correlation:.4})"
    )?;
    Ok(())
}
