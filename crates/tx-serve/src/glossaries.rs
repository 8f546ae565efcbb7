//! Glossaries of the server: those of the operator, and those that clients upload.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, PoisonError, RwLock},
};

use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use tx_infer::Glossary;

use crate::{
    error::{ApiError, ServeError},
    limiter::Owner,
    model::named,
    random_id::random_id,
};

/// Maximum number of bytes of the glossaries of a client, with 128 bytes more for each entry.
pub const CLIENT_BYTES: usize = 2 << 20;

/// Bytes of an entry besides its text.
const ENTRY_BYTES: usize = 128;

/// Maximum number of glossaries of a client.
pub const CLIENT_GLOSSARIES: usize = 100;

/// Maximum number of bytes of the glossaries of all clients. The search for terms takes about twelve times the bytes of
/// their text.
const ALL_BYTES: usize = 8 << 20;

/// Glossaries in memory. Those of clients are kept until they delete them or the server stops. A glossary
/// that exceeds a limit is refused, so that no client can remove those of others.
#[derive(Debug, Default)]
pub struct Glossaries {
    /// Those of the operator, by name.
    named: RwLock<Vec<(String, Arc<Glossary>)>>,
    uploaded: RwLock<Vec<(Owner, Arc<Uploaded>)>>,
}

/// A glossary of the operator: every client can use it by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlossarySpec {
    /// Name in requests.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
}

impl FromStr for GlossarySpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, file) = named(text, Path::file_stem)?;
        Ok(Self { name, file })
    }
}

/// A glossary that a client has uploaded.
#[derive(Debug)]
pub struct Uploaded {
    /// Id in requests, which cannot be guessed.
    pub id: String,
    /// Name that the client has given.
    pub name: String,
    /// Code of the source language, in lower case.
    pub source: String,
    /// Code of the target language, in lower case.
    pub target: String,
    /// Time of the upload.
    pub created: OffsetDateTime,
    /// The terms.
    pub glossary: Arc<Glossary>,
    /// Number of bytes that count.
    bytes: usize,
}

impl Uploaded {
    /// Creates a glossary of `bytes` bytes of text, with an id of 128 random bits of the system.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn new(
        name: String,
        [source, target]: [String; 2],
        glossary: Glossary,
        bytes: usize,
    ) -> Result<Self, ApiError> {
        let created = OffsetDateTime::now_utc();
        let bytes = bytes + ENTRY_BYTES * glossary.entries().len();
        let glossary = Arc::new(glossary);
        Ok(Self { id: uuid()?, name, source, target, created, glossary, bytes })
    }

    /// Time of the upload as text (RFC 3339).
    pub fn created(&self) -> String {
        self.created.format(&Rfc3339).unwrap_or_default()
    }
}

impl Glossaries {
    /// Reads the glossaries of the operator again. Those with errors stay as they are.
    pub fn load(&self, specs: &[GlossarySpec]) -> Vec<ServeError> {
        // Requests wait for the lock, so files are read before it is taken.
        let read: Vec<_> =
            specs.iter().map(|spec| (&spec.name, Glossary::open(&spec.file, None))).collect();
        let mut named = self.named.write().unwrap_or_else(PoisonError::into_inner);
        let (mut errors, mut loaded) = (Vec::new(), Vec::with_capacity(specs.len()));
        for (name, glossary) in read {
            match glossary {
                Ok(glossary) => loaded.push((name.clone(), Arc::new(glossary))),
                Err(source) => {
                    errors.push(ServeError::Glossary { name: name.clone(), source: source.into() });
                    loaded.extend(named.iter().find(|(other, _)| other == name).cloned());
                }
            }
        }
        *named = loaded;
        errors
    }

