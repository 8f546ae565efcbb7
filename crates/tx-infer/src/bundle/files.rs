//! Files of a bundle, read within limits.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use sha2::{Digest, Sha256};
use tx_text::hash::hexadecimal;

use crate::error::InferError;

/// Largest `config.toml` and `provenance.toml` in bytes.
const MAX_TEXT: u64 = 1 << 20;

pub(super) fn read_toml(path: &Path) -> Result<toml::Table, InferError> {
    let problem = |error: toml::de::Error| InferError::Config {
        path: path.into(),
        problem: error.to_string(),
    };
    toml::from_str(&read_text(path)?).map_err(problem)
}

pub(super) fn read_text(path: &Path) -> Result<String, InferError> {
    String::from_utf8(read_bytes(path, MAX_TEXT)?).map_err(|error| InferError::Read {
        path: path.into(),
        source: io::Error::new(io::ErrorKind::InvalidData, error),
    })
}

/// Reads a regular file of at most `max` bytes.
pub(crate) fn read_bytes(path: &Path, max: u64) -> Result<Vec<u8>, InferError> {
    let size = regular_file(path)?;
    if size > max {
        return Err(InferError::LargeFile { path: path.into(), bytes: size, max });
    }
    let mut bytes = Vec::new();
    let mut read = || File::open(path)?.take(max).read_to_end(&mut bytes);
    read().map_err(|source| InferError::Read { path: path.into(), source })?;
    Ok(bytes)
}

/// Returns the size of a regular file. Other files are rejected, because opening a pipe would block
/// until it has a writer.
pub(super) fn regular_file(path: &Path) -> Result<u64, InferError> {
    let read_error = |source| InferError::Read { path: path.into(), source };
    let metadata = fs::metadata(path).map_err(read_error)?;
    if !metadata.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(read_error(error));
    }
    Ok(metadata.len())
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}
