//! `translate check`: invariant checks of a model on a device, and problems of its translations of a text.

mod findings;

use std::{io::Write, path::PathBuf};

use anyhow::bail;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tx_cli::terminal::stdout;
use tx_infer::{
    Bundle, Device, Translator,
    check::{self, CheckResult},
};
use tx_text::Lines;

use findings::Findings;

use crate::{
    args::model::{DeviceArgs, ModelArgs},
    usage::Usage,
};

/// Arguments of `translate check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Device to run on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Maximum deviation between two computations of the same scores, as a fraction of the largest
    /// score
    #[arg(long, value_name = "FRACTION", default_value_t = check::LIMIT)]
    pub limit: f64,

    /// File with a sentence a line, plain or compressed: translate it and count empty translations, loops,
    /// copied lines, unusual lengths, changed numbers, lost placeholders and unknown words
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "limit")]
    pub text: Option<PathBuf>,

    /// Print a JSON list; with --text, an object with the numbers of the lines
    #[arg(long)]
    pub json: bool,
}

/// Lines that are translated together.
const WINDOW: usize = 1_000;

/// Prints the result of every check, which is an error if one fails, or the problems of the translations
/// of a text.
pub fn check(args: CheckArgs) -> anyhow::Result<()> {
    if !(args.limit >= 0.0 && args.limit.is_finite()) {
        return Err(Usage::new(format!("`--limit` = {} must be at least 0", args.limit)).into());
    }
    let (_, device) = args.device.open()?;
    let bundle = Bundle::open(&args.model.model)?;
    if let Some(path) = &args.text {
        return check_text(bundle, &device, Lines::open(path)?, args.json);
    }
    let results = check::check(&bundle, &device, args.limit)?;
    let mut output = stdout();
    if args.json {
        let list: Vec<Value> = results.iter().map(to_json).collect();
        writeln!(output, "{:#}", Value::Array(list))?;
    } else {
        writeln!(output, "{:<6}{:<55}{:>10}{:>10}", "", "invariant", "deviation", "limit")?;
        for result in &results {
            let deviation = result.deviation.map_or("-".into(), short);
            let limit = short(result.limit);
            let word = word(result);
            writeln!(output, "{word:<6}{:<55}{deviation:>10}{limit:>10}", result.invariant)?;
            if let Some(detail) = &result.detail {
                writeln!(output, "      {detail}")?;
            }
        }
    }
    output.flush()?;
    let broken = results.iter().filter(|result| !result.passed()).count();
    if broken > 0 {
        bail!("{broken} of {} invariants are violated", results.len());
    }
    Ok(())
}

/// Translates `lines` and prints what is wrong with the translations.
fn check_text(
    bundle: Bundle,
    device: &Device,
    mut lines: Lines,
    is_json: bool,
) -> anyhow::Result<()> {
    let translator = Translator::new(bundle, device)?;
    let mut findings = Findings::default();
    loop {
        let window = lines.by_ref().take(WINDOW).collect::<Result<Vec<_>, _>>()?;
        if window.is_empty() {
            break;
        }
        for (line, translation) in window.iter().zip(translator.translate_document(&window)?) {
            findings.add(line, &translation);
        }
    }
    let mut output = stdout();
    match is_json {
        true => writeln!(output, "{:#}", findings.to_json())?,
        false => write!(output, "{}", findings.table())?,
    }
    Ok(output.flush()?)
}

fn word(result: &CheckResult) -> &'static str {
    match result.deviation {
        None => "skip",
        Some(_) if result.passed() => "pass",
        Some(_) => "FAIL",
    }
}

/// Formats a deviation as `0` or `1.2e-6`.
fn short(number: f64) -> String {
    if number == 0.0 { "0".into() } else { format!("{number:.1e}") }
}

/// Converts a result to JSON, in which an infinite deviation is null.
fn to_json(result: &CheckResult) -> Value {
    json!({
        "invariant": result.invariant,
        "outcome": word(result).to_lowercase(),
        "deviation": result.deviation,
        "limit": result.limit,
        "detail": result.detail,
    })
}
