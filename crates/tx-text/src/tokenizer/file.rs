//! Files of tokenizers.

use std::path::Path;

use super::{check, one_side::Tokenizer, recorded, vocabulary::SentencePieceFile};
use crate::{error::TextError, special::SPECIAL_TOKENS};

impl Tokenizer {
    /// Opens a `tokenizer.json`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, and for the same reasons as [`from_json`](Self::from_json).
    pub fn open(path: &Path) -> Result<Self, TextError> {
        let json =
            check::read(path).map_err(|source| TextError::Read { path: path.into(), source })?;
        Self::from_json(&json, path)
    }

    /// Reads the content of a `tokenizer.json` written by tx; error messages name `path`.
    ///
    /// The file may come from an untrusted source: it is either rejected or can be used without a
    /// panic, with memory and time in proportion to file and text.
    ///
    /// # Errors
    ///
    /// If it is not a tokenizer, has other special tokens or ids than [`special`](crate::special),
    /// ids other than 0 to n − 1, or parts that the library does not handle safely.
    pub fn from_json(json: &[u8], path: &Path) -> Result<Self, TextError> {
        let problem = |problem| TextError::TokenizerFile { path: path.into(), problem };
        if let Some(file) = SentencePieceFile::read(json) {
            return file.and_then(SentencePieceFile::tokenizer).map_err(problem);
        }
        let inner = check::open(json).map_err(problem)?;
        for (id, token) in SPECIAL_TOKENS.iter().enumerate() {
            let found = inner.token_to_id(token);
            if found != Some(id as u32) {
                let found = found.map_or("none".to_owned(), |id| id.to_string());
                return Err(problem(format!("`{token}` must have id {id}, found {found}")));
            }
        }
        check::ids(&inner).map_err(problem)?;
        let ends = check::ends(&inner).map_err(problem)?;
        Self::finish(inner, ends)
    }

    /// Returns the content of a `tokenizer.json`; equal for equal tokenizers.
    ///
    /// # Errors
    ///
    /// If the library cannot serialize the tokenizer; no such tokenizer is known.
    pub fn to_json(&self) -> Result<String, TextError> {
        match &self.sentencepiece {
            None => match self.recorded {
                None => self.inner.to_string(true).map_err(TextError::Tokenizer),
                Some(recorded) => recorded::to_json(&self.inner, recorded),
            },
            Some(processor) => SentencePieceFile::of(self, processor).to_json(),
        }
    }
}
