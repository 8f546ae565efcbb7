//! Error of a request.

use tx_infer::InferError;

/// Error of a request.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self { message, hint: None }
    }
}

impl From<InferError> for Problem {
    fn from(error: InferError) -> Self {
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            message += &format!(": {error}");
            cause = error.source();
        }
        Self { message, hint: error.hint() }
    }
}
