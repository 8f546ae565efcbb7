//! Lexicons: the words of the text that a model was trained on.
//!
//! A model composes words of pieces. One that is trained on little text also composes words that do not
//! exist, and takes names that it has never seen apart. With the lexicon in its bundle, the words of a target
//! are those of the training text or of the source ([`LexiconUse::Words`](crate::LexiconUse::Words)), and names and
//! numbers are copied ([`LexiconUse::Names`](crate::LexiconUse::Names)).
//!
//! Whether a new word is a name depends on the word before it: a capital means little after the article of a German
//! noun, and much after `von`. The share of copied words after each word is measured on the rare words of the
//! training text, which are the nearest to new ones.

mod builder;
mod names;
mod stand_ins;
mod target_words;
mod typos;
mod words;

use std::{io, path::Path};

use serde::{Deserialize, Serialize};
use tx_text::Tokenizer;

pub use builder::LexiconBuilder;
pub use names::SourceWords;
pub(crate) use stand_ins::StandInText;
pub use target_words::TargetWords;
pub(crate) use target_words::WordRestriction;
pub(crate) use words::{MAX_WORD, found_in, words};

use crate::{error::InferError, file::read_bytes};

/// Name of the file of a lexicon in a bundle.
pub const LEXICON: &str = "lexicon.json";

/// Largest file in bytes.
pub(crate) const MAX_FILE: u64 = 64 << 20;

/// Maximum number of different words of a side. More text has so many words that its model is not in need
/// of a lexicon.
pub const MAX_WORDS: usize = 1 << 18;

/// The format that this build writes and reads.
const FORMAT: u32 = 1;

/// Words of the training text of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lexicon {
    format: u32,
    /// Words of the sources.
    source: SourceWords,
    /// Words of the targets.
    target: TargetWords,
}

impl Lexicon {
    pub(crate) fn new(source: SourceWords, target: TargetWords) -> Self {
        Self { format: FORMAT, source, target }
    }

    /// Reads the file of a lexicon of a model with this tokenizer of targets.
    ///
    /// # Errors
    ///
    /// [`InferError::Read`], [`InferError::LargeFile`]; [`InferError::Lexicon`] if it is not a lexicon, or of another
    /// vocabulary.
    pub fn open(path: impl AsRef<Path>, target: &Tokenizer) -> Result<Self, InferError> {
        let path = path.as_ref();
        Self::parse(&read_bytes(path, MAX_FILE)?, path, target)
    }

    /// Parses a file. `path` is for messages.
    pub(crate) fn parse(bytes: &[u8], path: &Path, target: &Tokenizer) -> Result<Self, InferError> {
        let problem = |problem: String| InferError::Lexicon { path: path.into(), problem };
        let found: Self =
            serde_json::from_slice(bytes).map_err(|error| problem(error.to_string()))?;
        if found.format != FORMAT {
            return Err(problem(format!("its format is {}, expected {FORMAT}", found.format)));
        }
        let wrong = found.source.problem().or_else(|| found.target.problem(target.vocab_size()));
        wrong.map_or(Ok(found), |wrong| Err(problem(wrong)))
    }

    /// Returns the file for a bundle in `folder`.
    ///
    /// # Errors
    ///
    /// [`InferError::Write`].
    pub(crate) fn to_bytes(&self, folder: &Path) -> Result<Vec<u8>, InferError> {
        serde_json::to_vec(self).map_err(|error| {
            let (path, source) = (folder.join(LEXICON), io::Error::other(error));
            InferError::Write { path, source }
        })
    }

    /// Words of the sources.
    pub fn source(&self) -> &SourceWords {
        &self.source
    }

    /// Words of the targets.
    pub fn target(&self) -> &TargetWords {
        &self.target
    }
}

#[cfg(test)]
#[cfg(feature = "burn")]
mod tests;
