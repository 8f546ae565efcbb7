//! File to download, with its addresses and checksums.

use super::{address::without_login, published::Published};

/// File to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Name in the cache.
    pub name: String,
    /// Key that identifies the file: its original address, also for downloads from mirrors.
    pub key: String,
    /// Addresses, tried in this order.
    pub addresses: Vec<String>,
    /// Size in bytes, if known.
    pub size: Option<u64>,
    /// SHA-256 in hexadecimal, if known.
    pub sha256: Option<String>,
    /// Checksum of another kind, if no SHA-256 is known.
    pub published: Option<Published>,
    /// Token for `Authorization: Bearer`; never sent to another host.
    pub token: Option<String>,
}

impl Remote {
    /// Describes the file at an address, without checksums. User name and password of the address
    /// are removed; they are neither sent nor stored.
    pub fn at(address: &str) -> Self {
        let address = without_login(address);
        let path = address.split(['?', '#']).next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        Self {
            name: if name.is_empty() { "file".into() } else { name.into() },
            key: address.clone(),
            addresses: vec![address],
            size: None,
            sha256: None,
            published: None,
            token: None,
        }
    }
}
