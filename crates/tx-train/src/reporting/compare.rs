//! Comparison of runs: progress, best validation, and differences of their configurations.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::progress::{clock, thousands};
use crate::{
    config::{CONFIG_FILE, diff::settings},
    error::TrainError,
    recording::metrics,
    translation::validation::Validation,
};

type Record = metrics::Record<Validation>;

/// Returns a table of the runs in the folders `runs`, one column per run: last update, best
/// validation, and the settings in which they differ.
///
/// # Errors
///
/// If a run has no configuration or no metrics, or one cannot be read.
pub fn compare(runs: &[PathBuf]) -> Result<String, TrainError> {
    let read: Vec<Run> = runs.iter().map(|run| Run::read(run)).collect::<Result<_, _>>()?;
    let mut rows = vec![row("", &read, |run| run.name.clone())];
    rows.extend(FIGURES.iter().map(|(name, figure)| row(name, &read, figure)));
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
type Figure = (&'static str, fn(&Run) -> String);

const FIGURES: &[Figure] = &[
    ("updates", |run| run.last(|step, _, _| step.to_string())),
    ("epochs", |run| run.last(|_, epoch, _| epoch.to_string())),
    ("time", |run| run.last(|_, _, seconds| clock(seconds).to_string())),
    ("target tokens/s", Run::speed),
    ("memory, MB", Run::memory),
    ("best update", |run| run.best(|step, _| step.to_string())),
    ("loss", |run| run.best(|_, report| format!("{:.4}", report.loss))),
    ("perplexity", |run| run.best(|_, report| format!("{:.3}", report.perplexity()))),
    ("accuracy, %", |run| run.best(|_, report| format!("{:.2}", 100.0 * report.accuracy))),
    ("BLEU", |run| run.best(|_, report| format!("{:.2}", report.bleu))),
    ("chrF", |run| run.best(|_, report| format!("{:.2}", report.chrf))),
    ("exact, %", |run| run.best(|_, report| format!("{:.2}", report.exact_match))),
];

/// Metrics and settings of a run.
struct Run {
    name: String,
    records: Vec<Record>,
    /// Values by `section.key`.
    settings: BTreeMap<String, String>,
}

impl Run {
    fn read(path: &Path) -> Result<Self, TrainError> {
        let records = metrics::read(path)?;
        let file = path.join(CONFIG_FILE);
        let text = fs::read_to_string(&file).map_err(TrainError::reading(&file))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| TrainError::Config {
                location: file.display().to_string(),
                problem: error.message().to_owned(),
                nearest: None,
            })?;
        Ok(Self { name: path.display().to_string(), records, settings: settings(&table) })
    }

    fn last(&self, text: impl Fn(usize, usize, f64) -> String) -> String {
        match self.records.last() {
            Some(
                Record::Training { step, epoch, seconds, .. }
                | Record::Validation { step, epoch, seconds, .. },
            ) => text(*step, *epoch, *seconds),
            None => "–".into(),
        }
    }

    fn best(&self, text: impl Fn(usize, &Validation) -> String) -> String {
        let best = self.records.iter().rev().find_map(|record| match record {
            Record::Validation { best: true, step, report, .. } => Some(text(*step, report)),
            _ => None,
        });
        best.unwrap_or_else(|| "–".into())
    }

    /// Median of the recorded speeds.
    fn speed(&self) -> String {
        let mut speeds: Vec<f64> = self
            .records
            .iter()
            .filter_map(|record| match record {
                Record::Training { target_tokens_per_second, .. } => {
                    Some(*target_tokens_per_second)
                }
                Record::Validation { .. } => None,
            })
            .collect();
        speeds.sort_by(f64::total_cmp);
        speeds
            .get(speeds.len() / 2)
            .map_or_else(|| "–".into(), |speed| thousands(*speed).to_string())
    }

    fn memory(&self) -> String {
        let peaks = self.records.iter().filter_map(|record| match record {
            Record::Training { peak_megabytes, .. } => *peak_megabytes,
            Record::Validation { .. } => None,
        });
        peaks.reduce(f64::max).map_or_else(|| "–".into(), |peak| thousands(peak).to_string())
    }
}

fn row(name: &str, runs: &[Run], text: impl Fn(&Run) -> String) -> Vec<String> {
    [name.to_owned()].into_iter().chain(runs.iter().map(text)).collect()
}

/// Aligns columns two spaces apart, the first on the left, the others on the right.
fn aligned(rows: &[Vec<String>]) -> String {
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
        assert!(error.to_string().contains("metrics.jsonl"), "{error}");
    }
}
