//! `train bench`: speed of training on a device.

use std::{io::Write, path::PathBuf};

use clap::{Args, ValueHint};
use tx_cli::terminal::{stderr, stdout};
use tx_infer::bench::Report;
use tx_train::{
    ConfigBuilder, ProductPrecision, TrainError,
    bench::{Launches, Measurement, Phase, Updates},
};

use crate::{configuration::SettingArgs, devices::DeviceArgs, processes::Processes};

/// Measure the speed of training: complete updates on synthetic sentences
///
/// Prints one row of a Markdown table per recipe, with the target tokens per second of the median
/// update. Reads only the configuration and writes no file. Batches are built before the
/// measurement starts. On several ranks of MPI, an update consists of batches of all ranks, as in
/// training, and the row has the fraction of time in which their gradients are added up.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Recipe to measure (repeatable)
    #[arg(long, value_name = "NAME", default_value = "small", conflicts_with = "config")]
    pub recipe: Vec<String>,

    /// Configuration file to measure instead of a recipe
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Devices to measure
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Length of each side of a sentence pair, or of a text, in tokens; a batch has as many as fit
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub len: usize,

    /// Measured updates, after a few warm-up updates
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub updates: usize,

    /// Precision of matrix products: f32, bf16 or bf16x3 [default: that of the configuration]
    ///
    /// Several, separated by commas, are measured one after the other.
    #[arg(long, value_name = "PRECISION", value_delimiter = ',')]
    pub precision: Vec<ProductPrecision>,

    /// Values that override the configuration
    #[command(flatten)]
    pub settings: SettingArgs,

    /// Print one JSON object per recipe instead of the table, with the time of every update
    #[arg(long)]
    pub json: bool,
}

/// Describes the kernel launches of an update.
fn summary(launches: &Launches) -> String {
    let [forward, backward, norm, optimizer] = Phase::UPDATE.map(|phase| launches.of(phase));
    format!(
        "{} launches: {forward} forward, {backward} backward, {norm} norm, {optimizer} optimizer; \
         {} uploads, {} readbacks",
        launches.total(),
        launches.uploads(),
        launches.readbacks()
    )
}

/// Measures and prints one row per recipe, as the first rank.
pub fn bench(args: &BenchArgs, processes: &Processes) -> anyhow::Result<()> {
    let (name, devices) = args.device.open(processes.local_rank())?;
    let ranks = &*processes.ranks();
    let layers: Vec<(String, ConfigBuilder)> = match &args.config {
        Some(path) => vec![(path.display().to_string(), ConfigBuilder::from_file(path)?)],
        None => {
            let layers = |name: &String| Ok((name.clone(), ConfigBuilder::from_recipe(name)?));
            args.recipe.iter().map(layers).collect::<Result<_, TrainError>>()?
        }
    };
    let mut configs = Vec::new();
    for (model, mut layers) in layers {
        args.settings.apply(&mut layers)?;
        // The sentences are synthetic, so no corpus is needed.
        layers.use_generated_without_files();
        let config = layers.build()?;
        if args.precision.is_empty() {
            configs.push((model.clone(), config.clone()));
        }
        for &precision in &args.precision {
            let mut config = config.clone();
            config.train.precision = precision;
            configs.push((model.clone(), config));
        }
    }
    if ranks.is_first() {
        writeln!(stderr(), "tx {}, {name}", env!("CARGO_PKG_VERSION"))?;
    }
    for (index, (model, config)) in configs.into_iter().enumerate() {
        let updates = Updates::of(&config, args.len);
        let Measurement { timing, reducing, launches, trained_parameters } = updates
            .measure_on(ranks, &config, &devices, args.updates)
            .map_err(|error| TrainError::Problems { problems: vec![error.to_string()] })?;
        let Updates { pairs, len, .. } = updates;
        let work = match config.train.accumulate {
            1 => format!("update of {pairs} × {len} tokens"),
            batches => format!("update of {batches} × {pairs} × {len} tokens"),
        };
        let work = match config.train.precision {
            ProductPrecision::F32 => work,
            precision => format!("{work}, {precision}"),
        };
        let share = 100.0 * reducing.iter().sum::<f64>() / timing.seconds.iter().sum::<f64>();
        let work = match ranks.count() {
            1 => work,
            count => format!("{work}, {count} ranks, {share:.1} % adding up"),
        };
        let work = match &launches {
            Some(launches) => format!("{work}, {}", summary(launches)),
            None => work,
        };
        if !ranks.is_first() {
            continue;
        }
        let report = Report::new(&model, &name, &devices[0].clone().into(), work, timing);
        if args.json {
            let mut report = serde_json::to_value(&report)?;
            report["trained_parameters"] = trained_parameters.into();
            if let Some(launches) = &launches {
                report["launches"] = launches.total().into();
                report["uploads"] = launches.uploads().into();
                report["readbacks"] = launches.readbacks().into();
                report["launches_by_phase"] = serde_json::to_value(launches)?;
            }
            if ranks.count() > 1 {
                report["ranks"] = ranks.count().into();
                report["reducing_seconds"] = reducing.into();
            }
            writeln!(stdout(), "{report}")?;
        } else {
            let heading = if index == 0 { Report::HEADING } else { "" };
            writeln!(stdout(), "{heading}{report}")?;
        }
    }
    Ok(())
}
