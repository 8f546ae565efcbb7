//! `train lr-find`: loss over growing learning rates, to choose one.

use std::{fs, io::Write, path::Path};

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use tx_cli::{
    figure::Format,
    terminal::{stderr, stdout},
    usage::Usage,
};
use tx_infer::{
    figure::{
        chart::{Chart, Series},
        html,
    },
    file::write_whole,
};
use tx_train::{TrainError, Trainer, reporting::progress::ProgressMode};

use crate::{configuration::DataArgs, devices::DeviceArgs, fetch, signals::Signals};

/// Decay of the moving average of the loss.
const SMOOTHING: f64 = 0.95;

/// Arguments of `train lr-find`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  train lr-find --source a.de --target a.en --out rates.svg

The learning rate grows geometrically from --lowest to --highest (Smith 2017, section 3.3). The printed
learning rate is that of the steepest fall of the smoothed loss; the loss starts to rise at a multiple of
it. No run folder is written.")]
pub struct LrFindArgs {
    /// Configuration and data
    #[command(flatten)]
    pub data: DataArgs,

    /// Learning rate of the first update
    #[arg(long, value_name = "RATE", default_value_t = 1e-6)]
    pub lowest: f64,

    /// Learning rate of the last update
    #[arg(long, value_name = "RATE", default_value_t = 1.0)]
    pub highest: f64,

    /// Number of updates; fewer if the loss diverges
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub updates: usize,

    /// Devices to train on
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Output file of the figure; its extension, .html, .svg or .png, selects the format
    #[arg(long, value_name = "FILE")]
    pub out: Option<std::path::PathBuf>,
}

/// Update of a range test.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    rate: f64,
    loss: f64,
}

