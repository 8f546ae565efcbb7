//! `train explain`: figures of concepts of training.

use std::io::Write;

use anyhow::Context;
use clap::{Args, Subcommand};
use tx_cli::{
    figure::{Format, OutArgs},
    terminal::stderr,
    usage::Usage,
};
use tx_infer::{
    figure::{
        html,
        schedule::{self, EQUATION, SIZES},
    },
    file::write_whole,
};
use tx_train::{
    config::Schedule,
    training::schedule::{Curve, Decay},
};

/// Arguments of `train explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  train explain schedule --out schedule.svg
  train explain schedule --size 512:4000 --size 1024:4000 --out schedule.html")]
pub struct ExplainArgs {
    /// Figure to draw
    #[command(subcommand)]
    pub figure: FigureName,
}

/// Figure to draw.
#[derive(Debug, Subcommand)]
pub enum FigureName {
    /// Draw the learning rate of the paper for several sizes (section 5.3)
    Schedule(ScheduleArgs),
}

/// Arguments of `train explain schedule`.
#[derive(Debug, Args)]
pub struct ScheduleArgs {
    /// Features per token and updates of the warm-up, D_MODEL:WARMUP (repeatable)
    /// [default: 512:4000, 512:8000 and 256:4000]
    #[arg(long = "size", value_name = "SIZE", value_parser = size)]
    pub sizes: Vec<(usize, usize)>,

    /// Number of updates
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub updates: usize,

    /// Output
    #[command(flatten)]
    pub out: OutArgs,
}

/// Maximum number of curves and of updates, which exceed every useful figure.
const MAX_SIZES: usize = 8;
const MAX_UPDATES: usize = 10_000_000;

fn size(text: &str) -> Result<(usize, usize), String> {
    let (d_model, warmup) =
        text.split_once(':').ok_or("expected D_MODEL:WARMUP, as in 512:4000")?;
    match (d_model.parse(), warmup.parse()) {
        (Ok(d_model), Ok(warmup)) if d_model > 0 && warmup > 0 => Ok((d_model, warmup)),
        _ => Err("both numbers must be at least 1".into()),
    }
}

/// Writes a figure.
pub fn explain(args: ExplainArgs) -> anyhow::Result<()> {
    match args.figure {
        FigureName::Schedule(args) => draw_schedule(&args),
    }
}

fn draw_schedule(args: &ScheduleArgs) -> anyhow::Result<()> {
    let format = Format::of(&args.out.out)?;
    let sizes = if args.sizes.is_empty() { &SIZES[..] } else { &args.sizes };
    if sizes.len() > MAX_SIZES {
        let found = sizes.len();
        let problem = format!("`--size` is given {found} times, at most {MAX_SIZES} are drawn");
        return Err(Usage::new(problem).into());
    }
    if !(1..=MAX_UPDATES).contains(&args.updates) {
        let problem =
            format!("`--updates` = {} must be at least 1 and at most {MAX_UPDATES}", args.updates);
        return Err(Usage::new(problem).into());
    }
    let rate = |&(d_model, warmup_steps): &(usize, usize)| {
        let curve = Curve {
            schedule: Schedule::Noam,
            peak: 1.0,
            warmup_steps,
            total_steps: args.updates,
            d_model,
            decay: Decay::default(),
        };
        move |step: usize| curve.at(step, 1.0)
    };
    let rates: Vec<_> = sizes.iter().map(rate).collect();
    let name = |(d_model, warmup): &(usize, usize)| format!("{d_model}:{warmup}");
    let schedules: Vec<schedule::Schedule<'_>> = sizes
        .iter()
        .zip(&rates)
        .map(|(size, rate)| schedule::Schedule { name: name(size), rate })
        .collect();
    let svg = schedule::chart(&schedules, args.updates).svg();
    let text = [
        EQUATION,
        "The learning rate grows linearly during the warm-up and then falls with the inverse square root \
         of the update. Its peak is (d_model · warmup_steps)^-0.5, so wider models and longer warm-ups have \
         lower peaks. A legend entry is d_model:warmup_steps.",
        "Vaswani et al. (2017), \"Attention Is All You Need\", section 5.3, equation 3.",
    ];
    let content = format.content(&svg, || html("Learning rate", &text, &svg))?;
    let path = &args.out.out;
    write_whole(path, &content).with_context(|| format!("cannot write `{}`", path.display()))?;
    if !args.out.quiet {
        writeln!(stderr(), "written: {}", path.display())?;
    }
    Ok(())
}
