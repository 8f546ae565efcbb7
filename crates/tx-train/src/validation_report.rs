//! Interface between the reports of the tasks' validations and metrics, progress, pages and tables.

use std::borrow::Cow;

use serde::{Serialize, de::DeserializeOwned};

use crate::translation::sample::CrossAttention;

/// Position in training at which a model was validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Epoch, from 1.
    pub epoch: usize,
    /// Update, from 1.
    pub step: usize,
}

/// Result of a validation, for metrics, progress, the dashboard and the report page.
pub trait ValidationReport: Clone + Serialize + DeserializeOwned + Send + 'static {
    /// Name of the metric that the dashboard plots besides loss and accuracy.
    const FIGURE: &'static str;
    /// Singular name of the unit over which loss and accuracy are averaged.
    const UNIT: &'static str;

    /// Returns the value of [`FIGURE`](Self::FIGURE); higher is better.
    fn figure(&self) -> f64;

    /// Returns all metrics, of which the first three are loss, perplexity and accuracy.
    fn figures(&self) -> Vec<Figure>;

    /// Returns the perplexity of the validation set.
    fn perplexity(&self) -> f64;

    /// Returns the seconds that the validation took.
    fn seconds(&self) -> f64;

    /// Returns sample outputs.
    fn samples(&self) -> Vec<SampleOutput<'_>>;

    /// Returns tables for the report page.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }

    /// Returns the key and the text of a note about the metrics, such as a signature.
    fn note(&self) -> Option<(&'static str, &str)> {
        None
    }

    /// Returns named values for TensorBoard.
    fn scalars(&self) -> Vec<(Cow<'static, str>, f64)> {
        self.figures().into_iter().map(|figure| (figure.key.into(), figure.value)).collect()
    }

    /// Returns the scores of a model for the provenance of its bundle.
    fn scores(&self, position: Position) -> toml::Table {
        scores_of(position, &self.figures(), self.note())
    }

    /// Returns all metrics in one line of text.
    fn summary(&self) -> String {
        let figures = self.figures();
        let figures: Vec<String> =
            figures.iter().map(|figure| format!("{} {}", figure.name, figure.text())).collect();
        figures.join("  ")
    }

    /// Returns a line of metrics for each of several parts of the validation data.
    fn part_lines(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns sample outputs as lines of text.
    fn sample_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for SampleOutput { given, output: (name, text), .. } in self.samples() {
            lines.extend(given.iter().map(|(name, text)| format!("{name:<11} {text}")));
            lines.push(format!("{name:<11} {text}"));
        }
        lines
    }

    /// Returns sample outputs as a Markdown table; `None` without samples.
    fn sample_table(&self) -> Option<String> {
        let samples = self.samples();
        let first = samples.first()?;
        let row = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
        let names: Vec<&str> =
            first.given.iter().map(|(name, _)| *name).chain([first.output.0]).collect();
        let mut table = row(&names) + &format!("|{}\n", "---|".repeat(names.len()));
        for SampleOutput { given, output: (_, output), .. } in &samples {
            let cells: Vec<String> = given
                .iter()
                .map(|(_, text)| *text)
                .chain([output.as_ref()])
                .map(|text| text.replace('|', "\\|").replace('\n', " "))
                .collect();
            table += &row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
        }
        Some(table)
    }
}

/// Returns the scores of a model for the provenance of its bundle.
pub(crate) fn scores_of(
    Position { epoch, step }: Position,
    figures: &[Figure],
    note: Option<(&'static str, &str)>,
) -> toml::Table {
    let mut scores = toml::Table::new();
    scores.insert("epoch".into(), (epoch as i64).into());
    scores.insert("step".into(), (step as i64).into());
    for Figure { key, value, .. } in figures {
        scores.insert((*key).into(), (*value).into());
    }
    if let Some((key, text)) = note {
        scores.insert(key.into(), text.into());
    }
    scores
}

/// Metric of a validation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// Key in TensorBoard and provenance, such as `exact_match`.
    pub key: &'static str,
    /// Short name, such as `exact`.
    pub name: &'static str,
    /// Title of a chart, such as `Exact matches`.
    pub title: &'static str,
    /// Value.
    pub value: f64,
    /// Text form of the value.
    pub format: Format,
}

/// Text form of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Number with this many decimals.
    Decimals(usize),
    /// Fraction, written in percent.
    Fraction,
    /// Value in percent.
    Percent,
}

impl Figure {
    /// Creates a metric.
    pub fn new(
        key: &'static str,
        name: &'static str,
        title: &'static str,
        value: f64,
        format: Format,
    ) -> Self {
        Self { key, name, title, value, format }
    }

    /// Returns loss in nats, perplexity and accuracy as a fraction, which every report has.
    pub fn of_every_task(loss: f64, perplexity: f64, accuracy: f64) -> [Self; 3] {
        [
            Self::new("loss", "loss", "Loss", loss, Format::Decimals(4)),
            Self::new("perplexity", "perplexity", "Perplexity", perplexity, Format::Decimals(3)),
            Self::new("accuracy", "accuracy", "Accuracy", accuracy, Format::Fraction),
        ]
    }

    /// Returns the value without its unit.
    pub fn number(&self) -> String {
        match self.format {
            Format::Decimals(decimals) => format!("{:.decimals$}", self.value),
            Format::Fraction => format!("{:.2}", 100.0 * self.value),
            Format::Percent => format!("{:.2}", self.value),
        }
    }

    /// Returns the value with its unit.
    pub fn text(&self) -> String {
        match self.format {
            Format::Decimals(_) => self.number(),
            Format::Fraction | Format::Percent => format!("{} %", self.number()),
        }
    }

    /// Returns the short name with the unit.
    pub fn heading(&self) -> String {
        match self.format {
            Format::Decimals(_) => self.name.into(),
            Format::Fraction | Format::Percent => format!("{}, %", self.name),
        }
    }
}

/// Sample output of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleOutput<'a> {
    /// Names and texts of the input and of the reference, if any. They are the same in each
    /// validation.
    pub given: Vec<(&'static str, &'a str)>,
    /// Name and text of the output.
    pub output: (&'static str, Cow<'a, str>),
    /// Cross-attention of the output, if the model has any.
    pub attention: Option<&'a CrossAttention>,
}

/// Table of the report page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Title.
    pub title: &'static str,
    /// Cells by row; the first row contains the headings, the first column the names of the rows.
    pub rows: Vec<Vec<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_with_their_units() {
        let figure = |value, format| Figure::new("k", "name", "Name", value, format);
        let loss = figure(1.23456, Format::Decimals(4));
        assert_eq!((loss.text(), loss.heading()), ("1.2346".into(), "name".into()));
        for figure in [figure(0.995, Format::Fraction), figure(99.5, Format::Percent)] {
            assert_eq!((figure.text(), figure.heading()), ("99.50 %".into(), "name, %".into()));
        }
    }
}
