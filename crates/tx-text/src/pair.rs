//! Sentence and translation.

use serde::{Deserialize, Serialize};

/// Sentence and its translation, as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SentencePair {
    /// Source sentence.
    pub source: String,
    /// Target sentence, its translation.
    pub target: String,
}

impl SentencePair {
    /// Creates a pair.
    pub fn new(source: impl Into<String>, target: impl Into<String>) -> Self {
        Self { source: source.into(), target: target.into() }
    }
}
