//! Vocabularies of Marian: `.yml` or `.json` with one `token: id` a line, and plain text with one
//! token a line.
//!
//! Readers of YAML lose entries of these files, which have complex keys (`? token`) and tokens such
//! as `~` and `null`, so each line is parsed here. The text is untrusted: no recursion, and memory in
//! proportion to it.

use std::collections::{HashMap, HashSet};

use super::yaml_scalar;

/// End of a sentence.
pub(crate) const END: &str = "</s>";
/// Unknown token.
pub(crate) const UNKNOWN: &str = "<unk>";
/// Older names of the first two tokens, of Nematus.
const OLD_NAMES: [(&str, &str); 2] = [("eos", END), ("UNK", UNKNOWN)];

/// Tokens in the order of their ids.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Vocabulary {
    /// Tokens; the first two may have had older names.
    pub(crate) tokens: Vec<String>,
}

impl Vocabulary {
    /// Parses a mapping of tokens to ids.
    ///
    /// # Errors
    ///
    /// If it is no such mapping, a token or an id is given twice, or an id is missing.
    pub(crate) fn parse_yaml(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let entries = match text.trim_start().starts_with('{') {
            true => match serde_json::from_str::<HashMap<String, u32>>(text) {
                Ok(entries) => entries.into_iter().collect(),
                Err(_) => flow_entries(text.trim())?,
            },
            false => block_entries(text)?,
        };
        let mut tokens: Vec<Option<String>> = vec![None; entries.len()];
        for (token, id) in entries {
            let place = usize::try_from(id).ok().and_then(|id| tokens.get_mut(id));
            match place
                .ok_or_else(|| format!("`{token}` has id {id}, larger than the vocabulary"))?
            {
                Some(other) => return Err(format!("`{other}` and `{token}` have id {id}")),
                place @ None => *place = Some(token),
            }
        }
        Self::new(tokens.into_iter().flatten().collect())
    }

    /// Parses a text with one token a line.
    ///
    /// # Errors
    ///
    /// If a line is empty, or a token is given twice.
    pub(crate) fn parse_lines(text: &str) -> Result<Self, String> {
        Self::new(text.lines().map(str::to_owned).collect())
    }

    fn new(mut tokens: Vec<String>) -> Result<Self, String> {
        for (token, (old, name)) in tokens.iter_mut().zip(OLD_NAMES) {
            if token == old {
                *token = name.to_owned();
            }
        }
        let mut known = HashSet::new();
        for token in &tokens {
            if token.is_empty() {
                return Err("it has an empty token".to_owned());
            }
            if !known.insert(token.as_str()) {
                return Err(format!("it has the token `{token}` twice"));
            }
        }
        for name in [END, UNKNOWN] {
            if !known.contains(name) {
                return Err(format!("it has no token `{name}`"));
            }
        }
        Ok(Self { tokens })
    }

    /// Text of a `.yml` with these tokens.
    pub(crate) fn to_yaml<'a>(tokens: impl IntoIterator<Item = &'a str>) -> String {
        let lines = tokens.into_iter().enumerate();
        lines.map(|(id, token)| format!("{}: {id}\n", yaml_scalar::quoted(token))).collect()
    }
}

/// Entries of a mapping with one entry a line.
fn block_entries(text: &str) -> Result<Vec<(String, u32)>, String> {
    let mut entries = Vec::new();
    let mut complex: Option<String> = None;
    for (number, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let problem = || format!("line {} is not `token: id`", number + 1);
        if line.is_empty() || line.starts_with('#') || line == "---" || line == "..." {
            continue;
        }
        if let Some(token) = complex.take() {
            let id = line.strip_prefix(':').and_then(id).ok_or_else(problem)?;
            entries.push((token, id));
        } else if let Some(key) = line.strip_prefix("? ") {
            let (token, rest) = yaml_scalar::read(key, &[]).ok_or_else(problem)?;
            if !rest.trim().is_empty() {
                return Err(problem());
            }
            complex = Some(token);
        } else {
            let (token, rest) = match line.starts_with(['"', '\'']) {
                true => yaml_scalar::read(line, &[])
                    .and_then(|(token, rest)| Some((token, rest.trim_start().strip_prefix(':')?))),
                // A plain token may contain a colon.
                false => line.rsplit_once(':').map(|(token, id)| (token.trim().to_owned(), id)),
            }
            .ok_or_else(problem)?;
            entries.push((token, id(rest).ok_or_else(problem)?));
        }
    }
    match complex {
        Some(token) => Err(format!("`{token}` has no id")),
        None => Ok(entries),
    }
}

