//! One example of a translation.

use serde::{Deserialize, Serialize};

/// A sentence and its translation, as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SentencePair {
    /// What is read.
    pub source: String,
    /// What is to be written.
    pub target: String,
}

impl SentencePair {
    /// A pair of two texts.
    pub fn new(source: impl Into<String>, target: impl Into<String>) -> Self {
        Self { source: source.into(), target: target.into() }
    }
}
