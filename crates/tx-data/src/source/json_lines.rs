//! Sentence pairs from JSON Lines: two fields, or a `translation` object as on Hugging Face. A label
//! can be an integer or a boolean.

use std::{borrow::Cow, io::BufRead};

use serde_json::{Map, Value};
use tx_text::{Lines, SentencePair};

use super::{
    columns::{Columns, Field},
    error::Place,
    pairs::Pairs,
};
use crate::{encode::TargetSide, error::DataError};

/// Content of a label, for errors.
const LABEL: &str = "expected text, an integer or a boolean";

/// Reads one JSON object per line and skips empty lines.
pub(super) fn json_lines(text: Box<dyn BufRead + Send>, place: Place, columns: &Columns) -> Pairs {
    let columns = columns.clone();
    let mut sides: Option<[String; 2]> = None;
    let mut number = 0;
    Box::new(Lines::new(text, place.name()).filter_map(move |line| {
        let line = match line {
            Ok(line) => line,
            Err(error) => return Some(Err(error.into())),
        };
        number += 1;
        if line.trim().is_empty() {
            return None;
        }
        let pair = pair(&line, &mut sides, &columns);
        Some(pair.map_err(|problem| DataError::from(place.line(number).malformed(problem))))
    }))
}

fn pair(
    line: &str,
    sides: &mut Option<[String; 2]>,
    columns: &Columns,
) -> Result<SentencePair, String> {
    let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let Value::Object(object) = value else {
        return Err(format!("found {}, expected a JSON object", kind(&value)));
    };
    let paths = match sides {
        Some(paths) => paths,
        None => {
            let mut fields = Vec::new();
            fields_of(&object, "", &mut fields);
            let (source, target) = columns.among_fields(&fields)?;
            sides.insert([fields[source].name.clone(), fields[target].name.clone()])
        }
    };
    let [source, target] = paths;
    Ok(SentencePair::new(
        field(&object, source, TargetSide::Sentence)?,
        field(&object, target, columns.target_side)?,
    ))
}

/// Fields with text, null, a number or a boolean.
fn fields_of(object: &Map<String, Value>, above: &str, fields: &mut Vec<Field>) {
    for (key, value) in object {
        let field = |is_text| Field { name: format!("{above}{key}"), is_text };
        match value {
            Value::String(_) | Value::Null => fields.push(field(true)),
            Value::Number(_) | Value::Bool(_) => fields.push(field(false)),
            Value::Object(inner) if above.is_empty() => {
                fields_of(inner, &format!("{key}."), fields);
            }
            Value::Object(_) | Value::Array(_) => {}
        }
    }
}

/// Text of a side, or of a label that is an integer or a boolean.
fn field<'a>(
    object: &'a Map<String, Value>,
    path: &str,
    content: TargetSide,
) -> Result<Cow<'a, str>, String> {
    let nested = || {
        let (above, below) = path.split_once('.')?;
        object.get(above)?.as_object()?.get(below)
    };
    match object.get(path).or_else(nested) {
        Some(Value::String(text)) => Ok(text.into()),
        // A null side counts as empty, and the pair is dropped and counted later.
        Some(Value::Null) => Ok("".into()),
        Some(other) => match (content, other) {
            (TargetSide::Sentence, _) => Err(format!("`{path}` is {}, expected text", kind(other))),
            (TargetSide::Label, Value::Bool(label)) => Ok(label.to_string().into()),
            (TargetSide::Label, Value::Number(label)) if !label.is_f64() => {
                Ok(label.to_string().into())
            }
            (TargetSide::Label, Value::Number(label)) => {
                Err(format!("`{path}` is the number {label}, {LABEL}"))
            }
            (TargetSide::Label, _) => Err(format!("`{path}` is {}, {LABEL}", kind(other))),
        },
        None => Err(format!("field `{path}` not found")),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
