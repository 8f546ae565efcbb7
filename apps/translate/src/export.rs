//! `translate export`: a bundle in the format of another toolkit.

use std::path::PathBuf;

use clap::{
    Args, ValueHint,
    builder::{PossibleValuesParser, TypedValueParser},
};
use tx_convert::{ExportFormat, export};
use tx_infer::Bundle;

use crate::args::model::ModelArgs;

/// Arguments of `translate export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Toolkit that the folder is for
    #[arg(
        long,
        value_name = "FORMAT",
        value_parser = PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name))
            .try_map(|name| name.parse::<ExportFormat>())
    )]
    pub format: ExportFormat,

    /// Folder to write, which must not contain files
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
}

/// Writes the bundle in the format of another toolkit.
pub fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let bundle = Bundle::open(&args.model.model)?;
    export::export(&bundle, args.format, &args.output)?;
    Ok(())
}
