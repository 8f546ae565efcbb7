//! Runs side by side: how far they came, how good they are, and what they were told differently.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{
    config::CONFIG_FILE,
    config::diff::settings,
    error::TrainError,
    recording::metrics::{self, Record},
    reporting::progress::{clock, thousands},
};

/// A table of the runs in the folders `runs`, a column each: their last update and their best
/// validation, then the settings in which they differ.
///
/// # Errors
///
/// When a run has no configuration or no metrics, or one cannot be read.
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

/// A line of the table, with the text of a run.
type Figure = (&'static str, fn(&Run) -> String);

const FIGURES: &[Figure] = &[
    ("updates", |run| run.last(|step, _, _| step.to_string())),
    ("epochs", |run| run.last(|_, epoch, _| epoch.to_string())),
    ("time", |run| run.last(|_, _, seconds| clock(seconds).to_string())),
    ("target tokens/s", Run::speed),
    ("memory, MB", Run::memory),
    ("best update", |run| run.best(|step, _| step.to_string())),
    ("loss", |run| run.best(|_, found| format!("{:.4}", found.loss))),
    ("perplexity", |run| run.best(|_, found| format!("{:.3}", found.perplexity()))),
    ("accuracy, %", |run| run.best(|_, found| format!("{:.2}", 100.0 * found.accuracy))),
    ("BLEU", |run| run.best(|_, found| format!("{:.2}", found.bleu))),
    ("chrF", |run| run.best(|_, found| format!("{:.2}", found.chrf))),
    ("exact, %", |run| run.best(|_, found| format!("{:.2}", found.exact_match))),
];

/// What is known of a run.
struct Run {
    name: String,
    records: Vec<Record>,
    /// By `section.key`.
    settings: BTreeMap<String, String>,
}

impl Run {
    fn read(path: &Path) -> Result<Self, TrainError> {
        let records = metrics::read(path)?;
        let file = path.join(CONFIG_FILE);
        let text = fs::read_to_string(&file)
            .map_err(|source| TrainError::Read { path: file.clone(), source })?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| TrainError::Config {
                place: file.display().to_string(),
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

    fn best(&self, text: impl Fn(usize, &crate::Validation) -> String) -> String {
        let best = self.records.iter().rev().find_map(|record| match record {
            Record::Validation { best: true, step, found, .. } => Some(text(*step, found)),
            _ => None,
        });
        best.unwrap_or_else(|| "–".into())
    }

    /// The median of what was noted.
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

/// Columns two spaces apart: the first on the left, the others on the right.
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
    fn figures_and_differences_side_by_side() {
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
