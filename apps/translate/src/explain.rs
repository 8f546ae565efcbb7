//! `translate explain`: figures of concepts of the Transformer, and the values inside a model.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::{Args, Subcommand, ValueHint};
use tx_cli::{
    figure::{Format, OutArgs},
    terminal::stderr,
    usage::Usage,
};
use tx_infer::{
    Ablation, Bundle, Device, TaskKind, Translator,
    figure::{
        html,
        masks::{self, Masks},
        positions::{self, Positions},
        smoothing,
    },
    file::write_whole,
    inside::GivenTarget,
    inside_page,
};

use crate::args::{
    model::{LanguageArgs, ModelArgs, PrecisionArgs, bundle_path},
    search::{SearchArgs, SeedArgs},
};

/// Maximum number of cells of a table.
const MAX_CELLS: usize = 1 << 18;
/// Maximum number of sequences, and of tokens of each.
const MAX_SEQUENCES: usize = 8;
const MAX_TOKENS: usize = 48;

/// Arguments of `translate explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  translate explain positions --out positions.svg
  translate explain positions --model runs/de-en --positions 40 --out positions.html
  translate explain masks --text 'a dog runs' --text 'two dogs' --out masks.png
  translate explain smoothing --smoothing 0,0.1,0.2 --out smoothing.svg
  translate explain inside --model runs/de-en --text 'Ein Hund rennt.' --out inside.html")]
pub struct ExplainArgs {
    /// Figure to draw
    #[command(subcommand)]
    pub figure: FigureName,
}

/// Figure to draw.
#[derive(Debug, Subcommand)]
pub enum FigureName {
    /// Draw sinusoidal positional encodings as a heatmap and as curves (section 3.5 of the paper)
    Positions(PositionsArgs),

    /// Draw the padding mask and the causal mask of a batch (section 3.2.3)
    Masks(MasksArgs),

    /// Draw the label-smoothed loss over the probability of the target (section 5.4)
    Smoothing(SmoothingArgs),

    /// Write all values inside a model that translates a sentence: every layer and head, the scores of the next tokens,
    /// and the beam
    Inside(Box<InsideArgs>),
}

/// Arguments of `translate explain positions`.
#[derive(Debug, Args)]
pub struct PositionsArgs {
    /// Bundle whose sinusoids are drawn [default: those of the paper]
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        conflicts_with = "d_model",
        value_parser = bundle_path()
    )]
    pub model: Option<PathBuf>,

    /// Features per position, an even number
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub d_model: usize,

    /// Number of positions
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub positions: usize,

    /// Features that are also drawn as curves, from 0
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [4, 5, 6, 7])]
    pub features: Vec<usize>,

    /// Output
    #[command(flatten)]
    pub out: OutArgs,
}

/// Arguments of `translate explain masks`.
#[derive(Debug, Args)]
pub struct MasksArgs {
    /// Tokens of a sequence, separated by spaces (repeatable); `<bos>` is put before them
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        default_values_t = ["the cat sleeps".to_owned(), "yes .".into()]
    )]
    pub text: Vec<String>,

    /// Output
    #[command(flatten)]
    pub out: OutArgs,
}

/// Arguments of `translate explain smoothing`.
#[derive(Debug, Args)]
pub struct SmoothingArgs {
    /// Values of ε, each at least 0 and below 1
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [0.0, 0.1, 0.2])]
    pub smoothing: Vec<f64>,

    /// Tokens of the vocabulary
    #[arg(long, value_name = "N", default_value_t = 8_000)]
    pub vocabulary: usize,

    /// Output
    #[command(flatten)]
    pub out: OutArgs,
}

/// Arguments of `translate explain inside`.
#[derive(Debug, Args)]
pub struct InsideArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Source sentence
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub text: String,

    /// Target sentence, scored by forced decoding [default: the translation of the source]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub target: Option<String>,

    /// Part that is turned off (repeatable): a layer such as `encoder.2`, or a head such as `encoder.2.3`, `decoder.1.1`
    /// or `cross.2.4`
    #[arg(long, value_name = "PART")]
    pub ablate: Vec<Ablation>,

    /// Output file; its extension, .html or .json, selects the format
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,

    /// Print nothing but errors
    #[arg(short, long)]
    pub quiet: bool,

    /// Precision of the weights
    #[command(flatten)]
    pub precision: PrecisionArgs,

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

/// Writes a figure.
pub fn explain(args: ExplainArgs) -> anyhow::Result<()> {
    match args.figure {
        FigureName::Positions(args) => draw_positions(&args),
        FigureName::Masks(args) => draw_masks(&args),
        FigureName::Smoothing(args) => draw_smoothing(&args),
        FigureName::Inside(args) => write_inside(&args),
    }
}

fn draw_positions(args: &PositionsArgs) -> anyhow::Result<()> {
    let format = Format::of(&args.out.out)?;
    let mut config = match &args.model {
        Some(model) => Bundle::open(model)?.config,
        None => tx_infer::tx_model::ModelConfig { d_model: args.d_model, ..Default::default() },
    };
    if config.d_model == 0 || !config.d_model.is_multiple_of(2) {
        let problem = format!("`--d-model` = {} must be even and at least 2", config.d_model);
        return Err(Usage::new(problem).into());
    }
    let most = MAX_CELLS / config.d_model;
    if !(1..=most).contains(&args.positions) {
        return Err(Usage::new(format!(
            "`--positions` = {} must be at least 1 and at most {most} for {} features",
            args.positions, config.d_model
        ))
        .into());
    }
    if let Some(feature) = args.features.iter().find(|feature| **feature >= config.d_model) {
        let problem = format!("`--features` = {feature} must be below {}", config.d_model);
        return Err(Usage::new(problem).into());
    }
    config.max_len = args.positions;
    let table = config.sinusoid_table();
    let curves = &args.features;
    let svg = Positions { table: &table, d_model: config.d_model, curves }.svg();
    let text = [
        positions::EQUATION,
        "Each position has a vector of d_model features, which is added to the embedding of its token. \
         A pair of features is a sine and a cosine of the same wavelength; the wavelengths grow from 2π \
         to 10000 · 2π. For a fixed offset k, PE(pos + k) is a linear function of PE(pos).",
        "Vaswani et al. (2017), \"Attention Is All You Need\", section 3.5.",
    ];
    write(&args.out, format, "Positional encodings", &text, &svg)
}

