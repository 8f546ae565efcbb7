//! Translated files, which clients fetch by an address that cannot be guessed.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Files in memory, the oldest of which are removed.
#[derive(Debug, Default)]
pub struct Downloads {
    files: Mutex<Vec<Download>>,
}

/// A file.
#[derive(Debug, Clone)]
pub struct Download {
    id: String,
    created: Instant,
    /// Name that the client suggested.
    pub name: String,
    /// Content.
    pub content: Vec<u8>,
}

/// Time after which a file is removed.
const KEPT: Duration = Duration::from_secs(600);

/// Maximum number of bytes of all files.
const MAX_BYTES: usize = 64 << 20;

impl Downloads {
    /// Adds a file and returns its id.
    pub fn add(&self, name: String, content: Vec<u8>) -> String {
        let id = format!("{:016x}{:016x}", random(), random());
        let file = Download { id: id.clone(), created: Instant::now(), name, content };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.created.elapsed() < KEPT);
        let mut bytes: usize = files.iter().map(|file| file.content.len()).sum();
        bytes += file.content.len();
        while bytes > MAX_BYTES && !files.is_empty() {
            bytes -= files.remove(0).content.len();
        }
        files.push(file);
        id
    }

    /// Returns the file with an id.
    pub fn get(&self, id: &str) -> Option<Download> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.iter().find(|file| file.id == id && file.created.elapsed() < KEPT).cloned()
    }
}

/// A number from the keys of a new hash table, which the system chooses at random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_ids_and_limited() {
        let downloads = Downloads::default();
        let first = downloads.add("a".into(), vec![0; MAX_BYTES / 2 + 1]);
        assert_eq!(downloads.get(&first).unwrap().name, "a");
        let second = downloads.add("b".into(), vec![0; MAX_BYTES / 2]);
        assert!(downloads.get(&first).is_none() && downloads.get(&second).is_some());
        assert!(first != second && first.len() == 32);
    }
}
