//! Tokenizer of one side.

use std::path::PathBuf;

use pyo3::prelude::*;
use tx_infer::InferError;
use tx_text::{TextError, Tokenizer};

use crate::error::IntoException;

/// Tokenizer of one side.
#[pyclass(name = "Tokenizer", module = "txmt", frozen)]
pub(crate) struct PyTokenizer {
    inner: Tokenizer,
}

impl From<Tokenizer> for PyTokenizer {
    fn from(inner: Tokenizer) -> Self {
        Self { inner }
    }
}

fn raised(error: TextError) -> PyErr {
    InferError::from(error).into_exception()
}

#[pymethods]
impl PyTokenizer {
    /// Opens a file of a bundle, such as `source.tokenizer.json`.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Tokenizer::open(&path).map(Self::from).map_err(raised)
    }

    /// Ids of a text, special tokens included.
    fn encode(&self, text: &str) -> PyResult<Vec<u32>> {
        self.inner.encode(text).map_err(raised)
    }

    /// Tokens of a text, special tokens included.
    fn tokenize(&self, text: &str) -> PyResult<Vec<String>> {
        let ids = self.inner.encode(text).map_err(raised)?;
        Ok(ids.into_iter().map(|id| self.inner.token(id).unwrap_or_default()).collect())
    }

    /// Text of ids, without special tokens.
    fn decode(&self, ids: Vec<u32>) -> PyResult<String> {
        self.inner.decode(&ids).map_err(raised)
    }

    fn token_to_id(&self, token: &str) -> Option<u32> {
        self.inner.id(token)
    }

    fn id_to_token(&self, id: u32) -> Option<String> {
        self.inner.token(id)
    }

    fn __len__(&self) -> usize {
        self.inner.vocab_size()
    }
}
