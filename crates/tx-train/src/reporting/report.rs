//! Report of a run as a self-contained HTML page: curves, samples over time, configuration.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tx_infer::{figure::escape, file::write_whole};

use self::{
    attention::picture,
    chart::{Series, chart},
};
use super::progress::clock;
use crate::{
    config::CONFIG_FILE,
    error::TrainError,
    recording::metrics,
    translation::{sample::Sample, validation::Validation},
};

mod attention;
mod chart;

type Record = metrics::Record<Validation>;

/// Name of the report in a run folder.
const FILE: &str = "report.html";
/// Maximum number of validations whose samples are shown.
const SHOWN: usize = 12;

const STYLE: &str = "
:root { color-scheme: light dark; --line: #8886; --first: #1668b8; --second: #c8501e; }
@media (prefers-color-scheme: dark) { :root { --first: #6cb2f5; --second: #f59a6c; } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(440px, 1fr)); gap: 1.5em; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: currentColor; }
svg.attention rect { fill: var(--first); stroke: var(--line); stroke-width: .5; }
polyline { fill: none; stroke-width: 1.6; } .first { stroke: var(--first); color: var(--first); }
.second { stroke: var(--second); color: var(--second); } circle.second { fill: var(--second); }
.grid { stroke: var(--line); stroke-width: 1; } .key { font-weight: 400; margin-left: 1em; }
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
    let records = metrics::read(run)?;
    let path = run.join(CONFIG_FILE);
    let config = fs::read_to_string(&path).map_err(TrainError::reading(&path))?;
    let name = run.file_name().unwrap_or(run.as_os_str()).to_string_lossy();
    let path = run.join(FILE);
    write_whole(&path, page(&name, &records, &config).as_bytes())
        .map_err(TrainError::writing(&path))?;
    Ok(path)
}

fn page(name: &str, records: &[Record], config: &str) -> String {
    let training = |name, value: fn(&Record) -> Option<f64>| Series {
        name,
        points: records
            .iter()
            .filter_map(|record| Some((record.step() as f64, value(record)?)))
            .filter(|(_, value)| value.is_finite())
            .collect(),
    };
    let none = || Series { name: "", points: Vec::new() };
    let charts = [
        (
            "Loss, nats per target token",
            training("training", |record| match record {
                Record::Training { loss, .. } => Some(*loss),
                _ => None,
            }),
            training("validation", |record| Some(report(record)?.loss)),
        ),
        (
            "Accuracy, fraction of target tokens",
            training("training", |record| match record {
                Record::Training { accuracy, .. } => Some(*accuracy),
                _ => None,
            }),
            training("validation", |record| Some(report(record)?.accuracy)),
        ),
        ("BLEU", none(), training("validation", |record| Some(report(record)?.bleu))),
        ("chrF", none(), training("validation", |record| Some(report(record)?.chrf))),
        (
            "Exact matches, %",
            none(),
            training("validation", |record| Some(report(record)?.exact_match)),
        ),
        (
            "Learning rate",
            training("training", |record| match record {
                Record::Training { learning_rate, .. } => Some(*learning_rate),
                _ => None,
            }),
            none(),
        ),
        (
            "Gradient norm, before clipping",
            training("training", |record| match record {
                Record::Training { gradient_norm, .. } => Some(*gradient_norm),
                _ => None,
            }),
            none(),
        ),
        (
            "Target tokens per second",
            training("training", |record| match record {
                Record::Training { target_tokens_per_second, .. } => {
                    Some(*target_tokens_per_second)
                }
                _ => None,
            }),
            none(),
        ),
        (
            "Peak memory, MB",
            training("training", |record| match record {
                Record::Training { peak_megabytes, .. } => *peak_megabytes,
                _ => None,
            }),
            none(),
        ),
        (
            "GPU memory, MB",
            training("training", |record| match record {
                Record::Training { device_megabytes, .. } => *device_megabytes,
                _ => None,
            }),
            none(),
        ),
    ];
    let charts: String =
        charts.iter().map(|(title, first, second)| chart(title, first, second)).collect();
    let name = escape(name);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{name}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n{}\
         <div class=\"charts\">\n{charts}</div>\n{}{}<h2>Configuration</h2>\n<pre>{}</pre>\n\
         <p>tx {}</p>\n</body>\n</html>\n",
        summary(records),
        validations(records),
        samples(records),
        escape(config),
        env!("CARGO_PKG_VERSION"),
    )
}

fn report(record: &Record) -> Option<&Validation> {
    match record {
        Record::Validation { report, .. } => Some(report),
        Record::Training { .. } => None,
    }
}

/// Progress of the run, and its best model.
fn summary(records: &[Record]) -> String {
    let Some(last) = records.last() else { return "<p>No metrics yet.</p>\n".into() };
    let (Record::Training { step, epoch, seconds, .. }
    | Record::Validation { step, epoch, seconds, .. }) = last;
    let mut text = format!("<p>{step} updates, epoch {epoch}, {}.", clock(*seconds));
    let best = records.iter().rev().find_map(|record| match record {
        Record::Validation { best: true, step, report, .. } => Some((step, report)),
        _ => None,
    });
    if let Some((step, report)) = best {
        text += &format!(
            " Best model: update {step}, loss {:.4}, accuracy {:.2} %, BLEU {:.2} <code>{}</code>, \
             chrF {:.2}, exact matches {:.2} %.",
            report.loss,
            100.0 * report.accuracy,
            report.bleu,
            escape(&report.bleu_signature),
            report.chrf,
            report.exact_match
        );
    }
    text + "</p>\n"
}

/// Table of all validations.
fn validations(records: &[Record]) -> String {
    let mut text = String::from(
        "<h2>Validations</h2>\n<table>\n<tr><th class=\"number\">update</th>\
         <th class=\"number\">epoch</th><th class=\"number\">time</th>\
         <th class=\"number\">loss</th><th class=\"number\">perplexity</th>\
         <th class=\"number\">accuracy</th><th class=\"number\">BLEU</th>\
         <th class=\"number\">chrF</th>\
         <th class=\"number\">exact</th><th></th></tr>\n",
    );
    for record in records {
        let Record::Validation { step, epoch, seconds, best, report, perplexity } = record else {
            continue;
        };
        let cells = [
            step.to_string(),
            epoch.to_string(),
            clock(*seconds).to_string(),
            format!("{:.4}", report.loss),
            format!("{perplexity:.3}"),
            format!("{:.2} %", 100.0 * report.accuracy),
            format!("{:.2}", report.bleu),
            format!("{:.2}", report.chrf),
            format!("{:.2} %", report.exact_match),
        ];
        text += "<tr>";
        for cell in cells {
            text += &format!("<td class=\"number\">{cell}</td>");
        }
        text += &format!("<td>{}</td></tr>\n", if *best { "best so far" } else { "" });
    }
    text + "</table>\n"
}

/// Translations of each sample over time.
fn samples(records: &[Record]) -> String {
    let all: Vec<(usize, &[Sample])> = records
        .iter()
        .filter_map(|record| Some((record.step(), &report(record)?.samples[..])))
        .filter(|(_, samples)| !samples.is_empty())
        .collect();
    let Some((_, last)) = all.last() else { return String::new() };
    // Evenly spaced, including the last one.
    let every = all.len().div_ceil(SHOWN);
    let shown: Vec<_> = all.iter().rev().step_by(every).rev().collect();
    let mut text = String::from("<h2>Samples</h2>\n");
    for Sample { source, reference, attention, .. } in *last {
        text += &format!(
            "<table>\n<tr><th class=\"number\">source</th><td>{}</td></tr>\n\
             <tr><th class=\"number\">reference</th><td>{}</td></tr>\n",
            escape(source),
            escape(reference)
        );
        for (step, samples) in &shown {
            for sample in samples.iter().filter(|sample| sample.source == *source).take(1) {
                text += &format!(
                    "<tr><td class=\"number\">{step}</td><td>{}</td></tr>\n",
                    escape(&sample.hypothesis)
                );
            }
        }
        text += "</table>\n";
        text += &picture(attention);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translation::sample::CrossAttention;

    #[test]
    fn text_cannot_become_markup() {
        let report = Validation {
            loss: 1.0,
            accuracy: 0.5,
            bleu: 10.0,
            bleu_signature: "nrefs:1".into(),
            chrf: 20.0,
            exact_match: 0.0,
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
        let page = page("<run>", &[record], "a = \"<b>\"");
        for text in ["<script", "<run>", "<b>", "\"</td>\""] {
            assert!(!page.contains(text), "{text}");
        }
        assert!(page.contains("a &amp; b") && page.contains("&lt;script&gt;"));
        assert!(page.contains("3 updates, epoch 1, 00:01:01. Best model: update 3"));
    }
}
