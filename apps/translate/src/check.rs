//! `translate check`: invariant checks of a model on a device.

use std::io::Write;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use tx_cli::terminal::stdout;
use tx_infer::{
    Bundle,
    check::{self, Verdict},
};

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

    /// Largest deviation between two computations of the same scores, as a fraction of the largest
    /// score
    #[arg(long, value_name = "FRACTION", default_value_t = check::LIMIT)]
    pub limit: f64,

    /// Print a JSON list
    #[arg(long)]
    pub json: bool,
}

/// Prints the result of every check; fails if one does not pass.
pub fn check(args: CheckArgs) -> anyhow::Result<()> {
    if !(args.limit >= 0.0 && args.limit.is_finite()) {
        return Err(Usage::new(format!("`--limit` = {} must be at least 0", args.limit)).into());
    }
    let (_, device) = args.device.open()?;
    let bundle = Bundle::open(&args.model.model, &device)?;
    let verdicts = check::check(&bundle, &device, args.limit);
    let mut output = stdout();
    if args.json {
        let list: Vec<Value> = verdicts.iter().map(to_json).collect();
        writeln!(output, "{:#}", Value::Array(list))?;
    } else {
        writeln!(output, "{:<6}{:<55}{:>10}{:>10}", "", "invariant", "deviation", "limit")?;
        for verdict in &verdicts {
            let deviation = verdict.deviation.map_or("-".into(), short);
            let limit = short(verdict.limit);
            let word = word(verdict);
            writeln!(output, "{word:<6}{:<55}{deviation:>10}{limit:>10}", verdict.law)?;
            if let Some(detail) = &verdict.detail {
                writeln!(output, "      {detail}")?;
            }
        }
    }
    output.flush()?;
    let broken = verdicts.iter().filter(|verdict| !verdict.passed()).count();
    if broken > 0 {
        bail!("{broken} of {} invariants are violated", verdicts.len());
    }
    Ok(())
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict.deviation {
        None => "skip",
        Some(_) if verdict.passed() => "pass",
        Some(_) => "FAIL",
    }
}

/// Formats a deviation as `0` or `1.2e-6`.
fn short(number: f64) -> String {
    if number == 0.0 { "0".into() } else { format!("{number:.1e}") }
}

/// Converts a result to JSON, in which an infinite deviation is null.
fn to_json(verdict: &Verdict) -> Value {
    json!({
        "invariant": verdict.law,
        "outcome": word(verdict).to_lowercase(),
        "deviation": verdict.deviation,
        "limit": verdict.limit,
        "detail": verdict.detail,
    })
}