    /// Returns the glossary with a name of the operator, or with an id of an owner.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn get(&self, owner: &Owner, id: &str) -> Result<Arc<Glossary>, ApiError> {
        let named = self.named.read().unwrap_or_else(PoisonError::into_inner);
        match named.iter().find(|(name, _)| name == id) {
            Some((_, glossary)) => Ok(glossary.clone()),
            None => Ok(self.uploaded(owner, id)?.glossary.clone()),
        }
    }

    /// Returns a glossary that an owner has uploaded.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn uploaded(&self, owner: &Owner, id: &str) -> Result<Arc<Uploaded>, ApiError> {
        let uploaded = self.uploaded.read().unwrap_or_else(PoisonError::into_inner);
        let found = uploaded.iter().find(|(other, it)| other == owner && it.id == id);
        found.map(|(_, found)| found.clone()).ok_or_else(not_found)
    }

    /// Returns the glossaries of an owner, in the order of their upload.
    pub fn of(&self, owner: &Owner) -> Vec<Arc<Uploaded>> {
        let uploaded = self.uploaded.read().unwrap_or_else(PoisonError::into_inner);
        uploaded.iter().filter(|(other, _)| other == owner).map(|(_, it)| it.clone()).collect()
    }

    /// Adds a glossary of an owner.
    ///
    /// # Errors
    ///
    /// If a limit is exceeded.
    pub fn add(&self, owner: Owner, new: Uploaded) -> Result<Arc<Uploaded>, ApiError> {
        let mut uploaded = self.uploaded.write().unwrap_or_else(PoisonError::into_inner);
        let own = uploaded.iter().filter(|(other, _)| *other == owner);
        let (count, bytes) =
            own.fold((0, 0), |(count, bytes), (_, it)| (count + 1, bytes + it.bytes));
        let all: usize = uploaded.iter().map(|(_, it)| it.bytes).sum();
        if count >= CLIENT_GLOSSARIES {
            return Err(ApiError::TooLarge(format!(
                "a client has at most {CLIENT_GLOSSARIES} glossaries; delete one first"
            )));
        }
        if bytes + new.bytes > CLIENT_BYTES {
            return Err(ApiError::TooLarge(format!(
                "the glossaries of a client have at most {CLIENT_BYTES} bytes; delete one first"
            )));
        }
        if all + new.bytes > ALL_BYTES {
            return Err(ApiError::TooLarge("the server has no room for another glossary".into()));
        }
        let new = Arc::new(new);
        uploaded.push((owner, new.clone()));
        Ok(new)
    }

    /// Removes a glossary of an owner.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn remove(&self, owner: &Owner, id: &str) -> Result<(), ApiError> {
        let mut uploaded = self.uploaded.write().unwrap_or_else(PoisonError::into_inner);
        let at = uploaded.iter().position(|(other, it)| other == owner && it.id == id);
        uploaded.remove(at.ok_or_else(not_found)?);
        Ok(())
    }
}

fn not_found() -> ApiError {
    ApiError::NotFound("the glossary does not exist".into())
}

/// Random id in the form of clients: hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn uuid() -> Result<String, ApiError> {
    let id = random_id()?;
    let groups = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &id[range]);
    Ok(groups.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uploaded(bytes: usize) -> Uploaded {
        let glossary = Glossary::new([("Hund", "dog")]).unwrap();
        Uploaded::new("pets".into(), ["de".into(), "en".into()], glossary, bytes).unwrap()
    }

    #[test]
    fn owners_have_their_own_glossaries() {
        let all = Glossaries::default();
        let [anna, ben] = ["key anna", "key ben"].map(Owner::from);
        let id = all.add(anna.clone(), uploaded(20)).unwrap().id.clone();
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(all.get(&anna, &id).unwrap().entries().len(), 1);
        assert_eq!((all.of(&anna).len(), all.of(&ben).len()), (1, 0));
        assert!(all.get(&ben, &id).is_err() && all.remove(&ben, &id).is_err());
        all.remove(&anna, &id).unwrap();
        assert!(all.get(&anna, &id).is_err());
    }

    #[test]
    fn limits_refuse_and_remove_nothing() {
        let all = Glossaries::default();
        for owner in 0..ALL_BYTES / CLIENT_BYTES {
            let owner = format!("key {owner}");
            all.add(owner.clone(), uploaded(CLIENT_BYTES - ENTRY_BYTES)).unwrap();
            assert!(matches!(all.add(owner.clone(), uploaded(0)), Err(ApiError::TooLarge(_))));
            assert_eq!(all.of(&owner).len(), 1);
        }
        let error = all.add("key x".into(), uploaded(0)).unwrap_err();
        assert_eq!(error.to_string(), "the server has no room for another glossary");
        let few = Glossaries::default();
        for _ in 0..CLIENT_GLOSSARIES {
            few.add("key x".into(), uploaded(1)).unwrap();
        }
        assert!(few.add("key x".into(), uploaded(1)).is_err());
    }

    #[test]
    fn the_operator_has_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pets.tsv");
        std::fs::write(&file, "Hund\tdog\n").unwrap();
        let all = Glossaries::default();
        let specs = [GlossarySpec { name: "pets".into(), file: file.clone() }];
        assert!(all.load(&specs).is_empty());
        assert!(all.get(&"address x".into(), "pets").is_ok());
        std::fs::write(&file, "Hund").unwrap();
        let errors = all.load(&specs);
        assert!(errors[0].chain().contains("line 1 has no tab"), "{}", errors[0].chain());
        assert!(all.get(&"address x".into(), "pets").is_ok());
    }
}
