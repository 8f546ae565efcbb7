//! `translate pack`: a bundle in one file.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tx_infer::bundle;

use crate::args::model::ModelArgs;

/// Arguments of `translate pack`.
#[derive(Debug, Args)]
pub struct PackArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// File to write, with the ending .tar by convention; a file there is replaced
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
}

/// Writes the bundle as one file.
pub fn pack(args: &PackArgs) -> anyhow::Result<()> {
    Ok(bundle::archive(&args.model.model, &args.output)?)
}
