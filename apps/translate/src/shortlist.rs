//! `translate shortlist`: a vocabulary shortlist from the alignments of a model.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use tx_infer::{
    Bundle, Device, ShortlistBuilder, ShortlistOptions, TaskKind, Translator, tx_text::is_blank,
};

use crate::{
    align::Pairs,
    args::model::{LanguageArgs, ModelArgs, PairArgs, PrecisionArgs},
    usage::{Usage, numbered},
};

/// Pairs whose links are collected together.
const CHUNK: usize = 4_096;

/// Arguments of `translate shortlist`.
#[derive(Debug, Args)]
pub struct ShortlistArgs {
    /// Bundle to open
    #[command(flatten)]
    pub model: ModelArgs,

    /// Sentences and their translations: the training text of the model
    #[command(flatten)]
    pub pairs: PairArgs,

    /// File to write; a file there is replaced
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=10_000),
        help = format!(
            "Candidates of each source token [default: {}]",
            ShortlistOptions::default().candidates
        )
    )]
    pub candidates: Option<u32>,

    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u32).range(0..=100_000),
        help = format!(
            "Most frequent target tokens, which are candidates of every sentence [default: {}]",
            ShortlistOptions::default().frequent
        )
    )]
    pub frequent: Option<u32>,

    /// Decoder layer, from 1, whose attention links tokens [default: that of the
    /// bundle]
    #[arg(long, value_name = "N")]
    pub alignment_layer: Option<usize>,

    /// Languages of a multilingual model
    #[command(flatten)]
    pub languages: LanguageArgs,

    /// Precision of the computation
    #[command(flatten)]
    pub precision: PrecisionArgs,
}

/// Writes the shortlist of the pairs.
pub fn shortlist(args: &ShortlistArgs) -> anyhow::Result<()> {
    let bundle = Bundle::open(&args.model.model)?;
    bundle.expect(TaskKind::Translate)?;
    let default = ShortlistOptions::default();
    let number = |given: Option<u32>, default| given.map_or(default, |given| given as usize);
    let layer = args
        .alignment_layer
        .map(|layer| numbered("--alignment-layer", layer, bundle.config.decoder_layers));
    let options = ShortlistOptions {
        candidates: number(args.candidates, default.candidates),
        frequent: number(args.frequent, default.frequent),
        layer: layer.transpose()?,
    };
    if args.output.is_dir() {
        let path = args.output.display();
        return Err(Usage::new(format!("`--output` = {path} is a folder, expected a file")).into());
    }
    let translator = Translator::new_in(&bundle, args.precision.of(&bundle), &Device::Cpu)?;
    let translator = args.languages.apply(translator)?;
    drop(bundle);
    let mut builder = ShortlistBuilder::new(&translator, options)?;
    let texts = translator.texts();
    let mut pairs = Pairs::open(&args.pairs)?;
    loop {
        let mut tokens = Vec::with_capacity(CHUNK);
        while tokens.len() < CHUNK {
            let Some((source, target)) = pairs.next()? else { break };
            if is_blank(&source) || is_blank(&target) {
                continue;
            }
            tokens.push((texts.source(&source)?, texts.target(&target)?));
        }
        if tokens.is_empty() {
            break;
        }
        builder.add(&tokens);
    }
    builder.finish().save(&args.output)?;
    Ok(())
}
