//! Where a model looks, as a page, a picture or JSON.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use tx_infer::{
    Attention, AttentionKind, Bundle, SearchOptions, Tokens, Translator,
    attention_page::html,
    device::DeviceName,
    figure::{FigureOptions, svg},
    file::write_whole,
};

use crate::{
    png,
    terminal::stderr,
    usage::{Usage, numbered},
};

/// What to look at and how.
#[derive(Debug, Args)]
pub struct AttentionArgs {
    /// Folder written by `train`: weights, configuration and tokenizers
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub model: PathBuf,

    /// Sentence to read
    #[arg(long, value_name = "TEXT")]
    pub text: String,

    /// Translation that the model is made to write [default: the one it finds]
    #[arg(long, value_name = "TEXT")]
    pub target: Option<String>,

    /// File to write; its name ends with .html, .svg, .png or .json, which says what it will be
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Which tokens look at which; a page starts with it and has all
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Kind::Cross)]
    pub kind: Kind,

    /// Layer, counted from 1 [default: the last]
    #[arg(long, value_name = "N")]
    pub layer: Option<usize>,

    /// Head, counted from 1 [default: the mean of all]
    #[arg(long, value_name = "N")]
    pub head: Option<usize>,

    /// Show every layer and head of the kind, instead of one map
    #[arg(long, conflicts_with_all = ["layer", "head"])]
    pub grid: bool,

    /// Put the pieces of a word together
    #[arg(long)]
    pub words: bool,

    /// Hypotheses kept while a translation is searched for; 1 is greedy search
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "target", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub beam: u16,

    /// Device to run on: auto, cpu, ndarray, wgpu, vulkan or cuda, with :N for the Nth
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub device: DeviceName,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
}

/// Which tokens look at which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Target tokens, while they are written, at source tokens
    Cross,
    /// Source tokens at source tokens
    Encoder,
    /// What has been written at what was written before
    Decoder,
}

impl From<Kind> for AttentionKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Cross => Self::Cross,
            Kind::Encoder => Self::Encoder,
            Kind::Decoder => Self::Decoder,
        }
    }
}

/// What can be written, by how a file's name ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Html,
    Svg,
    Png,
    Json,
}

impl Format {
    fn of(path: &Path) -> Result<Self, Usage> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match extension.as_str() {
            "html" | "htm" => Ok(Self::Html),
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            "json" => Ok(Self::Json),
            _ => Err(Usage::new(format!(
                "`{}` does not end with .html, .svg, .png or .json",
                path.display()
            ))
            .with_hint("the end of the name says what is written, as in `--out page.html`")),
        }
    }
}

/// Writes what `args` ask for.
pub fn attention(args: AttentionArgs) -> anyhow::Result<()> {
    let format = Format::of(&args.out)?;
    if args.text.trim().is_empty() {
        return Err(Usage::new("`--text` has no words to look at").into());
    }
    let (_, device) = args.device.open()?;
    let bundle = Bundle::open(&args.model)?;
    let options = view(&args, &bundle)?;

    let (tokenizers, max_len) = (bundle.tokenizers.clone(), bundle.config.max_len);
    let translator = Translator::new(bundle, &device)?;
    let source = Tokens::of_source(&tokenizers.source, &args.text, max_len)?;
    let target = match &args.target {
        Some(text) => Tokens::of_target(&tokenizers.target, text, max_len)?,
        None => {
            let search = SearchOptions { beam: args.beam.into(), ..SearchOptions::default() };
            let translator = translator.clone().with_options(search)?;
            let mut found = translator.translate_batch(&[&args.text])?;
            let found = found.pop().and_then(|found| found.hypotheses.into_iter().next());
            let ids = found.map(|found| found.hypothesis.ids).unwrap_or_default();
            Tokens::of_hypothesis(&tokenizers.target, &ids, max_len)?
        }
    };
    let written = target.words.join(" ");
    let cut = source.ids.len() == max_len || target.ids.len() == max_len;
    let attention = Attention::of(translator.engine(), source, target);
    write(&attention, &options, format, &args.out)?;
    if !args.quiet {
        let mut stderr = stderr();
        if cut {
            writeln!(
                stderr,
                "warning: a side fills the {max_len} tokens that this model can read; it may be cut"
            )?;
        }
        writeln!(stderr, "translation: {written}")?;
        writeln!(stderr, "written: {}", args.out.display())?;
    }
    Ok(())
}

/// Writes `attention` to `path`, as its name says.
pub fn write_as_named(
    attention: &Attention,
    options: &FigureOptions,
    path: &Path,
) -> anyhow::Result<()> {
    write(attention, options, Format::of(path)?, path)
}

fn write(
    attention: &Attention,
    options: &FigureOptions,
    format: Format,
    path: &Path,
) -> anyhow::Result<()> {
    let content = match format {
        Format::Html => html(attention, options).into_bytes(),
        Format::Svg => svg(attention, options).into_bytes(),
        Format::Png => png::of_svg(&svg(attention, options))?,
        Format::Json => format!("{}\n", attention.to_json()).into_bytes(),
    };
    write_whole(path, &content).with_context(|| format!("cannot write `{}`", path.display()))
}

/// What is shown first, or alone.
fn view(args: &AttentionArgs, bundle: &Bundle) -> Result<FigureOptions, Usage> {
    let config = &bundle.config;
    let layers = match args.kind {
        Kind::Encoder => config.encoder_layers,
        Kind::Cross | Kind::Decoder => config.decoder_layers,
    };
    let layer = match args.layer {
        Some(layer) => numbered("--layer", layer, layers)?,
        None => layers.saturating_sub(1),
    };
    let head = args.head.map(|head| numbered("--head", head, config.n_heads)).transpose()?;
    Ok(FigureOptions { kind: args.kind.into(), layer, head, words: args.words, grid: args.grid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_says_what_is_written() {
        for (name, format) in [
            ("a.html", Format::Html),
            ("a/b.HTM", Format::Html),
            ("a.svg", Format::Svg),
            ("a.b.png", Format::Png),
            ("a.json", Format::Json),
        ] {
            assert_eq!(Format::of(name.as_ref()).unwrap(), format, "{name}");
        }
        for name in ["a", "html", "a.pdf", ".svg", ""] {
            assert!(Format::of(name.as_ref()).is_err(), "{name}");
        }
    }
}
