//! Files of shortlists: safetensors with three lists of 32-bit integers.

use std::{collections::HashMap, path::Path};

use safetensors::{Dtype, SafeTensorError, SafeTensors, tensor::TensorView};

use super::Shortlist;
use crate::{
    error::InferError,
    file::{read_bytes, write_whole},
};

/// Value of the metadata `format`.
const FORMAT: &str = "tx shortlist 1";

/// Largest file in bytes: a vocabulary of 256,000 tokens with 200 candidates has 205 MB.
const MAX_FILE: u64 = 256 << 20;

/// Largest header in bytes; that of three tensors has about 400.
const MAX_HEADER: u64 = 1 << 16;

/// Name of the list of candidates of every source.
const FREQUENT: &str = "frequent";
/// Name of the list of positions in [`CANDIDATES`] where those of each source token start.
const OFFSETS: &str = "offsets";
/// Name of the list of candidates of all source tokens.
const CANDIDATES: &str = "candidates";

impl Shortlist {
    /// Reads a file of [`save`](Self::save).
    ///
    /// # Errors
    ///
    /// [`InferError::Read`] or [`InferError::LargeFile`]; [`InferError::Shortlist`] if it is not a
    /// shortlist, or damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, InferError> {
        let path = path.as_ref();
        let bytes = read_bytes(path, MAX_FILE)?;
        Self::from_bytes(&bytes)
            .map_err(|problem| InferError::Shortlist { path: path.into(), problem })
    }

    /// Writes the shortlist to a file, which is replaced if it exists.
    ///
    /// # Errors
    ///
    /// [`InferError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), InferError> {
        let path = path.as_ref();
        let write_error = |source| InferError::Write { path: path.into(), source };
        let bytes = self.to_bytes().map_err(|error| write_error(std::io::Error::other(error)))?;
        write_whole(path, &bytes).map_err(write_error)
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, SafeTensorError> {
        let bytes =
            |list: &[u32]| -> Vec<u8> { list.iter().flat_map(|id| id.to_le_bytes()).collect() };
        let lists = [
            (FREQUENT, bytes(&self.frequent)),
            (OFFSETS, bytes(&self.offsets)),
            (CANDIDATES, bytes(&self.candidates)),
        ];
        let mut views = Vec::with_capacity(lists.len());
        for (name, bytes) in &lists {
            views.push((*name, TensorView::new(Dtype::U32, vec![bytes.len() / 4], bytes)?));
        }
        // One entry, because several have a random order in the file.
        let metadata = HashMap::from([(FORMAT.to_owned(), self.vocabulary_sha256.clone())]);
        safetensors::serialize(views, Some(metadata))
    }

    /// Parses a file, and checks all that does not depend on a vocabulary.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let header = bytes.first_chunk().map_or(u64::MAX, |length| u64::from_le_bytes(*length));
        if header > MAX_HEADER {
            return Err(format!("its header has more than {MAX_HEADER} bytes"));
        }
        let (_, metadata) =
            SafeTensors::read_metadata(bytes).map_err(|error| format!("its header: {error}"))?;
        let entries = metadata.metadata().as_ref();
        let Some(vocabulary_sha256) = entries.and_then(|entries| entries.get(FORMAT)).cloned()
        else {
            return Err(match entries.and_then(|entries| entries.keys().min()) {
                Some(other) => format!("its format is `{other}`, expected `{FORMAT}`"),
                None => format!("it has no format, expected `{FORMAT}`"),
            });
        };
        let tensors =
            SafeTensors::deserialize(bytes).map_err(|error| format!("its header: {error}"))?;
        if tensors.len() != 3 {
            return Err(format!("it has {} lists, expected 3", tensors.len()));
        }
        let list = |name| -> Result<Vec<u32>, String> {
            let tensor = tensors.tensor(name).map_err(|_| format!("it has no list `{name}`"))?;
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            if dtype != Dtype::U32 || shape.len() != 1 {
                return Err(format!("`{name}` is {dtype:?} {shape:?}, expected a list of U32"));
            }
            let (values, _) = tensor.data().as_chunks();
            Ok(values.iter().map(|value| u32::from_le_bytes(*value)).collect())
        };
        let found = Self {
            vocabulary_sha256,
            frequent: list(FREQUENT)?,
            offsets: list(OFFSETS)?,
            candidates: list(CANDIDATES)?,
        };
        found.problem().map_or(Ok(found), Err)
    }

    /// Returns the first list that is not in order.
    fn problem(&self) -> Option<String> {
        let Self { frequent, offsets, candidates, .. } = self;
        let ascending = |list: &[u32]| list.is_sorted_by(|a, b| a < b);
        let (first, last) = (offsets.first().copied(), offsets.last().copied());
        if first != Some(0)
            || last.map(|last| last as usize) != Some(candidates.len())
            || !offsets.is_sorted()
        {
            return Some(format!(
                "`{OFFSETS}` do not ascend from 0 to {}, the number of candidates",
                candidates.len()
            ));
        }
        if !ascending(frequent) {
            return Some(format!("`{FREQUENT}` is not in ascending order"));
        }
        let source = (0..self.source_tokens() as u32).find(|&id| !ascending(self.of_token(id)))?;
        Some(format!("the candidates of source token {source} are not in ascending order"))
    }
}
