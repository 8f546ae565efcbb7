//! Numbers of parameters of a run, from the provenance of its bundle.

use std::{fs, path::Path};

use serde::Deserialize;

/// Name of the file in a bundle.
const FILE: &str = "provenance.toml";

/// Numbers of parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct RecordedParameters {
    /// Parameters of the model.
    #[serde(rename = "parameters")]
    pub all: u64,
    /// Parameters that are trained.
    #[serde(rename = "trained_parameters")]
    pub trained: u64,
}

impl RecordedParameters {
    /// Reads the numbers of the run in the folder `run`; `None` if it has no bundle yet, or one of an
    /// earlier version.
    pub fn read(run: &Path) -> Option<Self> {
        toml::from_str(&fs::read_to_string(run.join(FILE)).ok()?).ok()
    }
}
