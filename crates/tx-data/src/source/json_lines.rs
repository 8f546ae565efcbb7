//! Sentence pairs from JSON Lines: two fields, or a `translation` object as on Hugging Face.

use std::io::BufRead;

use serde_json::{Map, Value};
use tx_text::{Lines, SentencePair};

use super::{columns::Columns, error::Place, pairs::Pairs};
use crate::error::DataError;

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
            let mut names = Vec::new();
            text_fields(&object, "", &mut names);
            let (source, target) = columns.among(&names)?;
            sides.insert([names[source].clone(), names[target].clone()])
        }
    };
    Ok(SentencePair::new(field(&object, &paths[0])?, field(&object, &paths[1])?))
}

/// Paths of all fields with text or null.
fn text_fields(object: &Map<String, Value>, above: &str, names: &mut Vec<String>) {
    for (key, value) in object {
        match value {
            Value::String(_) | Value::Null => names.push(format!("{above}{key}")),
            Value::Object(inner) if above.is_empty() => {
                text_fields(inner, &format!("{key}."), names);
            }
            _ => {}
        }
    }
}

fn field<'a>(object: &'a Map<String, Value>, path: &str) -> Result<&'a str, String> {
    let nested = || {
        let (above, below) = path.split_once('.')?;
        object.get(above)?.as_object()?.get(below)
    };
    match object.get(path).or_else(nested) {
        Some(Value::String(text)) => Ok(text),
        // A null side counts as empty, and the pair is dropped and counted later.
        Some(Value::Null) => Ok(""),
        Some(other) => Err(format!("`{path}` is {}, expected text", kind(other))),
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
