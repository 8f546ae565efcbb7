//! Keys of clients and their limits.

use std::{collections::HashMap, fmt, fs, path::Path};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::error::ServeError;

/// Keys of a file, at least one: a file without keys would open a protected server to everybody.
pub struct Keys {
    entries: Vec<Entry>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("count", &self.entries.len()).finish()
    }
}

struct Entry {
    hash: [u8; 32],
    client: Client,
}

/// Owner of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Name in logs.
    pub name: String,
    /// Whether the key may change the models.
    pub is_admin: bool,
    /// Maximum number of requests per minute; `None` is no limit.
    pub requests_per_minute: Option<u32>,
    /// Maximum number of characters per minute; `None` is no limit.
    pub characters_per_minute: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    key: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    /// The key itself.
    key: Option<String>,
    /// SHA-256 of the key, in hexadecimal.
    sha256: Option<String>,
    #[serde(default)]
    admin: bool,
    requests_per_minute: Option<u32>,
    characters_per_minute: Option<u32>,
}

impl Keys {
    /// Reads a file of keys.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is invalid, or has no key.
    pub fn read(path: &Path) -> Result<Self, ServeError> {
        let text = fs::read_to_string(path)
            .map_err(|source| ServeError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|problem| ServeError::Keys { path: path.to_owned(), problem })
    }

    /// Parses the content of a file. Messages contain no key.
    fn parse(text: &str) -> Result<Self, String> {
        // The message of the parser shows the line, which may contain a key.
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
            format!("line {line}: {}", error.message())
        })?;
        if file.key.is_empty() {
            return Err("it has no key; expected at least one `[[key]]`".into());
        }
        let entry = |row: Row| {
            let Row { name, key, sha256, admin, requests_per_minute, characters_per_minute } = row;
            let hash = match (key, sha256) {
                (Some(key), None) if key.len() >= MIN_LENGTH => hash(&key),
                (Some(_), None) => {
                    return Err(format!(
                        "the key of `{name}` has less than {MIN_LENGTH} characters"
                    ));
                }
                (None, Some(text)) => from_hexadecimal(&text).ok_or_else(|| {
                    format!("`sha256` of `{name}` must have 64 hexadecimal digits")
                })?,
                (Some(_), Some(_)) | (None, None) => {
                    return Err(format!("`{name}` must have either `key` or `sha256`"));
                }
            };
            if name.trim().is_empty() {
                return Err("`name` of a key is empty".into());
            }
            for (limit, value) in [
                ("requests_per_minute", requests_per_minute),
                ("characters_per_minute", characters_per_minute),
            ] {
                if value == Some(0) {
                    return Err(format!("`{limit}` of `{name}` is 0; expected at least 1"));
                }
            }
            let client =
                Client { name, is_admin: admin, requests_per_minute, characters_per_minute };
            Ok(Entry { hash, client })
        };
        let entries: Vec<Entry> = file.key.into_iter().map(entry).collect::<Result<_, _>>()?;
        let mut names = HashMap::new();
        for Entry { hash, client } in &entries {
            if let Some(other) = names.insert(hash, &client.name) {
                return Err(format!("`{other}` and `{}` have the same key", client.name));
            }
        }
        Ok(Self { entries })
    }

    /// Returns the owner of a key. The time does not depend on the key: its hash is compared with all
    /// others, each in constant time.
    pub fn client(&self, key: &str) -> Option<&Client> {
        let hash = hash(key);
        let mut found = None;
        for entry in &self.entries {
            if bool::from(entry.hash.ct_eq(&hash)) {
                found = Some(&entry.client);
            }
        }
        found
    }
}

/// Minimum length of a key in characters.
const MIN_LENGTH: usize = 16;

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

fn from_hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_identify_clients() {
        // `printf %s 'another-long-key' | sha256sum`
        let sha256 = Sha256::digest(b"another-long-key")
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect::<String>();
        let keys = Keys::parse(&format!(
            "[[key]]\nname = 'a'\nkey = 'a-very-secret-key'\nadmin = true\n[[key]]\nname = 'b'\nsha256 = '{sha256}'\nrequests_per_minute = 5\n"
        ))
        .unwrap();
        assert!(keys.client("a-very-secret-key").unwrap().is_admin);
        let other = keys.client("another-long-key").unwrap();
        assert_eq!(
            (&*other.name, other.requests_per_minute, other.is_admin),
            ("b", Some(5), false)
        );
        assert_eq!(keys.client(""), None);
        assert_eq!(keys.client("a-very-secret-kez"), None);
        assert!(!format!("{keys:?}").contains("secret"));
    }

    #[test]
    fn problems_are_named_without_the_key() {
        for (text, problem) in [
            ("[[key]]\nname = 'a'\nkey = 'short'", "less than 16"),
            ("[[key]]\nname = 'a'", "either `key` or `sha256`"),
            ("[[key]]\nname = 'a'\nsha256 = 'zz'", "64 hexadecimal"),
            ("", "has no key"),
            ("# [[key]]\n", "has no key"),
            ("key = []", "has no key"),
            ("[[key]]\nname = ' '\nkey = 'a-very-secret-key'", "`name` of a key is empty"),
            ("[[key]]\nname = 'a'\nkey = ''", "less than 16"),
            ("[[key]]\nname = 'a'\nsha256 = ''", "64 hexadecimal"),
            (
                "[[key]]\nname = 'a'\nkey = 'a-very-secret-key'\nrequests_per_minute = 0",
                "`requests_per_minute` of `a` is 0",
            ),
            (
                "[[key]]\nname = 'a'\nkey = 'a-very-secret-key'\n[[key]]\nname = 'b'\nkey = 'a-very-secret-key'",
                "`a` and `b` have the same key",
            ),
            ("[[key]]\nname = 'a'\nkey = 'a-very-secret-key' x", "line 3"),
            ("[[key]]\nname = 'a'\nkeys = 'a-very-secret-key'", "line 3"),
        ] {
            let found = Keys::parse(text).err().unwrap();
            assert!(found.contains(problem) && !found.contains("very-secret"), "{found}");
        }
    }
}
