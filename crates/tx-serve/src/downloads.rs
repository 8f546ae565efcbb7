//! Translated files, which clients fetch by an address that cannot be guessed.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{error::ApiError, limiter::Owner, random_id::random_id};

/// Files in memory.
///
/// They are removed after [`KEPT`]. When all of them are too large together, the oldest file of the owner
/// with the most bytes is removed, so that one client cannot remove the files of the others.
#[derive(Debug)]
pub struct Downloads {
    files: Mutex<Files>,
    /// Maximum number of bytes of all files.
    max: usize,
}

#[derive(Debug, Default)]
struct Files {
    entries: HashMap<String, Entry>,
    /// Ids of files by age, some of which have been removed.
    ages: VecDeque<(Instant, String)>,
    owners: HashMap<Owner, Owned>,
    /// Owners by their numbers of bytes.
    largest: BTreeSet<(usize, Owner)>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    file: Download,
    owner: Owner,
    created: Instant,
}

/// Files of an owner.
#[derive(Debug, Default)]
struct Owned {
    bytes: usize,
    /// Ids by age, some of which have been removed.
    ids: VecDeque<String>,
}

/// A file.
#[derive(Debug, Clone)]
pub struct Download {
    /// Name that the client suggested.
    pub name: String,
    /// Content.
    pub content: Bytes,
}

/// Time after which a file is removed.
pub const KEPT: Duration = Duration::from_secs(600);

/// Minimum of the maximum number of bytes of all files.
const MIN_BYTES: usize = 64 << 20;

/// Number of files of the size of a body that fit at least.
const BODIES: usize = 8;

/// Number of clients that share the memory at least: an owner has at most this part of it.
const SHARES: usize = 4;

/// Bytes of a file besides its content.
const OVERHEAD: usize = 512;

impl Downloads {
    /// Creates a store for a server with bodies of at most `body` bytes.
    pub fn new(body: usize) -> Self {
        let max = body.saturating_mul(BODIES).max(MIN_BYTES);
        Self { files: Mutex::default(), max }
    }

    /// Adds a file and returns its id, 128 random bits of the system.
    ///
    /// # Errors
    ///
    /// [`ApiError::TooLarge`] if the file is larger than the part of an owner.
    pub fn add(&self, owner: Owner, name: String, content: Vec<u8>) -> Result<String, ApiError> {
        self.add_at(owner, name, content, Instant::now())
    }

    fn add_at(
        &self,
        owner: Owner,
        name: String,
        content: Vec<u8>,
        now: Instant,
    ) -> Result<String, ApiError> {
        let size = content.len() + OVERHEAD;
        let share = self.max / SHARES;
        if size > share {
            return Err(ApiError::TooLarge(format!(
                "the translated file has {} bytes; the limit is {}",
                content.len(),
                share - OVERHEAD
            )));
        }
        let id = random_id()?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.expire(now);
        while files.owners.get(&owner).is_some_and(|owned| owned.bytes + size > share) {
            files.remove_oldest(&owner);
        }
        while files.bytes + size > self.max
            && let Some((_, largest)) = files.largest.last().cloned()
        {
            files.remove_oldest(&largest);
        }
        let file = Download { name, content: content.into() };
        files.insert(id.clone(), Entry { file, owner, created: now });
        Ok(id)
    }

    /// Returns the file with an id.
    pub fn get(&self, id: &str) -> Option<Download> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = files.entries.get(id).filter(|entry| entry.created.elapsed() < KEPT);
        entry.map(|entry| entry.file.clone())
    }
}

impl Entry {
    fn size(&self) -> usize {
        self.file.content.len() + OVERHEAD
    }
}

impl Files {
    fn insert(&mut self, id: String, entry: Entry) {
        self.bytes += entry.size();
        self.resize(&entry.owner, |bytes| bytes + entry.size());
        if let Some(owned) = self.owners.get_mut(&entry.owner) {
            owned.ids.push_back(id.clone());
        }
        self.ages.push_back((entry.created, id.clone()));
        self.entries.insert(id, entry);
        // Ids of removed files do not accumulate.
        if self.ages.len() > 2 * self.entries.len() {
            let Self { ages, entries, .. } = self;
            ages.retain(|(_, id)| entries.contains_key(id));
        }
    }

    fn remove(&mut self, id: &str) {
        let Some(entry) = self.entries.remove(id) else { return };
        self.bytes -= entry.size();
        self.resize(&entry.owner, |bytes| bytes - entry.size());
    }

    /// Changes the number of bytes of an owner, who is forgotten without files.
    fn resize(&mut self, owner: &Owner, change: impl FnOnce(usize) -> usize) {
        let owned = self.owners.entry(owner.clone()).or_default();
        self.largest.remove(&(owned.bytes, owner.clone()));
        owned.bytes = change(owned.bytes);
        if owned.bytes == 0 {
            self.owners.remove(owner);
        } else {
            self.largest.insert((owned.bytes, owner.clone()));
        }
    }

    fn remove_oldest(&mut self, owner: &Owner) {
        while let Some(id) = self.owners.get_mut(owner).and_then(|owned| owned.ids.pop_front()) {
            if self.entries.contains_key(&id) {
                self.remove(&id);
                return;
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((created, _)) = self.ages.front()
            && now.saturating_duration_since(*created) >= KEPT
            && let Some((_, id)) = self.ages.pop_front()
        {
            self.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn add(downloads: &Downloads, owner: &str, bytes: usize) -> Result<String, ApiError> {
        downloads.add(owner.into(), "a".into(), vec![0; bytes])
    }

    #[test]
    fn files_are_found_by_their_ids() {
        let downloads = Downloads::new(MIB);
        let ids: Vec<String> = (0..9).map(|_| add(&downloads, "a", 3).unwrap()).collect();
        for id in &ids {
            assert!(id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit()), "{id}");
            assert_eq!(downloads.get(id).unwrap().content.len(), 3);
        }
        assert!(ids.iter().skip(1).all(|id| *id != ids[0]) && downloads.get("0").is_none());
    }

    /// The memory is 64 MiB, the part of an owner 16 MiB.
    #[test]
    fn a_client_removes_its_own_files_only() {
        let downloads = Downloads::new(MIB);
        let kept = add(&downloads, "quiet", MIB).unwrap();
        let mut ids = Vec::new();
        for owner in ["a", "b", "c", "d", "e"] {
            ids.extend((0..20).map(|_| add(&downloads, owner, MIB).unwrap()));
        }
        assert!(downloads.get(&kept).is_some());
        let found = ids.iter().filter(|id| downloads.get(id).is_some()).count();
        assert!((55..=63).contains(&found), "{found}");
        // The last one of each owner is there.
        assert!(ids.chunks(20).all(|ids| downloads.get(&ids[19]).is_some()));
        let large = add(&downloads, "large", 16 * MIB).unwrap_err();
        assert!(large.to_string().contains("the limit is"), "{large}");
    }

    #[test]
    fn many_files_expire_in_constant_time() {
        let downloads = Downloads::new(MIB);
        let start = Instant::now() - Duration::from_secs(1);
        for number in 0..60_000 {
            let owner = format!("{}", number % 1_000);
            downloads.add_at(owner, "a".into(), Vec::new(), start).unwrap();
        }
        assert!(start.elapsed() < Duration::from_secs(20));
        downloads.add_at("a".into(), "a".into(), Vec::new(), start + KEPT).unwrap();
        let files = downloads.files.lock().unwrap();
        assert_eq!((files.entries.len(), files.ages.len(), files.owners.len()), (1, 1, 1));
        assert_eq!((files.bytes, files.largest.len()), (OVERHEAD, 1));
    }
}
