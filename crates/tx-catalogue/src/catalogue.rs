//! List of published models.

use std::{collections::HashSet, fs, path::Path};

use serde::Deserialize;
use tx_convert::ImportFormat;
use tx_fetch::{Fetcher, Remote};

use crate::error::CatalogueError;

/// The catalogue of this version of tx.
const SHIPPED: &str = include_str!("shipped.toml");
/// Largest catalogue, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Longest name of a model or file, in bytes.
const MAX_NAME: usize = 100;

/// List of published models.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    entries: Vec<Entry>,
}

/// A published model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Entry {
    /// Name, of letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Code of the source language.
    pub source: String,
    /// Code of the target language.
    pub target: String,
    /// Name of an [`ImportFormat`].
    format: String,
    /// License, as the publisher states it.
    pub license: String,
    /// Files, all of which the import needs.
    pub files: Vec<EntryFile>,
}

/// A file of a published model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EntryFile {
    /// Address.
    pub url: String,
    /// Addresses of copies, tried in this order.
    #[serde(default)]
    pub mirrors: Vec<String>,
    /// Size in bytes, if known.
    pub bytes: Option<u64>,
    /// SHA-256 in hexadecimal, if known. Otherwise, that of the first download is recorded.
    pub sha256: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    models: Vec<Entry>,
}

impl Catalogue {
    /// Returns the catalogue of this version of tx.
    ///
    /// # Errors
    ///
    /// If it is damaged, which a test excludes.
    pub fn shipped() -> Result<Self, CatalogueError> {
        Self::parse(SHIPPED, "shipped")
    }

    /// Reads a catalogue from a file, or downloads it if `from` is an address.
    ///
    /// # Errors
    ///
    /// If it cannot be read or downloaded, or is damaged.
    pub fn open(from: &str, fetcher: &Fetcher) -> Result<Self, CatalogueError> {
        let is_address = from.starts_with("http://") || from.starts_with("https://");
        let path = match is_address {
            true => fetcher.get(&Remote::at(from))?.path,
            false => Path::new(from).to_owned(),
        };
        let problem = |problem| CatalogueError::Catalogue { origin: from.to_owned(), problem };
        let io = |source| CatalogueError::Io { path: path.clone(), source };
        let metadata = fs::metadata(&path).map_err(io)?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(problem(format!("it is no file of at most {MAX_BYTES} bytes")));
        }
        let text = fs::read(&path).map_err(io)?;
        let text = str::from_utf8(&text).map_err(|_| problem("it is not UTF-8".to_owned()))?;
        Self::parse(text, from)
    }

    /// Parses a catalogue; `origin` names it in messages.
    ///
    /// # Errors
    ///
    /// If it is no TOML, has an unknown key, or an entry is invalid.
    pub fn parse(text: &str, origin: &str) -> Result<Self, CatalogueError> {
        let problem = |problem| CatalogueError::Catalogue { origin: origin.to_owned(), problem };
        let Document { models } =
            toml::from_str(text).map_err(|error| problem(error.to_string()))?;
        let mut names = HashSet::new();
        for entry in &models {
            entry.check().map_err(|what| problem(format!("the model `{}`: {what}", entry.name)))?;
            if !names.insert(&entry.name) {
                return Err(problem(format!("it has the model `{}` twice", entry.name)));
            }
        }
        Ok(Self { entries: models })
    }

    /// Adds the entries of another catalogue. They replace entries of the same names.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        let names: HashSet<&str> = other.entries.iter().map(|entry| entry.name.as_str()).collect();
        self.entries.retain(|entry| !names.contains(entry.name.as_str()));
        self.entries.extend(other.entries);
        self
    }

    /// Returns all entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the entry of a name.
    ///
    /// # Errors
    ///
    /// [`CatalogueError::UnknownModel`].
    pub fn entry(&self, name: &str) -> Result<&Entry, CatalogueError> {
        let found = self.entries.iter().find(|entry| entry.name == name);
        found.ok_or_else(|| CatalogueError::UnknownModel { name: name.to_owned() })
    }
}

impl Entry {
    /// Returns the format of the files.
    ///
    /// # Errors
    ///
    /// If it is unknown, which [`Catalogue::parse`] excludes.
    pub fn format(&self) -> Result<ImportFormat, String> {
        self.format.parse()
    }

