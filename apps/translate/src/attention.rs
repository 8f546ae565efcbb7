//! `translate attention`: attention weights as a page, a picture or JSON.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, ValueEnum, ValueHint};
use tx_cli::{figure, terminal::stderr};
use tx_infer::{
    Attention, AttentionKind, Bundle, Classifier, Device, FillMask, Generator, TaskKind,
    Translator,
    attention_page::html,
    figure::{FigureOptions, svg},
    file::write_whole,
};
use tx_text::is_blank;

use crate::{
    args::{
        model::{DeviceArgs, LanguageArgs, ModelArgs},
        search::{SearchArgs, SeedArgs},
    },
    png,
    usage::{Usage, numbered},
};

/// Arguments of `translate attention`.
#[derive(Debug, Args)]
pub struct AttentionArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Source sentence, or text of a model with one text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: String,

    /// Target sentence of a translation, scored by forced decoding [default: the translation of the
    /// source]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub target: Option<String>,

    /// Output file; its extension, .html, .svg, .png or .json, selects the format
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Kind of attention; an HTML page contains all kinds and opens with this one [default: cross;
    /// the only one of models with one text]
    #[arg(long, value_enum, value_name = "KIND")]
    pub kind: Option<Kind>,

    /// Layer, from 1 [default: the last]
    #[arg(long, value_name = "N")]
    pub layer: Option<usize>,

    /// Attention head, from 1 [default: the mean of all]
    #[arg(long, value_name = "N")]
    pub head: Option<usize>,

    /// Show every layer and head of the kind instead of one map
    #[arg(long, conflicts_with_all = ["layer", "head"])]
    pub grid: bool,

    /// Merge the tokens of a word
    #[arg(long)]
    pub words: bool,

    /// Device to run on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Languages of a multilingual model
    #[command(flatten)]
    pub languages: LanguageArgs,

    /// Search options of the translation
    #[command(flatten)]
    pub search: SearchArgs,

    /// Seed of sampling
    #[command(flatten)]
    pub seed: SeedArgs,
}

/// Kind of attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Cross-attention: from target positions to source tokens
    Cross,
    /// Self-attention of the encoder
    Encoder,
    /// Self-attention of the decoder
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

/// Output format, selected by the extension of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Figure(figure::Format),
    Json,
}

impl Format {
    fn of(path: &Path) -> Result<Self, Usage> {
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
            return Ok(Self::Json);
        }
        figure::Format::of(path).map(Self::Figure).map_err(|_| {
            let path = path.display();
            Usage::new(format!("`{path}` does not end with .html, .svg, .png or .json"))
                .with_hint("the extension selects the format, as in `--out page.html`")
        })
    }
}

/// Writes the attention weights of a pair of sentences.
pub fn attention(args: AttentionArgs) -> anyhow::Result<()> {
    let format = Format::of(&args.out)?;
    if is_blank(&args.text) {
        return Err(Usage::new("`--text` has no words").into());
    }
    if args.target.is_some() && !args.search.is_default() {
        return Err(Usage::new("`--target` conflicts with search options").into());
    }
    let (_, device) = args.device.open()?;
    let bundle = Bundle::open_for_model(&args.model.model)?;
    let options = view(&args, &bundle)?;
    let kind = bundle.task.kind();
    let for_translation =
        args.target.is_some() || !args.search.is_default() || args.languages.is_given();
    if kind.has_one_text() && for_translation {
        return Err(Usage::new(format!(
            "`--target`, languages and search options conflict with the task of the bundle, `{kind}`, which has \
             one text"
        ))
        .into());
    }
    let found = match kind {
        TaskKind::Translate => return of_translation(&args, bundle, &device, &options, format),
        TaskKind::Classify => Classifier::new(&bundle, &device)?.attention(&args.text)?,
        TaskKind::Generate => Generator::new(&bundle, &device)?.attention(&args.text)?,
        TaskKind::FillMask => FillMask::new(&bundle, &device)?.attention(&args.text)?,
    };
    write(&found, &options, format, &args.out)?;
    if !args.quiet {
        let tokens = found.source.ids.len().max(found.target.ids.len());
        if tokens == bundle.config.max_len {
            writeln!(
                stderr(),
                "warning: the text has {tokens} tokens, the maximum of this model, and may be \
                 truncated"
            )?;
        }
        writeln!(stderr(), "written: {}", args.out.display())?;
    }
    Ok(())
}