fn draw_masks(args: &MasksArgs) -> anyhow::Result<()> {
    let format = Format::of(&args.out.out)?;
    if args.text.len() > MAX_SEQUENCES {
        let found = args.text.len();
        let problem = format!("`--text` is given {found} times, at most {MAX_SEQUENCES} are drawn");
        return Err(Usage::new(problem).into());
    }
    let sequence = |text: &String| -> Result<Vec<String>, Usage> {
        let words = text.split_whitespace().map(str::to_owned);
        let tokens: Vec<String> = std::iter::once("<bos>".to_owned()).chain(words).collect();
        match tokens.len() {
            found if found > MAX_TOKENS => Err(Usage::new(format!(
                "`--text` has {found} tokens with `<bos>`, at most {MAX_TOKENS} are drawn"
            ))),
            _ => Ok(tokens),
        }
    };
    let sequences = args.text.iter().map(sequence).collect::<Result<Vec<_>, _>>()?;
    let svg = Masks::new(sequences).svg();
    let text = [
        masks::EQUATION,
        "The padding mask blocks positions after the end of a sequence, which exist because all sequences \
         of a batch have the length of the longest. The causal mask blocks later positions, so that the \
         prediction of a token depends on the tokens before it only, and all positions can be trained at \
         once. In code, true means blocked, as in Burn.",
        "Vaswani et al. (2017), \"Attention Is All You Need\", section 3.2.3.",
    ];
    write(&args.out, format, "Masks", &text, &svg)
}

fn draw_smoothing(args: &SmoothingArgs) -> anyhow::Result<()> {
    let format = Format::of(&args.out.out)?;
    if let Some(value) = args.smoothing.iter().find(|value| !(0.0..1.0).contains(*value)) {
        let problem = format!("`--smoothing` = {value} must be at least 0 and below 1");
        return Err(Usage::new(problem).into());
    }
    if args.vocabulary < 2 {
        let problem = format!("`--vocabulary` = {} must be at least 2", args.vocabulary);
        return Err(Usage::new(problem).into());
    }
    let svg = smoothing::chart(&args.smoothing, args.vocabulary).svg();
    let text = [
        smoothing::EQUATION,
        "The loss of a token over the probability p that the model gives to the target; the other tokens \
         share 1 - p equally. Without smoothing, the loss falls until p = 1. With smoothing, it is smallest \
         for p = 1 - ε + ε / V, so a model that is more confident is penalized. This raises the perplexity, \
         and improves accuracy and BLEU.",
        "Vaswani et al. (2017), \"Attention Is All You Need\", section 5.4; Szegedy et al. (2016).",
    ];
    write(&args.out, format, "Label smoothing", &text, &svg)
}

/// Writes the values inside a model.
fn write_inside(args: &InsideArgs) -> anyhow::Result<()> {
    let has_extension =
        |name| args.out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(name));
    let as_page = has_extension("html");
    if !as_page && !has_extension("json") {
        let path = args.out.display();
        return Err(Usage::new(format!("`{path}` does not end with .html or .json"))
            .with_hint("the extension selects the format, as in `--out inside.html`")
            .into());
    }
    if args.target.is_some() && !args.search.is_default() {
        return Err(Usage::new("`--target` conflicts with search options").into());
    }
    if args.search.mbr.is_some() {
        let problem = "`--mbr` conflicts with `explain inside`, which shows the beam search";
        return Err(Usage::new(problem).into());
    }
    let bundle = Bundle::open_for_model(&args.model.model)?;
    let kind = bundle.task.kind();
    if kind != TaskKind::Translate {
        let problem =
            format!("the task of the bundle is `{kind}`, but `inside` is for `translate`");
        return Err(Usage::new(problem).into());
    }
    let translator = Translator::new_in(&bundle, args.precision.of(&bundle), &Device::Cpu)?;
    let translator = args.search.apply(args.languages.apply(translator)?, args.seed.seed)?;
    let translator = translator.with_ablations(args.ablate.clone())?;
    let given = match &args.target {
        Some(target) => GivenTarget::Text(target),
        None => GivenTarget::Nothing,
    };
    let inside = translator.inside(&args.text, given, translator.options())?;
    let vocabulary = &translator.tokenizers().target;
    let content = match as_page {
        true => inside_page::html(&inside, vocabulary),
        false => format!("{}\n", inside.to_json(vocabulary)),
    };
    write_file(&args.out, content.as_bytes(), args.quiet)
}

fn write(
    out: &OutArgs,
    format: Format,
    title: &str,
    text: &[&str],
    svg: &str,
) -> anyhow::Result<()> {
    let content = format.content(svg, || html(title, text, svg))?;
    write_file(&out.out, &content, out.quiet)
}

fn write_file(path: &Path, content: &[u8], quiet: bool) -> anyhow::Result<()> {
    write_whole(path, content).with_context(|| format!("cannot write `{}`", path.display()))?;
    if !quiet {
        writeln!(stderr(), "written: {}", path.display())?;
    }
    Ok(())
}
