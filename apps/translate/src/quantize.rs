//! `translate quantize`: a bundle with weights in int8.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tx_infer::Bundle;

use crate::{args::model::ModelArgs, usage::Usage};

/// Arguments of `translate quantize`.
#[derive(Debug, Args)]
pub struct QuantizeArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Folder of the bundle to write; a bundle there is replaced
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
}

/// Writes the bundle with quantized weights.
pub fn quantize(args: &QuantizeArgs) -> anyhow::Result<()> {
    let model = &args.model.model;
    let is_same = args
        .output
        .canonicalize()
        .is_ok_and(|output| model.canonicalize().is_ok_and(|model| model == output));
    if is_same {
        return Err(Usage::new("`--output` is the bundle of `--model`").into());
    }
    Bundle::open(model)?.quantize(&args.output)?;
    Ok(())
}
