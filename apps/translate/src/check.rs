//! `translate check`: the invariants of a model, on the user's own device.

use std::{io::Write, path::PathBuf};

use anyhow::bail;
use clap::{Args, ValueHint};
use serde_json::{Value, json};
use tx_infer::{
    Bundle,
    check::{self, CheckResult},
    device::DeviceName,
};

use crate::{terminal::stdout, usage::Usage};

/// What to try and where.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Folder written by `train`: weights, configuration and tokenizers
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub model: PathBuf,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,

    /// Largest deviation of two roads to the same scores, as a share of the largest score
    #[arg(long, value_name = "SHARE", default_value_t = check::LIMIT)]
    pub limit: f64,

    /// Print a JSON list
    #[arg(long)]
    pub json: bool,
}

/// Prints the result of every check; fails if an invariant is broken.
pub fn check(args: CheckArgs) -> anyhow::Result<()> {
    if !(args.limit >= 0.0 && args.limit.is_finite()) {
        return Err(Usage::new(format!("`--limit` = {} must be at least 0", args.limit)).into());
    }
    let (_, device) = args.device.open()?;
    let bundle = Bundle::open(&args.model)?;
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
        bail!("{broken} of {} invariants are broken", results.len());
    }
    Ok(())
}

fn word(result: &CheckResult) -> &'static str {
    match result.deviation {
        None => "skip",
        Some(_) if result.passed() => "pass",
        Some(_) => "FAIL",
    }
}

/// `0` or `1.2e-6`
fn short(number: f64) -> String {
    if number == 0.0 { "0".into() } else { format!("{number:.1e}") }
}

/// JSON has no infinity: there it is null.
fn to_json(result: &CheckResult) -> Value {
    json!({
        "invariant": result.invariant,
        "outcome": word(result).to_lowercase(),
        "deviation": result.deviation,
        "limit": result.limit,
        "detail": result.detail,
    })
}
