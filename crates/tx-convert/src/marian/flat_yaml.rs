//! YAML as Marian writes its options: one mapping, whose values are scalars or lists of scalars.
//!
//! The reader has no recursion, so deep nesting cannot exhaust the stack. Nested mappings and
//! anchors, which Marian does not write, are rejected.

use std::collections::BTreeMap;

use super::yaml_scalar;

/// Maximum number of keys.
const MOST_KEYS: usize = 10_000;

/// A mapping of options.
#[derive(Debug, Default)]
pub(crate) struct FlatYaml {
    values: BTreeMap<String, Value>,
}

/// Value of an option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    /// A scalar as text; empty for no value.
    Scalar(String),
    /// A list of scalars.
    List(Vec<String>),
}

impl FlatYaml {
    /// Parses a text.
    ///
    /// # Errors
    ///
    /// The line that is not of this form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut yaml = Self::default();
        let mut open: Option<String> = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end();
            let content = line.trim_start();
            if content.is_empty() || content.starts_with('#') || line == "---" || line == "..." {
                continue;
            }
            let problem = |what: &str| format!("line {}: {what}", number + 1);
            let indented = line.starts_with([' ', '\t']);
            if let (true, Some(key)) = (content == "-" || content.starts_with("- "), &open) {
                let item =
                    scalar(content[1..].trim_start()).ok_or_else(|| problem("a damaged list"))?;
                yaml.append(key, item).map_err(|what| problem(&what))?;
                continue;
            }
            if let (true, Some(key)) = (indented, &open) {
                let list = flow_list(content).ok_or_else(|| problem("a nested value"))?;
                yaml.values.insert(key.clone(), Value::List(list));
                continue;
            }
            if indented {
                return Err(problem("a nested value"));
            }
            let (key, rest) = yaml_scalar::read(content, &[": ", ":\t"])
                .map(|(key, rest)| match rest {
                    "" => (key.strip_suffix(':').map(str::to_owned), ""),
                    rest => (Some(key), rest.strip_prefix(':').unwrap_or_default()),
                })
                .ok_or_else(|| problem("a damaged key"))?;
            let key = key.ok_or_else(|| problem("no `key: value`"))?;
            if yaml.values.len() >= MOST_KEYS {
                return Err(problem("too many keys"));
            }
            let rest = rest.trim_start();
            let value = match flow_list(rest) {
                Some(list) => Value::List(list),
                None => Value::Scalar(scalar(rest).ok_or_else(|| problem("a damaged value"))?),
            };
            open = matches!(&value, Value::Scalar(text) if text.is_empty()).then(|| key.clone());
            if yaml.values.insert(key.clone(), value).is_some() {
                return Err(problem(&format!("`{key}` is given twice")));
            }
        }
        Ok(yaml)
    }

    fn append(&mut self, key: &str, item: String) -> Result<(), String> {
        match self.values.get_mut(key) {
            Some(Value::List(list)) => list.push(item),
            _ => {
                self.values.insert(key.to_owned(), Value::List(vec![item]));
            }
        }
        Ok(())
    }

    /// Keys and values, sorted by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.values.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// Scalar of a key; `None` if there is none or a list.
    pub(crate) fn scalar(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Scalar(text) => Some(text),
            Value::List(_) => None,
        }
    }

    /// List of a key; a scalar is a list of one, and a missing key an empty list.
    pub(crate) fn list(&self, key: &str) -> Vec<&str> {
        match self.get(key) {
            Some(Value::List(list)) => list.iter().map(String::as_str).collect(),
            Some(Value::Scalar(text)) if !text.is_empty() => vec![text],
            Some(Value::Scalar(_)) | None => Vec::new(),
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Scalar(text) => write!(f, "{text:?}"),
            Self::List(list) => write!(f, "{list:?}"),
        }
    }
}

/// A scalar with nothing after it except a comment; `None` for a nested list or mapping, an anchor,
/// an alias or a block scalar.
fn scalar(text: &str) -> Option<String> {
    if text.starts_with(['[', '{', '&', '*', '|', '>', '!', '%', '@', '`', '?'])
        || text.starts_with("- ")
    {
        return None;
    }
    let (scalar, rest) = yaml_scalar::read(text, &[])?;
    let rest = rest.trim_start();
    let is_nested =
        !text.starts_with(['"', '\'']) && (scalar.contains(": ") || scalar.ends_with(':'));
    ((rest.is_empty() || rest.starts_with('#')) && !is_nested).then_some(scalar)
}

/// List of scalars in brackets; `None` if it is none.
fn flow_list(text: &str) -> Option<Vec<String>> {
    let mut rest = text.strip_prefix('[')?.trim_start();
    let mut list = Vec::new();
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            let after = after.trim_start();
            return (after.is_empty() || after.starts_with('#')).then_some(list);
        }
        if rest.starts_with(['[', '{', ',']) {
            return None;
        }
        let (item, after) = yaml_scalar::read(rest, &[",", "]"])?;
        list.push(item);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.starts_with(']') => {}
            None => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Marian's emitter writes it, with an empty list on a line of its own.
    const OPTIONS: &str = "\
dim-emb: 32
dim-vocabs:
  - 6000
  - 7000
input-types:
  []
lemma-dependency: \"\"
separator-symbol: \"[eos]\"
transformer-postprocess: dan  # a comment
version: v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700
";

    #[test]
    fn options_of_marian() {
        let yaml = FlatYaml::parse(OPTIONS).unwrap();
        assert_eq!(yaml.scalar("dim-emb"), Some("32"));
        assert_eq!(yaml.list("dim-vocabs"), ["6000", "7000"]);
        assert_eq!(yaml.get("input-types"), Some(&Value::List(vec![])));
        assert_eq!(yaml.scalar("lemma-dependency"), Some(""));
        assert_eq!(yaml.scalar("separator-symbol"), Some("[eos]"));
        assert_eq!(yaml.scalar("transformer-postprocess"), Some("dan"));
        assert_eq!(yaml.scalar("version"), Some("v1.12.42 b7be0e964 2025-05-24 22:34:42 -0700"));
        assert_eq!(yaml.iter().count(), 7);
    }

    #[test]
    fn lists_without_indentation_and_in_brackets() {
        let yaml = FlatYaml::parse("---\nmodels:\n- a.npz\n- \"b.npz\"\nvocabs: [ 'v', w.yml ]\n")
            .unwrap();
        assert_eq!(yaml.list("models"), ["a.npz", "b.npz"]);
        assert_eq!(yaml.list("vocabs"), ["v", "w.yml"]);
        assert_eq!(yaml.list("nothing"), [""; 0]);
    }

    #[test]
    fn other_yaml_is_rejected_by_its_line() {
        let nested = format!("a: {}", "[".repeat(100_000));
        let deep: String = (0..2_000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        let lists = format!("a:\n  {}b", "- ".repeat(100_000));
        for text in [
            "a: {b: c}",
            "a:\n  b: c",
            "a: &x 1",
            "a: *x",
            "a: |\n  text",
            "a: \"b",
            "- a",
            "a",
            "a: 1\na: 2",
            "  a: 1",
            "a: b: c",
            "? a\n: b",
            "a: [b",
            "a: [[b]]",
            &nested,
            &deep,
            &lists,
        ] {
            let found = FlatYaml::parse(text);
            assert!(found.is_err(), "{:?}: {found:?}", text.get(..20).unwrap_or(text));
        }
    }
}