/// Entries of a mapping in braces.
fn flow_entries(text: &str) -> Result<Vec<(String, u32)>, String> {
    let mut entries: Vec<(String, u32)> = Vec::new();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let mut rest = inner.ok_or("it has no closing brace")?.trim();
    while !rest.is_empty() {
        let problem =
            |entries: &[(String, u32)]| format!("its entry {} is damaged", entries.len() + 1);
        let (token, after) = yaml_scalar::read(rest, &[":"]).ok_or_else(|| problem(&entries))?;
        let after = after.trim_start().strip_prefix(':').ok_or_else(|| problem(&entries))?;
        let (number, after) = match after.split_once(',') {
            Some((number, after)) => (number, after),
            None => (after, ""),
        };
        entries.push((token, id(number).ok_or_else(|| problem(&entries))?));
        rest = after.trim_start();
    }
    Ok(entries)
}

fn id(text: &str) -> Option<u32> {
    text.split_once(" #").map_or(text, |(text, _)| text).trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        Vocabulary::parse_yaml(text).unwrap().tokens
    }

    /// Quoted, plain and complex keys, keys that YAML reads as null, and ids in any order.
    #[test]
    fn tokens_of_all_styles() {
        let text = "\
</s>: 0
<unk>: 1
\"\\u2581a\": 2
\"\\x85\": 3
? \"long key\"
: 4
'it''s': 5
~: 6
null: 8
a:b: 7
\":\": 9
\"\\\"\": 10
▁der: 11
";
        assert_eq!(
            tokens(text),
            [
                "</s>", "<unk>", "▁a", "\u{85}", "long key", "it's", "~", "a:b", "null", ":", "\"",
                "▁der"
            ]
        );
        assert_eq!(tokens(&text.replace('\n', "\r\n")).len(), 12);
    }

    #[test]
    fn json_and_braces() {
        assert_eq!(
            tokens("{\"<unk>\": 1, \"</s>\": 0,\n \"\\ud83d\\ude00\": 2}"),
            ["</s>", "<unk>", "😀"]
        );
        assert_eq!(tokens("{</s>: 0, '<unk>': 1, \"a,b\":2 }"), ["</s>", "<unk>", "a,b"]);
    }

    #[test]
    fn older_names_and_plain_lines() {
        assert_eq!(tokens("eos: 0\nUNK: 1\na: 2\n"), ["</s>", "<unk>", "a"]);
        let lines = Vocabulary::parse_lines("</s>\n<unk>\na b\n").unwrap();
        assert_eq!(lines.tokens, ["</s>", "<unk>", "a b"]);
    }

    #[test]
    fn written_vocabularies_are_read_back() {
        let expected =
            ["</s>", "<unk>", "▁", "\"", "\\", "? ", "- a", "a: b", "#", "\u{2028}\n", "😀"];
        assert_eq!(tokens(&Vocabulary::to_yaml(expected)), expected);
    }

    #[test]
    fn damaged_vocabularies_are_rejected() {
        let deep = format!("</s>: {}", "[".repeat(100_000));
        let braces = "{".repeat(100_000);
        for (text, problem) in [
            ("</s>: 0\n<unk>: 1\na: 1\n", "id 1"),
            ("</s>: 0\n<unk>: 1\na: 3\n", "id 3"),
            ("</s>: 0\n<unk>: 1\na: 4294967295\n", "larger"),
            ("</s>: 0\n<unk>: 1\na: -1\n", "line 3"),
            ("</s>: 0\n<unk>: 1\na\n", "line 3"),
            ("</s>: 0\n<unk>: 1\n\"a: 2\n", "line 3"),
            ("</s>: 0\n<unk>: 1\n? a\n", "`a` has no id"),
            ("</s>: 0\n<unk>: 1\n\"</s>\": 2\n", "twice"),
            ("</s>: 0\na: 1\n", "<unk>"),
            ("", "</s>"),
            ("{</s>: 0, <unk>: 1", "brace"),
            ("{</s>: 0, <unk>}", "entry 2"),
            (&deep, "line 1"),
            (&braces, "brace"),
        ] {
            let found = Vocabulary::parse_yaml(text).unwrap_err();
            assert!(found.contains(problem), "{problem}: {found}");
        }
        assert!(Vocabulary::parse_lines("</s>\n\n<unk>\n").is_err());
    }
}
