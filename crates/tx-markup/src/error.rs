//! Errors of reading, dividing and writing texts.

use tx_infer::{InferError, deadline::Overdue};

/// Reason for which a text or file is not translated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MarkupError {
    /// The content is not of its format.
    #[error("{0}")]
    Invalid(String),
    /// The content exceeds a limit.
    #[error("{0}")]
    TooLarge(String),
    /// A text cannot be tokenized or translated.
    #[error("a text could not be translated")]
    Infer(#[from] InferError),
    /// Nobody waits for the result.
    #[error(transparent)]
    Late(#[from] Overdue),
}
