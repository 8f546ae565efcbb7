//! `train bench`: how fast a device trains.

use std::{
    io::{Write, stderr, stdout},
    path::PathBuf,
};

use clap::{Args, ValueHint};
use tx_infer::{bench::Report, device::DeviceName};
use tx_train::{ConfigBuilder, TrainError, bench::Updates};

use crate::run::open;

/// Measure how fast a device trains: whole updates on made-up sentences
///
/// Prints a row of a Markdown table for each recipe, with tokens a second by the median update. Nothing
/// is read but the configuration, nothing is written, and no batch is made while the clock runs.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Recipes to measure
    #[arg(long, value_name = "NAME", default_value = "small", conflicts_with = "config")]
    pub recipe: Vec<String>,

    /// TOML file to measure instead of a recipe
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Device to measure, as for training; several share the batches of an update
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_delimiter = ',')]
    pub device: Vec<DeviceName>,

    /// Tokens of each side of a sentence; as many sentences as the recipe's batch then holds
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub len: usize,

    /// Updates that count
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub updates: usize,

    /// Change one value of the configuration; may be given often
    #[arg(long, value_name = "SECTION.KEY=VALUE")]
    pub set: Vec<String>,

    /// Print a JSON object a line instead, with the time of every update
    #[arg(long)]
    pub json: bool,
}

/// Measures what is asked for.
pub fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    let (name, devices) = open(&args.device)?;
    let layers: Vec<(String, ConfigBuilder)> = match &args.config {
        Some(path) => vec![(path.display().to_string(), ConfigBuilder::from_file(path)?)],
        None => {
            let layers = |name: &String| Ok((name.clone(), ConfigBuilder::from_recipe(name)?));
            args.recipe.iter().map(layers).collect::<Result<_, TrainError>>()?
        }
    };
    let mut configs = Vec::new();
    for (model, mut layers) in layers {
        // Sentences are made up, whatever the recipe learns from.
        layers.set_value("data.source", "toy");
        args.set.iter().try_for_each(|setting| layers.set(setting))?;
        configs.push((model, layers.build()?));
    }
    writeln!(stderr(), "tx {}, {name}", env!("CARGO_PKG_VERSION"))?;
    if !args.json {
        write!(stdout(), "{}", Report::HEADING)?;
    }
    for (model, config) in configs {
        let updates = Updates::of(&config, args.len);
        let (timing, _) = updates
            .measure(&config.model, &config.train, &devices, args.updates)
            .map_err(|error| TrainError::Problems { problems: vec![error.to_string()] })?;
        let Updates { pairs, len, .. } = updates;
        let work = match config.train.accumulate {
            1 => format!("update of {pairs} × {len} tokens"),
            batches => format!("update of {batches} × {pairs} × {len} tokens"),
        };
        let report = Report::new(&model, &name, &devices[0].clone().into(), work, timing);
        if args.json {
            writeln!(stdout(), "{}", serde_json::to_string(&report)?)?;
        } else {
            writeln!(stdout(), "{report}")?;
        }
    }
    Ok(())
}
