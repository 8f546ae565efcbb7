//! Comparison of runs: progress, best validation, and differences of their configurations.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use tx_infer::TaskKind;

use super::{
    parameters::RecordedParameters,
    progress::{clock, thousands},
};
use crate::{
    classification::report::ClassificationReport,
    config::{CONFIG_FILE, table::settings, task_of_run},
    error::TrainError,
    language_modeling::report::LanguageModelReport,
    masked_language_modeling::report::MaskedLanguageModelReport,
    recording::metrics::{self, Record},
    translation::validation::Validation,
    validation_report::{Figure, ValidationReport},
};

/// Returns a table of the runs in the folders `runs`, one column per run: last update, best
/// validation, and the settings in which they differ.
///
/// # Errors
///
/// If a run has no configuration or no metrics, or one cannot be read.
pub fn compare(runs: &[PathBuf]) -> Result<String, TrainError> {
    let read: Vec<Run> = runs.iter().map(|run| Run::read(run)).collect::<Result<_, _>>()?;
    let mut rows = vec![row("", &read, |run| run.name.clone())];
    rows.extend(ROWS.iter().map(|(name, text)| row(name, &read, text)));
    let mut headings: Vec<String> = Vec::new();
    for heading in read.iter().flat_map(|run| &run.figures).map(Figure::heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    rows.extend(headings.iter().map(|heading| row(heading, &read, |run| run.figure(heading))));
    let keys: BTreeSet<&String> = read.iter().flat_map(|run| run.settings.keys()).collect();
    for key in keys {
        let row = row(key, &read, |run| run.settings.get(key).cloned().unwrap_or_default());
        if row[1..].windows(2).any(|values| values[0] != values[1]) {
            rows.push(row);
        }
    }
    Ok(aligned(&rows))
}

/// Row of the table: name, and text for a run.
type Row = (&'static str, fn(&Run) -> String);

const ROWS: &[Row] = &[
    ("updates", |run| of_last(run, |last| last.step.to_string())),
    ("epochs", |run| of_last(run, |last| last.epoch.to_string())),
    ("time", |run| of_last(run, |last| clock(last.seconds).to_string())),
    ("target tokens/s", |run| rounded(run.speed)),
    ("memory, MB", |run| rounded(run.peak_megabytes)),
    ("parameters", |run| of_parameters(run, |parameters| parameters.all)),
    ("trained parameters", |run| of_parameters(run, |parameters| parameters.trained)),
    ("best update", |run| run.best_step.map_or_else(|| "–".into(), |step| step.to_string())),
];

/// Metrics and settings of a run.
pub(super) struct Run {
    name: String,
    last: Option<Last>,
    /// Median of the recorded speeds, in target tokens per second.
    speed: Option<f64>,
    peak_megabytes: Option<f64>,
    /// Numbers of parameters; `None` before the first validation.
    parameters: Option<RecordedParameters>,
    /// Update of the best model.
    best_step: Option<usize>,
    /// Metrics of the best model.
    pub figures: Vec<Figure>,
    /// Values by `section.key`.
    settings: BTreeMap<String, String>,
}

/// Position of the last record.
struct Last {
    step: usize,
    epoch: usize,
    seconds: f64,
}

impl Run {
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        match task_of_run(path)? {
            TaskKind::Translate => Self::read_as::<Validation>(path),
            TaskKind::Classify => Self::read_as::<ClassificationReport>(path),
            TaskKind::Generate => Self::read_as::<LanguageModelReport>(path),
            TaskKind::FillMask => Self::read_as::<MaskedLanguageModelReport>(path),
        }
    }

    fn read_as<R: ValidationReport>(path: &Path) -> Result<Self, TrainError> {
        let records = metrics::read::<R>(path)?;
        let file = path.join(CONFIG_FILE);
        let text = fs::read_to_string(&file).map_err(TrainError::reading(&file))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| TrainError::Config {
                location: file.display().to_string(),
                problem: error.message().to_owned(),
                nearest: None,
            })?;
        let (mut speeds, mut peaks, mut best) = (Vec::new(), Vec::new(), None);
        for record in &records {
            match record {
                Record::Training { target_tokens_per_second, peak_megabytes, .. } => {
                    speeds.push(*target_tokens_per_second);
                    peaks.extend(*peak_megabytes);
                }
                Record::Validation { best: true, step, report, .. } => best = Some((*step, report)),
                Record::Validation { .. } => {}
            }
        }
        speeds.sort_by(f64::total_cmp);
        let last = records.last().map(|record| {
            let (Record::Training { step, epoch, seconds, .. }
            | Record::Validation { step, epoch, seconds, .. }) = record;
            Last { step: *step, epoch: *epoch, seconds: *seconds }
        });
        Ok(Self {
            name: path.display().to_string(),
            last,
            speed: speeds.get(speeds.len() / 2).copied(),
            peak_megabytes: peaks.into_iter().reduce(f64::max),
            parameters: RecordedParameters::read(path),
            best_step: best.map(|(step, _)| step),
            figures: best.map(|(_, report)| report.figures()).unwrap_or_default(),
            settings: settings(&table),
        })
    }

    /// Metric of the best model, by its heading.
    fn figure(&self, heading: &str) -> String {
        let figure = self.figures.iter().find(|figure| figure.heading() == heading);
        figure.map_or_else(|| "–".into(), Figure::number)
    }
}

