//! Choice of the masked tokens.

use serde::{Deserialize, Serialize};

/// Section `[masking]`: masked tokens of `task = "fill-mask"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaskingConfig {
    /// Whether all tokens of a word are masked together.
    pub whole_words: bool,
}
