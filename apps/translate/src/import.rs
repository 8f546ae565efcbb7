//! `translate import`: a model of another toolkit as a bundle.

use std::{io::Write, path::PathBuf};

use clap::{
    Args, ValueHint,
    builder::{PossibleValuesParser, TypedValueParser},
};
use tx_cli::terminal::{printable, stderr, stdout};
use tx_convert::{ImportFormat, import, import::ImportOptions};

/// Value of `--format` for detection.
const AUTO: &str = "auto";

/// Arguments of `translate import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// Folder or file of the model
    #[arg(long, value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub from: PathBuf,

    /// Folder of the bundle to write; a bundle there is replaced
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        required_unless_present = "dry_run"
    )]
    pub output: Option<PathBuf>,

    /// Format of the model; `auto` detects it from the content of the files
    #[arg(
        long,
        value_name = "FORMAT",
        default_value = AUTO,
        value_parser = PossibleValuesParser::new(formats()).map(|name| Format(name.parse().ok()))
    )]
    pub format: Format,

    /// Attention heads of a file of PyTorch that does not contain their number [default: 8]
    #[arg(long, value_name = "N")]
    pub heads: Option<usize>,

    /// Source language of a checkpoint of the tutorial, as in the name of `tokenizer_LANG.json`, needed
    /// if both languages have as many tokens; or of fairseq, as in the name of `dict.LANG.txt`, needed if
    /// the file does not contain it
    #[arg(long, value_name = "LANG", requires = "target_language")]
    pub source_language: Option<String>,

    /// Target language, as --source-language
    #[arg(long, value_name = "LANG", requires = "source_language")]
    pub target_language: Option<String>,

    /// Whether sources of a model of CTranslate2 or `nn.Transformer` end with `<eos>` [default: as
    /// `config.json` of CTranslate2 says, otherwise true]
    #[arg(long, value_name = "BOOL")]
    pub source_eos: Option<bool>,

    /// Check the model and describe it, without writing a bundle
    #[arg(long)]
    pub dry_run: bool,
}

/// Format, or `None` for detection.
#[derive(Debug, Clone, Copy)]
pub struct Format(Option<ImportFormat>);

fn formats() -> impl Iterator<Item = &'static str> {
    [AUTO].into_iter().chain(ImportFormat::ALL.map(ImportFormat::name))
}

/// Writes a model of another toolkit as a bundle, or describes it.
pub fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let options = ImportOptions {
        heads: args.heads,
        source_language: args.source_language.clone(),
        target_language: args.target_language.clone(),
        source_eos: args.source_eos,
    };
    let import = import::import_with(&args.from, args.format.0, &options)?;
    if args.dry_run {
        let mut output = stdout();
        for (key, value) in import.report() {
            writeln!(output, "{key:<22} {}", printable(&value))?;
        }
        return Ok(());
    }
    if let Some(output) = &args.output {
        import.save(output)?;
    }
    for note in &import.notes {
        writeln!(stderr(), "note: {}", printable(note))?;
    }
    Ok(())
}
