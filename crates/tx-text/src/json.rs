//! JSON of untrusted files. A key occurs once in an object.
//!
//! The format leaves the meaning of a repeated key open, and readers differ: some use the first
//! value, some the last. A file with one could be checked by one reader and used by another.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};

/// Parses a text as `serde_json` does, and rejects repeated keys of all objects in it.
///
/// # Errors
///
/// If the text is not JSON, a key is repeated, or the value is not a `T`.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> serde_json::Result<T> {
    serde_json::from_slice::<UniqueKeys>(text)?;
    serde_json::from_slice(text)
}

/// Any value whose objects have unique keys. The depth is limited by `serde_json`.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(Key(key)) = entries.next_key()? {
            entries.next_value::<Self>()?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("the key `{key}` is given twice")));
            }
        }
        Ok(self)
    }
}

/// Key that is borrowed from the text unless it has escape sequences.
#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use super::*;

    #[test]
    fn repeated_keys_are_rejected_at_any_depth() {
        for text in [
            r#"{"a": 1, "b": 2, "a": 3}"#,
            r#"{"a": 1, "\u0061": 1}"#,
            r#"[1, {"b": {"a": null, "c": [], "a": {}}}]"#,
        ] {
            let error = from_slice::<Value>(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("the key `a` is given twice at line 1"), "{error}");
        }
    }

    #[test]
    fn other_texts_are_read_as_usual() {
        let text = r#"{"a": {"a": [1, -1, 1.5, "x", true, null]}, "A": {}, "": {"a": 1}}"#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(from_slice::<Value>(text.as_bytes()).unwrap(), expected);
        let numbers = from_slice::<BTreeMap<String, u32>>(br#"{"a": 1}"#).unwrap();
        assert_eq!(numbers["a"], 1);
        from_slice::<BTreeMap<String, u32>>(br#"{"a": "1"}"#).unwrap_err();
        from_slice::<Value>(b"{").unwrap_err();
        from_slice::<Value>("[".repeat(100_000).as_bytes()).unwrap_err();
    }
}