/// Writes the attention weights of a sentence and its translation.
fn of_translation(
    args: &AttentionArgs,
    bundle: Bundle,
    device: &Device,
    options: &FigureOptions,
    format: Format,
) -> anyhow::Result<()> {
    let max_len = bundle.config.max_len;
    let translator = args.languages.apply(Translator::new(bundle, device)?)?;
    let texts = translator.texts();
    let source = texts.source(&args.text)?;
    let target = match &args.target {
        Some(text) => texts.target(text)?,
        None => {
            let translator = args.search.apply(translator.clone(), args.seed.seed)?;
            let mut found = translator.translate_batch(&[&args.text])?;
            let found = found.pop().and_then(|found| found.hypotheses.into_iter().next());
            let ids = found.map(|found| found.hypothesis.ids).unwrap_or_default();
            texts.hypothesis(&ids)?
        }
    };
    let translation = target.words.join(" ");
    let may_be_truncated = source.ids.len() == max_len || target.ids.len() == max_len;
    let attention = Attention::of(translator.engine(), source, target);
    write(&attention, options, format, &args.out)?;
    if !args.quiet {
        let mut stderr = stderr();
        if may_be_truncated {
            writeln!(
                stderr,
                "warning: a sentence has {max_len} tokens, the maximum of this model, and may be truncated"
            )?;
        }
        writeln!(stderr, "translation: {translation}")?;
        writeln!(stderr, "written: {}", args.out.display())?;
    }
    Ok(())
}

/// Writes `attention` to `path` in the format of its extension.
pub fn write_by_extension(
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
        Format::Figure(figure::Format::Html) => html(attention, options).into_bytes(),
        Format::Figure(figure::Format::Svg) => svg(attention, options).into_bytes(),
        Format::Figure(figure::Format::Png) => png::render(&svg(attention, options))?,
        Format::Json => format!("{}\n", attention.to_json()).into_bytes(),
    };
    write_whole(path, &content).with_context(|| format!("cannot write `{}`", path.display()))
}

/// Returns the view of a figure, or the one that a page opens with.
fn view(args: &AttentionArgs, bundle: &Bundle) -> Result<FigureOptions, Usage> {
    let (config, task) = (&bundle.config, bundle.task.kind());
    let only = match task {
        TaskKind::Translate => None,
        TaskKind::Classify | TaskKind::FillMask => Some(Kind::Encoder),
        TaskKind::Generate => Some(Kind::Decoder),
    };
    let kind = args.kind.or(only).unwrap_or(Kind::Cross);
    if let Some(only) = only.filter(|only| *only != kind) {
        let name = AttentionKind::from(only).name();
        return Err(Usage::new(format!(
            "`--kind {}` conflicts with the task of the bundle, `{task}`, which has the kind `{name}` \
             only",
            AttentionKind::from(kind).name()
        )));
    }
    let layers = match kind {
        Kind::Encoder => config.encoder_layers,
        Kind::Cross | Kind::Decoder => config.decoder_layers,
    };
    let layer = match args.layer {
        Some(layer) => numbered("--layer", layer, layers)?,
        None => layers.saturating_sub(1),
    };
    let head = args.head.map(|head| numbered("--head", head, config.n_heads)).transpose()?;
    Ok(FigureOptions { kind: kind.into(), layer, head, words: args.words, grid: args.grid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_selects_the_format() {
        for (name, format) in [
            ("a.html", Format::Figure(figure::Format::Html)),
            ("a/b.HTM", Format::Figure(figure::Format::Html)),
            ("a.svg", Format::Figure(figure::Format::Svg)),
            ("a.b.png", Format::Figure(figure::Format::Png)),
            ("a.json", Format::Json),
        ] {
            assert_eq!(Format::of(name.as_ref()).unwrap(), format, "{name}");
        }
        for name in ["a", "html", "a.pdf", ".svg", ""] {
            assert!(Format::of(name.as_ref()).is_err(), "{name}");
        }
    }
}
