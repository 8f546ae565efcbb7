//! Ancestors of a model: the bundles that its training started from.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tx_infer::{BundleInfo, SearchOptions, bundle::Languages, file::write_whole};

use crate::{config::ParentBundle, error::TrainError};

/// Name of the file in a run folder.
const FILE: &str = "parent.toml";
/// Key of the ancestors in a provenance.
const PARENTS: &str = "parents";
/// Keys of a provenance that are not repeated in those of descendants.
const OMITTED: [&str; 2] = [PARENTS, "cleaning"];
/// Largest size of all ancestors as text, in bytes. A bundle with a much longer provenance would not
/// open.
const MAX_BYTES: usize = 1 << 18;

/// Parts of the parent of a run that its own bundle repeats. A resumed run reads them from its
/// folder, because it does not need the parent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lineage {
    /// Provenances of the parent and its ancestors, the parent first, with name and hash.
    #[serde(default)]
    parents: Vec<toml::Table>,
    /// Languages of the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub languages: Option<Languages>,
    /// Search options of the parent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<SearchOptions>,
}

impl Lineage {
    /// Describes a run that starts from `parent`, whose description is `info`.
    pub fn new(parent: &ParentBundle, info: &BundleInfo) -> Self {
        let mut first = toml::Table::new();
        let path = parent.path.canonicalize().unwrap_or_else(|_| parent.path.clone());
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        first.insert("name".into(), name.into_owned().into());
        first.insert("sha256".into(), parent.sha256.clone().into());
        for (key, value) in &info.provenance {
            if !OMITTED.contains(&key.as_str()) {
                first.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        let ancestors = info.provenance.get(PARENTS).and_then(toml::Value::as_array);
        let ancestors = ancestors.into_iter().flatten().filter_map(toml::Value::as_table);
        let mut parents = vec![first];
        let mut bytes = 0;
        for ancestor in ancestors {
            bytes += ancestor.to_string().len();
            if bytes > MAX_BYTES {
                break;
            }
            parents.push(ancestor.clone());
        }
        Self { parents, languages: info.languages.clone(), search: info.search.clone() }
    }

    /// Adds the ancestors to the provenance of the run.
    pub fn add_to(&self, provenance: &mut toml::Table) {
        if !self.parents.is_empty() {
            let parents = self.parents.iter().cloned().map(toml::Value::Table);
            provenance.insert(PARENTS.into(), toml::Value::Array(parents.collect()));
        }
    }

    /// Writes the file into the folder `run`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, run: &Path) -> Result<(), TrainError> {
        let path = path(run);
        let text = toml::to_string(self).map_err(std::io::Error::other);
        let written = text.and_then(|text| write_whole(&path, text.as_bytes()));
        written.map_err(TrainError::writing(&path))
    }

    /// Reads the file in the folder `run`.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn read(run: &Path) -> Result<Self, TrainError> {
        let path = path(run);
        let text = fs::read_to_string(&path).map_err(TrainError::reading(&path))?;
        toml::from_str(&text).map_err(|error| TrainError::Config {
            location: format!("`{}`", path.display()),
            problem: error.message().to_owned(),
            nearest: None,
        })
    }
}

fn path(run: &Path) -> PathBuf {
    run.join(FILE)
}
