//! Sentence and translation.

use serde::{Deserialize, Serialize};

/// Sentence and its translation, as text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SentencePair {
    /// Source sentence.
    pub source: String,
    /// Target sentence, its translation.
    pub target: String,
    /// Source sentences before it in its document, the oldest first; empty without
    /// [context](crate::context).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<String>,
}

impl SentencePair {
    /// Creates a pair without context.
    pub fn new(source: impl Into<String>, target: impl Into<String>) -> Self {
        Self { source: source.into(), target: target.into(), context: Vec::new() }
    }
}
