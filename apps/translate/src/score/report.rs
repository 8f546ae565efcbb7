//! Output of scores as text and JSON.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tx_eval::{
    Score, Signature,
    confidence::{Confidence, Interval},
    paired::SystemResult,
};

/// Number of digits after the decimal point.
#[derive(Clone, Copy)]
pub struct Digits(pub u8);

impl Digits {
    fn text(self, value: f64) -> String {
        format!("{value:.*}", usize::from(self.0))
    }

    /// Rounds a number as `text` does.
    fn rounded(self, value: f64) -> Value {
        json!(self.text(value).parse::<f64>().unwrap_or(value))
    }

    fn interval(self, interval: Interval) -> String {
        format!("μ = {} ± {}", self.text(interval.mean), self.text(interval.half_width))
    }
}

/// Score of one system in one metric, with its confidence interval if requested.
pub struct Single {
    pub score: Score,
    pub confidence: Option<Confidence>,
}

impl Single {
    fn signature(&self) -> &Signature {
        self.confidence.as_ref().map_or(&self.score.signature, |found| &found.signature)
    }
}

/// Writes the lines of `sacrebleu --format text` with aligned values. The signature is part of a line
/// because scores with different signatures cannot be compared.
pub fn singles(output: &mut impl Write, scores: &[Single], digits: Digits) -> io::Result<()> {
    let names: Vec<String> =
        scores.iter().map(|found| format!("{}|{}", found.score.name, found.signature())).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, found) in names.iter().zip(scores) {
        write!(output, "{name:width$} = {}", digits.text(found.score.value))?;
        if let Some(confidence) = &found.confidence {
            write!(output, " ({})", digits.interval(confidence.interval))?;
        }
        if !found.score.verbose.is_empty() {
            write!(output, " {}", found.score.verbose)?;
        }
        writeln!(output)?;
    }
    Ok(())
}

/// Writes the objects of `sacrebleu --format json`.
pub fn singles_json(output: &mut impl Write, scores: &[Single], digits: Digits) -> io::Result<()> {
    let list = scores.iter().map(|found| {
        let signature = found.signature();
        let mut object = Map::new();
        object.insert("name".into(), json!(found.score.name));
        object.insert("score".into(), digits.rounded(found.score.value));
        object.insert("signature".into(), json!(signature.to_string()));
        if let Some(Confidence { interval, .. }) = found.confidence {
            object.insert("confidence_mean".into(), digits.rounded(interval.mean));
            object.insert("confidence_var".into(), digits.rounded(interval.half_width));
            object.insert("confidence".into(), json!(digits.interval(interval)));
        }
        if !found.score.verbose.is_empty() {
            object.insert("verbose_score".into(), json!(found.score.verbose));
        }
        for (key, value) in signature.pairs() {
            object.insert(key.into(), json!(value));
        }
        Value::Object(object)
    });
    writeln!(output, "{:#}", Value::Array(list.collect()))
}

/// Results of several systems in one metric.
pub struct Column {
    pub name: String,
    pub signature: Signature,
    /// One result per system, in their order.
    pub systems: Vec<SystemResult>,
    /// Whether each system has the statistics of the first one in every line.
    pub equal: Vec<bool>,
}

/// Writes a table with one row per system and one column per metric, and the signatures.
pub fn table(
    output: &mut impl Write,
    names: &[String],
    columns: &[Column],
    digits: Digits,
) -> io::Result<()> {
    let mut cells =
        vec![std::iter::once("system".to_owned()).chain(names.iter().cloned()).collect()];
    for column in columns {
        let systems = column.systems.iter().zip(&column.equal);
        let values = systems.map(|(found, is_equal)| cell(found, *is_equal, digits));
        cells.push(std::iter::once(column.name.clone()).chain(values).collect::<Vec<String>>());
    }
    let widths: Vec<usize> = cells
        .iter()
        .map(|column| column.iter().map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    for row in 0..=names.len() {
        let line: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(column, &width)| format!("{:width$}", column[row]))
            .collect();
        writeln!(output, "{}", line.join("   ").trim_end())?;
    }
    writeln!(output)?;
    let width = columns.iter().map(|column| column.name.len()).max().unwrap_or(0);
    for Column { name, signature, .. } in columns {
        writeln!(output, "{name:width$}   {signature}")?;
    }
    Ok(())
}

/// Formats a cell: `38.72 (μ = 38.70 ± 0.81) p = 0.0120*`; an asterisk marks p < 0.05, unless the
/// outputs are equal.
fn cell(found: &SystemResult, is_equal: bool, digits: Digits) -> String {
    let mut cell = digits.text(found.score);
    if let Some(interval) = found.interval {
        cell += &format!(" ({})", digits.interval(interval));
    }
    if let Some(p_value) = found.p_value {
        let mark = match p_value < 0.05 {
            _ if is_equal => " (the outputs are equal)",
            true => "*",
            false => "",
        };
        cell += &format!(" p = {p_value:.4}{mark}");
    }
    cell
}

/// Writes one object per system with the keys of sacreBLEU for each metric, and the signature.
pub fn table_json(output: &mut impl Write, names: &[String], columns: &[Column]) -> io::Result<()> {
    let list = names.iter().enumerate().map(|(index, name)| {
        let mut object = Map::new();
        object.insert("system".into(), json!(name));
        for column in columns {
            let SystemResult { score, p_value, interval } = column.systems[index];
            let values = json!({
                "score": score,
                "p_value": p_value,
                "mean": interval.map(|interval| interval.mean),
                "ci": interval.map(|interval| interval.half_width),
                "signature": column.signature.to_string(),
            });
            object.insert(column.name.clone(), values);
        }
        Value::Object(object)
    });
    writeln!(output, "{:#}", Value::Array(list.collect()))
}

/// Scores of all lines in one metric.
pub struct Lines {
    pub name: String,
    pub signature: Signature,
    pub scores: Vec<f64>,
}

/// Writes tab-separated values: a header of names with signatures, then one row per line.
pub fn lines(output: &mut impl Write, columns: &[Lines], digits: Digits) -> io::Result<()> {
    let names: Vec<String> =
        columns.iter().map(|column| format!("{}|{}", column.name, column.signature)).collect();
    writeln!(output, "{}", names.join("\t"))?;
    let rows = columns.iter().map(|column| column.scores.len()).max().unwrap_or(0);
    for row in 0..rows {
        let values: Vec<String> =
            columns.iter().map(|column| digits.text(column.scores[row])).collect();
        writeln!(output, "{}", values.join("\t"))?;
    }
    Ok(())
}

/// Writes one object per metric with a list of scores.
pub fn lines_json(output: &mut impl Write, columns: &[Lines]) -> io::Result<()> {
    let list = columns.iter().map(|Lines { name, signature, scores }| {
        json!({ "name": name, "signature": signature.to_string(), "scores": scores })
    });
    writeln!(output, "{:#}", Value::Array(list.collect()))
}
