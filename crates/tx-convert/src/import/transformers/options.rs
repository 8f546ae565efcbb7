//! Keys of a JSON configuration, read with their types. Problems are collected, so that all are
//! reported together.

use serde_json::{Map, Value};

/// Largest size that a configuration may state. It keeps products of two sizes within 64 bits.
const MOST: u64 = 1 << 30;

/// Keys of a JSON object, and the problems found in them.
#[derive(Debug, Default)]
pub(super) struct Options {
    keys: Map<String, Value>,
    problems: Vec<String>,
}

impl Options {
    /// Reads the keys of `keys`.
    pub(super) fn new(keys: Map<String, Value>) -> Self {
        Self { keys, problems: Vec::new() }
    }

    /// Value of a key; `None` if it is absent or null.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// Reports a problem.
    pub(super) fn problem(&mut self, problem: String) {
        self.problems.push(problem);
    }

    /// Problems found so far.
    pub(super) fn problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    /// A size that must be present.
    pub(super) fn size(&mut self, key: &str) -> usize {
        match self.optional_size(key) {
            Some(size) => size,
            None => {
                if self.get(key).is_none() {
                    self.problems.push(format!("`{key}` is missing"));
                }
                0
            }
        }
    }

    /// A size that may be absent.
    pub(super) fn optional_size(&mut self, key: &str) -> Option<usize> {
        let value = self.get(key)?;
        match value.as_u64().filter(|size| *size <= MOST) {
            Some(size) => Some(size as usize),
            None => {
                self.problems.push(format!("`{key}` = {value} is not a size"));
                None
            }
        }
    }

    /// A flag, or its default.
    pub(super) fn flag(&mut self, key: &str, default: bool) -> bool {
        match self.get(key) {
            None => default,
            Some(Value::Bool(flag)) => *flag,
            Some(value) => {
                let problem = format!("`{key}` = {value} is not true or false");
                self.problems.push(problem);
                default
            }
        }
    }

    /// A number, or its default.
    pub(super) fn number(&mut self, key: &str, default: f64) -> f64 {
        let Some(value) = self.get(key) else { return default };
        match value.as_f64() {
            Some(number) => number,
            None => {
                let problem = format!("`{key}` = {value} is not a number");
                self.problems.push(problem);
                default
            }
        }
    }

    /// Text of a key, or its field `content`, as special tokens have it.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        let value = self.get(key)?;
        value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
    }

    /// Reports a flag that is not `expected`.
    pub(super) fn require_flag(&mut self, key: &str, expected: bool) {
        let found = self.flag(key, expected);
        if found != expected {
            self.problems.push(format!("`{key}` = {found}, supported is {expected}"));
        }
    }

    /// A size that `other` must have, too.
    pub(super) fn equal_sizes(&mut self, key: &str, other: &str) -> usize {
        let (size, second) = (self.size(key), self.size(other));
        if size != second {
            self.problems
                .push(format!("`{key}` = {size} and `{other}` = {second} must be equal"));
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_problems_are_collected() {
        let keys = r#"{"a": 3, "b": -1, "c": "x", "d": true, "e": 4, "f": null}"#;
        let mut options = Options::new(serde_json::from_str(keys).unwrap());
        assert_eq!(options.size("a"), 3);
        assert_eq!((options.size("b"), options.size("c"), options.size("f")), (0, 0, 0));
        assert_eq!(options.equal_sizes("a", "e"), 3);
        assert!(options.flag("d", false));
        assert!(!options.flag("missing", false));
        options.require_flag("d", false);
        assert!((options.number("e", 0.0) - 4.0).abs() < 1e-9);
        assert_eq!(options.text("c").as_deref(), Some("x"));
        assert_eq!(
            options.problems(),
            [
                "`b` = -1 is not a size",
                "`c` = \"x\" is not a size",
                "`f` is missing",
                "`a` = 3 and `e` = 4 must be equal",
                "`d` = true, supported is false",
            ]
        );
    }
}
