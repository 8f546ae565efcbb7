//! Report of a run as a self-contained HTML page: curves, samples over time, configuration.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tx_infer::{
    TaskKind,
    figure::{
        chart::{Chart, Series},
        escape,
    },
    file::write_whole,
};

use self::attention::picture;
use super::{parameters::RecordedParameters, progress::clock};
use crate::{
    classification::report::ClassificationReport,
    config::{CONFIG_FILE, task_of_run},
    error::TrainError,
    language_modeling::report::LanguageModelReport,
    masked_language_modeling::report::MaskedLanguageModelReport,
    recording::metrics::{self, Record},
    translation::validation::Validation,
    validation_report::{Figure, Format, SampleOutput, Table, ValidationReport},
};

mod attention;

/// Name of the report in a run folder.
const FILE: &str = "report.html";
/// Maximum number of validations whose samples are shown.
const SHOWN: usize = 12;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8886; --weight: #1668b8; }
@media (prefers-color-scheme: dark) { :root { --weight: #6cb2f5; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 1.5em; }
svg { width: 100%; height: auto; }
svg.attention text { font-size: 12px; fill: currentColor; }
svg.attention rect { fill: var(--weight); stroke: var(--line); stroke-width: .5; }
table { border-collapse: collapse; width: 100%; margin: .5em 0 1.5em; }
td, th { border-bottom: 1px solid var(--line); padding: .25em .6em; text-align: left; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; }
pre { overflow-x: auto; padding: 1em; border: 1px solid var(--line); }
";

/// Writes the report of the run in `run`, and returns its path.
///
/// # Errors
///
/// If the run has no metrics, or a file cannot be read or written.
pub fn write(run: &Path) -> Result<PathBuf, TrainError> {
    match task_of_run(run)? {
        TaskKind::Translate => write_as::<Validation>(run),
        TaskKind::Classify => write_as::<ClassificationReport>(run),
        TaskKind::Generate => write_as::<LanguageModelReport>(run),
        TaskKind::FillMask => write_as::<MaskedLanguageModelReport>(run),
    }
}

/// Writes the report of the run in `run`, whose task has the validation report `R`.
///
/// # Errors
///
/// Same as [`write()`].
pub(crate) fn write_as<R: ValidationReport>(run: &Path) -> Result<PathBuf, TrainError> {
    let records = metrics::read::<R>(run)?;
    let path = run.join(CONFIG_FILE);
    let config = fs::read_to_string(&path).map_err(TrainError::reading(&path))?;
    let name = run.file_name().unwrap_or(run.as_os_str()).to_string_lossy();
    let path = run.join(FILE);
    let parameters = RecordedParameters::read(run);
    write_whole(&path, page(&name, &records, &config, parameters).as_bytes())
        .map_err(TrainError::writing(&path))?;
    Ok(path)
}

/// Line of a chart: update and value of each record that has one.
fn series<R>(
    records: &[Record<R>],
    name: &str,
    value: impl Fn(&Record<R>) -> Option<f64>,
) -> Series {
    let points: Vec<_> = records
        .iter()
        .filter_map(|record| Some((record.step() as f64, value(record)?)))
        .filter(|(_, value)| value.is_finite())
        .collect();
    Series { name: name.into(), points, marks: Vec::new() }
}

/// Chart over the updates, without lines that have no point; `None` if none has.
fn chart<const N: usize>(title: String, series: [Series; N]) -> Option<Chart> {
    let series: Vec<Series> = series.into_iter().filter(|line| !line.points.is_empty()).collect();
    let x_axis = "update".into();
    (!series.is_empty()).then(|| Chart { title, x_axis, series, ..Chart::default() })
}

/// Charts of the metrics of validations; loss and accuracy include those of training.
fn validation_charts<R: ValidationReport>(records: &[Record<R>]) -> Vec<Chart> {
    let Some(first) = records.iter().find_map(report) else { return Vec::new() };
    let charted = first.figures().into_iter().filter(|figure| figure.key != "perplexity");
    let unit = R::UNIT;
    let of_figure = |Figure { key, title, format, .. }: Figure| {
        let mut validation = series(records, "validation", |record| {
            let figures = report(record)?.figures();
            figures.iter().find(|figure| figure.key == key).map(|figure| figure.value)
        });
        validation.marks = validation.points.clone();
        let training = series(records, "training", |record| match record {
            // Like the loss of validations, without label smoothing.
            Record::Training { nll, .. } if key == "loss" => Some(*nll),
            Record::Training { accuracy, .. } if key == "accuracy" => Some(*accuracy),
            _ => None,
        });
        let title = match (key, format) {
            ("loss", _) => format!("Loss, nats per {unit}"),
            ("accuracy", _) => format!("Accuracy, fraction of {unit}s"),
            (_, Format::Percent) => format!("{title}, %"),
            (_, Format::Fraction | Format::Decimals(_)) => title.into(),
        };
        chart(title, [training, validation])
    };
    charted.filter_map(of_figure).collect()
}

fn page<R: ValidationReport>(
    name: &str,
    records: &[Record<R>],
    config: &str,
    parameters: Option<RecordedParameters>,
) -> String {
    let training = |title: String, value: fn(&Record<R>) -> Option<f64>| {
        chart(title, [series(records, "training", value)])
    };
    let mut charts = validation_charts(records);
    if charts.is_empty() {
        let title = format!("Loss, nats per {}", R::UNIT);
        charts.extend(training(title, |record| match record {
            Record::Training { loss, .. } => Some(*loss),
            Record::Validation { .. } => None,
        }));
    }
    let of_updates = [
        training("Learning rate".into(), |record| match record {
            Record::Training { learning_rate, .. } => Some(*learning_rate),
            Record::Validation { .. } => None,
        }),
        training("Gradient norm, before clipping".into(), |record| match record {
            Record::Training { gradient_norm, .. } => Some(*gradient_norm),
            Record::Validation { .. } => None,
        }),
        training(format!("{} per second", capitalized_plural(R::UNIT)), |record| match record {
            Record::Training { target_tokens_per_second, .. } => Some(*target_tokens_per_second),
            Record::Validation { .. } => None,
        }),
        training("Peak memory, MB".into(), |record| match record {
            Record::Training { peak_megabytes, .. } => *peak_megabytes,
            Record::Validation { .. } => None,
        }),
        training("GPU memory, MB".into(), |record| match record {
            Record::Training { device_megabytes, .. } => *device_megabytes,
            Record::Validation { .. } => None,
        }),
    ];
    charts.extend(of_updates.into_iter().flatten());
    let charts: String = charts.iter().map(Chart::svg).collect();
    let name = escape(name);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{name}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n{}\
         <div class=\"charts\">\n{charts}</div>\n{}{}{}<h2>Configuration</h2>\n<pre>{}</pre>\n\
         <p>tx {}</p>\n</body>\n</html>\n",
        summary(records, parameters),
        validations(records),
        tables(records),
        samples(records),
        escape(config),
        env!("CARGO_PKG_VERSION"),
    )
}

/// `target token` to `Target tokens`.
fn capitalized_plural(unit: &str) -> String {
    let mut letters = unit.chars();
    letters
        .next()
        .map_or_else(String::new, |first| format!("{}{}s", first.to_uppercase(), letters.as_str()))
}

fn report<R>(record: &Record<R>) -> Option<&R> {
    match record {
        Record::Validation { report, .. } => Some(report),
        Record::Training { .. } => None,
    }
}

/// Update and report of the best model.
fn best<R>(records: &[Record<R>]) -> Option<(usize, &R)> {
    records.iter().rev().find_map(|record| match record {
        Record::Validation { best: true, step, report, .. } => Some((*step, report)),
        _ => None,
    })
}

/// Progress of the run, and its best model.
fn summary<R: ValidationReport>(
    records: &[Record<R>],
    parameters: Option<RecordedParameters>,
) -> String {
    let Some(last) = records.last() else { return "<p>No metrics yet.</p>\n".into() };
    let (Record::Training { step, epoch, seconds, .. }
    | Record::Validation { step, epoch, seconds, .. }) = last;
    let mut text = format!("<p>{step} updates, epoch {epoch}, {}.", clock(*seconds));
    if let Some((step, report)) = best(records) {
        text += &format!(" Best model: update {step}");
        for figure in report.figures() {
            text += &format!(", {} {}", figure.name, figure.text());
        }
        if let Some((_, note)) = report.note() {
            text += &format!(" <code>{}</code>", escape(note));
        }
        text += ".";
    }
    if let Some(RecordedParameters { all, trained }) = parameters {
        text += &format!(" {trained} of {all} parameters trained.");
    }
    text + "</p>\n"
}

/// Table of all validations.
fn validations<R: ValidationReport>(records: &[Record<R>]) -> String {
    let Some(first) = records.iter().find_map(report) else { return String::new() };
    let heading = |name: &str| format!("<th class=\"number\">{name}</th>");
    let mut text = "<h2>Validations</h2>\n<table>\n<tr>".to_owned();
    text.extend(["update", "epoch", "time"].map(heading));
    text.extend(first.figures().iter().map(|figure| heading(figure.name)));
    text += "<th></th></tr>\n";
    for record in records {
        let Record::Validation { step, epoch, seconds, best, report, .. } = record else {
            continue;
        };
        let mut cells = vec![step.to_string(), epoch.to_string(), clock(*seconds).to_string()];
        cells.extend(report.figures().iter().map(Figure::text));
        text += "<tr>";
        for cell in cells {
            text += &format!("<td class=\"number\">{cell}</td>");
        }
        text += &format!("<td>{}</td></tr>\n", if *best { "best so far" } else { "" });
    }
    text + "</table>\n"
}

/// Tables of the best model.
fn tables<R: ValidationReport>(records: &[Record<R>]) -> String {
    let mut text = String::new();
    for Table { title, rows } in best(records).map(|(_, best)| best.tables()).unwrap_or_default() {
        text += &format!("<h2>{}</h2>\n<table>\n", escape(title));
        for (row, cells) in rows.iter().enumerate() {
            let tag = if row == 0 { "th" } else { "td" };
            text += "<tr>";
            for (column, cell) in cells.iter().enumerate() {
                let class = if column == 0 { "" } else { " class=\"number\"" };
                text += &format!("<{tag}{class}>{}</{tag}>", escape(cell));
            }
            text += "</tr>\n";
        }
        text += "</table>\n";
    }
    text
}

/// Outputs of each sample over time.
fn samples<R: ValidationReport>(records: &[Record<R>]) -> String {
    let all: Vec<(usize, Vec<SampleOutput<'_>>)> = records
        .iter()
        .filter_map(|record| Some((record.step(), report(record)?.samples())))
        .filter(|(_, samples)| !samples.is_empty())
        .collect();
    let Some((_, last)) = all.last() else { return String::new() };
    // Evenly spaced, including the last one.
    let every = all.len().div_ceil(SHOWN);
    let shown: Vec<_> = all.iter().rev().step_by(every).rev().collect();
    let mut text = String::from("<h2>Samples</h2>\n");
    let row = |name: &str, cell: &str| {
        format!("<tr><th class=\"number\">{name}</th><td>{}</td></tr>\n", escape(cell))
    };
    for SampleOutput { given, attention, .. } in last {
        text += "<table>\n";
        text.extend(given.iter().map(|(name, cell)| row(name, cell)));
        for (step, samples) in &shown {
            for sample in samples.iter().filter(|sample| sample.given == *given).take(1) {
                text += &format!(
                    "<tr><td class=\"number\">{step}</td><td>{}</td></tr>\n",
                    escape(&sample.output.1)
                );
            }
        }
        text += "</table>\n";
        text.extend(attention.map(picture));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translation::sample::{CrossAttention, Sample};

    #[test]
    fn text_cannot_become_markup() {
        let report = Validation {
            loss: 1.0,
            accuracy: 0.5,
            bleu: 10.0,
            bleu_signature: "nrefs:1".into(),
            chrf: 20.0,
            exact_match: 0.0,
            sets: Vec::new(),
            samples: vec![Sample {
                source: "<script>".into(),
                reference: "a & b".into(),
                hypothesis: "\"</td>".into(),
                attention: CrossAttention {
                    source: vec!["<b>".into()],
                    target: vec!["&".into(), "<eos>".into()],
                    weights: vec![vec![1_000], vec![250]],
                },
            }],
            seconds: 1.0,
        };
        let record = Record::Validation {
            step: 3,
            epoch: 1,
            seconds: 61.0,
            best: true,
            perplexity: report.perplexity(),
            report,
        };
        let parameters = Some(RecordedParameters { all: 12, trained: 7 });
        let page = page("<run>", &[record], "a = \"<b>\"", parameters);
        assert!(page.contains("7 of 12 parameters trained."));
        for text in ["<script", "<run>", "<b>", "\"</td>\""] {
            assert!(!page.contains(text), "{text}");
        }
        assert!(page.contains("a &amp; b") && page.contains("&lt;script&gt;"));
        assert!(page.contains("3 updates, epoch 1, 00:01:01. Best model: update 3"));
        for title in ["Loss, nats per target token", "Exact matches, %"] {
            assert!(page.contains(title), "{title}");
        }
    }
}