    /// Returns the size of all files in bytes, if it is known.
    pub fn bytes(&self) -> Option<u64> {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn check(&self) -> Result<(), String> {
        if !is_name(&self.name) {
            return Err(format!(
                "the name must have at most {MAX_NAME} letters, digits, `.`, `_` and `-`, and not \
                 start with `.`"
            ));
        }
        if let Some(code) = [&self.source, &self.target].into_iter().find(|code| !is_name(code)) {
            return Err(format!("{code:?} is not the code of a language"));
        }
        self.format()?;
        if self.files.is_empty() {
            return Err("it has no file".to_owned());
        }
        let mut names = HashSet::new();
        for file in &self.files {
            let name = file.name();
            if !is_name(name) {
                return Err(format!("`{}` does not end with the name of a file", file.url));
            }
            if !names.insert(name) {
                return Err(format!("it has the file `{name}` twice"));
            }
            let is_hash = |hash: &String| {
                hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            if file.sha256.as_ref().is_some_and(|hash| !is_hash(hash)) {
                return Err(format!("`sha256` of `{name}` does not have 64 hexadecimal digits"));
            }
            for url in file.mirrors.iter().chain([&file.url]) {
                if !url.starts_with("https://") && !url.starts_with("http://") {
                    return Err(format!("`{url}` does not start with `https://` or `http://`"));
                }
            }
        }
        Ok(())
    }
}

impl EntryFile {
    /// Returns the name of the file, the end of its address.
    pub fn name(&self) -> &str {
        let path = self.url.split(['?', '#']).next().unwrap_or_default();
        path.rsplit('/').next().unwrap_or_default()
    }

    /// Describes the file for a download.
    pub(crate) fn remote(&self) -> Remote {
        let mut remote = Remote::at(&self.url);
        remote.addresses.extend(self.mirrors.iter().cloned());
        remote.size = self.bytes;
        remote.sha256 = self.sha256.as_ref().map(|hash| hash.to_ascii_lowercase());
        remote
    }
}

/// Returns `true` for a name that is a file name on every system.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    !name.is_empty()
        && name.len() <= MAX_NAME
        && !name.starts_with('.')
        && name.chars().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = r#"
        [[models]]
        name = "a-b"
        source = "a"
        target = "b"
        format = "ctranslate2"
        license = "MIT"
        files = [{ url = "https://example.org/a_b.argosmodel?download=1", bytes = 7 }]
    "#;

    fn problem(change: impl Fn(&str) -> String) -> String {
        Catalogue::parse(&change(ENTRY), "test").unwrap_err().to_string()
    }

    #[test]
    fn an_entry_has_its_files() {
        let catalogue = Catalogue::parse(ENTRY, "test").unwrap();
        let entry = catalogue.entry("a-b").unwrap();
        assert_eq!((entry.files[0].name(), entry.bytes()), ("a_b.argosmodel", Some(7)));
        assert_eq!(entry.format(), Ok(ImportFormat::CTranslate2));
        let error = catalogue.entry("a-c").unwrap_err().to_string();
        assert_eq!(error, "the catalogue has no model `a-c`");
        let other = Catalogue::parse(&ENTRY.replace("MIT", "GPL"), "test").unwrap();
        let both = catalogue.with(other);
        assert_eq!((both.entries().len(), &*both.entries()[0].license), (1, "GPL"));
    }

    #[test]
    fn invalid_entries_are_refused() {
        for (from, to, expected) in [
            ("a-b", "../b", "the model `../b`: the name must have"),
            ("\"a\"", "\"\\u001b[2J\"", "is not the code of a language"),
            ("ctranslate2", "zip", "unknown format `zip`"),
            ("https:", "file:", "does not start with `https://`"),
            ("a_b.argosmodel?download=1", "", "does not end with the name of a file"),
            ("a_b.argosmodel?download=1", "..", "does not end with the name of a file"),
            ("bytes = 7", "sha256 = \"12\"", "64 hexadecimal digits"),
            ("license", "licence", "unknown field `licence`"),
            ("[{", "[] #", "it has no file"),
        ] {
            let found = problem(|text| text.replace(from, to));
            assert!(found.contains(expected), "{found}");
        }
        assert!(problem(|text| text.repeat(2)).contains("the model `a-b` twice"));
        let twice =
            |text: &str| text.replace("[{", "[{ url = \"https://example.com/a_b.argosmodel\" }, {");
        assert!(problem(twice).contains("the file `a_b.argosmodel` twice"));
    }

    /// Each model of the shipped catalogue can be found by its name, and translates from or to English.
    #[test]
    fn the_shipped_catalogue_is_valid() {
        let catalogue = Catalogue::shipped().unwrap();
        assert!(catalogue.entries().len() > 60);
        for entry in catalogue.entries() {
            assert!(entry.source == "en" || entry.target == "en", "{entry:?}");
            assert!(entry.name.ends_with(&format!("-{}-{}", entry.source, entry.target)));
        }
    }
}
