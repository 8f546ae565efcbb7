//! JSON with a limited number of values: a value takes 16 times the memory of its text and more.

use std::{cell::Cell, fmt};

use serde::de::{self, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::error::ApiError;

/// Parses a document with at most `max` values. A byte order mark before it is skipped.
///
/// # Errors
///
/// If it is not JSON, or has more values.
pub fn parse(text: &[u8], max: usize) -> Result<Value, ApiError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let left = Cell::new(max);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Limited(&left).deserialize(&mut deserializer);
    let value = value.and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| match error.classify() {
        serde_json::error::Category::Data if left.get() == 0 => {
            ApiError::Invalid(format!("the body has more than {max} JSON values"))
        }
        _ => ApiError::Invalid(format!("the body is not JSON: {error}")),
    })
}

/// Builder of a value, with the number of values that are left.
struct Limited<'a>(&'a Cell<usize>);

impl<'de> DeserializeSeed<'de> for Limited<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let left =
            self.0.get().checked_sub(1).ok_or_else(|| D::Error::custom("too many values"))?;
        self.0.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Limited<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = sequence.next_element_seed(Limited(self.0))? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value_seed(Limited(self.0))?;
            if values.insert(name, value).is_some() {
                // Which of them counts differs between parsers.
                return Err(de::Error::custom("a name occurs twice in an object"));
            }
        }
        Ok(Value::Object(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_by_serde() {
        for text in ["null", "true", "-1", "18446744073709551615", "1.5", "\"\\u00e9\"", "[]"] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(parse(text.as_bytes(), 1), Ok(expected), "{text}");
        }
        let text = "\u{feff}{\"a\": [1, {\"b\": [\"c\", null]}], \"d\": {}}";
        let expected: Value = serde_json::from_str(&text[3..]).unwrap();
        assert_eq!(parse(text.as_bytes(), 8), Ok(expected));
        let more = parse(text.as_bytes(), 7).unwrap_err().to_string();
        assert_eq!(more, "the body has more than 7 JSON values");
        for (wrong, message) in [
            ("", "EOF"),
            ("{} {}", "trailing"),
            ("{\"a\":1,\"a\":2}", "twice"),
            ("\"\u{feff}", "EOF"),
            (&*"[".repeat(200), "recursion"),
        ] {
            let found = parse(wrong.as_bytes(), 1_000).unwrap_err().to_string();
            assert!(found.contains(message), "{wrong}: {found}");
        }
    }
}
