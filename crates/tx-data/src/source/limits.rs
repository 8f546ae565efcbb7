//! Limits on what a file may ask of the machine.

use tx_text::gzip::ExpansionLimit;

/// Limits on the memory and time that a file may take. Real text stays far below; hostile files do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Expanded size of a compressed file or member.
    pub expansion: ExpansionLimit,
    /// Most members of an archive.
    pub members: usize,
    /// Longest line, row or translation unit in bytes.
    pub record_bytes: usize,
    /// Most bytes of a file that is fetched.
    pub download_bytes: u64,
    /// Most bytes of a file that is fetched when the server does not announce its size.
    pub unannounced_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            expansion: ExpansionLimit::default(),
            members: 100_000,
            record_bytes: 16 << 20,
            download_bytes: 256 << 30,
            unannounced_bytes: 8 << 30,
        }
    }
}
