//! Limits on memory and time for input files.

use tx_text::compression::ExpansionLimit;

/// Limits on the memory and time that a file may use. Real text stays far below these limits;
/// hostile files exceed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Limit on the expanded size of a compressed file or member.
    pub expansion: ExpansionLimit,
    /// Maximum number of members in an archive.
    pub members: usize,
    /// Maximum length of a line, row or translation unit, in bytes.
    pub record_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { expansion: ExpansionLimit::default(), members: 100_000, record_bytes: 16 << 20 }
    }
}