/// Runs the range test and prints the learning rate of the steepest fall.
pub fn find(args: &LrFindArgs) -> anyhow::Result<u8> {
    let LrFindArgs { lowest, highest, updates, .. } = *args;
    if !(lowest > 0.0 && lowest < highest && highest.is_finite()) {
        let problem =
            format!("`--lowest` = {lowest} must be above 0 and below `--highest` = {highest}");
        return Err(Usage::new(problem).into());
    }
    if updates < 10 {
        return Err(Usage::new(format!("`--updates` = {updates} must be at least 10")).into());
    }
    let format = args.out.as_deref().map(Format::of).transpose()?;
    let mut layers = args.data.layers()?;
    for (key, value) in [("learning_rate", highest), ("min_learning_rate", lowest)] {
        layers.set_value(&format!("train.{key}"), value);
    }
    layers.set_value("train.max_steps", i64::try_from(updates)?);
    for setting in [
        "train.schedule=range-test",
        "train.epochs=1_000_000",
        "train.max_minutes=",
        "train.warmup_steps=0",
        "train.ema_decay=0.0",
        "train.on_nonfinite=stop",
        "metrics.every_steps=1",
        "validation.sentences=1",
        "validation.samples=0",
        "validation.every_epochs=1_000_000",
    ] {
        layers.set(setting)?;
    }
    let config = layers.build()?;
    if args.data.fetch {
        fetch::fetch_for(&config, args.data.quiet)?;
    }
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let (_, mut devices) = args.device.open(0)?;
    let device = devices.remove(0);
    let show = if args.data.quiet { ProgressMode::Quiet } else { ProgressMode::Lines };
    let signals = Signals::listen(!args.data.quiet)?;
    let result = Trainer::new(config, folder.path(), device)
        .with_devices(devices)
        .with_corpora(fetch::corpora())
        .with_progress(show)
        .with_interrupt(signals.stop())
        .run();
    match result {
        Ok(outcome) if outcome.interrupted => return Ok(signals.exit_code()),
        // The loss diverges at some learning rate.
        Ok(_) | Err(TrainError::NotFinite { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let points = smoothed(&read(folder.path())?);
    let Some(steepest) = steepest(&points) else {
        anyhow::bail!("the loss does not fall at any learning rate from {lowest} to {highest}");
    };
    writeln!(stdout(), "{:.1e}", steepest.rate)?;
    if let (Some(path), Some(format)) = (&args.out, format) {
        let svg = chart(&points, steepest).svg();
        let text = ["Loss of a training update over its learning rate, which grows geometrically \
                     (Smith 2017, section 3.3). The circle is the steepest fall of the smoothed loss."];
        let content = format.content(&svg, || html("Learning rates", &text, &svg))?;
        write_whole(path, &content)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        if !args.data.quiet {
            writeln!(stderr(), "written: {}", path.display())?;
        }
    }
    Ok(0)
}

/// Reads the updates of a run.
fn read(run: &Path) -> anyhow::Result<Vec<Point>> {
    let text = fs::read_to_string(run.join("metrics.jsonl")).context("cannot read the metrics")?;
    let point = |line: &str| {
        let record: Value = serde_json::from_str(line).ok()?;
        let number = |key: &str| record.get(key).and_then(Value::as_f64);
        (record.get("kind")? == "training")
            .then(|| Some(Point { rate: number("learning_rate")?, loss: number("loss")? }))?
    };
    Ok(text.lines().filter_map(point).collect())
}

/// Returns the points with a moving average of the loss, until it is four times the lowest.
fn smoothed(points: &[Point]) -> Vec<Point> {
    let (mut average, mut weight, mut lowest) = (0.0, 0.0, f64::INFINITY);
    let mut smoothed = Vec::new();
    for &Point { rate, loss } in points {
        average = SMOOTHING * average + (1.0 - SMOOTHING) * loss;
        weight = SMOOTHING * weight + (1.0 - SMOOTHING);
        let loss: f64 = average / weight;
        lowest = loss.min(lowest);
        if loss > 4.0 * lowest {
            break;
        }
        smoothed.push(Point { rate, loss });
    }
    smoothed
}

/// Returns the point before the lowest loss at which the loss falls most per factor of the learning rate;
/// `None` if it never falls.
fn steepest(points: &[Point]) -> Option<Point> {
    let lowest = points.iter().enumerate().min_by(|a, b| a.1.loss.total_cmp(&b.1.loss))?.0;
    let slope = |pair: &[Point]| (pair[1].loss - pair[0].loss) / (pair[1].rate / pair[0].rate).ln();
    let pairs = points[..=lowest].windows(2);
    let steepest = pairs.min_by(|a, b| slope(a).total_cmp(&slope(b)))?;
    (slope(steepest) < 0.0).then_some(steepest[1])
}

fn chart(points: &[Point], steepest: Point) -> Chart {
    let at = |point: &Point| (point.rate.log10(), point.loss);
    Chart {
        title: "Loss over the learning rate".into(),
        captions: vec![format!("steepest fall at {:.1e}", steepest.rate)],
        x_axis: "log10 of the learning rate".into(),
        y_axis: "smoothed loss".into(),
        series: vec![Series {
            name: "loss".into(),
            points: points.iter().map(at).collect(),
            marks: vec![at(&steepest)],
        }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(losses: &[f64]) -> Vec<Point> {
        let rate = |index: usize| 10_f64.powi(index as i32 - 6);
        losses.iter().enumerate().map(|(index, &loss)| Point { rate: rate(index), loss }).collect()
    }

    /// The loss falls by 0.1, 0.5, 2 and 0.4, and then rises.
    #[test]
    fn the_steepest_fall_is_found() {
        let found = steepest(&points(&[9.0, 8.9, 8.4, 6.4, 6.0, 20.0])).unwrap();
        assert_eq!((found.rate, found.loss), (1e-3, 6.4));
        assert_eq!(steepest(&points(&[1.0, 2.0, 3.0])), None);
        assert_eq!(steepest(&[]), None);
    }

    /// The average of equal losses is the loss; a loss that diverges ends the curve.
    #[test]
    fn the_curve_ends_where_the_loss_diverges() {
        let flat = smoothed(&points(&[3.0; 5]));
        assert!(flat.iter().all(|point| (point.loss - 3.0).abs() < 1e-12) && flat.len() == 5);
        assert_eq!(smoothed(&points(&[3.0, 3.0, 1e9, 3.0])).len(), 2);
    }
}