fn of_last(run: &Run, text: impl Fn(&Last) -> String) -> String {
    run.last.as_ref().map_or_else(|| "–".into(), text)
}

fn of_parameters(run: &Run, number: impl Fn(RecordedParameters) -> u64) -> String {
    run.parameters.map_or_else(|| "–".into(), |parameters| number(parameters).to_string())
}

fn rounded(value: Option<f64>) -> String {
    value.map_or_else(|| "–".into(), |value| thousands(value).to_string())
}

fn row(name: &str, runs: &[Run], text: impl Fn(&Run) -> String) -> Vec<String> {
    [name.to_owned()].into_iter().chain(runs.iter().map(text)).collect()
}

/// Aligns columns two spaces apart, the first on the left, the others on the right.
pub(super) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            match column {
                0 => text += &format!("{cell:<width$}"),
                _ => text += &format!("  {cell:>width$}"),
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_figures_and_differences() {
        let folder = tempfile::tempdir().unwrap();
        let run = |name: &str, seed: usize, steps: &[(usize, f64, bool)]| {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            let text = format!("recipe = \"small\"\n[train]\nseed = {seed}\nepochs = 3\n");
            fs::write(path.join(CONFIG_FILE), text).unwrap();
            let mut lines = String::new();
            for (step, bleu, best) in steps {
                let validation = format!(
                    "{{\"kind\":\"validation\",\"step\":{step},\"epoch\":1,\"seconds\":61.0,\
                     \"best\":{best},\"loss\":0.0,\"accuracy\":0.5,\"bleu\":{bleu},\
                     \"bleu_signature\":\"\",\"chrf\":50.0,\"exact_match\":1.0,\"samples\":[],\
                     \"validation_seconds\":1.0,\"perplexity\":1.0}}\n"
                );
                lines += &validation;
            }
            fs::write(path.join("metrics.jsonl"), lines).unwrap();
            path
        };
        let one = run("one", 1, &[(10, 20.0, true), (20, 19.0, false)]);
        let two = run("two", 22, &[(10, 20.0, true), (20, 21.5, true)]);
        let table = compare(&[one.clone(), two]).unwrap();
        let lines: Vec<Vec<&str>> =
            table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        for line in [
            &["updates", "20", "20"][..],
            &["time", "00:01:01", "00:01:01"],
            &["best", "update", "10", "20"],
            &["perplexity", "1.000", "1.000"],
            &["BLEU", "20.00", "21.50"],
            &["train.seed", "1", "22"],
        ] {
            assert!(lines.contains(&line.to_vec()), "{line:?} in\n{table}");
        }
        assert!(!table.contains("epochs = ") && !table.contains("train.epochs"));
        let error = compare(&[one, folder.path().join("none")]).unwrap_err();
        assert!(error.to_string().contains("train.toml"), "{error}");
    }
}
